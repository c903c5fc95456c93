//! Answers that a client asked for and does not take, bounded by bytes for each connection.
//!
//! An answer waits in memory until the client opens its window, for as long as the client likes. So its bytes are counted
//! from the moment it is made until the last of them is written to the connection: the bytes themselves carry the count, because
//! the HTTP/2 library keeps them when the call is long over. A look that would be too much is refused, and its answer let
//! go; whoever reads what he asked for never gets there. An act is carried out and its answer kept in any case, but none begins
//! while there is too much already.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::http::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Frame;
use tonic::Status;
use tonic::body::Body;

use super::refusal;

/// A smaller answer is not worth counting: a connection has a bounded number of them.
const COUNTED_BYTES_MIN: usize = 64 * 1024;

/// Of one connection.
#[derive(Debug)]
pub(super) struct Unread {
    bytes: AtomicUsize,
    max: usize,
}

/// What a call is, as far as its answer is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its answer is small, or a stream with bounds of its own.
    Small,
    Look,
    Act,
}

impl Kind {
    pub(super) fn of(path: &str) -> Self {
        let (service, call) = path.rsplit_once('/').unwrap_or_default();
        match call {
            _ if !service.starts_with("/windlass.") => Kind::Small,
            "SubmitTask" | "SubmitBatch" | "SubmitTasks" | "WatchTasks" | "Work" => Kind::Small,
            "Complete" | "Fail" | "Release" | "Extend" | "Heartbeat" => Kind::Small,
            "PreviewOperation" | "ExplainTask" => Kind::Look,
            _ if call.starts_with("Get") || call.starts_with("List") => Kind::Look,
            _ => Kind::Act,
        }
    }
}

impl Unread {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), max })
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.max
    }

    /// The answer to a call, counted; or a refusal if it is one too many.
    pub(super) async fn count(self: &Arc<Self>, kind: Kind, answer: Response<Body>) -> Response<Body> {
        if kind == Kind::Small {
            return answer;
        }
        let (head, mut rest) = answer.into_parts();
        // What is answered once is ready at once: this writes the message down.
        let first = match rest.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(status)) => return status.into_http(),
            None => return Response::from_parts(head, rest),
        };
        let first = match first.into_data() {
            Ok(bytes) if bytes.len() < COUNTED_BYTES_MIN => Frame::data(bytes),
            Ok(bytes) => match self.hold(bytes, kind) {
                Some(bytes) => Frame::data(bytes),
                None => return refusal::unread().into_http(),
            },
            Err(other) => other,
        };
        Response::from_parts(head, Body::new(Begun { first: Some(first), rest }))
    }

    fn hold(self: &Arc<Self>, bytes: Bytes, kind: Kind) -> Option<Bytes> {
        let before = self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let too_much = before > 0 && before + bytes.len() > self.max;
        let held = Held { bytes, unread: self.clone() };
        (kind == Kind::Act || !too_much).then(|| Bytes::from_owner(held))
    }
}

/// Bytes that are counted until nobody has them any more.
struct Held {
    bytes: Bytes,
    unread: Arc<Unread>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.unread.bytes.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// A body of which the first frame was taken out already.
struct Begun {
    first: Option<Frame<Bytes>>,
    rest: Body,
}

impl hyper::body::Body for Begun {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.first.take() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_gone() {
        let unread = Unread::new(100);
        let bytes = |n: usize| Bytes::from(vec![7; n]);
        let first = unread.hold(bytes(80), Kind::Look).unwrap();
        assert_eq!(first, bytes(80));
        assert!(unread.hold(bytes(21), Kind::Look).is_none(), "it would be too much");
        let act = unread.hold(bytes(21), Kind::Act).unwrap();
        assert!(unread.is_full());
        let part = first.slice(70..);
        drop((first, act));
        assert!(unread.hold(bytes(30), Kind::Look).is_none(), "a part keeps the whole");
        drop(part);
        let large = unread.hold(bytes(1000), Kind::Look).expect("a single answer may be of any size");
        drop(large);
        assert_eq!(unread.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn calls_are_told_apart() {
        let kind = |call: &str| Kind::of(&format!("/windlass.v1.TaskService/{call}"));
        assert_eq!(
            ["ListTasks", "GetTask", "Claim", "RunSchedule", "SubmitTask", "Work"].map(kind),
            [Kind::Look, Kind::Look, Kind::Act, Kind::Act, Kind::Small, Kind::Small]
        );
        assert_eq!(Kind::of("/grpc.health.v1.Health/List"), Kind::Small);
        assert_eq!(Kind::of("nonsense"), Kind::Small);
    }
}
