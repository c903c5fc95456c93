//! `windlass worker exec`: a worker in any language, without a library.

use std::ffi::OsString;
use std::time::Duration;

use windlass_client::builtin::exec::Exec;
use windlass_client::worker::grpc::GrpcPort;
use windlass_client::worker::rest::RestPort;
use windlass_client::worker::{self, Worker};
use windlass_core::Name;
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::{CLAIM_NAMES_MAX, CLAIM_WEIGHT_MAX};

use crate::cli::args;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::wire::Wire;
use crate::config::value::LogFormat;
use crate::serve::{self, Hangup};

#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  windlass worker exec --type resize -- ./resize.sh
  windlass worker exec --type mail --queue mail=3 --queue bulk=1 \\
      --concurrency 8 -- python3 send.py",
    after_help = "The program gets the payload on standard input. Its output is the result: JSON
if it parses, text otherwise. Exit code 0 is done, 65 is a failure for good,
75 and any other is a failure that is tried again; the end of standard error
is the error. The environment has WINDLASS_TASK_ID, WINDLASS_TASK_TYPE,
WINDLASS_QUEUE, WINDLASS_ATTEMPT, WINDLASS_MAX_RETRIES, WINDLASS_LEASE,
WINDLASS_TIMEOUT_SECONDS and WINDLASS_WORKER_ID. On cancel, time limit or a
lost lease the program and its children get SIGTERM, then SIGKILL."
)]
pub(crate) struct Args {
    /// Task type to run; may be repeated
    #[arg(long = "type", short = 't', value_name = "NAME", required = true, value_parser = args::name)]
    types: Vec<Name>,
    /// Queue to serve, with a weight as in mail=3; may be repeated
    #[arg(long, short = 'q', value_name = "NAME", value_parser = queue, default_value = "default")]
    queue: Vec<Queue>,
    /// Serve the queues in the order given, not by weight
    #[arg(long)]
    strict: bool,
    /// Programs running at once
    #[arg(long, short = 'c', value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(worker::CONCURRENCY_MAX)))]
    concurrency: u32,
    /// Name of this worker
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    id: Option<Name>,
    /// Length of a lease; it is extended while the program runs
    #[arg(long, value_parser = args::duration, default_value = "30s")]
    lease: Duration,
    /// How long a shutdown waits for running programs
    #[arg(long, value_parser = args::duration, default_value = "25s")]
    drain: Duration,
    #[command(flatten)]
    wire: Wire,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

fn queue(text: &str) -> Result<Queue, String> {
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    let weight = weight.parse().ok().filter(|weight| (1..=CLAIM_WEIGHT_MAX).contains(weight));
    let weight = weight.ok_or_else(|| format!("the weight must be between 1 and {CLAIM_WEIGHT_MAX}"))?;
    Ok(Queue { name: args::name(name)?, weight })
}

pub(crate) async fn run(args: Args, output: &Output) -> Result<(), Failure> {
    if args.types.len() > CLAIM_NAMES_MAX || args.queue.len() > CLAIM_NAMES_MAX {
        return Err(Failure::usage(format!("at most {CLAIM_NAMES_MAX} types and queues")));
    }
    let level = std::env::var("WINDLASS_LOG").unwrap_or_else(|_| "info".into());
    crate::logging::start(&level, LogFormat::Auto);
    let mut options = worker::Options {
        queues: args.queue,
        mode: if args.strict { Mode::Strict } else { Mode::Weighted },
        concurrency: args.concurrency,
        lease: args.lease,
        drain_for: args.drain,
        ..worker::Options::default()
    };
    options.id = args.id.unwrap_or(options.id);
    let mut words = args.command.into_iter();
    let program = words.next().ok_or_else(|| Failure::usage("no program given"))?;
    let exec = Exec { program, args: words.collect(), worker: options.id.to_string() };
    let id = options.id.clone();
    let (address, mut builder) = if args.wire.rest {
        let client = args.wire.connect.client()?;
        (client.base().to_owned(), Worker::builder(RestPort::new(client)))
    } else {
        let address = args.wire.grpc_address()?;
        let port = GrpcPort::new(&address)?;
        (address, Worker::builder(port))
    };
    output.note(&format!("worker {id} serves {address}"));
    builder = builder.options(options);
    for kind in args.types {
        builder = builder.handler(kind.as_str(), exec.clone());
    }
    let shutdown = serve::signals(Hangup::Ends)?;
    let worker = builder.build().map_err(|error| Failure::usage(error.to_string()))?;
    worker.run(shutdown).await;
    Ok(())
}
