//! Producer and worker libraries for Windlass.

pub mod builtin;
pub mod client;
pub mod worker;

pub use client::{Client, Error};
