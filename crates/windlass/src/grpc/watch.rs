//! Live updates of tasks: the same feed as over a WebSocket, under the same rules.
//!
//! The messages of a watch are made by the thread of all listeners, one at a time and each in its turn; its connection, which may carry
//! other calls, sends them. One that does not take its message for `server.listener_stall` is cut and told.

use std::collections::HashSet;
use std::fmt::Display;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use windlass_broker::{Event, EventFilter, Heard, Kinds, Listener};
use windlass_core::Name;
use windlass_core::limits::{LISTENER_FAREWELL_MS_MAX, LISTENER_VALUES_MAX};
use windlass_proto::grpc::v1::{TaskState, TaskUpdate, WatchTasksRequest, WatchTasksResponse};
use windlass_proto::grpc::{parsed, timestamp};
use windlass_proto::rest::Invalid;

use super::{State, refusal};
use crate::api::Room;
use crate::api::problem::Refused;

pub(super) type Updates = Pin<Box<dyn Stream<Item = Message> + Send>>;

type Message = Result<WatchTasksResponse, Status>;

/// Updates in one message.
const UPDATES_MAX: usize = 256;

struct Watch {
    sender: mpsc::Sender<Message>,
    events: Listener,
    /// Types of tasks; all if it is empty. The listener filters by everything else.
    types: HashSet<Name>,
    /// A gap that comes after the updates of a message; it begins the next one.
    missed: u64,
}

pub(super) fn updates(state: &Arc<State>, request: WatchTasksRequest) -> Result<Updates, Status> {
    let (filter, types) = filter(request)?;
    let events = state.api.broker.listen(filter, None).map_err(refusal::status)?;
    let (sender, receiver) = mpsc::channel(1);
    let watch = Watch { sender, events, types, missed: 0 };
    state.api.room.spawn(watch.serve(state.clone()));
    Ok(Box::pin(unfold(receiver, |mut receiver| async move {
        let message = receiver.recv().await?;
        Some((message, receiver))
    })))
}

/// What passes, and which types of tasks.
fn filter(request: WatchTasksRequest) -> Result<(EventFilter, HashSet<Name>), Invalid> {
    let mut kinds = Kinds::NONE;
    for word in bounded("events", &request.events)? {
        if !word.starts_with("task.") || !kinds.add(word) {
            let message = format!("there is no event {word:?} of tasks; as in task.completed or task.*");
            return Err(Invalid::malformed("events", message));
        }
    }
    if request.events.is_empty() {
        kinds.add("task.*");
    }
    let filter =
        EventFilter { kinds, queues: set("queues", &request.queues)?, tasks: set("ids", &request.ids)? };
    Ok((filter, set("types", &request.types)?))
}

fn set<T, S>(field: &'static str, texts: &[String]) -> Result<S, Invalid>
where
    T: FromStr<Err: Display>,
    S: FromIterator<T>,
{
    bounded(field, texts)?.iter().map(|text| parsed(field, text)).collect()
}

fn bounded<'a>(field: &'static str, texts: &'a [String]) -> Result<&'a [String], Invalid> {
    match texts.len() {
        0..=LISTENER_VALUES_MAX => Ok(texts),
        _ => Err(Invalid::out_of_range(field, format!("at most {LISTENER_VALUES_MAX} at once"))),
    }
}

fn too_slow() -> Status {
    refusal::status(Refused::new(
        StatusCode::REQUEST_TIMEOUT,
        "too_slow",
        "The updates were not read for too long",
    ))
}

impl Watch {
    async fn serve(mut self, state: Arc<State>) {
        let sender = self.sender.clone();
        // The first says that from here on everything is heard.
        let mut message = WatchTasksResponse::default();
        loop {
            match timeout(state.api.settings.listener_stall, sender.send(Ok(message))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => break,
            }
            tokio::select! {
                () = state.closing.cancelled() => return,
                () = sender.closed() => return,
                next = self.next(&state.api.room) => message = next,
            }
        }
        self.events.cut();
        let farewell = Duration::from_millis(LISTENER_FAREWELL_MS_MAX);
        let _ = timeout(farewell, sender.send(Err(too_slow()))).await;
    }

    /// May be dropped only when nobody wants the rest any more.
    async fn next(&mut self, room: &Room) -> WatchTasksResponse {
        let missed = std::mem::take(&mut self.missed);
        let mut message = WatchTasksResponse { missed, ..WatchTasksResponse::default() };
        loop {
            room.breathe().await;
            if room.owe(|| self.fill(&mut message)) {
                return message;
            }
            self.events.woken().await;
        }
    }

    /// Puts in what there is, as far as there is room for it; says whether there is anything to send.
    fn fill(&mut self, message: &mut WatchTasksResponse) -> bool {
        while message.updates.len() < UPDATES_MAX && self.missed == 0 {
            match self.events.more() {
                Some(heard) => self.take(heard, message),
                None => break,
            }
        }
        !message.updates.is_empty() || message.missed > 0
    }

    fn take(&mut self, heard: Heard, message: &mut WatchTasksResponse) {
        match heard {
            Heard::Event(event) => message.updates.extend(self.update(&event)),
            Heard::Gap(gap) if message.updates.is_empty() => message.missed += gap.missed.unwrap_or(1),
            // A gap belongs before the updates that follow it.
            Heard::Gap(gap) => self.missed += gap.missed.unwrap_or(1),
        }
    }

    fn update(&self, event: &Event) -> Option<TaskUpdate> {
        let task = event.task()?;
        let passes = self.types.is_empty() || self.types.contains(&task.kind);
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
