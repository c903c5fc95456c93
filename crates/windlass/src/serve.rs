//! `windlass serve`, and the life of a broker process that it shares with `windlass dev`.
//!
//! Stopping goes from the outside in: `/readyz` says no and no more leases are given out; the in-process worker drains
//! and gives back what it cannot finish; requests in flight are answered; the loops stop; the store is closed. A second
//! signal ends the process at once. A store that stopped for good ends it too, with an error: nothing may be answered
//! after a failed fsync.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use windlass_broker::{self as broker, Broker, Recording};
use windlass_client::worker::Worker;
use windlass_store::embedded::{self, EmbeddedStore};
use windlass_store::memory::MemoryStore;
use windlass_store::redis;
use windlass_store::{Clock, Store, SystemClock};

use crate::api::Room;
use crate::cli::error::{CONFLICT, ERROR, Failure};
use crate::cli::output::Output;
use crate::config::value::StoreKind;
use crate::config::{Resolved, Settings, Sources};
use crate::server::budget::{self, Budget};
use crate::server::descriptors;
use crate::server::threads::Threads;
use crate::traces::{Sending, Traces};
use crate::{api, grpc, server, tcp};

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass serve --data-dir /var/lib/windlass
  windlass serve --config /etc/windlass.toml
  WINDLASS_LOG=debug windlass serve --store memory --http-addr 127.0.0.1:0")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) shared: Shared,
    /// Listen on an address that others can reach, although there is no
    /// authentication: whoever can connect can do everything
    #[arg(long)]
    insecure: bool,
}

/// What `serve` and `dev` have in common.
#[derive(Debug, clap::Args)]
pub(crate) struct Shared {
    /// Directory of the embedded store
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Where tasks live: embedded, memory or redis://host (redis+sentinel://, redis+cluster://)
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    http_addr: Option<String>,
    /// Address of the gRPC interface, or none
    #[arg(long, value_name = "ADDR")]
    grpc_addr: Option<String>,
    /// Address of the TCP frames, or none
    #[arg(long, value_name = "ADDR")]
    tcp_addr: Option<String>,
    /// File of settings, TOML or YAML, instead of ./windlass.toml
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
}

impl Shared {
    /// `defaults` are a command's own.
    pub(crate) fn settings(self, defaults: &[(&'static str, &str)]) -> Result<Settings, Failure> {
        let mut sources = Sources::from_process(self.config);
        sources.defaults = defaults.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let mut flag =
            |key, value: Option<String>, name| sources.flags.extend(value.map(|value| (key, value, name)));
        flag("store.data_dir", self.data_dir, "--data-dir");
        flag("store.url", self.store, "--store");
        flag("server.http_addr", self.http_addr, "--http-addr");
        flag("server.grpc_addr", self.grpc_addr, "--grpc-addr");
        flag("server.tcp_addr", self.tcp_addr, "--tcp-addr");
        let resolved = Resolved::load(sources)?;
        let mut settings = Settings::read(&resolved)?;
        // Whoever wants a free port wants it everywhere, to run beside another broker.
        let others =
            [("server.grpc_addr", &mut settings.grpc_addr), ("server.tcp_addr", &mut settings.tcp_addr)];
        for (key, address) in others {
            if settings.http_addr.port() == 0
                && resolved.is_default(key)
                && let Some(address) = address
            {
                address.set_port(0);
            }
        }
        Ok(settings)
    }
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    let settings = args.shared.settings(&[])?;
    if let Some(address) = settings.open_address()
        && !args.insecure
    {
        let message =
            format!("{address} can be reached from other machines, and this version has no authentication");
        return Err(Failure::usage(message)
            .hint("listen on 127.0.0.1, or say --insecure if whoever can connect may do everything"));
    }
    crate::logging::start(&settings.log_level, settings.log_format);
    let running = Running::start(&settings, Hangup::Ignored).await?;
    output.data(&running.addresses());
    running.until_stopped(None).await
}

/// A broker that listens.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) broker: Broker,
    room: Room,
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    grpc: Option<(TcpListener, SocketAddr)>,
    tcp: Option<(TcpListener, SocketAddr)>,
    threads: Option<Arc<Threads>>,
    shutdown: CancellationToken,
    settings: Settings,
    traces: Option<Sending>,
}

impl Running {
    pub(crate) async fn start(settings: &Settings, on_hangup: Hangup) -> Result<Running, Failure> {
        // Before anything is opened, so that an early signal finds its listener.
        let shutdown = signals(on_hangup)?;
        let mut settings = settings.clone();
        settings.connections_max = within_descriptors(settings.connections_max);
        let settings = &settings;
        let (listener, address) = bind(settings.http_addr).await?;
        let grpc = bind_if(settings.grpc_addr).await?;
        let tcp = bind_if(settings.tcp_addr).await?;
        let clock = SystemClock::shared();
        let store = open(settings, clock.clone()).await?;
        let traces = settings.traces.as_ref().map(Traces::new).transpose();
        let traces = traces.map_err(|error| Failure::usage(format!("traces: {error}")))?;
        let tracer = traces.as_ref().map(|traces| traces.tracer.clone());
        let room = Room::default();
        let audience = Some(room.handle().clone());
        let broker_settings = broker::Settings { tracer, audience, ..broker_settings(settings) };
        let broker = Broker::start(store, clock, broker_settings);
        let traces = traces.map(|traces| traces.start(broker.clone()));
        let settings = settings.clone();
        let threads = (tcp.is_some() || grpc.is_some()).then(|| Threads::start(&broker, tcp.is_some()));
        let threads =
            threads.transpose().map_err(|error| Failure::error(format!("cannot start threads: {error}")))?;
        let threads = threads.map(Arc::new);
        Ok(Running { broker, room, address, listener, grpc, tcp, threads, shutdown, settings, traces })
    }

    pub(crate) fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|(_, address)| *address)
    }

    /// A line for each interface; the last one says that all are there.
    pub(crate) fn addresses(&self) -> String {
        let line = |name: &str, bound: &Option<(TcpListener, SocketAddr)>| {
            bound.as_ref().map(|(_, address)| format!("listening {name} {address}\n")).unwrap_or_default()
        };
        let (grpc, tcp) = (line("grpc", &self.grpc), line("tcp", &self.tcp));
        format!("{grpc}{tcp}listening http {}", self.address)
    }

    /// Serves until a signal, then stops in order.
    pub(crate) async fn until_stopped(self, worker: Option<Worker>) -> Result<(), Failure> {
        let Running { broker, room, listener, grpc, tcp, threads, shutdown, settings, traces, .. } = self;
        let budget = Budget::new(memory_budget(&settings));
        let freeing = AbortOnDropHandle::new(tokio::spawn(budget::keep(budget.clone())));
        let state =
            api::State::new(broker.clone(), api_settings(&settings)).listening_in(room).within(budget);
        let state = Arc::new(state);
        let (stop_worker, stop_server) = (CancellationToken::new(), state.closing.clone());
        let app = api::serve(state.clone());
        let http = server::serve(listener, app, limits(&settings), stop_server.clone());
        // Kept until the store is closed: others may have begun something in these threads.
        let calls = grpc.zip(threads.clone()).map(|((listener, _), threads)| {
            grpc::serve(listener, threads, state.clone(), grpc_limits(&settings), stop_server.clone())
        });
        let frames = tcp.zip(threads.clone()).map(|((listener, _), threads)| {
            tcp::serve(listener, threads, state.clone(), tcp_limits(&settings), stop_server.clone())
        });
        let serving = tokio::spawn(async {
            let (calls, frames) = (OptionFuture::from(calls), OptionFuture::from(frames));
            let (http, calls, frames) = tokio::join!(http, calls, frames);
            http.and(calls.unwrap_or(Ok(()))).and(frames.unwrap_or(Ok(())))
        });
        let working = worker.map(|worker| tokio::spawn(worker.run(stop_worker.clone())));
        let failing = broker.store().clone();
        let orderly = async {
            shutdown.cancelled().await;
            tracing::info!("stopping");
            stop_worker.cancel();
            broker.drain();
            if let Some(working) = working {
                let _ = working.await;
            }
            stop_server.cancel();
            let (served, ()) = tokio::join!(serving, state.room.emptied());
            let served = served.map_err(|error| Failure::error(error.to_string()))?;
            served.map_err(|error| Failure::error(format!("the server stopped: {error}")))?;
            broker.stop().await;
            if let Some(traces) = traces {
                traces.finish().await;
            }
            broker.store().close().await.map_err(|error| Failure::error(error.to_string()))?;
            drop((threads, freeing));
            tracing::info!("stopped");
            Ok(())
        };
        tokio::select! {
            ended = orderly => ended,
            reason = failing.failed() => {
                tracing::error!(reason, "the store has stopped; ending at once");
                Err(Failure::error(format!("the store has stopped: {reason}")))
            }
        }
    }
}

async fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>, Failure> {
    match &settings.store {
        StoreKind::Redis(url) => {
            let failed = |error: windlass_store::Error| {
                Failure::new(open_exit(&error), format!("cannot open the store: {error}"))
            };
            let options = redis::Options::parse(url).map_err(failed)?;
            redis::open(options, clock).await.map_err(failed)
        }
        StoreKind::Memory => Ok(MemoryStore::new(clock)),
        StoreKind::Embedded => {
            let mut options = embedded::Options::new(&settings.data_dir);
            options.durability = settings.durability;
            options.segment_bytes = settings.segment_bytes;
            options.disk_reserve_bytes = settings.disk_reserve_bytes;
            let store = EmbeddedStore::open(options, clock).await.map_err(|error| {
                Failure::new(
                    open_exit(&error),
                    format!("cannot open {}: {error}", settings.data_dir.display()),
                )
            })?;
            Ok(store)
        }
    }
}

fn open_exit(error: &windlass_store::Error) -> u8 {
    match error {
        windlass_store::Error::Locked(_)
        | windlass_store::Error::Unfinished { .. }
        | windlass_store::Error::Restoring(_) => CONFLICT,
        _ => ERROR,
    }
}

fn broker_settings(settings: &Settings) -> broker::Settings {
    broker::Settings {
        lease_ms: settings.lease.as_millis() as u64,
        max_depth: settings.max_depth,
        dead_letters_max: settings.dead_letters_max,
        worker_dead_after_ms: settings.dead_after.as_millis() as u64,
        listeners_max: settings.listeners_max as usize,
        recording: recording(settings),
        ..broker::Settings::default()
    }
}

/// Beside the tasks, if these are kept.
fn recording(settings: &Settings) -> Recording {
    match settings.store {
        StoreKind::Memory | StoreKind::Redis(_) => Recording::InMemory,
        StoreKind::Embedded => Recording::InFile(settings.data_dir.join("metrics.ring")),
    }
}

fn api_settings(settings: &Settings) -> api::Settings {
    api::Settings {
        payload_bytes_max: settings.max_payload_bytes as usize,
        listener_stall: settings.listener_stall,
        origins: settings.allowed_origins.clone(),
        local: settings.http_addr.ip().is_loopback(),
        ..api::Settings::default()
    }
}

fn memory_budget(settings: &Settings) -> usize {
    let bytes = settings.memory_budget_bytes;
    tracing::info!(bytes, "memory for bodies, answers and listeners");
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn limits(settings: &Settings) -> server::Limits {
    server::Limits {
        connections: settings.connections_max as usize,
        drain_timeout: settings.drain,
        ..server::Limits::default()
    }
}

fn grpc_limits(settings: &Settings) -> grpc::Limits {
    grpc::Limits {
        connections: settings.connections_max as usize,
        drain_timeout: settings.drain,
        ..grpc::Limits::default()
    }
}

fn tcp_limits(settings: &Settings) -> tcp::Limits {
    tcp::Limits {
        connections: settings.connections_max as usize,
        drain_timeout: settings.drain,
        ..tcp::Limits::default()
    }
}

/// The connections that the limit of open files leaves room for.
fn within_descriptors(wanted: u64) -> u64 {
    /// With less, an ordinary fleet of clients may not find room.
    const FEW: u64 = 1000;
    let room = descriptors::raise_limit();
    if room < wanted.min(FEW) {
        tracing::warn!(
            "the limit of open files leaves room for {room} connections, which is below server.connections_max \
             ({wanted}); raise it with `ulimit -n` or LimitNOFILE"
        );
    }
    wanted.min(room)
}

async fn bind_if(address: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>, Failure> {
    match address {
        Some(address) => bind(address).await.map(Some),
        None => Ok(None),
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let failed = |error| Failure::error(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// What SIGHUP means. A terminal that closes sends it, and so do tools that expect a daemon to read its settings again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    Ends,
    Ignored,
}

/// Cancelled by the first SIGTERM or SIGINT; the second ends the process at once.
pub(crate) fn signals(on_hangup: Hangup) -> Result<CancellationToken, Failure> {
    let failed = |error: std::io::Error| Failure::error(format!("cannot listen for signals: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    // Otherwise it stays as it was: a terminal that closes ends the process, unless nohup started it.
    let hangup = (on_hangup == Hangup::Ignored).then(|| signal(SignalKind::hangup()));
    if let Some(mut hangup) = hangup.transpose().map_err(failed)? {
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                tracing::warn!("SIGHUP is ignored: settings are read only at the start");
            }
        });
    }
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        told.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(130);
    });
    Ok(token)
}

/// How long an in-process worker may drain: it must leave time for the rest of the shutdown.
pub(crate) fn worker_drain(settings: &Settings) -> Duration {
    settings.drain.saturating_sub(Duration::from_secs(5)).max(Duration::from_secs(1))
}
