//! `windlass task …`.

mod show;

use std::time::Duration;

use windlass_client::rest::Client;
use windlass_core::{Name, TaskId};
use windlass_proto::rest::TaskBody;

use super::args::{self, Connect, Which};
use super::error::Failure;
use super::output::Output;
use super::submit;

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass task list --state dead_letter --queue mail
  windlass task explain 0191f3c8-7c1e-7d1a-9a57-0e4c6c1f2a3b
  windlass task watch 0191f3c8-7c1e-7d1a-9a57-0e4c6c1f2a3b")]
pub(crate) enum Command {
    /// List tasks, newest first
    List(ListArgs),
    /// Show a task
    Get(One),
    /// Run a dead or cancelled task again
    Retry(One),
    /// Cancel a task that is not finished
    Cancel(One),
    /// Forget a finished task
    Delete(One),
    /// Follow a task until it is finished
    Watch(One),
    /// Show every attempt of a task
    Attempts(One),
    /// Say why a task is not running
    Explain(One),
}

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[arg(value_parser = args::task_id)]
    id: TaskId,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  windlass task list 'state:dead_letter type:email.* error:timeout since:2h'
  windlass task list --state pending --queue mail --limit 20
  windlass task list --text timeout -o json")]
pub(crate) struct ListArgs {
    /// Only those that match, like 'state:dead_letter error:timeout since:2h'
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Only in this state, like pending, running, failed
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Only held by this worker
    #[arg(long, value_name = "ID", value_parser = args::name)]
    worker: Option<Name>,
    /// How many
    #[arg(long, short = 'n', default_value_t = 50)]
    limit: usize,
    /// Continue where the last list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, output).await,
        Command::Get(one) => {
            let task = one.connect.client()?.task(&one.id).await?;
            output.value(&task, || show::task(&task));
            Ok(())
        }
        Command::Retry(one) => {
            let task = one.connect.client()?.retry(&one.id).await?;
            changed(&task, output)
        }
        Command::Cancel(one) => {
            let task = one.connect.client()?.cancel(&one.id).await?;
            changed(&task, output)
        }
        Command::Delete(one) => {
            one.connect.client()?.forget(&one.id).await?;
            output.value(&serde_json::json!({ "id": one.id.as_str(), "deleted": true }), || {
                format!("{} deleted", one.id)
            });
            Ok(())
        }
        Command::Watch(one) => watch(&one.connect.client()?, &one.id, output).await,
        Command::Attempts(one) => {
            let attempts = one.connect.client()?.attempts(&one.id).await?;
            output.value(&attempts, || show::attempts(&attempts));
            Ok(())
        }
        Command::Explain(one) => {
            let explanation = one.connect.client()?.explain(&one.id).await?;
            output.value(&explanation, || show::explanation(&explanation));
            Ok(())
        }
    }
}

fn changed(task: &TaskBody, output: &Output) -> Result<(), Failure> {
    output.value(task, || format!("{} {}", task.id, task.state.as_str()));
    Ok(())
}

async fn list(args: ListArgs, output: &Output) -> Result<(), Failure> {
    let mut which = args.which;
    which.words.extend(args.filter);
    let mut filter = which.filter();
    filter.state = args.state;
    filter.worker = args.worker;
    filter.limit = Some(args.limit);
    filter.cursor = args.cursor;
    let page = args.connect.client()?.tasks(&filter).await?;
    output.value(&page, || show::tasks(&page.items));
    more(&page.next_cursor, output);
    Ok(())
}

pub(super) fn more(cursor: &Option<String>, output: &Output) {
    if let Some(cursor) = cursor.as_ref().filter(|_| !output.is_json()) {
        output.note(&format!("there is more: --cursor {cursor}"));
    }
}

pub(super) fn tasks(items: &[TaskBody]) -> String {
    show::tasks(items)
}

/// A line for every change of state or progress, then the end as under `submit --wait`.
async fn watch(client: &Client, id: &TaskId, output: &Output) -> Result<(), Failure> {
    const EVERY: Duration = Duration::from_secs(1);
    let mut last = String::new();
    let mut task = client.task(id).await?;
    loop {
        let line = show::watch_line(&task);
        if line != last {
            output.note(&line);
            last = line;
        }
        if task.state.is_terminal() {
            return submit::show_end(&task, output);
        }
        // Ends early when the task does.
        task = client.wait(id, EVERY).await?;
    }
}
