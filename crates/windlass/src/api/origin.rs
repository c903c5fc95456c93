//! Which pages may call and listen. A browser lets any page open a WebSocket anywhere, or post without a body, and says only
//! where the page is from, so the broker must look: pages of its own address may, and those that the settings name. Programs that
//! are no browsers say nothing.
//!
//! A page can also have its own name point to this machine, and is then of the broker's address as far as the browser can tell.
//! A broker that only this machine can reach has no public name, so there such a name is refused.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, LOCATION, ORIGIN, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::Settings;
use super::problem::Refused;
use crate::config::value::FromText;

/// Pages from elsewhere that may call and listen.
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

    fn of(header: &HeaderValue) -> Option<Origin> {
        header.to_str().ok().and_then(Origin::read)
    }
}

fn without_port(scheme: &str, authority: &str) -> String {
    let authority = authority.to_ascii_lowercase();
    let implied = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(implied).map(str::to_owned).unwrap_or(authority)
}

impl Origins {
    /// Whether one of them is at this host.
    fn names(&self, host: &str) -> bool {
        self.0.iter().any(|origin| without_port(&origin.scheme, host) == origin.authority)
    }
}

/// Tells browsers that pages of these origins may call and read. `None` if there are none: then no answer changes.
pub(super) fn cors(allowed: &Origins) -> Option<CorsLayer> {
    if allowed.0.is_empty() {
        return None;
    }
    let allowed = allowed.clone();
    let may_read = move |origin: &HeaderValue, _: &Parts| {
        Origin::of(origin).is_some_and(|origin| allowed.0.contains(&origin))
    };
    let name = HeaderName::from_static;
    Some(
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(may_read))
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers([CONTENT_TYPE, name("idempotency-key"), name("x-request-id"), name("traceparent")])
            .expose_headers([LOCATION, RETRY_AFTER, name("x-request-id")])
            .max_age(Duration::from_secs(600)),
    )
}

impl FromText for Origins {
    fn from_text(text: &str) -> Result<Self, String> {
        let expected = || "expected origins like https://example.org, with commas".to_owned();
        let origin = |text: &str| Origin::read(text.trim()).ok_or_else(expected);
        text.split(',').map(origin).collect::<Result<_, _>>().map(Self)
    }
}

/// A name that is longer is looked at each time. Names of machines are shorter.
const HOST_BYTES_KEPT: usize = 260;

/// Who is at the other end of a connection.
#[derive(Debug, Default)]
pub(super) struct Caller {
    /// What it called the broker first, once that was found to be a name of its own. Few know two. A copy: a piece of the head
    /// would hold on to the whole buffer that it was read into.
    host: OnceLock<Box<[u8]>>,
}

impl Caller {
    /// Looks at every request before it does anything.
    pub(super) fn admit<B>(&self, request: &Request<B>, settings: &Settings) -> Result<(), Refused> {
        let headers = request.headers();
        let hosts = headers.get_all(HOST).iter().count();
        if hosts > 1 || hosts == 0 && request.version() >= Version::HTTP_11 {
            let title = "The request must have one Host header";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "malformed", title));
        }
        if settings.local
            && let Some(host) = headers.get(HOST)
            && self.host.get().is_none_or(|known| **known != *host.as_bytes())
        {
            check_host(host, &settings.origins)?;
            if host.len() <= HOST_BYTES_KEPT {
                self.host.get_or_init(|| host.as_bytes().into());
            }
        }
        if !request.method().is_safe() {
            check(headers, &settings.origins)?;
        }
        Ok(())
    }
}

/// Refuses a name that a stranger may have given to this machine.
fn check_host(host: &HeaderValue, allowed: &Origins) -> Result<(), Refused> {
    if host.to_str().is_ok_and(|host| is_private(host) || allowed.names(host)) {
        return Ok(());
    }
    Err(Refused::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", "The broker is not known by this name")
        .detail("it listens on loopback; server.allowed_origins names the public addresses that lead to it"))
}

/// An address or a name that no stranger can have point here.
fn is_private(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let ends_local = || name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case("localhost"));
    !name.contains('.') && !name.contains(':')
        || host.parse::<SocketAddr>().is_ok()
        || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
        || ends_local()
}

/// Refuses a page from elsewhere, unless the settings name its origin.
pub(super) fn check(headers: &HeaderMap, allowed: &Origins) -> Result<(), Refused> {
    let Some(given) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match (Origin::of(given), host) {
        (Some(origin), Some(host)) if without_port(&origin.scheme, host) == origin.authority => Ok(()),
        (Some(origin), _) if allowed.0.contains(&origin) => Ok(()),
        _ => Err(Refused::new(StatusCode::FORBIDDEN, "foreign_origin", "The page is of another origin")
            .detail("server.allowed_origins names the origins whose pages may call and listen")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(origin: &str, host: &str, allowed: &str) -> Result<(), u16> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if !origin.is_empty() {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let allowed =
            if allowed.is_empty() { Origins::default() } else { Origins::from_text(allowed).unwrap() };
        check(&headers, &allowed).map_err(|it| it.into_problem().status)
    }

    #[test]
    fn pages_of_the_same_origin_and_named_ones_may_listen() {
        assert_eq!(verdict("", "127.0.0.1:8080", ""), Ok(()));
        assert_eq!(verdict("http://127.0.0.1:8080", "127.0.0.1:8080", ""), Ok(()));
        assert_eq!(verdict("https://Queue.example", "queue.example", ""), Ok(()));
        assert_eq!(verdict("http://queue.example:80", "queue.example", ""), Ok(()));
        assert_eq!(verdict("http://[::1]:8080", "[::1]:8080", ""), Ok(()));
        assert_eq!(
            verdict("https://a.example", "b.example", "https://c.example, https://a.example:443"),
            Ok(())
        );
    }

    #[test]
    fn a_public_name_is_known_only_if_it_is_named() {
        let verdict = |host: &str| {
            let origins = Origins::from_text("https://queue.example").unwrap();
            let settings = Settings { origins, local: true, ..Settings::default() };
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            Caller::default().admit(&request, &settings).map_err(|it| it.into_problem().status)
        };
        for host in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[::1]",
            "localhost",
            "LocalHost:8080",
            "dev.localhost:1",
            "broker:8080",
            "queue.example",
            "Queue.Example:443",
        ] {
            assert_eq!(verdict(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "a.:1",
            ":x.y",
        ] {
            assert_eq!(verdict(host), Err(421), "{host}");
        }
    }

    #[test]
    fn a_good_name_does_not_let_the_next_one_pass() {
        let settings = Settings { local: true, ..Settings::default() };
        let caller = Caller::default();
        for (host, passes) in
            [("localhost", true), ("evil.example", false), ("localhost", true), ("[::1]", true)]
        {
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            assert_eq!(caller.admit(&request, &settings).is_ok(), passes, "{host}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_changes_nothing() {
        let verdict = |method: Method, local| {
            let settings = Settings { local, ..Settings::default() };
            let request = Request::builder().method(method).header(HOST, "127.0.0.1:8080");
            let request = request.header(ORIGIN, "http://evil.example").body(()).unwrap();
            Caller::default().admit(&request, &settings).map_err(|it| it.into_problem().status)
        };
        for local in [false, true] {
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
                assert_eq!(verdict(method, local), Err(403));
            }
            assert_eq!(verdict(Method::GET, local), Ok(()), "its browser keeps the answer from it");
        }
    }

    #[test]
    fn a_request_has_one_host() {
        let verdict = |hosts: &[&str], version| {
            let request = hosts.iter().fold(Request::get("/"), |request, host| request.header(HOST, *host));
            let request = request.version(version).body(()).unwrap();
            let admitted = Caller::default().admit(&request, &Settings::default());
            admitted.map_err(|it| it.into_problem().status)
        };
        assert_eq!(verdict(&["a.example"], Version::HTTP_11), Ok(()));
        assert_eq!(verdict(&[], Version::HTTP_10), Ok(()));
        for (hosts, version) in [
            (&[][..], Version::HTTP_11),
            (&["a.example", "a.example"], Version::HTTP_11),
            (&["a.example", "b.example"], Version::HTTP_10),
        ] {
            assert_eq!(verdict(hosts, version), Err(400), "{hosts:?}");
        }
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
