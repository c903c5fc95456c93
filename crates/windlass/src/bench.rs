//! `windlass bench`: how fast this machine runs Windlass, always next to something that needs no explaining.
//!
//! An absolute figure holds for one machine and one hour. So each bench measures a plain peer in the same run (a file
//! appended and synced in a loop, an HTTP server that only echoes), takes turns with it, and reports the median of the
//! rounds and the ratio. A bench that loses or doubles a task, or gets an unexpected answer, fails instead of reporting.

mod backlog;
mod child;
mod engine;
mod events;
mod flow;
mod grpc;
mod http;
mod machine;
mod place;
mod plain;
mod report;
mod steady;
mod tcp;

use std::path::PathBuf;

use clap::Subcommand;

use crate::cli::error::Failure;
use crate::cli::output::Output;
use report::Report;

/// What a bench can fail with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {action}: {source}")]
    Io { action: &'static str, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] windlass_store::Error),
    #[error(transparent)]
    Broker(#[from] windlass_broker::Error),
    #[error("{0} is in memory ({1}), where nothing is durable; name a directory on a disk with --dir")]
    InMemory(PathBuf, String),
    #[error("the process `{name}` did not start: {output}")]
    NotReady { name: &'static str, output: String },
    #[error("{call} was answered with {status}: {body}")]
    Status { call: &'static str, status: u16, body: String },
    #[error("the answer to {call} could not be read: {reason}")]
    Answer { call: &'static str, reason: String },
    #[error("{what}: expected {expected}, found {found}; no figure of this run can be trusted")]
    Mismatch { what: &'static str, expected: u64, found: u64 },
    #[error("a part of the bench stopped early: {0}")]
    Broken(#[from] tokio::task::JoinError),
    #[error("interrupted")]
    Interrupted,
}

/// Turns an error of the system into one that says what was tried.
fn io(action: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { action, source }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Whole lives of tasks inside one process, next to a file appended and synced
    Engine(engine::Args),
    /// Submit, drain and latency over REST, next to an HTTP server that only echoes
    Http(http::Args),
    /// Submit and drain over gRPC, next to a tonic server that only echoes
    Grpc(grpc::Args),
    /// Submit and drain over TCP frames, next to a TCP server that only echoes
    Tcp(tcp::Args),
    /// A steady rate of submits over REST, and the worst it did to anyone
    Steady(steady::Args),
    /// Fill a queue, and see what the backlog costs
    Backlog(backlog::Args),
    /// What keys and limits cost: fair shares over many keys, tasks behind a full one
    Flow(flow::Args),
    /// What listeners cost: the latency of submits with and without them
    Events(events::Args),
    /// The listeners of `bench events`
    #[command(hide = true)]
    Listen(events::listen::Args),
    /// The peer of `bench http`
    #[command(hide = true)]
    Echo(http::echo::Args),
    /// The peer of `bench grpc`
    #[command(hide = true)]
    GrpcEcho(grpc::echo::Args),
    /// The peer of `bench tcp`
    #[command(hide = true)]
    TcpEcho(tcp::echo::Args),
    /// Adds tasks to a store and dies on the spot
    #[command(hide = true)]
    Crash(backlog::crash::Args),
}

/// Runs a bench and prints its report. What it made on disk is removed, also after an interrupt.
pub(crate) async fn run(bench: Bench, output: &Output) -> Result<(), Failure> {
    let report = tokio::select! {
        report = dispatch(bench) => report,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    };
    if let Some(report) = report.map_err(|error| Failure::error(error.to_string()))? {
        output.value(&report, || report.text());
    }
    Ok(())
}

/// The hidden parts have nothing to report.
async fn dispatch(bench: Bench) -> Result<Option<Report>, Error> {
    match bench {
        Bench::Engine(args) => engine::run(args).await.map(Some),
        Bench::Http(args) => http::run(args).await.map(Some),
        Bench::Grpc(args) => grpc::run(args).await.map(Some),
        Bench::Tcp(args) => tcp::run(args).await.map(Some),
        Bench::Steady(args) => steady::run(args).await.map(Some),
        Bench::Backlog(args) => backlog::run(args).await.map(Some),
        Bench::Flow(args) => flow::run(args).await.map(Some),
        Bench::Events(args) => events::run(args).await.map(Some),
        Bench::Listen(args) => events::listen::run(args).await.map(|()| None),
        Bench::Echo(args) => http::echo::run(args).await.map(|()| None),
        Bench::GrpcEcho(args) => grpc::echo::run(args).await.map(|()| None),
        Bench::TcpEcho(args) => tcp::echo::run(args).await.map(|()| None),
        Bench::Crash(args) => backlog::crash::run(args).await.map(|()| None),
    }
}
