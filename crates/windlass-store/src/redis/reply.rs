//! Reading what scripts answer. An answer of another shape means that another version writes here, or damage.

use bytes::Bytes;
use redis::Value;

use crate::store::Error;

pub(super) fn wrong(what: &str) -> Error {
    Error::Damaged(format!("Redis holds or answers {what}"))
}

pub(super) fn list(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(values) => Ok(values),
        // An empty table of Lua.
        Value::Nil => Ok(Vec::new()),
        _ => Err(wrong("something else than a list")),
    }
}

pub(super) fn bytes(value: Value) -> Result<Bytes, Error> {
    match value {
        Value::BulkString(bytes) => Ok(Bytes::from(bytes)),
        Value::SimpleString(text) => Ok(Bytes::from(text.into_bytes())),
        Value::Okay => Ok(Bytes::from_static(b"OK")),
        Value::Int(number) => Ok(Bytes::from(number.to_string().into_bytes())),
        _ => Err(wrong("something else than text")),
    }
}

pub(super) fn text(value: Value) -> Result<String, Error> {
    String::from_utf8(bytes(value)?.to_vec()).map_err(|_| wrong("text that is not UTF-8"))
}

pub(super) fn number(value: Value) -> Result<u64, Error> {
    text(value)?.parse().map_err(|_| wrong("something else than a number"))
}

/// A number, or nothing where the text is empty.
pub(super) fn maybe_number(value: Value) -> Result<Option<u64>, Error> {
    let text = text(value)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| wrong("something else than a number"))
}

pub(super) fn is_text(value: &Value, text: &str) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == text.as_bytes())
}

/// As many values as are expected.
pub(super) fn fixed<const N: usize>(value: Value) -> Result<[Value; N], Error> {
    list(value)?.try_into().map_err(|_| wrong("a list of another length"))
}
