//! Connections: HTTP/2 in, services out, a limit on everything between them.
//!
//! As in [`crate::server`], what a client can hold on to is bounded: connections and streams are counted, a dead peer is found
//! by pings, an answer that nobody reads is given up. On shutdown no connection is accepted any more, clients are told
//! to open no new calls, those under way are finished, and what is not finished at the deadline is dropped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, join};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::State;
use super::services::Services;
use crate::api;
use crate::server::stall::Stall;
use crate::server::threads::Threads;
use crate::server::{Place, Places, accept, drain};

/// Bytes that a client may send ahead on one stream and on one connection: fixed, because probing for the right size costs
/// a ping per burst, and large enough to fill a fast network at a millisecond.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// What every HTTP/2 client sends first.
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Calls at once on one connection.
    pub(crate) streams: u32,
    /// Calls that wait for their answer, over all connections.
    pub(crate) calls: usize,
    /// Answers on one connection that the client does not take.
    pub(crate) unread_bytes: usize,
    /// How long a new client may take for its first bytes; pings begin only after them.
    pub(crate) preface_timeout: Duration,
    /// Silence after which a peer is pinged, and how long it may take to answer.
    pub(crate) ping_after: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) write_timeout: Duration,
    /// How long a client that sends a stream of messages may send no whole one: a worker sends a sign of life every 5 s.
    pub(crate) silence: Duration,
    pub(crate) drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            streams: 200,
            preface_timeout: Duration::from_secs(10),
            calls: 100_000,
            unread_bytes: 64 * 1024 * 1024,
            ping_after: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// Serves until `shutdown`, then drains.
pub(crate) async fn serve(
    listener: TcpListener,
    threads: Arc<Threads>,
    api: Arc<api::State>,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let places = Places::new(limits.connections, &api.budget);
    let state = Arc::new(State { api, closing: shutdown.clone(), silence: limits.silence });
    let services = Services::new(&state, &limits).map_err(io::Error::other)?;
    let drain_timeout = limits.drain_timeout;
    let server = Arc::new(Server { http: http(&limits), services, shutdown: shutdown.clone(), limits });
    let connection = |stream, place| {
        let (server, threads) = (server.clone(), threads.clone());
        async move { server.connection_in(&threads, stream, place).await }
    };
    // HTTP/2 has no word for "come back later" before its handshake: one connection too many is closed.
    let turn_away = |_: &TcpStream| {};
    let connections = accept(listener, places, &shutdown, turn_away, connection).await;
    drain(connections, drain_timeout).await;
    Ok(())
}

struct Server {
    http: http2::Builder<TokioExecutor>,
    services: Services,
    shutdown: CancellationToken,
    limits: Limits,
}

impl Server {
    /// Serves it in one of the threads, where no other thread takes its calls over.
    async fn connection_in(self: Arc<Self>, threads: &Threads, stream: TcpStream, place: Place) {
        let _ = stream.set_nodelay(true);
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::error!(%error, "cannot serve a connection"),
        };
        let served = async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => self.connection(stream, place).await,
                Err(error) => tracing::error!(%error, "cannot serve a connection"),
            }
        };
        drop(threads.get(threads.other()).serve(Box::pin(served), || false).await);
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, place: Place) {
        let (mut reading, writing) = stream.into_split();
        let mut preface = [0; PREFACE_BYTES];
        tokio::select! {
            () = self.shutdown.cancelled() => return,
            read = tokio::time::timeout(self.limits.preface_timeout, reading.read_exact(&mut preface)) => {
                let Ok(Ok(_)) = read else { return };
            }
        }
        let stream = join(io::Cursor::new(preface).chain(reading), writing);
        let services = self.services.for_connection(&place.account);
        let io = TokioIo::new(Stall::new(stream, self.limits.write_timeout).at(place).ending());
        let mut connection = std::pin::pin!(self.http.serve_connection(io, services));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

fn http(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(limits.ping_after)
        .keep_alive_timeout(limits.ping_timeout);
    http
}
