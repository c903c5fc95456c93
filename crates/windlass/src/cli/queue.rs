//! `windlass queue …`.

use windlass_core::Name;
use windlass_proto::rest::QueueBody;

use super::args::{self, Bulk, Connect, Names};
use super::error::Failure;
use super::output::{Output, table};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass queue list
  windlass queue pause mail
  windlass queue purge mail --dry-run")]
pub(crate) enum Command {
    /// List queues with their depth
    List(Names),
    /// Show a queue
    Get(One),
    /// Give out no more tasks of a queue
    Pause(One),
    /// Give out tasks of a queue again
    Resume(One),
    /// Forget the pending tasks of a queue
    Purge(PurgeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[arg(value_parser = args::name)]
    name: Name,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    one: One,
    #[command(flatten)]
    bulk: Bulk,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => {
            let page = args.connect.client()?.queues(args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Get(one) => show_one(one.connect.client()?.queue(&one.name).await?, output),
        Command::Pause(one) => show_one(one.connect.client()?.pause_queue(&one.name).await?, output),
        Command::Resume(one) => show_one(one.connect.client()?.resume_queue(&one.name).await?, output),
        Command::Purge(args) => purge(args, output).await?,
    }
    Ok(())
}

async fn purge(args: PurgeArgs, output: &Output) -> Result<(), Failure> {
    let client = args.one.connect.client()?;
    let pending = client.queue(&args.one.name).await?.tasks.pending;
    let what = format!("forget {pending} pending tasks of {}", args.one.name);
    if args.bulk.dry_run {
        output.value(&serde_json::json!({ "affected": pending, "dry_run": true }), || pending.to_string());
    }
    if args.bulk.agreed(output, &what)? {
        let purged = client.purge_queue(&args.one.name).await?;
        output.value(&purged, || format!("{} tasks forgotten", purged.affected));
    }
    Ok(())
}

fn show_one(queue: QueueBody, output: &Output) {
    output.value(&queue, || show(std::slice::from_ref(&queue)));
}

fn show(queues: &[QueueBody]) -> String {
    let rows = queues.iter().map(|queue| {
        let tasks = &queue.tasks;
        let oldest = queue.oldest_pending_age_seconds.map(|age| format!("{:.0} s", age.0));
        vec![
            queue.name.to_string(),
            tasks.pending.to_string(),
            tasks.running.to_string(),
            tasks.scheduled.to_string(),
            tasks.retrying.to_string(),
            tasks.dead_letter.to_string(),
            tasks.completed.to_string(),
            oldest.unwrap_or_default(),
            format!("{:.1}/s", queue.rates.completed_per_second),
            if queue.paused { "paused".into() } else { String::new() },
        ]
    });
    let header =
        ["QUEUE", "PENDING", "RUNNING", "SCHEDULED", "RETRYING", "DEAD", "DONE", "OLDEST", "RATE", ""];
    table(&header, rows.collect())
}
