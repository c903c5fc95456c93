//! The command line. Each command has a file of its own under `cli/`; what it prints goes through [`output`], and how it
//! fails through [`error::Failure`], which knows the exit codes.

pub(crate) mod args;
mod backup;
mod config;
mod dlq;
mod doctor;
pub(crate) mod error;
mod events;
mod filter_words;
mod generate;
mod limit;
mod migrate;
mod operation;
pub(crate) mod output;
mod queue;
mod schedule;
mod submit;
mod task;
mod top;
mod wire;
mod worker;
mod workflow;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use error::{Failure, USAGE};
use output::Output;

#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    about = "A durable task queue in one binary",
    before_help = "Examples:
  windlass dev                                     start everything, here
  windlass submit echo '{\"hello\":\"world\"}' --wait  run a first task
  windlass task list --state dead_letter           see what failed
  windlass worker exec --type resize -- ./resize.sh",
    max_term_width = 80,
    term_width = 80,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How results are printed
    #[arg(short = 'o', long, global = true, value_enum, default_value_t = output::Format::Table)]
    pub(crate) output: output::Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a broker and a worker for development
    Dev(crate::dev::Args),
    /// Start a broker for production
    Serve(crate::serve::Args),
    /// Submit a task
    Submit(submit::Args),
    /// Look at tasks and act on them
    #[command(subcommand)]
    Task(task::Command),
    /// Look at queues, pause and purge them
    #[command(subcommand)]
    Queue(queue::Command),
    /// Dead letters: tasks that failed for good
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Limits on queues, types and keys
    #[command(subcommand)]
    Limit(limit::Command),
    /// Tasks that come again and again
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Graphs of tasks
    #[command(subcommand)]
    Workflow(workflow::Command),
    /// Act on all tasks that match a filter
    #[command(subcommand)]
    Operation(operation::Command),
    /// Look at workers, or be one
    #[command(subcommand)]
    Worker(worker::Command),
    /// Hear what happens, as it happens
    #[command(subcommand)]
    Events(events::Command),
    /// Show and check the settings
    #[command(subcommand)]
    Config(config::Command),
    /// Back up a broker while it serves, and restore it
    #[command(subcommand)]
    Backup(backup::Command),
    /// Move everything from one store into another
    Migrate(migrate::Args),
    /// Watch queues, workers and failures live
    Top(top::Args),
    /// Measure this machine, always next to something plain
    #[command(subcommand)]
    Bench(crate::bench::Bench),
    /// Check that this machine and the broker are well
    Doctor(doctor::Args),
    /// Print the completions for a shell
    Completions(generate::CompletionsArgs),
    /// Print the manual page
    Man,
}

pub(crate) fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help to stdout and mistakes to stderr by itself.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let output = Output::new(cli.output);
    match run(cli.command, &output).and_then(|()| output.written()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.exit)
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches_from(filter_words::guarded(std::env::args_os()))?;
    Cli::from_arg_matches(&matches)
}

fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Dev(args) => wait_for(crate::dev::run(args, output)),
        Command::Serve(args) => wait_for(crate::serve::run(args, output)),
        Command::Submit(args) => wait_for(submit::run(args, output)),
        Command::Task(command) => wait_for(task::run(command, output)),
        Command::Queue(command) => wait_for(queue::run(command, output)),
        Command::Dlq(command) => wait_for(dlq::run(command, output)),
        Command::Limit(command) => wait_for(limit::run(command, output)),
        Command::Schedule(command) => wait_for(schedule::run(command, output)),
        Command::Workflow(command) => wait_for(workflow::run(command, output)),
        Command::Operation(command) => wait_for(operation::run(command, output)),
        Command::Worker(command) => wait_for(worker::run(command, output)),
        Command::Events(command) => wait_for(events::run(command, output)),
        Command::Config(command) => config::run(command, output),
        Command::Backup(command) => wait_for(backup::run(command, output)),
        Command::Migrate(args) => wait_for(migrate::run(args, output)),
        Command::Top(args) => wait_for(top::run(args, output)),
        Command::Bench(bench) => wait_for(crate::bench::run(bench, output)),
        Command::Doctor(args) => wait_for(doctor::run(args, output)),
        Command::Completions(args) => generate::completions(args, output),
        Command::Man => generate::man(output),
    }
}

fn wait_for(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Runtime::new().map_err(|error| Failure::error(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(work);
    // A blocking read of a terminal must not hold up the end.
    runtime.shutdown_background();
    ended
}
