//! What happens to every request, whatever it asks for: it gets an id, a time limit, and an answer even if its handler
//! panics. One service does all of it, because each costs every request.

mod charged;
mod rest;

use std::any::Any;
use std::convert::Infallible;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::header::{CONNECTION, EXPECT, ORIGIN};
use axum::http::{self, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Router};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tower::Service;
use windlass_broker::Error;
use windlass_core::Name;
use windlass_core::limits::WAIT_MS_MAX;

use self::rest::{Left, Returned};
use super::origin::Caller;
use super::problem::{self, Refused, Unwritten};
use super::{Listens, Room, State, claim, events, tasks};
use crate::server::Lasting;
use crate::server::budget::{Account, Budget};
use crate::server::socket::Socket;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) panics: AtomicU64,
    pub(super) timeouts: AtomicU64,
}

/// The whole REST interface. It stands around the router, not inside it, where it would be one more boxed layer of every
/// route. A clone is the same connection.
#[derive(Debug, Clone)]
pub(crate) struct Front(Arc<Line>);

/// What a connection has. A request holds on to this alone: what all connections share is not counted by each request, because
/// the cores would wait for each other at the count.
#[derive(Debug)]
struct Line {
    routes: Router,
    state: Arc<State>,
    /// Of the request under way.
    timer: Lasting,
    /// Its last answer is a stream of events.
    listens: AtomicBool,
    caller: Caller,
    /// Of the body of the request under way.
    left: Mutex<Left>,
    /// `None` where requests do not come over a connection.
    socket: Option<Socket>,
    account: Arc<Account>,
    /// Whether the memory budget had no room for that body.
    refused: AtomicBool,
}

impl Front {
    pub(super) fn new(routes: Router, state: Arc<State>) -> Self {
        let account = state.budget.without_connection();
        Self::on(routes, state, None, account)
    }

    fn on(routes: Router, state: Arc<State>, socket: Option<Socket>, account: Arc<Account>) -> Self {
        let (timer, listens, caller, left, refused) = Default::default();
        let line = Line { routes, state, timer, listens, caller, left, socket, account, refused };
        Self(Arc::new(line))
    }

    /// For a connection, which has one request at a time.
    pub(crate) fn for_connection(&self, socket: &Socket, account: &Arc<Account>) -> Self {
        Self::on(self.0.routes.clone(), self.0.state.clone(), Some(socket.clone()), Arc::clone(account))
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.0.state.budget
    }

    /// Where the connection should go on, if what it carries from now on is events.
    pub(crate) fn listens_in(&self) -> Option<&Room> {
        self.0.listens.load(Ordering::Relaxed).then_some(&self.0.state.room)
    }
}

impl<B> Service<http::Request<B>> for Front
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError> + Display> + Send + Unpin + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let id = request_id(request.headers());
        let line = self.0.clone();
        let refused = line.caller.admit(&request, &line.state.settings).err();
        let limit = line.state.settings.request_timeout + waiting(request.uri());
        // What comes by far most often is not looked up among the routes.
        let submits = request.method() == Method::POST
            && request.uri() == tasks::PATH
            && !request.headers().contains_key(ORIGIN);
        let asks_first = request.headers().contains_key(EXPECT);
        let shows = request.method() == Method::GET && is_look(request.uri().path());
        let may_find = request.method() == Method::POST && request.uri().path() == tasks::PATH;
        let mut request = request.map(|body| Returned::new(body, line.clone()));
        if request.uri().path() == claim::PATH
            && let Some(socket) = &line.socket
        {
            request.extensions_mut().insert(socket.clone());
        }
        if request.uri().path() == events::SOCKET_PATH {
            request.extensions_mut().insert(Arc::clone(&line.account));
        }
        Box::pin(async move {
            let answering = AssertUnwindSafe(async {
                if let Some(refused) = refused {
                    drop(request);
                    Ok(refused.into_response())
                } else if submits {
                    Ok(tasks::submit_request(&line.state, request).await)
                } else {
                    let answer = match shows {
                        true => charged::look(&line, request).await,
                        false => line.routes.clone().call(request).await,
                    };
                    if let Ok(response) = &answer
                        && response.extensions().get::<Listens>().is_some()
                    {
                        line.listens.store(true, Ordering::Relaxed);
                    }
                    answer
                }
            });
            let mut response = {
                // Pinned where it is: it is large, and each wrapper would move it once more.
                let answering = pin!(answering.catch_unwind());
                match line.timer.within(limit, answering).await {
                    Some(Ok(Ok(response))) => response,
                    Some(Ok(Err(never))) => match never {},
                    Some(Err(panic)) => panicked(&line.state, &id, panic.as_ref()),
                    None => timed_out(&line.state),
                }
            };
            let overloaded = line.refused.swap(false, Ordering::Relaxed);
            if overloaded {
                response = Refused::from(Error::Busy).into_response();
            }
            let Left { rest, purse } = std::mem::take(&mut *line.left.lock());
            if let Some(rest) = rest
                && (overloaded || asks_first || !rest::read(rest).await)
            {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if may_find && response.status() == StatusCode::OK {
                response = charged::count_found(response, &line.account);
            } else if !shows {
                response = charged::count(response, &line.account);
            }
            drop(purse);
            finish(&mut response, id);
            Ok(response)
        })
    }
}

fn finish(response: &mut Response, id: HeaderValue) {
    if let Some(Unwritten(mut problem)) = response.extensions_mut().remove::<Unwritten>() {
        problem.request_id = id.to_str().ok().map(str::to_owned);
        // 503 is the answer to overload: a log line for each would add to it.
        if problem.status >= 500 && problem.status != 503 {
            tracing::warn!(
                request_id = problem.request_id,
                code = problem.code,
                detail = problem.detail,
                "refused"
            );
        }
        problem::write(response, *problem);
    }
    response.headers_mut().insert(REQUEST_ID, id);
}

/// The client's own id if it is a plain name, so that it cannot smuggle anything into logs; a random one otherwise.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    if let Some(given) = headers.get(REQUEST_ID)
        && given.to_str().is_ok_and(|text| Name::new(text).is_ok())
    {
        return given.clone();
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let number: u64 = rand::random();
    let text: [u8; 16] = std::array::from_fn(|i| DIGITS[(number >> (60 - 4 * i)) as usize & 15]);
    HeaderValue::from_bytes(&text).expect("hex digits are a header value")
}

/// Whether a path shows tasks, which may be large. Probes and metrics are answered in any case.
fn is_look(path: &str) -> bool {
    path.starts_with("/api/v1/tasks")
        || path.starts_with("/api/v1/dlq")
        || path.starts_with("/api/v1/workflows")
        || path.starts_with("/api/v1/schedules")
}

/// How much longer a request may take because it may wait for something to happen.
fn waiting(uri: &Uri) -> Duration {
    let waits = uri.path() == claim::PATH || uri.query().is_some_and(|query| query.contains("wait="));
    if waits { Duration::from_millis(WAIT_MS_MAX) } else { Duration::ZERO }
}

fn panicked(state: &State, id: &HeaderValue, panic: &(dyn Any + Send)) -> Response {
    state.counters.panics.fetch_add(1, Ordering::Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    tracing::error!(request_id = id.to_str().unwrap_or_default(), panic = text, "a request panicked");
    Refused::internal().into_response()
}

fn timed_out(state: &State) -> Response {
    state.counters.timeouts.fetch_add(1, Ordering::Relaxed);
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", "The request took too long")
        .detail("whether it was carried out is unknown")
        .into_response()
}
