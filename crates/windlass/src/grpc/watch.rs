//! Live updates of tasks.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tonic::Status;
use windlass_broker::Event;
use windlass_core::limits::{NAME_BYTES_MAX, WATCH_WORDS_MAX};
use windlass_proto::grpc::timestamp;
use windlass_proto::grpc::v1::{TaskState, TaskUpdate, WatchTasksRequest, WatchTasksResponse};
use windlass_proto::rest::Invalid;

use super::State;

pub(super) type Updates = Pin<Box<dyn Stream<Item = Result<WatchTasksResponse, Status>> + Send>>;

/// Updates in one message.
const UPDATES_MAX: usize = 256;

struct Watch {
    state: Arc<State>,
    events: Receiver<Event>,
    filter: Filter,
    begun: bool,
}

/// What is empty does not filter.
struct Filter {
    ids: HashSet<String>,
    queues: HashSet<String>,
    types: HashSet<String>,
    events: HashSet<String>,
}

pub(super) fn updates(state: &Arc<State>, request: WatchTasksRequest) -> Result<Updates, Status> {
    let filter = Filter::read(request)?;
    let events = state.api.broker.subscribe();
    let watch = Watch { state: state.clone(), events, filter, begun: false };
    Ok(Box::pin(unfold(watch, |mut watch| async move {
        let message = watch.next().await?;
        Some((Ok(message), watch))
    })))
}

impl Watch {
    async fn next(&mut self) -> Option<WatchTasksResponse> {
        let mut message = WatchTasksResponse::default();
        if !std::mem::replace(&mut self.begun, true) {
            return Some(message);
        }
        while message.updates.is_empty() && message.missed == 0 {
            tokio::select! {
                () = self.state.closing.cancelled() => return None,
                received = self.events.recv() => match received {
                    Ok(event) => message.updates.extend(self.filter.update(event)),
                    Err(RecvError::Lagged(missed)) => message.missed += missed,
                    Err(RecvError::Closed) => return None,
                },
            }
            while message.updates.len() < UPDATES_MAX {
                match self.events.try_recv() {
                    Ok(event) => message.updates.extend(self.filter.update(event)),
                    // A gap belongs before the updates that follow it, so it begins a message of its own.
                    Err(TryRecvError::Lagged(missed)) if message.updates.is_empty() => {
                        message.missed += missed
                    }
                    Err(_) => break,
                }
            }
        }
        Some(message)
    }
}

impl Filter {
    fn read(request: WatchTasksRequest) -> Result<Self, Invalid> {
        let set = |field: &'static str, words: Vec<String>| {
            if words.len() > WATCH_WORDS_MAX {
                return Err(Invalid::out_of_range(field, format!("at most {WATCH_WORDS_MAX} at once")));
            }
            if words.iter().any(|word| word.len() > NAME_BYTES_MAX) {
                return Err(Invalid::out_of_range(field, format!("at most {NAME_BYTES_MAX} bytes each")));
            }
            Ok(words.into_iter().collect::<HashSet<_>>())
        };
        Ok(Self {
            ids: set("ids", request.ids)?,
            queues: set("queues", request.queues)?,
            types: set("types", request.types)?,
            events: set("events", request.events)?,
        })
    }

    fn update(&self, event: Event) -> Option<TaskUpdate> {
        let task = event.task?;
        let passes = |set: &HashSet<String>, word: &str| set.is_empty() || set.contains(word);
        let passes = passes(&self.ids, task.id.as_str())
            && passes(&self.queues, task.queue.as_str())
            && passes(&self.types, task.kind.as_str())
            && passes(&self.events, event.kind.as_str());
        passes.then(|| TaskUpdate {
            id: event.id,
            event: event.kind.as_str().to_owned(),
            timestamp: Some(timestamp(event.at)),
            task_id: task.id.as_str().to_owned(),
            r#type: task.kind.as_str().to_owned(),
            queue: task.queue.as_str().to_owned(),
            state: TaskState::from(task.state).into(),
            revision: task.revision,
            priority: task.priority.0.into(),
            attempts: task.attempts,
            error: task.error.map(String::from),
            progress: task.progress.map(Into::into),
            duration_ms: task.duration_ms,
            next_at: task.next_at.map(timestamp),
            worker_id: event.worker.map(|worker| worker.as_str().to_owned()),
        })
    }
}
