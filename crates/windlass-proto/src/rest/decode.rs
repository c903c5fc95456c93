//! From bytes to a body. Text inside a body is held as it came, so nesting is bounded here, by a scan, and not by the parser.

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::limits::JSON_DEPTH_MAX;

use super::invalid::{Fault, Invalid};
use super::object::Object;

/// A body, which is a JSON object.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Invalid> {
    decode_any(bytes).map(|Object(body)| body)
}

/// Any JSON.
pub(crate) fn decode_any<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Invalid> {
    if deeper_than(bytes, JSON_DEPTH_MAX) {
        let message = format!("the JSON is nested deeper than {JSON_DEPTH_MAX} levels");
        return Err(Invalid::body(Fault::Malformed, message));
    }
    serde_json::from_slice(bytes).map_err(|_| explain::<T>(bytes))
}

/// One element of a larger body that [`decode`] has already let pass. It is an object too.
pub fn decode_item<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Invalid> {
    let decoded = serde_json::from_str(raw.get());
    decoded.map(|Object(item)| item).map_err(|_| explain::<Object<T>>(raw.get().as_bytes()))
}

/// Reads a refused body once more, slowly, to name the field: good requests do not pay for it.
fn explain<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Invalid {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut parser) {
        Err(error) => error,
        Ok(_) => return Invalid::body(Fault::Malformed, "there is more text after the JSON"),
    };
    let path = error.path().to_string();
    let message = error.inner().to_string();
    if error.inner().is_syntax() || error.inner().is_eof() {
        return Invalid::body(Fault::Malformed, message);
    }
    match (path.as_str(), named(&message)) {
        (".", None) => Invalid::body(Fault::Malformed, message),
        (".", Some(field)) => Invalid::malformed(field.to_owned(), message),
        (_, None) => Invalid::malformed(path, message),
        (_, Some(field)) => Invalid::malformed(format!("{path}.{field}"), message),
    }
}

/// A missing or repeated field is a fault of what surrounds it, so its name is only in the message.
fn named(message: &str) -> Option<&str> {
    let rest =
        message.strip_prefix("missing field `").or_else(|| message.strip_prefix("duplicate field `"))?;
    rest.split('`').next()
}

fn deeper_than(bytes: &[u8], limit: usize) -> bool {
    // Few brackets cannot nest deeply, and counting them is much cheaper than following them.
    let opening: usize = bytes.chunks(COUNTED_AT_ONCE).map(opening_brackets).sum();
    opening > limit && nesting(bytes) > limit
}

/// As many as a byte can count, so that many of them are compared at once.
const COUNTED_AT_ONCE: usize = u8::MAX as usize;

/// The two brackets differ in one bit.
fn opening_brackets(bytes: &[u8]) -> usize {
    bytes.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>().into()
}

/// The deepest nesting of brackets outside strings.
fn nesting(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut rest),
            _ => {}
        }
    }
    deepest
}

fn skip_string(rest: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => {
                rest.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_strings() {
        assert_eq!(nesting(br#"{"a":[1,{"b":[]}],"c":"[[[[\"[["}"#), 4);
        assert_eq!(nesting(b"]]]]"), 0);
        let deep = "[".repeat(100_000);
        assert!(deeper_than(deep.as_bytes(), JSON_DEPTH_MAX));
        for length in [0, 1, 254, 255, 256, 1000] {
            let count =
                |text: &str| text.as_bytes().chunks(COUNTED_AT_ONCE).map(opening_brackets).sum::<usize>();
            assert_eq!([count(&"[".repeat(length)), count(&"{".repeat(length))], [length; 2]);
            assert_eq!(count(&"]};[".repeat(length)), length);
        }
        let wide = format!("[{}[]]", "[],".repeat(100_000));
        assert!(!deeper_than(wide.as_bytes(), JSON_DEPTH_MAX));
    }

    #[test]
    fn the_field_is_named() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Inner {
            #[expect(dead_code, reason = "only its type matters")]
            number: u8,
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Outer {
            #[expect(dead_code, reason = "only its type matters")]
            inner: Vec<Inner>,
        }
        let field = |text: &str| decode::<Outer>(text.as_bytes()).unwrap_err().field;
        assert_eq!(field(r#"{"inner":[{"number":1},{"number":-1}]}"#).as_deref(), Some("inner[1].number"));
        assert_eq!(field(r#"{"other":1}"#).as_deref(), Some("other"));
        assert_eq!(field("{}").as_deref(), Some("inner"));
        assert_eq!(field(r#"{"inner":[{}]}"#).as_deref(), Some("inner[0].number"));
        assert_eq!(field(r#"{"inner":[]} x"#), None);
        let array = decode::<Outer>(b"[[]]").unwrap_err();
        assert_eq!(array.field, None);
        assert!(array.message.contains("expected a JSON object"), "{}", array.message);
        assert_eq!(field("{"), None);
    }
}
