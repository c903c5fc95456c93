//! The HTTP server: connections in, a router out, a limit on everything between them.
//!
//! What a client can hold on to is bounded here. Connections are counted, and one too many is told to come back. The head of
//! a request must arrive within a time (this also closes connections that idle) and within a size. An answer that the client
//! does not read is given up after a time without progress. What happens inside a request is bounded by [`crate::api`].
//! On shutdown no connection is accepted any more, idle ones are closed, requests in flight are finished, and what is not
//! finished at the deadline is dropped.

pub(crate) mod budget;
pub(crate) mod descriptors;
pub(crate) mod gone;
mod lasting;
pub(crate) mod memory;
pub(crate) mod socket;
pub(crate) mod stall;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::budget::{Account, Budget};
pub(crate) use self::lasting::Lasting;
use self::socket::Socket;
use self::stall::Stall;
use crate::api::Front;

/// What is read or written at once, and so the largest buffer of a connection.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// From the first moment of a connection, or the end of the last request, to the end of the next request's head.
    pub(crate) head_timeout: Duration,
    pub(crate) head_bytes: usize,
    pub(crate) headers: usize,
    /// How long an answer may wait for the client to read.
    pub(crate) write_timeout: Duration,
    /// How long requests in flight may go on after a shutdown.
    pub(crate) drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            head_timeout: Duration::from_secs(30),
            head_bytes: 32 * 1024,
            headers: 64,
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Serves until `shutdown`, then drains.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Front,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (places, drain_timeout) = (Places::new(limits.connections, app.budget()), limits.drain_timeout);
    let server = Arc::new(Server { app, closing: Closing::default(), limits });
    let connection = |stream, place| server.clone().connection(stream, place);
    let connections = accept(listener, places, &shutdown, turn_away, connection).await;
    server.closing.begin();
    drain(connections, drain_timeout).await;
    Ok(())
}

/// How many connections a door may have.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    budget: Arc<Budget>,
}

/// What a connection takes up until it ends.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) account: Arc<Account>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(count: usize, budget: &Arc<Budget>) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), budget: Arc::clone(budget) }
    }

    fn take(&self) -> Option<Place> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        Some(Place { account: self.budget.connect()?, _permit: permit })
    }
}

/// Takes connections until `shutdown`, each into a task of its own while there is a place for it. Every door does this.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    places: Places,
    shutdown: &CancellationToken,
    turn_away: impl Fn(&TcpStream),
    connection: impl Fn(TcpStream, Place) -> F,
) -> TaskTracker
where
    F: Future<Output = ()> + Send + 'static,
{
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            },
        };
        match places.take() {
            Some(place) if !descriptors::is_reserved(&stream) => {
                drop(connections.spawn(connection(stream, place)));
            }
            _ => turn_away(&stream),
        }
    }
    connections
}

/// Lets the connections end what they are doing, up to a deadline.
pub(crate) async fn drain(connections: TaskTracker, timeout: Duration) {
    connections.close();
    if tokio::time::timeout(timeout, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests were still in flight at the deadline");
    }
}

struct Server {
    app: Front,
    closing: Closing,
    limits: Limits,
}

/// The end of the server, as its connections hear of it. They look whenever they run, so it is a value that changes once, and not a
/// token, which each would lock.
#[derive(Debug, Default)]
struct Closing {
    begun: AtomicBool,
    told: Notify,
}

impl Closing {
    fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }
}

impl Server {
    /// Serves a connection here, until it ends or has nothing but events to carry: those who listen have a room of their own.
    async fn connection(self: Arc<Self>, stream: TcpStream, place: Place) {
        // Answers are small and complete: waiting for more of them would only add latency.
        let _ = stream.set_nodelay(true);
        let socket = Socket::new(stream);
        let app = self.app.for_connection(&socket, &place.account);
        let mut serving = Box::pin(self.requests(app.clone(), socket, place));
        let room = poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => app.listens_in().map_or(Poll::Pending, |room| Poll::Ready(Some(room))),
        });
        if let Some(room) = room.await {
            room.spawn(serving);
        }
    }

    async fn requests(self: Arc<Self>, app: Front, socket: Socket, place: Place) {
        let io = TokioIo::new(Stall::new(socket, self.limits.write_timeout).at(place));
        let service = TowerToHyperService::new(app);
        let mut connection = std::pin::pin!(http(&self.limits).serve_connection(io, service).with_upgrades());
        let mut told = std::pin::pin!(self.closing.told.notified());
        let (mut heard_by, mut closes): (Option<Waker>, _) = (None, false);
        let ended = poll_fn(|cx| {
            if !closes {
                // Once is enough for as long as it runs in the same place.
                if heard_by.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                    let _ = told.as_mut().poll(cx);
                    heard_by = Some(cx.waker().clone());
                }
                if self.closing.has_begun() {
                    closes = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
            connection.as_mut().poll(cx)
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Of one connection, because its timer is.
fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(Lasting::default())
        .header_read_timeout(limits.head_timeout)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Most answers are small: one buffer is cheaper to send than two.
        .writev(false);
    http
}

/// A connection too many is told so if that costs nothing, and closed.
fn turn_away(stream: &TcpStream) {
    let _ = stream.try_write(
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    );
}

/// A client that went away is its own affair; anything else (too many open files) passes only with time.
async fn pause_after(error: &io::Error) {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    );
    if !gone {
        tracing::error!(%error, "cannot accept a connection");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
