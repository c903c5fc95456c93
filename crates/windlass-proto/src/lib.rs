//! The words on the wire: request and response bodies, and their translation to the domain.

pub mod rest;
