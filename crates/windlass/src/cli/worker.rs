//! `windlass worker …`.

mod exec;

use windlass_core::Name;
use windlass_proto::rest::WorkerBody;

use super::args::{self, Connect, Names};
use super::error::Failure;
use super::output::{Output, table};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass worker list
  windlass worker exec --type resize -- ./resize.sh")]
pub(crate) enum Command {
    /// List workers
    List(Names),
    /// Show a worker
    Get(One),
    /// Give no more tasks to a worker
    Pause(One),
    /// Give tasks to a worker again
    Resume(One),
    /// Run a program for each task
    Exec(exec::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[arg(value_parser = args::name)]
    id: Name,
    #[command(flatten)]
    connect: Connect,
}

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::List(args) => {
            let page = args.connect.client()?.workers(args.limit, args.cursor.as_deref()).await?;
            output.value(&page, || show(&page.items));
            super::task::more(&page.next_cursor, output);
        }
        Command::Get(one) => show_one(one.connect.client()?.worker(&one.id).await?, output),
        Command::Pause(one) => show_one(one.connect.client()?.pause_worker(&one.id).await?, output),
        Command::Resume(one) => show_one(one.connect.client()?.resume_worker(&one.id).await?, output),
        Command::Exec(args) => exec::run(args, output).await?,
    }
    Ok(())
}

fn show_one(worker: WorkerBody, output: &Output) {
    output.value(&worker, || show(std::slice::from_ref(&worker)));
}

fn show(workers: &[WorkerBody]) -> String {
    let names = |names: &[Name]| names.iter().map(Name::as_str).collect::<Vec<_>>().join(",");
    let rows = workers.iter().map(|worker| {
        let slots = worker.slots.map(|slots| format!("/{slots}")).unwrap_or_default();
        vec![
            worker.id.to_string(),
            worker.host.clone().unwrap_or_default(),
            names(&worker.queues),
            worker.types.as_deref().map_or_else(|| "all".into(), names),
            format!("{}{slots}", worker.tasks.len()),
            worker.last_heartbeat_at.to_string(),
            if worker.paused { "paused".into() } else { String::new() },
        ]
    });
    table(&["WORKER", "HOST", "QUEUES", "TYPES", "BUSY", "LAST SEEN", ""], rows.collect())
}
