//! Server-sent events: what a listener hears, written down in pieces that its connection takes one at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::time::timeout;
use windlass_broker::{Heard, Listener};
use windlass_core::limits::{LISTENER_BEAT_MS, LISTENER_FAREWELL_MS_MAX, LISTENER_WRITE_BYTES_MAX};

use super::{Listens, text};
use crate::api::State;

/// Browsers come back after this long.
const RETRY_MS: u64 = 1000;

/// `foreign` is the origin of a page from elsewhere that may listen.
pub(super) fn answer(state: &Arc<State>, listener: Listener) -> Response {
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let writer = Writer { sender, sent: listener.place().unwrap_or(0), listener };
    state.room.spawn(writer.serve(state.clone()));
    let pieces = unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), receiver))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.extensions_mut().insert(Listens);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // What the connection would carry next would have to stand back too.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather answers would hold events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

struct Writer {
    sender: mpsc::Sender<Bytes>,
    listener: Listener,
    /// Whoever comes back with this id has missed nothing that was not sent; 0 if that is a gap.
    sent: u64,
}

/// Why a listener is not served any more.
enum End {
    Gone,
    TooSlow,
    Stopping,
}

impl Writer {
    async fn serve(mut self, state: Arc<State>) {
        let end = self.write(&state).await;
        let Writer { sender, listener, sent } = self;
        let (reason, patience) = match end {
            End::Gone => return,
            End::Stopping => ("stopping", 1000),
            End::TooSlow => {
                listener.cut();
                ("too_slow", LISTENER_FAREWELL_MS_MAX)
            }
        };
        let mut piece = BytesMut::new();
        put(&mut piece, sent, &text::closed(sent, reason));
        let _ = timeout(Duration::from_millis(patience), sender.send(piece.freeze())).await;
    }

    async fn write(&mut self, state: &State) -> End {
        let (mut last, mut piece) = self.sign(format_args!("retry: {RETRY_MS}"));
        loop {
            match timeout(state.settings.listener_stall, self.sender.send(piece)).await {
                Ok(Ok(())) => self.sent = last,
                Ok(Err(_)) => return End::Gone,
                Err(_) => return End::TooSlow,
            }
            // sleep: something must be written now and then, or nobody notices a broken connection.
            let silent = tokio::time::sleep(Duration::from_millis(LISTENER_BEAT_MS));
            tokio::pin!(silent);
            (last, piece) = loop {
                tokio::select! {
                    biased;
                    () = state.closing.cancelled() => return End::Stopping,
                    () = self.sender.closed() => return End::Gone,
                    () = &mut silent => break self.sign(format_args!(": still here")),
                    () = self.listener.woken() => {
                        state.room.breathe().await;
                        if let Some(heard) = self.listener.more() {
                            break self.piece(heard);
                        }
                    }
                }
            };
        }
    }

    /// What there is, up to a size, and the id of its last event.
    fn piece(&mut self, first: Heard) -> (u64, Bytes) {
        let mut piece = BytesMut::with_capacity(1024);
        let mut last = self.sent;
        let mut next = Some(first);
        while let Some(heard) = next {
            let (id, message) = text::heard(&heard);
            last = id;
            put(&mut piece, id, &message);
            next = if piece.len() < LISTENER_WRITE_BYTES_MAX { self.listener.more() } else { None };
        }
        (last, piece.freeze())
    }

    /// A line without an event. Its id lets one that hears little, or nothing yet, come back to where it is.
    fn sign(&self, line: std::fmt::Arguments<'_>) -> (u64, Bytes) {
        match self.listener.place() {
            Some(place) => (place, Bytes::from(format!("id: {place}\n{line}\n\n"))),
            None => (self.sent, Bytes::from(format!("{line}\n\n"))),
        }
    }
}

fn put(piece: &mut BytesMut, id: u64, message: &[u8]) {
    piece.reserve(message.len() + 40);
    piece.put_slice(format!("id: {id}\ndata: ").as_bytes());
    piece.put_slice(message);
    piece.put_slice(b"\n\n");
}
