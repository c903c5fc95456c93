//! `windlass dlq …`.

use windlass_core::{Fingerprint, TaskId};
use windlass_proto::rest::{DeadGroupsBody, OperationInput, Time};

use super::args::{self, Bulk, Connect, Which};
use super::error::Failure;
use super::output::{Output, table};
use super::{operation, task};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass dlq list --queue mail
  windlass dlq groups
  windlass dlq retry --fingerprint d26b3c2f193bc591
  windlass dlq retry --filter 'type:email.* error:timeout since:2h' --dry-run
  windlass dlq clear --queue mail --yes")]
pub(crate) enum Command {
    /// List dead letters, newest first
    List(ListArgs),
    /// Group the newest dead letters by what their errors are like
    Groups(GroupsArgs),
    /// Run dead letters again: all, those that match, or those named
    Retry(ManyArgs),
    /// Forget dead letters: all, those that match, or those named
    Clear(ManyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    which: Which,
    /// How many
    #[arg(long, short = 'n', default_value_t = 50)]
    limit: usize,
    /// Continue where the last list ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    which: Which,
    /// How many groups
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManyArgs {
    /// Only these
    #[arg(value_parser = args::task_id, conflicts_with_all = ["words", "queue", "kind", "text", "fingerprint"])]
    ids: Vec<TaskId>,
    /// Only with an error like this, as `dlq groups` shows it; done by an operation
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    bulk: Bulk,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => {
            let mut filter = args.which.filter();
            filter.limit = Some(args.limit);
            filter.cursor = args.cursor;
            let page = args.connect.client()?.dead(&filter).await?;
            output.value(&page, || task::tasks(&page.items));
            task::more(&page.next_cursor, output);
            Ok(())
        }
        Command::Groups(args) => groups(args, output).await,
        Command::Retry(args) => many(args, output, true).await,
        Command::Clear(args) => many(args, output, false).await,
    }
}

async fn groups(args: GroupsArgs, output: &Output) -> Result<(), Failure> {
    let mut filter = args.which.filter();
    // The call has no word of its own for a text.
    filter.filter = joined(filter.filter.take(), filter.text.take().map(|text| quoted(&text)));
    filter.limit = Some(args.limit);
    let groups = args.connect.client()?.dead_groups(&filter).await?;
    output.value(&groups, || show_groups(&groups));
    if !groups.complete {
        output.note(&format!("there are more; these are of the newest {} dead letters", groups.scanned));
    }
    Ok(())
}

fn show_groups(groups: &DeadGroupsBody) -> String {
    const ERROR_MAX: usize = 80;
    let various = |name: Option<String>| name.unwrap_or_else(|| "(various)".to_owned());
    let time = |time: Time| time.to_string();
    let row = |group: &windlass_proto::rest::DeadGroupBody| {
        let line: String =
            group.sample_error.lines().next().unwrap_or_default().chars().take(ERROR_MAX).collect();
        vec![
            group.fingerprint.to_string(),
            group.count.to_string(),
            various(group.queue.as_ref().map(ToString::to_string)),
            various(group.kind.as_ref().map(ToString::to_string)),
            time(group.last_at),
            line,
        ]
    };
    let header = ["FINGERPRINT", "COUNT", "QUEUE", "TYPE", "LAST", "ERROR"];
    table(&header, groups.items.iter().map(row).collect())
}

/// Acts on a group, which may be large: the operation goes on by itself if this command ends.
async fn by_fingerprint(
    args: ManyArgs,
    fingerprint: Fingerprint,
    output: &Output,
    retry: bool,
) -> Result<(), Failure> {
    let which = args.which.filter();
    let group = Some(format!("state:dead_letter fingerprint:{fingerprint}"));
    let queue = which.queue.map(|name| format!("queue:{name}"));
    let kind = which.kind.map(|name| format!("type:{name}"));
    let filter = [queue, kind, which.text.map(|text| quoted(&text)), which.filter];
    let filter = filter.into_iter().fold(group, joined).unwrap_or_default();
    let action = if retry { "retry" } else { "delete" };
    let input =
        OperationInput { action: action.to_owned(), filter, by: operation::user(), ..Default::default() };
    let job = operation::Job { input, detach: false, bulk: args.bulk, connect: args.connect };
    operation::carry_out(job, output).await
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one} {other}")),
        (one, other) => one.or(other),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Counts first, so that the person knows what they agree to.
async fn many(args: ManyArgs, output: &Output, retry: bool) -> Result<(), Failure> {
    if let Some(fingerprint) = args.fingerprint {
        return by_fingerprint(args, fingerprint, output, retry).await;
    }
    let client = args.connect.client()?;
    let mut selection = args.which.filter().dead(args.ids, true);
    let count = match retry {
        true => client.retry_dead(&selection).await?,
        false => client.clear_dead(&selection).await?,
    };
    if args.bulk.dry_run {
        output.value(&serde_json::json!({ "affected": count.affected, "dry_run": true }), || {
            count.affected.to_string()
        });
    }
    let verb = if retry { "retry" } else { "forget" };
    if !args.bulk.agreed(output, &format!("{verb} {} dead letters", count.affected))? {
        return Ok(());
    }
    selection.dry_run = false;
    let done = match retry {
        true => client.retry_dead(&selection).await?,
        false => client.clear_dead(&selection).await?,
    };
    output.value(&done, || {
        format!("{} dead letters {}", done.affected, if retry { "pending again" } else { "forgotten" })
    });
    Ok(())
}
