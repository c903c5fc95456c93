//! Which pages may listen. A browser lets any page open a WebSocket anywhere and says only where the page is from, so the broker
//! must look: pages of its own address may, and those that the settings name. Programs that are no browsers say nothing.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};

use crate::api::problem::Refused;
use crate::config::value::FromText;

/// Pages from elsewhere that may listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(Vec<Origin>);

/// `https://example.org`, in small letters and without a port that goes without saying.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: String,
    authority: String,
}

impl Origin {
    fn read(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if !matches!(scheme.as_str(), "http" | "https")
            || authority.is_empty()
            || !authority.bytes().all(plain)
        {
            return None;
        }
        Some(Origin { authority: without_port(&scheme, authority), scheme })
    }
}

fn without_port(scheme: &str, authority: &str) -> String {
    let authority = authority.to_ascii_lowercase();
    let implied = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(implied).map(str::to_owned).unwrap_or(authority)
}

impl FromText for Origins {
    fn from_text(text: &str) -> Result<Self, String> {
        let expected = || "expected origins like https://example.org, with commas".to_owned();
        let origin = |text: &str| Origin::read(text.trim()).ok_or_else(expected);
        text.split(',').map(origin).collect::<Result<_, _>>().map(Self)
    }
}

/// Refuses a page from elsewhere. Returns the origin of one that the settings name: its browser wants to hear that it may read.
pub(super) fn check(headers: &HeaderMap, allowed: &Origins) -> Result<Option<HeaderValue>, Refused> {
    let Some(given) = headers.get(ORIGIN) else { return Ok(None) };
    let origin = given.to_str().ok().and_then(Origin::read);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match (origin, host) {
        (Some(origin), Some(host)) if without_port(&origin.scheme, host) == origin.authority => Ok(None),
        (Some(origin), _) if allowed.0.contains(&origin) => Ok(Some(given.clone())),
        _ => Err(Refused::new(StatusCode::FORBIDDEN, "foreign_origin", "The page is of another origin")
            .detail("server.allowed_origins names the origins whose pages may listen")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(origin: &str, host: &str, allowed: &str) -> Result<bool, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if !origin.is_empty() {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let allowed =
            if allowed.is_empty() { Origins::default() } else { Origins::from_text(allowed).unwrap() };
        check(&headers, &allowed).map(|foreign| foreign.is_some()).map_err(|it| it.into_problem().status)
    }

    #[test]
    fn pages_of_the_same_origin_and_named_ones_may_listen() {
        assert_eq!(verdict("", "127.0.0.1:8080", ""), Ok(false));
        assert_eq!(verdict("http://127.0.0.1:8080", "127.0.0.1:8080", ""), Ok(false));
        assert_eq!(verdict("https://Queue.example", "queue.example", ""), Ok(false));
        assert_eq!(verdict("http://queue.example:80", "queue.example", ""), Ok(false));
        assert_eq!(verdict("http://[::1]:8080", "[::1]:8080", ""), Ok(false));
        assert_eq!(
            verdict("https://a.example", "b.example", "https://c.example, https://a.example:443"),
            Ok(true)
        );
    }

    #[test]
    fn others_may_not() {
        for origin in [
            "http://evil.example",
            "http://127.0.0.1:8081",
            "http://127.0.0.1",
            "https://127.0.0.1:8080.evil.example",
            "http://127.0.0.1:8080@evil.example",
            "http://127.0.0.1:8080/",
            "null",
            "file://",
            "ftp://127.0.0.1:8080",
        ] {
            assert_eq!(verdict(origin, "127.0.0.1:8080", "https://a.example"), Err(403), "{origin}");
        }
        assert_eq!(verdict("http://a.example", "127.0.0.1:8080", "https://a.example"), Err(403));
        for text in ["", "*", "a.example", "https://", "https://a.example/path", "https://a.example,,"] {
            assert!(Origins::from_text(text).is_err(), "{text}");
        }
    }
}
