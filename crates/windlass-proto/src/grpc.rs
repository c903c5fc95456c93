//! The gRPC interface: what `proto/windlass/v1` describes, as generated code.

pub mod v1 {
    #![expect(clippy::allow_attributes_without_reason, reason = "generated code")]
    tonic::include_proto!("windlass.v1");
}

/// All files of the interface and what they import, as reflection serves them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/windlass.v1.bin"));
