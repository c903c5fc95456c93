//! How long a call may take: what its client says in `grpc-timeout`, and never more than our own limit.

use std::time::Duration;

use axum::http::HeaderMap;

/// `None` when the client set no limit that can be understood.
pub(super) fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read() {
        let read = |text: &str| {
            asked(&HeaderMap::from_iter([(
                axum::http::HeaderName::from_static("grpc-timeout"),
                axum::http::HeaderValue::from_bytes(text.as_bytes()).unwrap(),
            )]))
        };
        assert_eq!(read("5S"), Some(Duration::from_secs(5)));
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        for noise in ["", "S", "5", "5s", "-5S", "123456789S", "+1S", "1é"] {
            assert_eq!(read(noise), None, "{noise}");
        }
    }
}
