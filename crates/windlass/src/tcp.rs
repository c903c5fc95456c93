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
mod request;
#[cfg(test)]
mod tests;
mod window;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use windlass_core::limits::WAIT_MS_MAX;

use self::connection::Connection;
use crate::api::State;
use crate::api::problem::Refused;
use crate::server::{accept, drain};

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
    state: Arc<State>,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (places, drain_timeout) = (limits.connections, limits.drain_timeout);
    let server = Arc::new(Server { state, limits, stopping: Stopping::default() });
    let connection = |stream, place| server.clone().connection(stream, place);
    let connections = accept(listener, places, &shutdown, turn_away, connection).await;
    server.stopping.begin();
    drain(connections, drain_timeout).await;
    Ok(())
}

struct Server {
    state: Arc<State>,
    limits: Limits,
    stopping: Stopping,
}

impl Server {
    async fn connection(self: Arc<Self>, stream: TcpStream, _place: OwnedSemaphorePermit) {
        // Answers are small and complete: waiting for more of them would only add latency.
        let _ = stream.set_nodelay(true);
        let run = |job| job::run(self.state.clone(), job);
        let connection = Connection::new(stream, &self.state, &self.limits, &self.stopping, run);
        if let Err(error) = connection.serve().await {
            tracing::debug!(%error, "a connection ended early");
        }
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
