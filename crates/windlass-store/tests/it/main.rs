//! The stores, from outside.

#[cfg(test)]
mod backup;
mod embedded;
mod large;
mod memory;
mod model;
mod redis;
