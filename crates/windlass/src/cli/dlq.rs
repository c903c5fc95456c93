//! `windlass dlq …`.

use windlass_core::TaskId;

use super::args::{self, Bulk, Connect, Which};
use super::error::Failure;
use super::output::Output;
use super::task;

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass dlq list --queue mail
  windlass dlq retry --filter 'type:email.* error:timeout since:2h' --dry-run
  windlass dlq clear --queue mail --yes")]
pub(crate) enum Command {
    /// List dead letters, newest first
    List(ListArgs),
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
pub(crate) struct ManyArgs {
    /// Only these
    #[arg(value_parser = args::task_id, conflicts_with_all = ["words", "queue", "kind", "text"])]
    ids: Vec<TaskId>,
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
        Command::Retry(args) => many(args, output, true).await,
        Command::Clear(args) => many(args, output, false).await,
    }
}

/// Counts first, so that the person knows what they agree to.
async fn many(args: ManyArgs, output: &Output, retry: bool) -> Result<(), Failure> {
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
