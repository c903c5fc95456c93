//! One look at a broker. As JSON it is the answers of the REST interface, side by side.

use serde::Serialize;
use windlass_client::Error;
use windlass_client::rest::{Client, Filter};
use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_proto::rest::{QueueBody, StatsBody, TaskBody, Time, WorkerBody};

use super::recent::Recent;

/// Failures that are kept on the screen.
pub(super) const FAILURES_MAX: usize = 50;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    pub(super) at: Time,
    pub(super) server: String,
    pub(super) stats: StatsBody,
    /// In order of name, as many as one page has; so are the workers.
    pub(super) queues: Vec<QueueBody>,
    pub(super) workers: Vec<WorkerBody>,
    /// The latest first.
    pub(super) failures: Vec<Failed>,
}

/// A task whose last attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Failed {
    pub(super) task_id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) queue: String,
    /// `retrying` or `dead_letter`.
    pub(super) state: String,
    pub(super) attempts: u32,
    pub(super) error: String,
    pub(super) at: Time,
}

/// Failures are asked for only if nobody told them.
pub(super) async fn look(client: &Client, recent: &mut Recent, told: bool) -> Result<Snapshot, Error> {
    let (queues, workers) = (client.queues(PAGE_ROWS_MAX, None), client.workers(PAGE_ROWS_MAX, None));
    let (stats, queues, workers) = tokio::try_join!(client.stats(), queues, workers)?;
    if recent.is_stale(&stats, told) {
        recent.asked(failures(client).await?, &stats);
    }
    Ok(Snapshot {
        at: Time::from_ms(crate::api::now_ms()),
        server: client.base().to_owned(),
        stats,
        queues: queues.items,
        workers: workers.items,
        failures: recent.failures(),
    })
}

async fn failures(client: &Client) -> Result<Vec<Failed>, Error> {
    let filter = Filter { state: Some("failed".to_owned()), limit: Some(FAILURES_MAX), ..Filter::default() };
    let mut failures: Vec<Failed> = client.tasks(&filter).await?.items.into_iter().map(Failed::of).collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.at));
    Ok(failures)
}

impl Failed {
    fn of(task: TaskBody) -> Self {
        Self {
            task_id: task.id.to_string(),
            kind: task.kind.to_string(),
            queue: task.queue.to_string(),
            state: task.state.as_str().to_owned(),
            attempts: task.attempts,
            error: task.error.map(String::from).unwrap_or_default(),
            at: task.updated_at,
        }
    }
}
