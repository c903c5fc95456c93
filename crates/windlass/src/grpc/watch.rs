//! Live updates of tasks.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::Status;
use windlass_broker::{Event, EventFilter, Heard, Kinds, Listener};
use windlass_core::limits::{NAME_BYTES_MAX, WATCH_WORDS_MAX};
use windlass_proto::grpc::timestamp;
use windlass_proto::grpc::v1::{TaskState, TaskUpdate, WatchTasksRequest, WatchTasksResponse};
use windlass_proto::rest::Invalid;

use super::{State, refusal};

pub(super) type Updates = Pin<Box<dyn Stream<Item = Result<WatchTasksResponse, Status>> + Send>>;

/// Updates in one message.
const UPDATES_MAX: usize = 256;

struct Watch {
    state: Arc<State>,
    events: Listener,
    /// A gap that comes after the updates of a message; it begins the next one.
    missed: u64,
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
    let mut kinds = Kinds::NONE;
    kinds.add("task.*");
    let events = EventFilter { kinds, ..EventFilter::default() };
    let events = state.api.broker.listen(events, None).map_err(refusal::status)?;
    let watch = Watch { state: state.clone(), events, missed: 0, filter, begun: false };
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
        message.missed = std::mem::take(&mut self.missed);
        while message.updates.is_empty() && message.missed == 0 {
            let heard = tokio::select! {
                () = self.state.closing.cancelled() => return None,
                heard = self.events.recv() => heard,
            };
            self.take(heard, &mut message);
        }
        while message.updates.len() < UPDATES_MAX && self.missed == 0 {
            match self.events.try_recv() {
                Some(heard) => self.take(heard, &mut message),
                None => break,
            }
        }
        Some(message)
    }

    fn take(&mut self, heard: Heard, message: &mut WatchTasksResponse) {
        match heard {
            Heard::Event(event) => message.updates.extend(self.filter.update(&event)),
            Heard::Gap(gap) if message.updates.is_empty() => message.missed += gap.missed.unwrap_or(1),
            // A gap belongs before the updates that follow it.
            Heard::Gap(gap) => self.missed += gap.missed.unwrap_or(1),
        }
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

    fn update(&self, event: &Event) -> Option<TaskUpdate> {
        let task = event.task()?;
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
            error: task.error.as_deref().map(str::to_owned),
            progress: task.progress.clone().map(Into::into),
            duration_ms: task.duration_ms,
            next_at: task.next_at.map(timestamp),
            worker_id: task.worker.as_ref().map(|worker| worker.as_str().to_owned()),
        })
    }
}
