//! The last events, bounded by number and by bytes. Their ids follow each other without a hole. Beside them, the latest figures.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_core::limits::{EVENTS_KEPT_BYTES_MAX, EVENTS_KEPT_MAX};

use super::Event;

#[derive(Debug)]
pub(super) struct Ring {
    /// The id of the oldest event that is here; if there is none, the id that the next will have.
    first: u64,
    events: VecDeque<Arc<Event>>,
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
        Self { first, events: VecDeque::new(), bytes: 0, figures: Figures::default() }
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
            self.bytes = 0;
            self.first = first;
        }
        self.bytes += events.iter().map(|event| event.weight()).sum::<usize>();
        self.events.extend(events);
        while self.events.len() > EVENTS_KEPT_MAX || self.bytes > EVENTS_KEPT_BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.first += 1;
            gone.push(oldest);
        }
        gone
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
}

#[cfg(test)]
mod tests {
    use windlass_core::Name;

    use super::*;
    use crate::events::{EventData, EventKind};

    fn events(ids: std::ops::Range<u64>) -> VecDeque<Arc<Event>> {
        let name = Name::new("q").unwrap();
        let event = |id| {
            Arc::new(Event { id, ..Event::new(EventKind::QueuePaused, 0, EventData::Queue(name.clone())) })
        };
        ids.map(event).collect()
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
