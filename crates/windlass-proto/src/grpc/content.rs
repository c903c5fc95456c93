//! Payloads and results.

use bytes::Bytes;
use serde_json::value::RawValue;
use windlass_core::Payload;

use super::v1::{complete_request, completed, dependency, leased_task, new_task, task};
use crate::rest::{Fault, Invalid, decode_any, keep};

/// Content as it came, with the names of the two fields that it may have come in.
pub(super) struct Content {
    pub(super) bytes: Bytes,
    pub(super) json: bool,
    pub(super) fields: [&'static str; 2],
}

impl Content {
    /// The text of JSON is checked and passed on; white space around it is not kept.
    pub(super) fn check(self, bytes_max: usize) -> Result<Payload, Invalid> {
        let field = self.fields[usize::from(!self.json)];
        if self.bytes.len() > bytes_max {
            let message = format!("has {} bytes, {bytes_max} are allowed", self.bytes.len());
            return Err(Invalid::new(Fault::TooLarge, field, message));
        }
        if !self.json {
            return Ok(Payload::Binary(keep(&self.bytes, &self.bytes)));
        }
        let text: &RawValue = decode_any(&self.bytes).map_err(|invalid| invalid.within(field))?;
        Ok(Payload::Json(keep(&self.bytes, text.get().as_bytes())))
    }
}

/// Every message that carries content has a type of its own for it.
macro_rules! content {
    ($kind:path, $json:ident, $binary:ident, $fields:expr) => {
        impl From<$kind> for Content {
            fn from(content: $kind) -> Self {
                use $kind as Kind;
                let (bytes, json) = match content {
                    Kind::$json(bytes) => (bytes, true),
                    Kind::$binary(bytes) => (bytes, false),
                };
                Content { bytes, json, fields: $fields }
            }
        }

        impl From<Payload> for $kind {
            fn from(payload: Payload) -> Self {
                use $kind as Kind;
                match payload {
                    Payload::Json(bytes) => Kind::$json(bytes),
                    Payload::Binary(bytes) => Kind::$binary(bytes),
                }
            }
        }

        impl From<$kind> for Payload {
            /// As it is, for those who trust the sender.
            fn from(content: $kind) -> Self {
                use $kind as Kind;
                match content {
                    Kind::$json(bytes) => Payload::Json(bytes),
                    Kind::$binary(bytes) => Payload::Binary(bytes),
                }
            }
        }
    };
}

const PAYLOAD: [&str; 2] = ["payload_json", "payload_binary"];
const RESULT: [&str; 2] = ["result_json", "result_binary"];

content!(dependency::Result, ResultJson, ResultBinary, RESULT);
content!(new_task::Payload, PayloadJson, PayloadBinary, PAYLOAD);
content!(task::Payload, PayloadJson, PayloadBinary, PAYLOAD);
content!(leased_task::Payload, PayloadJson, PayloadBinary, PAYLOAD);
content!(task::Result, ResultJson, ResultBinary, RESULT);
content!(completed::Result, ResultJson, ResultBinary, RESULT);
content!(complete_request::Result, ResultJson, ResultBinary, RESULT);
