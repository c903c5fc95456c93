//! The rest of a body that nobody read.
//!
//! An answer may be ready before the body was read: the route takes none, or the head was refused. The connection can carry
//! another request only if the body was read to its end. So a short rest is read and dropped. If the rest is
//! longer, the answer has `Connection: close`, and the client does not try to use the connection again.
//!
//! On its way to the handler a body is counted in the memory budget as it comes.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};

use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::Line;
use crate::server::BUFFER_BYTES_MAX;
use crate::server::budget::Purse;

/// How much is read only to keep the connection.
const REST_BYTES_MAX: u64 = 64 * 1024;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

pub(super) struct Rest(UnsyncBoxBody<Bytes, BoxError>);

impl Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest")
    }
}

/// What a body leaves behind for the end of its request.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// What nobody read.
    pub(super) rest: Option<Rest>,
    /// What it takes of the memory budget, once all of it has come.
    pub(super) purse: Option<Purse>,
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
    /// What it takes of the memory budget, since the client kept it waiting.
    purse: Option<Purse>,
    /// What came of it.
    bytes: usize,
}

impl<B> Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    pub(super) fn new(body: B, line: Arc<Line>) -> Self {
        Self { body: Some(body), line, purse: None, bytes: 0 }
    }

    /// The client is told so by the front, whatever the handler makes of it.
    fn refuse<T>(&mut self) -> Poll<Option<Result<T, BoxError>>> {
        self.line.refused.store(true, Ordering::Relaxed);
        self.purse = None;
        Poll::Ready(Some(Err("the memory budget is used up".into())))
    }

    /// The whole body is there, or it is given up: the bytes count until the request is answered.
    fn hand_over(&mut self) {
        let (purse, bytes) = (self.purse.take(), std::mem::take(&mut self.bytes));
        if bytes > UNCOUNTED_BYTES_MAX {
            let mut purse = purse.unwrap_or_else(|| Purse::new(Arc::clone(&self.line.account)));
            purse.set_reading(false);
            purse.set(bytes);
            self.line.left.lock().purse = Some(purse);
        }
    }
}

impl<B> HttpBody for Returned<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Some(purse) = &mut this.purse {
            if purse.account().is_cut() {
                return this.refuse();
            }
            // What comes next, and the buffer that grows with it.
            let ahead = BUFFER_BYTES_MAX.max(this.bytes / 4);
            let rest = body.size_hint().upper().map_or(ahead, |rest| rest as usize);
            purse.set_reading(false);
            if !ready!(purse.poll_set(cx, this.bytes + rest.min(ahead), this.bytes + rest)) {
                return this.refuse();
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            let account = &this.line.account;
            let purse = this.purse.get_or_insert_with(|| Purse::new(Arc::clone(account)));
            purse.note_reading(cx, true);
            return Poll::Pending;
        };
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            this.bytes += data.len();
            if !body.is_end_stream() {
                let account = &this.line.account;
                this.purse.get_or_insert_with(|| Purse::new(Arc::clone(account)));
            }
        }
        if frame.is_none() || this.body.as_ref().is_some_and(HttpBody::is_end_stream) {
            this.hand_over();
        }
        if frame.is_none() {
            this.body = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
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
            self.line.left.lock().rest = Some(Rest(body.map_err(Into::into).boxed_unsync()));
        }
    }
}
