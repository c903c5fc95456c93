//! The words on the wire: request and response bodies, and their translation to the domain.

#[cfg(feature = "grpc")]
pub mod grpc;
pub mod rest;
pub mod tcp;
