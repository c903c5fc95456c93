//! The dashboard: files of the binary, with headers that let a browser do nothing with them but show them.
//!
//! Their names are the same in every version, so a browser keeps them but asks each time; an answer to that is a hash.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use windlass_ui::{ASSETS, Asset};

use super::State;

/// Nothing inline and nothing from elsewhere; the page talks to the broker it came from, and stands in no other page.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (CACHE_CONTROL, "no-cache"),
];

pub(super) fn routes() -> Router<Arc<State>> {
    ASSETS.iter().enumerate().fold(Router::new(), |router, (at, asset)| {
        router.route(
            asset.path,
            get(move |headers: HeaderMap| async move { answer(asset, &TAGS[at], &headers) }),
        )
    })
}

struct Tags {
    plain: HeaderValue,
    gzip: HeaderValue,
}

static TAGS: LazyLock<Vec<Tags>> = LazyLock::new(|| {
    let tags = |asset: &Asset| Tags { plain: tag(asset.bytes), gzip: tag(asset.gzip) };
    ASSETS.iter().map(tags).collect()
});

fn tag(bytes: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).expect("hex digits are a header value")
}

fn answer(asset: &'static Asset, tags: &Tags, request: &HeaderMap) -> Response {
    let gzip = takes_gzip(request);
    let (tag, bytes) = if gzip { (&tags.gzip, asset.gzip) } else { (&tags.plain, asset.bytes) };
    let known = request.get(IF_NONE_MATCH).is_some_and(|given| knows(given, tag));
    let mut response =
        Response::new(if known { Body::empty() } else { Body::from(Bytes::from_static(bytes)) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(ETAG, tag.clone());
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn takes_gzip(request: &HeaderMap) -> bool {
    let given = request.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(',').any(|word| {
        let mut parts = word.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part.trim_end_matches(['0', '.']) == "q=")
    })
}

fn knows(given: &HeaderValue, tag: &HeaderValue) -> bool {
    let list = given.to_str().unwrap_or_default();
    list.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pairs: &[(HeaderName, &str)]) -> Response {
        let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        answer(&ASSETS[1], &TAGS[1], &headers.collect())
    }

    #[test]
    fn compressed_only_for_those_who_take_it() {
        for (given, gzip) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("identity", false),
        ] {
            let encoded = ask(&[(ACCEPT_ENCODING, given)]).headers().get(CONTENT_ENCODING).is_some();
            assert_eq!(encoded, gzip, "{given}");
        }
    }

    #[test]
    fn a_known_version_is_not_sent_again() {
        let first = ask(&[]);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        assert_eq!(ask(&[(IF_NONE_MATCH, &tag)]).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&[(IF_NONE_MATCH, &format!("\"x\", W/{tag}"))]).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&[(IF_NONE_MATCH, "\"x\"")]).status(), StatusCode::OK);
        // The compressed file is another one.
        assert_eq!(ask(&[(IF_NONE_MATCH, &tag), (ACCEPT_ENCODING, "gzip")]).status(), StatusCode::OK);
    }

    #[test]
    fn every_file_comes_with_the_policy() {
        for (asset, tags) in ASSETS.iter().zip(TAGS.iter()) {
            let response = answer(asset, tags, &HeaderMap::new());
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }
}
