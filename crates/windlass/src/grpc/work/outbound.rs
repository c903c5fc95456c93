//! What goes down to a worker: answers and news first, tasks when there is nothing to answer.
//!
//! Tasks have a channel of their own with room for one message, because they may be large; a claim begins only when there is
//! room for what it brings. Who does not read for [`UNREAD_MAX`] is cut off.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::mpsc;
use tonic::Status;
use windlass_proto::grpc::v1::WorkResponse;
use windlass_proto::grpc::v1::work_response::Message;

use crate::api::problem::Refused;
use crate::grpc::refusal::status;

/// Answers that wait for a slow reader.
const CONTROL_MAX: usize = 64;
pub(super) const UNREAD_MAX: Duration = Duration::from_secs(30);

pub(super) fn open() -> (Control, mpsc::Sender<WorkResponse>, Outbound) {
    let (control, controls) = mpsc::channel(CONTROL_MAX);
    let (tasks, pushed) = mpsc::channel(1);
    (Control(control), tasks, Outbound { controls, pushed })
}

#[derive(Debug, Clone)]
pub(super) struct Control(mpsc::Sender<Result<WorkResponse, Status>>);

impl Control {
    pub(super) async fn send(&self, message: Message) -> Result<(), Status> {
        let message = Ok(WorkResponse { message: Some(message) });
        match tokio::time::timeout(UNREAD_MAX, self.0.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Status::cancelled("the stream is closed")),
            Err(_) => Err(too_slow()),
        }
    }

    /// The last word.
    pub(super) async fn end(&self, status: Status) {
        let _ = tokio::time::timeout(UNREAD_MAX, self.0.send(Err(status))).await;
    }

    /// Ready when nobody listens any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

pub(super) fn too_slow() -> Status {
    let title = "The worker does not read what it is sent";
    status(Refused::new(StatusCode::REQUEST_TIMEOUT, "too_slow", title))
}

#[derive(Debug)]
pub(crate) struct Outbound {
    controls: mpsc::Receiver<Result<WorkResponse, Status>>,
    pushed: mpsc::Receiver<WorkResponse>,
}

impl futures_util::Stream for Outbound {
    type Item = Result<WorkResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let ready @ Poll::Ready(_) = self.controls.poll_recv(cx) {
            return ready;
        }
        match self.pushed.poll_recv(cx) {
            Poll::Ready(Some(tasks)) => Poll::Ready(Some(Ok(tasks))),
            // The claimer is done; the stream ends with its controls.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
