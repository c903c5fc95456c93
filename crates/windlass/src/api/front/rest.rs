//! The rest of a body that nobody read.
//!
//! An answer may be ready before the body was read: the route takes none, or the head was refused. The connection can carry
//! another request only if the body was read to its end. So a short rest is read and dropped. If the rest is
//! longer, the answer has `Connection: close`, and the client does not try to use the connection again.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};

use super::Line;

/// How much is read only to keep the connection.
const REST_BYTES_MAX: u64 = 64 * 1024;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

pub(super) struct Rest(UnsyncBoxBody<Bytes, BoxError>);

impl Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest")
    }
}

/// Reads a rest. Returns whether its end came within the limits.
pub(super) async fn read(Rest(mut body): Rest) -> bool {
    if body.size_hint().lower() > REST_BYTES_MAX {
        return false;
    }
    let reading = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
            if bytes > REST_BYTES_MAX {
                return None;
            }
        }
        Some(())
    };
    matches!(tokio::time::timeout(REST_TIME_MAX, reading).await, Ok(Some(())))
}

/// A body that goes back to its connection if it is dropped before its end.
pub(super) struct Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    body: Option<B>,
    line: Arc<Line>,
}

impl<B> Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    pub(super) fn new(body: B, line: Arc<Line>) -> Self {
        Self { body: Some(body), line }
    }
}

impl<B> HttpBody for Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if frame.is_none() {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl<B> Drop for Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.line.rest.lock() = Some(Rest(body.map_err(Into::into).boxed_unsync()));
        }
    }
}
