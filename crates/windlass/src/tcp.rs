//! The TCP frames: REST's bodies without HTTP around them, for clients that want speed or have no HTTP.
//!
//! A connection is one tokio task. It reads whatever the client has sent, cuts it into frames, and runs the requests side by side: a
//! waiting claim holds up nothing but the answers behind it. Neighbouring submits go to the broker as one batch, and so do
//! neighbouring results, so that a pipeline costs the store about as much as a batch would. Answers leave in the order of the requests, all
//! that are ready with one write.
//!
//! What a client can hold on to is bounded: connections, the size of a frame, the time from its first byte to its last, requests
//! under way (by number, by bytes, and those with large answers), answers that it does not read, and idling. At a bound of
//! requests or answers the connection is not read any further, and TCP slows the client down. A refused request is answered with NACK and the
//! connection goes on; it is closed after a NACK only when the next frame cannot be found: a length that no frame may have, or
//! a frame that does not end. On shutdown no frame is read any more and those under way are answered.

mod answer;
mod connection;
mod deadline;
mod job;
mod jobs;
mod outlet;
mod request;
#[cfg(test)]
mod tests;
mod window;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use windlass_broker::Broker;
use windlass_core::limits::WAIT_MS_MAX;

use self::connection::{Connection, Context};
use self::job::Job;
use crate::api::State;
use crate::api::problem::Refused;
use crate::server::threads::{Other, Threads};
use crate::server::{Place, Places, accept, descriptors, drain};

#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// From the first byte of a frame to its last.
    pub(crate) frame_timeout: Duration,
    /// Between the last answer and the next frame.
    pub(crate) idle_timeout: Duration,
    /// How long the first of the requests under way may take. The broker bounds its own waits: this is for a store that hangs.
    pub(crate) request_timeout: Duration,
    /// How long an answer may wait for the client to read.
    pub(crate) write_timeout: Duration,
    /// How long requests in flight may go on after a shutdown.
    pub(crate) drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            frame_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(600),
            request_timeout: Duration::from_millis(WAIT_MS_MAX) + Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Serves until `shutdown`, then drains.
pub(crate) async fn serve(
    listener: TcpListener,
    threads: Arc<Threads>,
    state: Arc<State>,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (places, drain_timeout) = (Places::new(limits.connections, &state.budget), limits.drain_timeout);
    let server = Arc::new(Server { state, limits, threads, stopping: Stopping::default() });
    let connection = |stream, place| server.clone().connection(stream, place);
    let connections = accept(listener, places, &shutdown, turn_away, connection).await;
    server.stopping.begin();
    drain(connections, drain_timeout).await;
    Ok(())
}

struct Server {
    state: Arc<State>,
    limits: Limits,
    threads: Arc<Threads>,
    stopping: Stopping,
}

impl Server {
    async fn connection(self: Arc<Self>, stream: TcpStream, place: Place) {
        // Answers are small and complete: waiting for more of them would only add latency.
        let _ = stream.set_nodelay(true);
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::error!(%error, "cannot serve a connection"),
        };
        let moved = Arc::new(OnceLock::new());
        let (first, moves) = match self.threads.first() {
            Some(first) => (first, Arc::clone(&moved)),
            // It begins where it would move to, and stays there.
            None => (self.threads.get(*moved.get_or_init(|| self.threads.other())), Arc::default()),
        };
        let frames = Box::pin(self.clone().frames(stream, first.broker.clone(), Arc::clone(&moved), place));
        let served = match (first.serve(frames, move || moves.get().is_some()).await, moved.get()) {
            (Some(Err(rest)), Some(other)) => self.threads.get(*other).serve(rest, || false).await,
            (served, _) => served,
        };
        if let Some(Ok(Err(error))) = served {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    /// Serves in a writing thread with its broker, until it has `moved` to one of the others.
    async fn frames(
        self: Arc<Self>,
        stream: std::net::TcpStream,
        broker: Broker,
        moved: Arc<OnceLock<Other>>,
        place: Place,
    ) -> io::Result<()> {
        let account = &place.account;
        let run = |job: Job| {
            let broker = moved.get().map_or(&broker, |other| &self.threads.get(*other).broker);
            job::run(self.state.clone(), broker.clone(), account.clone(), job)
        };
        let stream = TcpStream::from_std(stream)?;
        let context = Context { state: &self.state, limits: &self.limits, stopping: &self.stopping, account };
        let mut connection = Connection::new(stream, context, descriptors::handle, run);
        if moved.get().is_none() {
            connection.write_with(broker.clone());
            if connection.serve_while(Job::is_few_submits).await? {
                return Ok(());
            }
            moved.get_or_init(|| self.threads.other());
            // Here it is taken from one thread to the other.
            tokio::task::yield_now().await;
            if let Err(error) = connection.come_here() {
                tracing::debug!(%error, "a connection is watched from another thread");
            }
        }
        connection.serve().await
    }
}

/// Whether the server is stopping: a flag to look at often, and a signal to be woken by once.
#[derive(Debug, Default)]
struct Stopping {
    begun: AtomicBool,
    signal: CancellationToken,
}

impl Stopping {
    fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.signal.cancel();
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

/// A connection too many is told so if that costs nothing, and closed.
fn turn_away(stream: &TcpStream) {
    let title = "Too many connections are open";
    let mut out = Vec::new();
    answer::refuse(&mut out, Refused::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", title));
    let _ = stream.try_write(&out);
}
