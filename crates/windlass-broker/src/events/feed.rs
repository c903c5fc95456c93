//! From those who make events to those who hear them.
//!
//! Whoever commits a change holds the store's state while it tells the feed, so that side is an intake: a lock that is held for
//! the push of one pointer, and by nobody else for longer than it takes to empty it. The *pump* moves what is in the intake into
//! the ring and wakes the listeners, at once when it is quiet and at a pace when it is not: many listeners are then woken
//! many times a second and not for every event.
//!
//! The ring is locked by the pump and by those who hear, never by those who commit. A broker that serves many runs the pump
//! where they are served ([`crate::Settings::audience`]), so that nobody waits for a thread that stands back.
//!
//! Ids are given in the intake. They begin at the wall clock in microseconds, faster than any broker makes events, so a restarted
//! broker never gives an id again; neither does a feed that was switched off for a while ([`Feed::fall_silent`]), because what
//! happened meanwhile has no ids and must be missing from somewhere.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use windlass_core::limits::{EVENTS_KEPT_BYTES_MAX, EVENTS_KEPT_MAX, EVENTS_LINGER_MS};
use windlass_core::{Change, Name, Progress, Record};
use windlass_store::{Clock, Hearer, Observed, Observer, Signals};

use super::relay::{Brought, Relay};
use super::ring::Ring;
use super::{Event, EventData, EventKind, TaskFacts, ended_ms, kinds};
use crate::broker::Broker;
use crate::change::Happened;

/// How long the pump rests after it woke the listeners, with few and with many of them: to be woken costs each of them more than
/// what it hears.
const REST_MS_MIN: u64 = 10;
const REST_MS_MAX: u64 = 250;
/// The number of listeners at which the rest is the longest.
const MANY: u64 = 1000;

#[derive(Debug)]
pub(crate) struct Feed {
    clock: Arc<dyn Clock>,
    /// Where the changes come from; `None` if the store cannot tell, and the broker tells what it knows.
    observed: Option<Arc<Observed>>,
    /// A way to other processes on the same store.
    relay: Option<Relay>,
    /// Ids below were given by an earlier process.
    pub(super) boot: u64,
    recording: AtomicBool,
    intake: Mutex<Intake>,
    /// Locked before the intake.
    pub(super) ring: RwLock<Ring>,
    /// The id behind the last event in the ring.
    pub(super) told: watch::Sender<u64>,
    /// The pump sleeps until the bell rings.
    asleep: AtomicBool,
    bell: Notify,
    /// Locked before the ring.
    pub(super) seats: Mutex<Seats>,
    /// Somebody came or went.
    pub(super) turnstile: Notify,
    pub(super) tallies: Tallies,
}

#[derive(Debug)]
struct Intake {
    next: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

/// Who is there.
#[derive(Debug, Default)]
pub(super) struct Seats {
    pub(super) listeners: usize,
    /// Those who want the figures of every second.
    pub(super) figures: usize,
    /// When the last listener left.
    pub(super) left: Option<Instant>,
    /// The first id since recording began: before it there is a gap of unknown size.
    pub(super) era: u64,
}

/// What only grows.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) recorded: AtomicU64,
    /// Events that listeners did not get because they fell behind, those of each counted.
    pub(super) missed: AtomicU64,
    pub(super) cut: AtomicU64,
}

impl Feed {
    pub(crate) fn new(clock: Arc<dyn Clock>, signals: &Signals) -> Arc<Feed> {
        let observed = signals.observed.clone();
        let relay = signals.exchange.clone().map(Relay::new);
        // Those on one store share the numbers, so that an id of another one leads nobody to a wrong place.
        let boot = match &relay {
            Some(relay) => relay.exchange.first_id(),
            None => clock.now().wall.saturating_mul(1000),
        };
        let feed = Arc::new(Feed {
            clock,
            boot,
            recording: AtomicBool::new(false),
            intake: Mutex::new(Intake { next: boot, events: VecDeque::new(), bytes: 0 }),
            ring: RwLock::new(Ring::new(boot)),
            told: watch::Sender::new(boot),
            asleep: AtomicBool::new(false),
            bell: Notify::new(),
            seats: Mutex::new(Seats { era: boot, ..Seats::default() }),
            turnstile: Notify::new(),
            tallies: Tallies::default(),
            observed,
            relay,
        });
        if let Some(relay) = &feed.relay {
            let hearer: Arc<dyn Hearer> = feed.clone();
            relay.exchange.hear(Arc::downgrade(&hearer));
        }
        if let Some(observed) = &feed.observed {
            let observer: Arc<dyn Observer> = feed.clone();
            observed.observe(Arc::downgrade(&observer));
        }
        feed
    }

    /// Whether events are built at all.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::Relaxed)
    }

    /// Begins to record, unless it does; call it with the seats locked.
    pub(super) fn begin(&self, seats: &mut Seats) {
        if self.is_recording() {
            return;
        }
        let mut ring = self.ring.write();
        let mut intake = self.intake.lock();
        let now = if self.relay.is_none() { self.clock.now().wall.saturating_mul(1000) } else { 0 };
        intake.next = (intake.next + 1).max(now);
        seats.era = intake.next;
        *ring = Ring::new(intake.next);
        self.record(true);
    }

    fn record(&self, on: bool) {
        self.recording.store(on, Ordering::Relaxed);
        if let Some(observed) = &self.observed {
            observed.listen(on);
        }
        if let Some(relay) = &self.relay {
            relay.forget();
            relay.exchange.listen(on);
        }
    }

    /// Stops recording if nobody has listened for long enough; says when to ask again, if anybody may leave.
    pub(super) fn fall_silent(&self) -> Option<Instant> {
        let seats = self.seats.lock();
        let end = seats.left? + Duration::from_millis(EVENTS_LINGER_MS);
        if seats.listeners > 0 || !self.is_recording() {
            return None;
        }
        if Instant::now() < end {
            return Some(end);
        }
        self.record(false);
        let mut ring = self.ring.write();
        let mut intake = self.intake.lock();
        let forgotten = std::mem::take(&mut intake.events);
        intake.bytes = 0;
        let ring = std::mem::replace(&mut *ring, Ring::new(intake.next));
        drop(intake);
        drop((forgotten, ring));
        None
    }

    pub(crate) fn worker(&self, kind: EventKind, worker: &Name, at: u64) {
        if self.is_recording() || self.is_wanted_elsewhere() {
            self.publish(Event::new(kind, at, EventData::Worker(worker.clone())));
        }
    }

    /// Whether the broker has to tell what it sees, because the store does not.
    pub(crate) fn wants_seen(&self) -> bool {
        self.observed.is_none() && (self.is_recording() || self.is_wanted_elsewhere())
    }

    fn is_wanted_elsewhere(&self) -> bool {
        self.relay.as_ref().is_some_and(Relay::is_wanted)
    }

    pub(crate) fn happened(&self, what: Happened, after: &Record, at: u64) {
        let duration_ms = ended_ms(what, after);
        for kind in kinds(what, after) {
            let facts = TaskFacts { duration_ms, ..TaskFacts::of(after) };
            self.publish(Event::new(*kind, at, EventData::Task(facts)));
        }
    }

    /// Tells what happened in this process.
    pub(super) fn publish(&self, event: Event) {
        if let Some(relay) = &self.relay {
            if relay.is_wanted() {
                relay.take(&event);
                self.ring_bell();
            }
            if !self.is_recording() {
                return;
            }
        }
        self.record_event(event);
    }

    fn record_event(&self, event: Event) {
        let mut event = Arc::new(event);
        let mut lost = None;
        {
            let mut intake = self.intake.lock();
            if let Some(event) = Arc::get_mut(&mut event) {
                event.id = intake.next;
            }
            intake.next += 1;
            intake.bytes += event.weight();
            intake.events.push_back(event);
            if intake.events.len() > EVENTS_KEPT_MAX || intake.bytes > EVENTS_KEPT_BYTES_MAX {
                lost = intake.events.pop_front();
                intake.bytes -= lost.as_ref().map_or(0, |event| event.weight());
            }
        }
        drop(lost);
        self.tallies.recorded.fetch_add(1, Ordering::Relaxed);
        self.ring_bell();
    }

    fn ring_bell(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// Moves what is in the intake to the ring and wakes those who wait for it.
    pub(super) fn turn(&self) {
        if let Some(relay) = &self.relay {
            relay.flush();
        }
        let mut ring = self.ring.write();
        let events = self.empty_intake();
        if events.is_empty() {
            return;
        }
        let gone = ring.append(events);
        let end = ring.end();
        drop(ring);
        self.told.send_replace(end);
        drop(gone);
    }

    /// Tells the figures of this second in place of those of the last.
    pub(super) fn show(&self, figures: [Event; 2]) {
        let mut ring = self.ring.write();
        // Nobody is further than the end of the ring then, so their id leads nobody back.
        let gone = ring.append(self.empty_intake());
        let past = ring.show(figures);
        let end = ring.end();
        drop(ring);
        self.tallies.recorded.fetch_add(2, Ordering::Relaxed);
        self.told.send_replace(end);
        drop((gone, past));
    }

    fn empty_intake(&self) -> VecDeque<Arc<Event>> {
        let mut intake = self.intake.lock();
        intake.bytes = 0;
        std::mem::take(&mut intake.events)
    }

    /// The id that the next event will have.
    pub(super) fn next(&self) -> u64 {
        self.intake.lock().next
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now().wall
    }

    fn rest(&self) -> Duration {
        let listeners = self.seats.lock().listeners as u64;
        Duration::from_millis(REST_MS_MIN + (REST_MS_MAX - REST_MS_MIN) * listeners.min(MANY) / MANY)
    }

    fn is_empty(&self) -> bool {
        self.intake.lock().events.is_empty() && self.relay.as_ref().is_none_or(Relay::is_empty)
    }
}

impl Hearer for Feed {
    fn heard(&self, said: Bytes) {
        let Some(relay) = self.relay.as_ref().filter(|_| self.is_recording()) else { return };
        let Brought { missed, events, dropped } = relay.read(said);
        let lost = |some: u64| Event::new(EventKind::Unheard, self.now(), EventData::Missed(Some(some)));
        if missed > 0 {
            self.record_event(lost(missed));
        }
        events.into_iter().for_each(|event| self.record_event(event));
        if dropped > 0 {
            self.record_event(lost(dropped));
        }
    }

    fn missed(&self) {
        if let Some(relay) = self.relay.as_ref().filter(|_| self.is_recording()) {
            relay.forget();
            self.record_event(Event::new(EventKind::Unheard, self.now(), EventData::Missed(None)));
        }
    }
}

impl Observer for Feed {
    fn changed(&self, change: Option<&Change>, after: &Record) {
        let what = change.map_or(Happened::Submitted, Happened::of);
        self.happened(what, after, change.map_or(after.created_at, Change::at));
    }

    fn paused(&self, queue: &Name, paused: bool) {
        let kind = if paused { EventKind::QueuePaused } else { EventKind::QueueResumed };
        self.publish(Event::new(kind, self.now(), EventData::Queue(queue.clone())));
    }

    fn progressed(&self, record: &Record, progress: &Progress, at: u64) {
        let facts = TaskFacts { progress: Some(progress.clone()), ..TaskFacts::of(record) };
        self.publish(Event::new(EventKind::Progress, at, EventData::Task(facts)));
    }
}

/// Keeps the events moving until the broker stops.
pub(crate) async fn pump(broker: Broker) {
    let feed = &broker.inner.events;
    let stopping = &broker.inner.stopping;
    while !stopping.is_cancelled() {
        feed.asleep.store(true, Ordering::SeqCst);
        if feed.is_empty() {
            tokio::select! {
                () = feed.bell.notified() => {}
                () = stopping.cancelled() => {}
            }
        }
        feed.asleep.store(false, Ordering::SeqCst);
        feed.turn();
        tokio::select! {
            // sleep: what comes meanwhile is told together.
            () = tokio::time::sleep(feed.rest()) => {}
            () = stopping.cancelled() => {}
        }
    }
    feed.turn();
}
