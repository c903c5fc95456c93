//! 200 bytes of JSON that carry the moment at which they were due.

use anyhow::{Context, Result};

pub(crate) const BYTES: usize = 200;
const HEAD: &[u8] = br#"{"at":""#;
const DIGITS: usize = 16;

/// A task's payload for a moment, in microseconds since the run began.
pub(crate) fn at(micros: u64) -> Vec<u8> {
    let mut text = format!(r#"{{"at":"{micros:0DIGITS$}","data":""#);
    text.push_str(&"x".repeat(BYTES - text.len() - 2));
    text.push_str("\"}");
    text.into_bytes()
}

/// The moment in a payload.
pub(crate) fn moment(payload: &[u8]) -> Result<u64> {
    let digits = payload.strip_prefix(HEAD).and_then(|rest| rest.get(..DIGITS));
    let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok())
        .with_context(|| format!("a payload came back changed: {}", String::from_utf8_lossy(payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_travels_in_json_of_the_right_length() {
        for micros in [0, 1, 123_456_789, 9_999_999_999_999_999] {
            let payload = at(micros);
            assert_eq!(payload.len(), BYTES);
            assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
            assert_eq!(moment(&payload).unwrap(), micros);
        }
        assert!(moment(b"{}").is_err());
    }
}
