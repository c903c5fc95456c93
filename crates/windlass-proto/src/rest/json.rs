//! Payloads and results: JSON text that is never built up in memory, and bytes as base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Deserializer, Error as _};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::Payload;

use super::invalid::{Fault, Invalid};

/// JSON text, written into an answer as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub Bytes);

impl Json {
    /// Reads the text as a value.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // One more scan, no value: whatever is on disk, an answer is always JSON.
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::copy_from_slice(raw.get().as_bytes())))
    }
}

/// Bytes, as standard base64 with padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64(pub Bytes);

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Base64 {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        super::schema::base64().description(Some("Bytes, as standard base64 with padding.")).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Base64 {}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&base64::display::Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_bytes()).map_err(|_| D::Error::custom("is not base64"))?;
        Ok(Self(bytes.into()))
    }
}

/// A field that comes as JSON or as base64, but not as both.
pub(super) struct Content<'a> {
    pub(super) json: Option<&'a RawValue>,
    pub(super) base64: Option<Base64>,
    pub(super) field: &'static str,
    pub(super) base64_field: &'static str,
}

impl Content<'_> {
    /// `source` is the body that the text was read from.
    pub(super) fn check(self, source: &Bytes, bytes_max: usize) -> Result<Option<Payload>, Invalid> {
        let (payload, field) = match (self.json, self.base64) {
            (None, None) => return Ok(None),
            (Some(raw), None) => (Payload::Json(keep(source, raw.get().as_bytes())), self.field),
            (None, Some(bytes)) => (Payload::Binary(bytes.0), self.base64_field),
            (Some(_), Some(_)) => {
                let message = format!("is given besides {}", self.field);
                return Err(Invalid::malformed(self.base64_field, message));
            }
        };
        if payload.bytes().len() > bytes_max {
            let message = format!("has {} bytes, {bytes_max} are allowed", payload.bytes().len());
            return Err(Invalid::new(Fault::TooLarge, field, message));
        }
        Ok(Some(payload))
    }
}

/// Small text is copied, so that it does not hold on to the connection's whole read buffer; large text shares the body.
pub(crate) fn keep(source: &Bytes, text: &[u8]) -> Bytes {
    const SHARED_BYTES_MIN: usize = 64 * 1024;
    let start = (text.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
    let inside = start.checked_add(text.len()).is_some_and(|end| end <= source.len());
    if text.len() >= SHARED_BYTES_MIN && inside {
        source.slice(start..start + text.len())
    } else {
        Bytes::copy_from_slice(text)
    }
}
