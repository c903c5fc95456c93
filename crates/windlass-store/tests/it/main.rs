//! The stores, from outside.

mod embedded;
mod memory;
mod model;
mod redis;
