//! Answers that count in the memory budget until the client has taken them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tower::Service;
use windlass_broker::Error;
use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::Line;
use crate::api::problem::Refused;
use crate::server::BUFFER_BYTES_MAX;
use crate::server::budget::{Account, Held};

/// Counts an answer that has to be kept.
pub(super) fn count(response: Response, account: &Arc<Account>) -> Response {
    // A stream is counted piece by piece.
    let held = bytes(&response).map_or_else(Held::default, |bytes| account.hold(bytes));
    charge(response, account, held)
}

/// Counts an answer that shows a task which was there before. Nothing has changed, so it is refused if there is no room for it.
pub(super) fn count_found(response: Response, account: &Arc<Account>) -> Response {
    match bytes(&response).map(|bytes| account.try_hold(bytes)) {
        Some(Some(held)) => charge(response, account, held),
        _ => Refused::from(Error::Busy).into_response(),
    }
}

/// Carries out a request that only shows something. If there is no room for its answer, that is let go and made again when there is.
pub(super) async fn look<B>(line: &Line, request: Request<B>) -> Result<Response, Infallible>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let account = &line.account;
    let refused = || Ok(Refused::from(Error::Busy).into_response());
    let Some(mut room) = account.room_for_look().await else { return refused() };
    let again = copy(&request);
    let response = room.while_quick(line.routes.clone().call(request)).await?;
    let Some(wanted) = bytes(&response) else { return Ok(count(response, account)) };
    if let Some(held) = account.fit(room, wanted) {
        return Ok(charge(response, account, held));
    }
    drop(response);
    let Some(room) = account.reserve(wanted).await else { return refused() };
    let response = line.routes.clone().call(again).await?;
    match bytes(&response).and_then(|bytes| account.fit(room, bytes)) {
        Some(held) => Ok(charge(response, account, held)),
        None => refused(),
    }
}

/// The same request, to be made once more. It has no body that anybody reads.
fn copy<B>(request: &Request<B>) -> Request<Body> {
    let mut copy = Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

fn bytes(response: &Response) -> Option<usize> {
    response.body().size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn charge(response: Response, account: &Arc<Account>, held: Held) -> Response {
    let streams = match bytes(&response) {
        Some(0..=UNCOUNTED_BYTES_MAX) => return response,
        bytes => bytes.is_none(),
    };
    let charged = |body| Charged { body, rest: Bytes::new(), held, streams, account: Arc::clone(account) };
    response.map(|body| Body::new(charged(body)))
}

/// An answer in pieces of the size of a write: a connection never has more of it than it sends at once. Without that it would keep a buffer
/// of the size of its largest answer.
struct Charged {
    body: Body,
    /// Of the frame that was taken from the body.
    rest: Bytes,
    held: Held,
    streams: bool,
    account: Arc<Account>,
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            if self.streams {
                self.held = Held::default();
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
            if self.streams {
                // Also in the channel before this one, and in the buffer behind it.
                self.held = self.account.hold(3 * self.rest.len());
            }
        }
        // The pieces of a stream are bounded, and readers of events like them whole.
        let most = if self.streams { self.rest.len() } else { BUFFER_BYTES_MAX };
        let bytes = self.rest.len().min(most);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.rest.len() as u64;
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + left),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::server::budget::Budget;

    #[tokio::test]
    async fn an_answer_counts_until_it_is_taken_and_keeps_its_length() {
        let budget = Budget::new(1 << 20);
        let account = budget.without_connection();
        let answer = |bytes: usize| Response::new(Body::from(vec![7; bytes]));
        let mut first = count(answer(600_000), &account).into_body();
        assert_eq!((first.size_hint().exact(), budget.usage().used), (Some(600_000), 600_000));
        let outcome = count(answer(600_000), &account);
        assert_eq!((outcome.status().as_u16(), budget.usage().used), (200, 1_200_000));
        drop(outcome);
        let mut taken = 0;
        while let Some(frame) = first.frame().await {
            let bytes = frame.unwrap().into_data().unwrap().len();
            assert!(bytes <= BUFFER_BYTES_MAX);
            taken += bytes;
            assert_eq!(first.size_hint().exact(), Some(600_000 - taken as u64));
        }
        drop(first);
        assert_eq!((taken, budget.usage().used), (600_000, 0));
        assert_eq!(count(answer(100), &account).into_body().collect().await.unwrap().to_bytes().len(), 100);
    }

    #[tokio::test]
    async fn an_answer_that_shows_a_task_found_is_refused_when_there_is_no_room() {
        let budget = Budget::new(1 << 20);
        let account = budget.without_connection();
        let answer = || count_found(Response::new(Body::from(vec![7; 600_000])), &account);
        let first = answer();
        assert_eq!((first.status().as_u16(), budget.usage().used), (200, 600_000));
        assert_eq!(answer().status().as_u16(), 503);
        drop(first);
        assert_eq!(answer().status().as_u16(), 200);
    }
}
