//! Answers that a client asked for and does not take, bounded by bytes for each connection.
//!
//! An answer waits in memory until the client opens its window, for as long as the client likes. So its bytes are counted
//! from the moment it is made until the last of them is written to the connection: the bytes themselves carry the count, because
//! the HTTP/2 library keeps them when the call is long over. A look that would be too much is refused, and its answer let
//! go; whoever reads what he asked for never gets there. An act is carried out and its answer kept in any case, but none begins
//! while there is too much already.
//!
//! The same bytes count in the memory budget of the process, and so do the messages of streams.

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
use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::refusal;
use crate::server::budget::{self, Account};

/// Of one connection.
#[derive(Debug)]
pub(super) struct Unread {
    bytes: AtomicUsize,
    max: usize,
    account: Arc<Account>,
}

/// What a call is, as far as its answer is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its answer is small.
    Small,
    /// It is answered with messages that have bounds of their own, or with the task that was sent.
    Pieces,
    Look,
    Act,
}

impl Kind {
    pub(super) fn of(path: &str) -> Self {
        let (service, call) = path.rsplit_once('/').unwrap_or_default();
        match call {
            _ if !service.starts_with("/windlass.") => Kind::Small,
            "SubmitBatch" | "SubmitTasks" => Kind::Small,
            "SubmitTask" | "WatchTasks" | "Work" => Kind::Pieces,
            "Complete" | "Fail" | "Release" | "Extend" | "Heartbeat" => Kind::Small,
            "PreviewOperation" | "ExplainTask" => Kind::Look,
            _ if call.starts_with("Get") || call.starts_with("List") => Kind::Look,
            _ => Kind::Act,
        }
    }
}

impl Unread {
    pub(super) fn new(max: usize, account: Arc<Account>) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), max, account })
    }

    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.max
    }

    /// The answer to a call, counted; or a refusal if it is one too many.
    pub(super) async fn count(
        self: &Arc<Self>,
        kind: Kind,
        answer: Response<Body>,
        room: budget::Held,
    ) -> Response<Body> {
        match kind {
            Kind::Small => return answer,
            Kind::Pieces => return answer.map(|body| Body::new(self.clone().count_each(body))),
            Kind::Look | Kind::Act => {}
        }
        let (head, mut rest) = answer.into_parts();
        // What is answered once is ready at once: this writes the message down.
        let first = match rest.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(status)) => return status.into_http(),
            None => return Response::from_parts(head, rest),
        };
        let first = match first.into_data() {
            Ok(bytes) if bytes.len() <= UNCOUNTED_BYTES_MAX => Frame::data(bytes),
            Ok(bytes) => {
                let wanted = bytes.len();
                match self.hold(bytes, kind, room) {
                    Ok(bytes) => Frame::data(bytes),
                    Err(Full::Connection) => return refusal::unread().into_http(),
                    Err(Full::Budget) => {
                        // The answer is gone. There is room for it when the client comes again.
                        let _room = self.account.reserve(wanted).await;
                        return refusal::overloaded().into_http();
                    }
                }
            }
            Err(other) => other,
        };
        Response::from_parts(head, Body::new(Begun { first: Some(first), rest }))
    }

    fn hold(self: &Arc<Self>, bytes: Bytes, kind: Kind, room: budget::Held) -> Result<Bytes, Full> {
        let held = match kind {
            Kind::Look => self.account.fit(room, bytes.len()).ok_or(Full::Budget)?.until_taken(),
            _ => self.account.hold(bytes.len()).until_taken(),
        };
        let before = self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        let too_much = before > 0 && before + bytes.len() > self.max;
        let held = Held { bytes, unread: self.clone(), _held: held };
        if kind == Kind::Act || !too_much { Ok(Bytes::from_owner(held)) } else { Err(Full::Connection) }
    }

    fn count_each(
        self: Arc<Self>,
        body: Body,
    ) -> impl hyper::body::Body<Data = Bytes, Error = Status> + Send {
        body.map_frame(move |frame| match frame.into_data() {
            Ok(bytes) if bytes.len() > UNCOUNTED_BYTES_MAX => {
                let held = self.account.hold(bytes.len()).until_taken();
                Frame::data(Bytes::from_owner(Piece { bytes, _held: held }))
            }
            Ok(bytes) => Frame::data(bytes),
            Err(other) => other,
        })
    }
}

/// What has no room for an answer.
#[derive(Debug)]
enum Full {
    Connection,
    Budget,
}

/// A message of a stream, which counts in the memory budget alone.
struct Piece {
    bytes: Bytes,
    _held: budget::Held,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are counted until nobody has them any more.
struct Held {
    bytes: Bytes,
    unread: Arc<Unread>,
    _held: budget::Held,
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
    use crate::server::budget::Budget;

    #[test]
    fn bytes_count_until_they_are_gone() {
        let unread = Unread::new(100, Budget::unlimited().without_connection());
        let bytes = |n: usize| Bytes::from(vec![7; n]);
        let hold = |n: usize, kind: Kind| unread.hold(bytes(n), kind, budget::Held::default());
        let first = hold(80, Kind::Look).unwrap();
        assert_eq!(first, bytes(80));
        assert!(hold(21, Kind::Look).is_err(), "it would be too much");
        let act = hold(21, Kind::Act).unwrap();
        assert!(unread.is_full());
        let part = first.slice(70..);
        drop((first, act));
        assert!(hold(30, Kind::Look).is_err(), "a part keeps the whole");
        drop(part);
        let large = hold(1000, Kind::Look).expect("a single answer may be of any size");
        drop(large);
        assert_eq!(unread.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn calls_are_told_apart() {
        let kind = |call: &str| Kind::of(&format!("/windlass.v1.TaskService/{call}"));
        assert_eq!(
            ["ListTasks", "GetTask", "Claim", "RunSchedule", "SubmitBatch", "SubmitTask", "Work"].map(kind),
            [Kind::Look, Kind::Look, Kind::Act, Kind::Act, Kind::Small, Kind::Pieces, Kind::Pieces]
        );
        assert_eq!(Kind::of("/grpc.health.v1.Health/List"), Kind::Small);
        assert_eq!(Kind::of("nonsense"), Kind::Small);
    }
}
