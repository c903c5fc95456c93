//! One who hears: a place in the ring, and what passes its filter.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::limits::{EVENTS_READ_MAX, EVENTS_SCAN_MAX};

use super::feed::Feed;
use super::ring::Ring;
use super::{Event, EventData, EventFilter, EventKind, Kinds};
use crate::broker::Broker;
use crate::error::Error;

/// From more queues than this it is cheaper to look at every event.
const QUEUES_BY_ID_MAX: usize = 16;

/// What a listener gets.
#[derive(Debug, Clone)]
pub enum Heard {
    Event(Arc<Event>),
    Gap(Gap),
}

/// Events are missing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Whoever comes back with this id as the last one goes on behind the gap.
    pub id: u64,
    /// Wall clock.
    pub at: u64,
    /// How many, whether or not they would have passed the filter; `None` if nobody counted them.
    pub missed: Option<u64>,
    pub reason: GapReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The last id was given by a broker that is no more, or by another one.
    Restart,
    /// More happened than is kept.
    Overrun,
    /// Nobody listened for so long that nothing was kept.
    Expired,
    /// Other processes on the same store were not heard, or told more than could be carried.
    Unheard,
}

impl GapReason {
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::Restart => "restart",
            GapReason::Overrun => "overrun",
            GapReason::Expired => "expired",
            GapReason::Unheard => "unheard",
        }
    }
}

/// How many listen, and how they fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    pub listeners: usize,
    /// Events built since the broker started.
    pub recorded: u64,
    /// Events that did not reach a listener because it fell behind, for each of them.
    pub missed: u64,
    /// Listeners that were cut because they did not read.
    pub cut: u64,
}

/// Hears events until it is dropped. What it holds is bounded, however slow it is.
#[derive(Debug)]
pub struct Listener {
    feed: Arc<Feed>,
    filter: EventFilter,
    /// The id that it looks at next.
    next: u64,
    gap: Option<Gap>,
    ready: VecDeque<Arc<Event>>,
    /// The last figures that it heard or was too late for.
    round: u64,
    told: watch::Receiver<u64>,
    /// There may be something in the ring that it has not looked at.
    unread: bool,
}

impl Broker {
    /// Hears what passes from now on, or from behind the event `after`, as far as that is kept. Refused when too many listen.
    pub fn listen(&self, filter: EventFilter, after: Option<u64>) -> Result<Listener, Error> {
        Listener::enter(&self.inner.events, filter, after, self.inner.settings.listeners_max)
            .ok_or(Error::TooManyListeners)
    }

    /// Hears all that happens from now on, without the figures of every second, for a part of this process.
    pub fn subscribe(&self) -> Listener {
        let kinds = Kinds::ALL.without(&[EventKind::QueueDepth, EventKind::SystemMetrics]);
        let filter = EventFilter { kinds, ..EventFilter::default() };
        Listener::enter(&self.inner.events, filter, None, usize::MAX).expect("there is no limit on these")
    }

    pub fn audience(&self) -> Audience {
        let feed = &self.inner.events;
        Audience {
            listeners: feed.seats.lock().listeners,
            recorded: feed.tallies.recorded.load(Ordering::Relaxed),
            missed: feed.tallies.missed.load(Ordering::Relaxed),
            cut: feed.tallies.cut.load(Ordering::Relaxed),
        }
    }
}

impl Listener {
    fn enter(feed: &Arc<Feed>, filter: EventFilter, after: Option<u64>, max: usize) -> Option<Listener> {
        let mut seats = feed.seats.lock();
        if seats.listeners >= max {
            return None;
        }
        feed.begin(&mut seats);
        seats.listeners += 1;
        seats.figures += usize::from(filter.wants_figures());
        seats.left = None;
        let era = seats.era;
        drop(seats);
        feed.turnstile.notify_one();
        let (next, gap) = match after {
            None => (feed.next(), None),
            Some(after) => place(feed, after, era),
        };
        Some(Listener {
            told: feed.told.subscribe(),
            feed: feed.clone(),
            filter,
            next,
            gap,
            ready: VecDeque::new(),
            unread: true,
            round: feed.ring.read().figures().round,
        })
    }

    /// The next event or gap. May be dropped and called again.
    pub async fn recv(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.more() {
                return heard;
            }
            self.woken().await;
        }
    }

    /// Ready when there may be something to hear, which is for [`Listener::more`] to find out: that may be work. May be dropped
    /// and called again.
    pub async fn woken(&mut self) {
        if !self.unread {
            // The sender lives as long as the feed, and this holds the feed.
            let _ = self.told.changed().await;
            self.unread = true;
        }
    }

    /// What is there already.
    pub fn try_recv(&mut self) -> Option<Heard> {
        self.read().or_else(|| {
            self.feed.turn();
            self.read()
        })
    }

    /// Whoever comes back with this id as the last one misses nothing; `None` while there is something to be told first.
    pub fn place(&self) -> Option<u64> {
        (self.gap.is_none() && self.ready.is_empty()).then(|| self.next.saturating_sub(1))
    }

    /// What is there already, without looking for what was not told yet: for whoever was just woken.
    pub fn more(&mut self) -> Option<Heard> {
        // In this order: what is told during the look is not missed.
        self.told.borrow_and_update();
        let heard = self.read();
        self.unread = heard.is_some();
        heard
    }

    /// It is cut because it does not read.
    pub fn cut(self) {
        self.feed.tallies.cut.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&mut self) -> Option<Heard> {
        if let Some(gap) = self.gap.take() {
            return Some(Heard::Gap(gap));
        }
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(heard(event));
            }
            let ring = self.feed.ring.read();
            if self.next < ring.first() {
                let missed = ring.first() - self.next;
                self.next = ring.first();
                drop(ring);
                self.feed.tallies.missed.fetch_add(missed, Ordering::Relaxed);
                return Some(Heard::Gap(Gap {
                    id: self.next - 1,
                    at: self.feed.now(),
                    missed: Some(missed),
                    reason: GapReason::Overrun,
                }));
            }
            let figures = ring.figures();
            let mut end = ring.end();
            if self.round != figures.round {
                if self.next >= figures.next {
                    // Those who are past their place, because they missed what was before it, hear the next ones.
                    if self.next == figures.next {
                        self.ready.extend(figures.events.iter().filter(|it| self.filter.passes(it)).cloned());
                    }
                    self.round = figures.round;
                    continue;
                }
                end = end.min(figures.next);
            }
            // One that came just now begins behind what is still on its way into the ring.
            if self.next >= end {
                return None;
            }
            self.next = gather(&ring, &self.filter, self.next..end, &mut self.ready);
        }
    }
}

fn heard(event: Arc<Event>) -> Heard {
    match event.data {
        EventData::Missed(missed) => {
            Heard::Gap(Gap { id: event.id, at: event.at, missed, reason: GapReason::Unheard })
        }
        _ => Heard::Event(event),
    }
}

/// Takes what passes of the events with these ids, as much as may be taken or looked at in one go. Returns where to go on.
fn gather(ring: &Ring, filter: &EventFilter, ids: Range<u64>, ready: &mut VecDeque<Arc<Event>>) -> u64 {
    if filter.queues.is_empty() || filter.queues.len() > QUEUES_BY_ID_MAX {
        for (looked_at, event) in ring.from(ids.start).enumerate() {
            if event.id >= ids.end || looked_at == EVENTS_SCAN_MAX || ready.len() == EVENTS_READ_MAX {
                return event.id.min(ids.end);
            }
            if filter.passes(event) {
                ready.push_back(event.clone());
            }
        }
        return ids.end;
    }
    // As many of each queue, so that a large number of them costs no more than a small one. Behind the end of one that has more,
    // others may have been passed over.
    let most = (EVENTS_READ_MAX / filter.queues.len()).max(1);
    let mut end = ids.end;
    let mut some = Vec::with_capacity(EVENTS_READ_MAX);
    for queue in filter.queues.iter().map(Some).chain([None]) {
        let before = some.len();
        some.extend(ring.about(queue, ids.clone()).take(most));
        if some.len() == before + most {
            end = end.min(some.last().map_or(ids.end, |event| event.id + 1));
        }
    }
    some.retain(|event| event.id < end && filter.passes(event));
    some.sort_unstable_by_key(|event| event.id);
    ready.extend(some.into_iter().cloned());
    end
}

/// Where one begins who heard everything up to `after`.
fn place(feed: &Feed, after: u64, era: u64) -> (u64, Option<Gap>) {
    let reason = if after < feed.boot || after >= feed.next() {
        // An id that was never given is of a broker whose clock was ahead.
        GapReason::Restart
    } else if after + 1 < era {
        GapReason::Expired
    } else {
        return (after + 1, None);
    };
    let first = feed.ring.read().first();
    (first, Some(Gap { id: first - 1, at: feed.now(), missed: None, reason }))
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut seats = self.feed.seats.lock();
        seats.listeners -= 1;
        seats.figures -= usize::from(self.filter.wants_figures());
        if seats.listeners == 0 {
            seats.left = Some(Instant::now());
            drop(seats);
            self.feed.turnstile.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Name;

    use super::super::EventData;
    use super::*;

    /// Numbers that look as if by chance, the same every time.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn queue(number: u64) -> Name {
        Name::new(&format!("q{number}")).unwrap()
    }

    fn event(id: u64, chance: &mut Chance, queues: u64) -> Arc<Event> {
        let (kind, data) = match chance.below(40) {
            0 => (EventKind::Unheard, EventData::Missed(Some(1))),
            1 => (EventKind::WorkerJoined, EventData::Worker(queue(0))),
            number if number % 2 == 0 => {
                (EventKind::QueuePaused, EventData::Queue(queue(chance.below(queues))))
            }
            _ => (EventKind::QueueResumed, EventData::Queue(queue(chance.below(queues)))),
        };
        Arc::new(Event { id, ..Event::new(kind, 0, data) })
    }

    #[test]
    fn who_follows_queues_hears_what_passes_and_nothing_twice() {
        let mut chance = Chance(7);
        for _ in 0..300 {
            let (first, queues) = (chance.below(1000), 1 + chance.below(30));
            let mut ring = Ring::new(first);
            let events = (first..first + chance.below(3000)).map(|id| event(id, &mut chance, queues));
            ring.append(events.collect());
            let mut filter = EventFilter::default();
            filter.queues.extend((0..1 + chance.below(20)).map(|_| queue(chance.below(40))));
            if chance.below(2) == 0 {
                filter.kinds = Kinds::of(&[EventKind::QueuePaused]);
            }
            let begin = first + chance.below(200);
            let expected: Vec<u64> =
                ring.from(begin).filter(|event| filter.passes(event)).map(|event| event.id).collect();
            let (mut heard, mut next) = (Vec::new(), begin);
            while next < ring.end() {
                let mut ready = VecDeque::new();
                let after = gather(&ring, &filter, next..ring.end(), &mut ready);
                assert!(after > next && ready.len() <= 2 * EVENTS_READ_MAX);
                heard.extend(ready.iter().map(|event| event.id));
                next = after;
            }
            assert_eq!(heard, expected);
        }
    }
}
