//! `windlass operation …`.

mod show;

use std::time::Duration;

use windlass_client::rest::Client;
use windlass_core::{Name, Priority};
use windlass_proto::rest::{OperationBody, OperationInput};

use super::args::{self, Bulk, Connect, ListPage, One};
use super::error::{ERROR, Failure};
use super::output::Output;
use super::submit;

/// How often a running operation is looked at.
const LOOK: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass operation run retry 'state:dead_letter error:timeout since:2h' --dry-run
  windlass operation run set-priority 'queue:mail state:pending' --priority high --yes
  windlass operation run move 'state:pending type:report.*' --queue slow --yes
  windlass operation list")]
pub(crate) enum Command {
    /// Do something with all tasks that match a filter
    Run(RunArgs),
    /// List operations, newest first
    List(ListPage),
    /// Show how far an operation is
    Get(One),
    /// End an operation where it is
    Cancel(One),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    Retry,
    Cancel,
    Delete,
    SetPriority,
    Move,
}

impl Action {
    fn word(self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Cancel => "cancel",
            Action::Delete => "delete",
            Action::SetPriority => "set_priority",
            Action::Move => "move",
        }
    }
}

// Without short options for values, as `args::Which`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// With which tasks, like 'state:dead_letter type:email.* error:timeout'
    #[arg(value_name = "FILTER", required = true)]
    filter: Vec<String>,
    /// For set-priority: 0-255, or critical, high, normal, low
    #[arg(long, value_parser = submit::priority)]
    priority: Option<Priority>,
    /// For move: where to
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    queue: Option<Name>,
    /// Who asks, for those who look at it later; the user of this machine by default
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Begin it and return; it goes on by itself
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    bulk: Bulk,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Run(args) => start(args, output).await?,
        Command::List(args) => {
            let page = args.connect.client()?.operations(args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show::list(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Get(one) => show_one(&one.connect.client()?.operation(&one.id).await?, output),
        Command::Cancel(one) => show_one(&one.connect.client()?.cancel_operation(&one.id).await?, output),
    }
    Ok(())
}

async fn start(args: RunArgs, output: &Output) -> Result<(), Failure> {
    let input = OperationInput {
        action: args.action.word().to_owned(),
        filter: args.filter.join(" "),
        dry_run: false,
        priority: args.priority.map(Into::into),
        queue: args.queue,
        by: args.by.or_else(user),
    };
    carry_out(Job { input, detach: args.detach, bulk: args.bulk, connect: args.connect }, output).await
}

/// An operation as it is asked for on the command line.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) input: OperationInput,
    pub(super) detach: bool,
    pub(super) bulk: Bulk,
    pub(super) connect: Connect,
}

/// Looks first, so that the person knows what they agree to.
pub(super) async fn carry_out(job: Job, output: &Output) -> Result<(), Failure> {
    let Job { input, detach, bulk, connect } = job;
    let client = connect.client()?;
    if bulk.dry_run || !bulk.yes {
        let preview = client.preview_operation(&input).await?;
        if bulk.dry_run {
            output.value(&preview, || show::preview(&preview));
        }
        let count = show::at_least(preview.matched, preview.matched_at_least);
        if !bulk.agreed(output, &format!("{} {count} tasks", input.action.replace('_', " ")))? {
            return Ok(());
        }
    }
    let operation = client.start_operation(&input).await?;
    if detach {
        show_one(&operation, output);
        return Ok(());
    }
    let ended = follow(&client, operation, output).await?;
    show_one(&ended, output);
    match ended.state.as_str() {
        "failed" => Err(Failure::new(ERROR, ended.reason.unwrap_or_else(|| "it failed".to_owned()))),
        _ => Ok(()),
    }
}

/// Shows how it goes on until it has ended.
async fn follow(
    client: &Client,
    mut operation: OperationBody,
    output: &Output,
) -> Result<OperationBody, Failure> {
    let bar = output.progress();
    loop {
        bar.show(operation.progress, &show::line(&operation));
        if operation.state != "running" {
            bar.end();
            return Ok(operation);
        }
        // sleep: progress is only told when asked for.
        tokio::time::sleep(LOOK).await;
        operation = client.operation(&operation.id).await?;
    }
}

pub(super) fn user() -> Option<String> {
    ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty())
}

fn show_one(operation: &OperationBody, output: &Output) {
    output.value(operation, || show::operation(operation));
}
