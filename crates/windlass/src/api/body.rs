//! Reading a request's body: JSON, not too large, not too slow.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::problem::Refused;
use super::{Settings, State};

/// The bytes of a body that claims to be JSON.
#[derive(Debug)]
pub(super) struct JsonBytes(pub(super) Bytes);

impl FromRequest<Arc<State>> for JsonBytes {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &Arc<State>) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        Self::read(&parts, body, &state.settings).await
    }
}

impl JsonBytes {
    pub(super) async fn read<B>(parts: &Parts, body: B, settings: &Settings) -> Result<Self, Refused>
    where
        B: HttpBody<Data = Bytes, Error: Display>,
    {
        check_type(parts)?;
        check_length(parts, settings)?;
        let mut reading = pin!(read(body, settings.body_bytes_max()));
        // Most bodies come with their head, and need no timer.
        let bytes = match futures_util::poll!(reading.as_mut()) {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => {
                tokio::time::timeout(settings.body_timeout, reading).await.unwrap_or_else(|_| {
                    let title = "The body came too slowly";
                    Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", title))
                })
            }
        };
        bytes.map(JsonBytes)
    }
}

fn check_type(parts: &Parts) -> Result<(), Refused> {
    let encoded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if parts.headers.get(CONTENT_ENCODING).is_some_and(encoded) {
        let title = "The body must not be compressed";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", title)
            .detail("send it without Content-Encoding"));
    }
    let json = |text: &str| {
        let kind = text.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    };
    let given = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if given.is_some_and(json) {
        return Ok(());
    }
    let title = "The body must be application/json";
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", title))
}

fn check_length(parts: &Parts, settings: &Settings) -> Result<(), Refused> {
    let declared: Option<u64> =
        parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    match declared {
        Some(length) if length > settings.body_bytes_max() as u64 => {
            Err(Refused::too_large(settings.body_bytes_max()))
        }
        _ => Ok(()),
    }
}

/// A body up to this size is copied out of the connection's buffer, which is then used again; keeping the piece would cost
/// the next request a new buffer.
const COPIED_BYTES_MAX: usize = 2048;

/// Most bodies come in one piece, and large ones are not copied.
async fn read<B>(body: B, limit: usize) -> Result<Bytes, Refused>
where
    B: HttpBody<Data = Bytes, Error: Display>,
{
    let mut body = pin!(body);
    let mut first: Option<Bytes> = None;
    let mut joined: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Refused::new(StatusCode::BAD_REQUEST, "malformed", "The body ended early")
                .detail(error.to_string())
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        let so_far = joined.as_ref().map_or(0, BytesMut::len) + first.as_ref().map_or(0, Bytes::len);
        if so_far + piece.len() > limit {
            return Err(Refused::too_large(limit));
        }
        match (&mut joined, first.take()) {
            (Some(joined), _) => {
                if joined.capacity() - joined.len() < piece.len() {
                    *joined = grown(joined, piece.len(), body.size_hint().upper());
                }
                joined.extend_from_slice(&piece);
            }
            (None, None) if piece.len() <= COPIED_BYTES_MAX => first = Some(Bytes::copy_from_slice(&piece)),
            (None, None) => first = Some(piece),
            (None, Some(start)) => {
                let mut buffer = grown(&start, piece.len(), body.size_hint().upper());
                buffer.extend_from_slice(&piece);
                joined = Some(buffer);
            }
        }
    }
    Ok(joined.map(BytesMut::freeze).or(first).unwrap_or_default())
}

/// A buffer with what has come, a piece, and half as much again, but no more than the `rest` of the body: doubling it would take
/// far more than the memory budget counts.
fn grown(so_far: &[u8], piece: usize, rest: Option<u64>) -> BytesMut {
    let bytes = so_far.len() + piece;
    let rest = rest.map_or(usize::MAX, |rest| rest as usize);
    let mut buffer = BytesMut::with_capacity(bytes + rest.min(bytes / 2));
    buffer.extend_from_slice(so_far);
    buffer
}
