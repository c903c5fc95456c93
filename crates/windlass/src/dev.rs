//! `windlass dev`: everything in one process, so that a first task runs before any code is written.

use windlass_client::builtin::email::{self, Email};
use windlass_client::builtin::{self, http::Http};
use windlass_client::worker::embedded::BrokerPort;
use windlass_client::worker::{self, Worker};
use windlass_core::Name;

use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::config::Settings;
use crate::config::value::StoreKind;
use crate::serve::{self, Hangup, Running};

const CONCURRENCY: u32 = 16;

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass dev
  windlass dev --store memory --http-addr 127.0.0.1:0")]
pub(crate) struct Args {
    #[command(flatten)]
    shared: serve::Shared,
    #[command(flatten)]
    builtin: Builtin,
}

/// What the built-in handlers may do.
#[derive(Debug, clap::Args)]
struct Builtin {
    /// Let tasks of type http reach private and loopback addresses
    #[arg(long)]
    allow_private: bool,
    /// Mail server for tasks of type email, as smtp://localhost:1025
    #[arg(long, value_name = "URL", env = "WINDLASS_SMTP_URL", hide_env_values = true)]
    smtp_url: Option<String>,
    /// Sender of mails that name none
    #[arg(long, value_name = "ADDRESS", requires = "smtp_url")]
    smtp_from: Option<String>,
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    let settings = args.shared.settings(&[("server.tcp_addr", "127.0.0.1:7070")])?;
    if let Some(address) = settings.open_address() {
        let message = format!("dev listens on loopback only, not on {address}");
        return Err(Failure::usage(message).hint("`windlass serve` is for other machines"));
    }
    crate::logging::start(&settings.log_level, settings.log_format);
    let running = Running::start(&settings, Hangup::Ends).await?;
    let worker = worker(&running, &settings, &args.builtin)?;
    output.data(&banner(&running, &settings, &worker));
    running.until_stopped(Some(worker)).await
}

fn worker(running: &Running, settings: &Settings, args: &Builtin) -> Result<Worker, Failure> {
    let http = Http::new(builtin::http::Options { allow_private: args.allow_private })
        .map_err(|error| Failure::error(format!("cannot start the http handler: {error}")))?;
    let options = worker::Options {
        concurrency: CONCURRENCY,
        lease: settings.lease,
        drain_for: serve::worker_drain(settings),
        ..worker::Options::default()
    };
    let mut builder = Worker::builder(BrokerPort::new(running.broker.clone()))
        .options(options)
        .handler("echo", builtin::echo)
        .handler("sleep", builtin::sleep)
        .handler("fail", builtin::fail)
        .handler("http", http);
    if let Some(url) = &args.smtp_url {
        let settings = email::Settings { url: url.clone(), from: args.smtp_from.clone() };
        let email = Email::new(&settings).map_err(|error| Failure::usage(error.to_string()))?;
        builder = builder.handler("email", email);
    }
    builder.build().map_err(|error| Failure::error(error.to_string()))
}

fn banner(running: &Running, settings: &Settings, worker: &Worker) -> String {
    let address = running.address;
    let data = match &settings.store {
        StoreKind::Memory => "in memory (gone at the end)".to_owned(),
        StoreKind::Redis(url) => format!("Redis at {}", crate::config::without_secrets(url)),
        StoreKind::Embedded => format!("{} (durable)", settings.data_dir.display()),
    };
    // Commands find the usual addresses by themselves.
    let server = match running.grpc_address() {
        Some(grpc) if grpc.port() == 9090 => String::new(),
        Some(grpc) => format!(" --grpc-server http://{grpc}"),
        None => format!(" --rest --server http://{address}"),
    };
    format!(
        "  windlass {}   dev mode, loopback only, no auth
  Dashboard  http://{address}         API docs  http://{address}/api/docs
  Data       {data}   Built-in task types: {}
  Next       windlass submit echo '{{\"hello\":\"world\"}}' --wait{server}
{}",
        env!("CARGO_PKG_VERSION"),
        worker.types().iter().map(Name::as_str).collect::<Vec<_>>().join(" "),
        running.addresses().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    )
}
