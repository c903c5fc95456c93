//! The last events, bounded by number and by bytes. Their ids follow each other without a hole. Beside them, the latest figures.
//!
//! Most listeners follow a queue or two of many, so the events of each queue are known by their ids: a listener looks at
//! those, not at everything that happened.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use windlass_core::Name;
use windlass_core::limits::{EVENTS_KEPT_BYTES_MAX, EVENTS_KEPT_MAX};

use super::{Event, EventData};

#[derive(Debug)]
pub(super) struct Ring {
    /// The id of the oldest event that is here; if there is none, the id that the next will have.
    first: u64,
    events: VecDeque<Arc<Event>>,
    /// The ids of those that are about a queue, and of those that everybody hears (`None`), in order.
    by_queue: HashMap<Option<Name>, VecDeque<u64>>,
    bytes: usize,
    figures: Figures,
}

/// What was told of the last second.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Grows with every second that was told of.
    pub(super) round: u64,
    /// They come behind the event before this id.
    pub(super) next: u64,
    pub(super) events: Vec<Arc<Event>>,
}

impl Ring {
    pub(super) fn new(first: u64) -> Self {
        let (events, by_queue) = (VecDeque::new(), HashMap::default());
        Self { first, events, by_queue, bytes: 0, figures: Figures::default() }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The id that the next event will have if none is lost.
    pub(super) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Takes events whose ids follow each other. If some were lost before them, what was here cannot stay either. Returns what
    /// had to go, so that it is dropped by somebody who holds no lock.
    pub(super) fn append(&mut self, events: VecDeque<Arc<Event>>) -> Vec<Arc<Event>> {
        let Some(first) = events.front().map(|event| event.id) else { return Vec::new() };
        let mut gone = Vec::new();
        if first != self.end() {
            gone.extend(self.events.drain(..));
            self.by_queue.clear();
            self.bytes = 0;
            self.first = first;
        }
        for event in events {
            self.bytes += event.weight();
            self.index(&event);
            self.events.push_back(event);
        }
        while self.events.len() > EVENTS_KEPT_MAX || self.bytes > EVENTS_KEPT_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.first += 1;
            self.forget(&oldest);
            gone.push(oldest);
        }
        gone
    }

    fn index(&mut self, event: &Event) {
        if let Some(topic) = topic(event) {
            self.by_queue.entry(topic).or_default().push_back(event.id);
        }
    }

    /// What is known of the oldest event of all, which is the oldest of its queue too.
    fn forget(&mut self, event: &Event) {
        if let Some(Entry::Occupied(mut ids)) = topic(event).map(|topic| self.by_queue.entry(topic)) {
            ids.get_mut().pop_front();
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Takes figures, which get the id of the last event; returns those that were here.
    pub(super) fn show(&mut self, figures: [Event; 2]) -> Figures {
        let (round, next) = (self.figures.round + 1, self.end());
        let id = next.saturating_sub(1);
        let events = figures.map(|event| Arc::new(Event { id, ..event })).into();
        std::mem::replace(&mut self.figures, Figures { round, next, events })
    }

    /// The events from an id on that is here.
    pub(super) fn from(&self, id: u64) -> impl Iterator<Item = &Arc<Event>> {
        let skipped = usize::try_from(id.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.events.range(skipped.min(self.events.len())..)
    }

    /// The events about a queue, or those that everybody hears, of those with these ids that are here.
    pub(super) fn about(&self, queue: Option<&Name>, ids: Range<u64>) -> impl Iterator<Item = &Arc<Event>> {
        let known = self.by_queue.get(&queue.cloned());
        let skipped = known.map_or(0, |known| known.partition_point(|id| *id < ids.start));
        let some = known.into_iter().flat_map(move |known| known.range(skipped..));
        some.take_while(move |id| **id < ids.end).filter_map(|id| self.events.get((id - self.first) as usize))
    }
}

/// Under what listeners of queues find it, if they do.
fn topic(event: &Event) -> Option<Option<Name>> {
    match event.data {
        EventData::Missed(_) => Some(None),
        _ => event.queue().cloned().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::Name;

    use super::*;
    use crate::events::EventKind;

    /// By turns about two queues and about none.
    fn events(ids: Range<u64>) -> VecDeque<Arc<Event>> {
        let data = |id: u64| match id % 3 {
            0 => EventData::Queue(name("even")),
            1 => EventData::Queue(name("odd")),
            _ if id == 5 => EventData::Missed(None),
            _ => EventData::Worker(name("w")),
        };
        ids.map(|id| Arc::new(Event { id, ..Event::new(EventKind::QueuePaused, 0, data(id)) })).collect()
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn about(ring: &Ring, queue: Option<&str>, ids: Range<u64>) -> Vec<u64> {
        ring.about(queue.map(name).as_ref(), ids).map(|event| event.id).collect()
    }

    #[test]
    fn a_queue_has_its_own_events() {
        let mut ring = Ring::new(0);
        ring.append(events(0..10));
        assert_eq!(about(&ring, Some("even"), 0..10), [0, 3, 6, 9]);
        assert_eq!(about(&ring, Some("odd"), 2..7), [4]);
        assert_eq!(about(&ring, Some("none"), 0..10), [0; 0]);
        assert_eq!(about(&ring, None, 0..10), [5]);
        ring.append(events(12..16));
        assert_eq!(about(&ring, Some("even"), 0..99), [12, 15]);
        let max = EVENTS_KEPT_MAX.min(EVENTS_KEPT_BYTES_MAX / 900) as u64;
        ring.append(events(16..16 + max));
        assert_eq!(about(&ring, Some("even"), 0..25), [18, 21, 24]);
        assert_eq!(
            ring.by_queue.values().map(VecDeque::len).sum::<usize>(),
            ring.events.iter().filter(|event| event.queue().is_some()).count()
        );
    }

    #[test]
    fn the_oldest_go_when_it_is_full() {
        let mut ring = Ring::new(5);
        assert!(ring.append(events(5..10)).is_empty());
        assert_eq!((ring.first(), ring.end(), ring.from(8).count()), (5, 10, 2));
        let max = EVENTS_KEPT_MAX.min(EVENTS_KEPT_BYTES_MAX / 900) as u64;
        let gone = ring.append(events(10..10 + max));
        assert_eq!(gone.iter().map(|event| event.id).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
        assert_eq!((ring.first(), ring.end()), (10, 10 + max));
        assert!(ring.bytes <= EVENTS_KEPT_BYTES_MAX);
    }

    #[test]
    fn a_hole_clears_what_was_before_it() {
        let mut ring = Ring::new(0);
        ring.append(events(0..10));
        assert_eq!(ring.append(events(12..13)).len(), 10);
        assert_eq!((ring.first(), ring.end()), (12, 13));
        assert_eq!(ring.from(99).count(), 0);
    }
}
