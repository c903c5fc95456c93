//! Events of other processes on the same store, and those of this one for them.
//!
//! What happens here gathers while somebody elsewhere listens, and the pump hands it to the store in pieces, one for a whole group.
//! A piece names its process and counts: whoever hears the next one knows how many events were lost before it. What does not
//! fit is dropped, and the piece says how much that was, so a slow Redis costs those who listen a gap and nobody else anything.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use windlass_core::limits::EVENTS_RELAYED_MAX;
use windlass_core::{CancelReason, Name, Priority, Progress, StateName, TaskId};
use windlass_store::Exchange;

use super::{Event, EventData, EventKind, TaskFacts};

/// Processes whose counts are remembered; beyond it all are forgotten, which may hide one gap.
const ORIGINS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Relay {
    pub(super) exchange: Arc<Exchange>,
    origin: u64,
    outgoing: Mutex<Outgoing>,
    /// The count that the next piece of each process begins with.
    expected: Mutex<HashMap<u64, u64>>,
}

#[derive(Debug, Default)]
struct Outgoing {
    /// The count of the first that is here, and of the next.
    first: u64,
    next: u64,
    events: Vec<Wire>,
    /// A piece that the store had no room for.
    held: Option<Bytes>,
}

/// What a piece brought.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// As many were lost before these.
    pub(super) missed: u64,
    pub(super) events: Vec<Event>,
    /// As many were lost behind them.
    pub(super) dropped: u64,
}

impl Relay {
    pub(super) fn new(exchange: Arc<Exchange>) -> Relay {
        Relay { exchange, origin: rand::random(), outgoing: Mutex::default(), expected: Mutex::default() }
    }

    /// Whether anybody elsewhere listens.
    pub(super) fn is_wanted(&self) -> bool {
        self.exchange.is_wanted()
    }

    pub(super) fn take(&self, event: &Event) {
        let Some(wire) = Wire::of(event) else { return };
        let mut outgoing = self.outgoing.lock();
        outgoing.next += 1;
        // Once some were dropped the others have to go before more is taken, so that a piece has no hole.
        if outgoing.events.len() < EVENTS_RELAYED_MAX
            && outgoing.first + outgoing.events.len() as u64 + 1 == outgoing.next
        {
            outgoing.events.push(wire);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let outgoing = self.outgoing.lock();
        outgoing.events.is_empty() && outgoing.held.is_none()
    }

    /// Hands over what there is, as far as there is room.
    pub(super) fn flush(&self) {
        let mut outgoing = self.outgoing.lock();
        if let Some(held) = outgoing.held.take()
            && let Err(held) = self.exchange.say(held)
        {
            outgoing.held = Some(held);
            return;
        }
        if outgoing.events.is_empty() {
            return;
        }
        let events = std::mem::take(&mut outgoing.events);
        let dropped = outgoing.next - outgoing.first - events.len() as u64;
        let piece = Piece { origin: self.origin, first: outgoing.first, events, dropped };
        outgoing.first = outgoing.next;
        outgoing.held = self.exchange.say(piece.encode_to_vec().into()).err();
    }

    /// Reads a piece; nothing for those of this process and what another version may say.
    pub(super) fn read(&self, piece: Bytes) -> Brought {
        let Ok(piece) = Piece::decode(piece) else { return Brought::default() };
        if piece.origin == self.origin || piece.events.is_empty() {
            return Brought::default();
        }
        let count = piece.events.len() as u64;
        let mut expected = self.expected.lock();
        let known = expected.get(&piece.origin).copied();
        if known.is_none() && expected.len() >= ORIGINS_MAX {
            expected.clear();
        }
        let known = known.unwrap_or(piece.first);
        let (end, next) = (piece.first + count, piece.first + count + piece.dropped);
        expected.insert(piece.origin, known.max(next));
        drop(expected);
        // One whose answer was lost is published again.
        let again = known.saturating_sub(piece.first).min(count) as usize;
        let events = piece.events.into_iter().skip(again).filter_map(Wire::event).collect();
        let dropped = next.saturating_sub(known.max(end));
        Brought { missed: piece.first.saturating_sub(known), events, dropped }
    }

    /// What was counted before means nothing any more.
    pub(super) fn forget(&self) {
        self.expected.lock().clear();
    }
}

#[derive(Clone, PartialEq, Message)]
struct Piece {
    #[prost(fixed64, tag = "1")]
    origin: u64,
    /// Events that this process told, or lost, before these.
    #[prost(uint64, tag = "2")]
    first: u64,
    #[prost(message, repeated, tag = "3")]
    events: Vec<Wire>,
    /// Those that there was no room for behind them.
    #[prost(uint64, tag = "4")]
    dropped: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Wire {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(uint64, tag = "2")]
    at: u64,
    #[prost(message, optional, tag = "3")]
    task: Option<WireTask>,
    /// A worker or a queue.
    #[prost(string, tag = "4")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireTask {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    queue: String,
    #[prost(string, tag = "4")]
    state: String,
    #[prost(uint64, tag = "5")]
    revision: u64,
    #[prost(uint32, tag = "6")]
    priority: u32,
    #[prost(uint32, tag = "7")]
    attempts: u32,
    #[prost(string, optional, tag = "8")]
    error: Option<String>,
    #[prost(double, optional, tag = "9")]
    fraction: Option<f64>,
    #[prost(string, optional, tag = "10")]
    note: Option<String>,
    #[prost(string, optional, tag = "11")]
    worker: Option<String>,
    #[prost(uint64, optional, tag = "12")]
    duration_ms: Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    next_at: Option<u64>,
    #[prost(string, optional, tag = "14")]
    reason: Option<String>,
}

impl Wire {
    /// Nothing for the figures: every broker has its own.
    fn of(event: &Event) -> Option<Wire> {
        let (task, name) = match &event.data {
            EventData::Task(facts) => (Some(WireTask::of(facts)), String::new()),
            EventData::Worker(name) | EventData::Queue(name) => (None, name.to_string()),
            EventData::Depths(_) | EventData::Figures(_) | EventData::Missed(_) => return None,
        };
        Some(Wire { kind: event.kind.as_str().to_owned(), at: event.at, task, name })
    }

    /// `None` for one of another version that is not understood.
    fn event(self) -> Option<Event> {
        let kind = EventKind::ALL.into_iter().find(|kind| kind.as_str() == self.kind)?;
        let data = match self.task {
            Some(task) => EventData::Task(task.facts()?),
            None if self.kind.starts_with("worker.") => EventData::Worker(Name::new(&self.name).ok()?),
            None => EventData::Queue(Name::new(&self.name).ok()?),
        };
        Some(Event::new(kind, self.at, data))
    }
}

impl WireTask {
    fn of(facts: &TaskFacts) -> WireTask {
        let text = |text: &Option<Box<str>>| text.as_ref().map(|text| text.to_string());
        WireTask {
            id: facts.id.to_string(),
            kind: facts.kind.to_string(),
            queue: facts.queue.to_string(),
            state: facts.state.as_str().to_owned(),
            revision: facts.revision,
            priority: facts.priority.0.into(),
            attempts: facts.attempts,
            error: text(&facts.error),
            fraction: facts.progress.as_ref().map(|progress| progress.fraction),
            note: facts.progress.as_ref().and_then(|progress| text(&progress.note)),
            worker: facts.worker.as_ref().map(Name::to_string),
            duration_ms: facts.duration_ms,
            next_at: facts.next_at,
            reason: facts.reason.map(|reason| reason.as_str().to_owned()),
        }
    }

    fn facts(self) -> Option<TaskFacts> {
        let reason = |word: String| CancelReason::ALL.into_iter().find(|it| it.as_str() == word);
        let note = self.note.map(String::into_boxed_str);
        Some(TaskFacts {
            id: TaskId::new(&self.id).ok()?,
            kind: Name::new(&self.kind).ok()?,
            queue: Name::new(&self.queue).ok()?,
            state: StateName::ALL.into_iter().find(|state| state.as_str() == self.state)?,
            revision: self.revision,
            priority: Priority(self.priority.try_into().ok()?),
            attempts: self.attempts,
            error: self.error.map(String::into_boxed_str),
            progress: self.fraction.map(|fraction| Progress { fraction, note }),
            worker: self.worker.and_then(|worker| worker.parse().ok()),
            duration_ms: self.duration_ms,
            next_at: self.next_at,
            reason: self.reason.and_then(reason),
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn relay() -> (Relay, mpsc::Receiver<Bytes>) {
        let (exchange, outgoing) = Exchange::new(7);
        (Relay::new(Arc::new(exchange)), outgoing)
    }

    fn event(revision: u64) -> Event {
        let facts = TaskFacts {
            id: "a".parse().unwrap(),
            kind: Name::new("t").unwrap(),
            queue: Name::new("q").unwrap(),
            state: StateName::Cancelled,
            revision,
            priority: Priority(255),
            attempts: 2,
            error: Some("too hot".into()),
            progress: Some(Progress { fraction: 0.5, note: Some("half".into()) }),
            worker: Some(Name::new("w").unwrap()),
            duration_ms: Some(0),
            next_at: Some(9),
            reason: Some(CancelReason::Replaced),
        };
        Event::new(EventKind::Cancelled, 5, EventData::Task(facts))
    }

    fn revisions(brought: &Brought) -> Vec<u64> {
        brought.events.iter().filter_map(|event| Some(event.task()?.revision)).collect()
    }

    #[test]
    fn events_arrive_as_they_were_told() {
        let ((here, mut outgoing), (there, _)) = (relay(), relay());
        here.take(&event(1));
        let worker = Event::new(EventKind::WorkerLeft, 6, EventData::Worker(Name::new("w").unwrap()));
        here.take(&worker);
        here.flush();
        assert!(here.is_empty());
        let piece = outgoing.try_recv().unwrap();
        assert!(here.read(piece.clone()).events.is_empty(), "its own");
        let brought = there.read(piece.clone());
        assert_eq!(brought.events[0].data, event(1).data);
        assert_eq!((brought.events[1].kind, &brought.events[1].data), (worker.kind, &worker.data));
        assert_eq!(brought.missed, 0);
        assert!(there.read(piece).events.is_empty(), "it was sent twice");
        assert!(there.read(Bytes::from_static(b"something else")).events.is_empty());
    }

    #[test]
    fn what_is_lost_is_counted() {
        let ((here, mut outgoing), (there, _)) = (relay(), relay());
        for revision in 0..EVENTS_RELAYED_MAX as u64 + 3 {
            here.take(&event(revision));
        }
        here.flush();
        // Told at once, for nothing else may ever happen there.
        let full = outgoing.try_recv().unwrap();
        let brought = there.read(full.clone());
        assert_eq!((brought.missed, brought.events.len(), brought.dropped), (0, EVENTS_RELAYED_MAX, 3));
        let again = there.read(full);
        assert_eq!((again.missed, again.events.len(), again.dropped), (0, 0, 0));
        for revision in [50_000, 50_001] {
            here.take(&event(revision));
            here.flush();
        }
        let (_never_arrives, last) = (outgoing.try_recv().unwrap(), outgoing.try_recv().unwrap());
        let brought = there.read(last);
        assert_eq!((brought.missed, revisions(&brought), brought.dropped), (1, vec![50_001], 0));
    }

    #[test]
    fn what_the_store_has_no_room_for_waits() {
        let ((here, mut outgoing), (there, _)) = (relay(), relay());
        let mut told = 0;
        while here.outgoing.lock().held.is_none() {
            here.take(&event(told));
            here.flush();
            told += 1;
        }
        here.take(&event(told));
        here.flush();
        let mut heard = Vec::new();
        while !here.is_empty() || heard.len() as u64 <= told {
            heard.extend(revisions(&there.read(outgoing.try_recv().unwrap())));
            here.flush();
        }
        assert_eq!(heard, (0..=told).collect::<Vec<_>>());
    }
}
