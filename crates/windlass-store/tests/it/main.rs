//! The stores, from outside.

mod embedded;
mod large;
mod memory;
mod model;
mod redis;
