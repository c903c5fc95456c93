//! The stores, from outside.

mod backup;
mod embedded;
mod large;
mod memory;
mod model;
mod redis;
