//! `windlass events …`.

use windlass_client::rest::{Listen, Said};
use windlass_core::{Name, TaskId};
use windlass_proto::rest::{EventBody, GapBody, QueueDepthsBody, SystemMetricsBody, TaskEventBody};

use super::args::{self, Connect};
use super::error::Failure;
use super::output::{Output, escape};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass events tail
  windlass events tail --type task.failed,task.dead_lettered --queue mail
  windlass events tail --type 'task.*' -o json | jq .data.task_id")]
pub(crate) enum Command {
    /// Print events as they happen, until it is interrupted
    Tail(TailArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    /// Only of these types, like task.completed or 'task.*'
    /// [default: all but the figures of every second]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only about these queues and their tasks
    #[arg(long = "queue", value_name = "NAME", value_delimiter = ',', value_parser = args::name)]
    queues: Vec<Name>,
    /// Only about these tasks
    #[arg(long = "task", value_name = "ID", value_delimiter = ',', value_parser = args::task_id)]
    tasks: Vec<TaskId>,
    /// Begin behind the event of this id, as far as that is kept
    #[arg(long, value_name = "ID")]
    last_id: Option<u64>,
    /// End after this many events
    #[arg(long, short = 'n', value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    connect: Connect,
}

/// What a person who names no type wants to see.
const USUAL: [&str; 4] = ["task.*", "worker.*", "queue.paused", "queue.resumed"];

pub(crate) async fn run(command: Command, output: &Output) -> Result<(), Failure> {
    let Command::Tail(args) = command;
    let usual = || USUAL.map(str::to_owned).to_vec();
    let listen = Listen {
        types: if args.types.is_empty() { usual() } else { args.types },
        queues: args.queues,
        tasks: args.tasks,
        after: args.last_id,
    };
    let mut events = args.connect.client()?.events(listen).await?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && !output.is_unread() {
        match events.next().await? {
            Said::Event(event) => {
                left -= 1;
                output.value(&event, || line(&event));
            }
            Said::Lost(error) => output.note(&format!("{error}; coming back")),
        }
    }
    Ok(())
}

/// One event for a person.
pub(super) fn line(event: &EventBody) -> String {
    let time = event.timestamp.to_string();
    let time = time.get(11..23).unwrap_or(&time);
    let what = match &*event.kind {
        kind if kind.starts_with("task.") => event.read().map(|task| about_task(&task)),
        "queue.depth" => event.read().map(|depths| about_depths(&depths)),
        "system.metrics" => event.read().map(|metrics| about_metrics(&metrics)),
        "gap" => event.read().map(|gap| about_gap(&gap)),
        _ => Ok(about_name(event)),
    };
    // What a newer broker says is shown as it came.
    let what = what.unwrap_or_else(|_| event.data.to_string());
    format!("{time}  {:<18} {}", escape(&event.kind), escape(&what)).trim_end().to_owned()
}

fn about_task(task: &TaskEventBody) -> String {
    let mut text = format!("{}/{} {}", task.queue, task.kind, task.task_id);
    let mut add = |more: Option<String>| text.extend(more.map(|more| format!("  {more}")));
    add(task.duration_ms.map(|ms| format!("{ms} ms")));
    add(task.worker_id.as_ref().map(|worker| format!("by {worker}")));
    add(task.progress.as_ref().map(|it| {
        format!("{:.0} % {}", it.fraction * 100.0, it.note.as_deref().unwrap_or_default())
            .trim_end()
            .to_owned()
    }));
    add(task.reason.as_ref().map(|reason| format!("({reason})")));
    add(task.next_at.map(|at| format!("next {at}")));
    add(task.error.as_deref().map(|error| error.lines().next().unwrap_or_default().to_owned()));
    text
}

fn about_depths(depths: &QueueDepthsBody) -> String {
    let queue = |it: &windlass_proto::rest::QueueDepthBody| {
        let paused = if it.paused { " paused" } else { "" };
        format!("{} {}+{}{paused}", it.queue, it.depths.pending, it.depths.running)
    };
    depths.queues.iter().map(queue).collect::<Vec<_>>().join("  ")
}

fn about_metrics(metrics: &SystemMetricsBody) -> String {
    format!(
        "submitted {}  completed {}  failed {}  pending {}  running {}  workers {}",
        metrics.submitted_total,
        metrics.completed_total,
        metrics.failed_total,
        metrics.pending,
        metrics.running,
        metrics.workers
    )
}

fn about_gap(gap: &GapBody) -> String {
    match gap.missed {
        Some(missed) => format!("{missed} events are missing ({})", gap.reason),
        None => format!("events are missing ({})", gap.reason),
    }
}

fn about_name(event: &EventBody) -> String {
    let name = event.data["worker_id"].as_str().or_else(|| event.data["queue"].as_str());
    name.map_or_else(|| event.data.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_and_stays_one() {
        let read = |text: &str| line(&serde_json::from_str(text).unwrap());
        let shown = read(
            r#"{"id":1,"type":"task.failed","timestamp":"2030-01-31T08:30:00.250Z","data":{"task_id":"t","type":"a","queue":"q","state":"retrying","revision":3,"priority":100,"attempts":1,"worker_id":"w","error":"bo\u001bom\nmore","duration_ms":12}}"#,
        );
        assert_eq!(shown, "08:30:00.250  task.failed        q/a t  12 ms  by w  bo\\u{1b}om");
        let gap = r#"{"id":1,"type":"gap","timestamp":"2030-01-31T08:30:00.250Z","data":{"missed":7,"reason":"overrun"}}"#;
        assert_eq!(read(gap), "08:30:00.250  gap                7 events are missing (overrun)");
        let unknown = r#"{"id":1,"type":"task.new","timestamp":"2030-01-31T08:30:00.250Z","data":{"a":1}}"#;
        assert_eq!(read(unknown), "08:30:00.250  task.new           {\"a\":1}");
    }
}
