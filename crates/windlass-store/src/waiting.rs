//! Claims that wait for work.
//!
//! Each waiter stands in the line of every queue it listens to, under the types it wants, and leaves all of them at once
//! when it is served or gives up. Lines are ordered by arrival, so the first of a queue that wants a type is found
//! without a look at anybody else. What a waiter carries is the store's business.

use std::collections::{BTreeSet, HashMap};

use windlass_core::Name;
use windlass_core::limits::WAITERS_MAX;

use crate::store::Error;

#[derive(Debug)]
pub struct Waiting<T> {
    arrivals: u64,
    limit: usize,
    waiters: HashMap<Ticket, Waiter<T>>,
    lines: HashMap<Name, Line>,
}

/// Names a waiter; an earlier arrival has the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

#[derive(Debug)]
struct Waiter<T> {
    queues: Vec<Name>,
    types: Option<Vec<Name>>,
    item: T,
}

/// Those who wait at one queue.
#[derive(Debug, Default)]
struct Line {
    any_type: BTreeSet<Ticket>,
    by_type: HashMap<Name, BTreeSet<Ticket>>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self::with_limit(WAITERS_MAX)
    }
}

impl<T> Waiting<T> {
    pub fn with_limit(limit: usize) -> Self {
        Self { arrivals: 0, limit, waiters: HashMap::new(), lines: HashMap::new() }
    }

    /// Adds a waiter at the end; `types` of `None` wants all. Refused with [`Error::Busy`] when too many wait already.
    pub fn register(
        &mut self,
        queues: Vec<Name>,
        types: Option<Vec<Name>>,
        item: T,
    ) -> Result<Ticket, Error> {
        if self.waiters.len() >= self.limit {
            return Err(Error::Busy);
        }
        self.arrivals += 1;
        let ticket = Ticket(self.arrivals);
        for queue in &queues {
            self.lines.entry(queue.clone()).or_default().enter(ticket, types.as_deref());
        }
        self.waiters.insert(ticket, Waiter { queues, types, item });
        Ok(ticket)
    }

    /// The one who waits longest for a task of this queue and type. It stays until it is removed, so that a store that
    /// has nothing for it after all costs it no place.
    pub fn first(&self, queue: &Name, kind: &Name) -> Option<(Ticket, &T)> {
        let line = self.lines.get(queue)?;
        let any_type = line.any_type.first();
        let typed = line.by_type.get(kind).and_then(BTreeSet::first);
        let ticket = *any_type.into_iter().chain(typed).min()?;
        Some((ticket, &self.waiters[&ticket].item))
    }

    /// What a waiter carries, unless it has left.
    pub fn get(&self, ticket: Ticket) -> Option<&T> {
        self.waiters.get(&ticket).map(|waiter| &waiter.item)
    }

    /// What a waiter carries, to change it.
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.waiters.get_mut(&ticket).map(|waiter| &mut waiter.item)
    }

    /// The queues at which somebody waits.
    pub fn queues(&self) -> impl Iterator<Item = &Name> {
        self.lines.keys()
    }

    /// The types that somebody waits for at a queue; `None` among them stands for any type.
    pub fn wanted(&self, queue: &Name) -> impl Iterator<Item = Option<&Name>> {
        let line = self.lines.get(queue);
        let any_type = line.filter(|line| !line.any_type.is_empty()).map(|_| None);
        any_type.into_iter().chain(line.into_iter().flat_map(|line| line.by_type.keys().map(Some)))
    }

    /// Takes a waiter out of all its lines. `None` if it has left before.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let waiter = self.waiters.remove(&ticket)?;
        for queue in &waiter.queues {
            // A queue that was named twice has no line any more the second time.
            let Some(line) = self.lines.get_mut(queue) else { continue };
            line.leave(ticket, waiter.types.as_deref());
            if line.is_empty() {
                self.lines.remove(queue);
            }
        }
        Some(waiter.item)
    }

    /// Removes and returns the [`first`](Self::first).
    pub fn take(&mut self, queue: &Name, kind: &Name) -> Option<T> {
        let (ticket, _) = self.first(queue, kind)?;
        self.remove(ticket)
    }

    /// Removes and returns somebody, whatever it waits for.
    pub fn take_any(&mut self) -> Option<T> {
        let ticket = *self.waiters.keys().next()?;
        self.remove(ticket)
    }

    /// Sends everybody away, longest wait first.
    pub fn clear(&mut self) -> Vec<T> {
        self.lines.clear();
        let mut left: Vec<_> = self.waiters.drain().collect();
        left.sort_unstable_by_key(|(ticket, _)| *ticket);
        left.into_iter().map(|(_, waiter)| waiter.item).collect()
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether the next one would be refused.
    pub fn is_full(&self) -> bool {
        self.waiters.len() >= self.limit
    }
}

impl Line {
    fn enter(&mut self, ticket: Ticket, types: Option<&[Name]>) {
        let Some(types) = types else {
            self.any_type.insert(ticket);
            return;
        };
        for kind in types {
            self.by_type.entry(kind.clone()).or_default().insert(ticket);
        }
    }

    fn leave(&mut self, ticket: Ticket, types: Option<&[Name]>) {
        let Some(types) = types else {
            self.any_type.remove(&ticket);
            return;
        };
        for kind in types {
            let Some(tickets) = self.by_type.get_mut(kind) else { continue };
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.by_type.remove(kind);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.any_type.is_empty() && self.by_type.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|text| name(text)).collect()
    }

    fn enter(waiting: &mut Waiting<u32>, queues: &[&str], types: Option<&[&str]>, item: u32) -> Ticket {
        waiting.register(names(queues), types.map(names), item).unwrap()
    }

    fn take(waiting: &mut Waiting<u32>, queue: &str, kind: &str) -> Option<u32> {
        waiting.take(&name(queue), &name(kind))
    }

    #[test]
    fn the_first_to_come_is_the_first_served_whatever_it_filters() {
        let mut waiting = Waiting::default();
        enter(&mut waiting, &["a"], Some(&["x"]), 1);
        enter(&mut waiting, &["a"], None, 2);
        enter(&mut waiting, &["a"], Some(&["y", "x"]), 3);
        assert_eq!(take(&mut waiting, "a", "y"), Some(2));
        assert_eq!(take(&mut waiting, "a", "x"), Some(1));
        assert_eq!(take(&mut waiting, "a", "z"), None);
        assert_eq!(take(&mut waiting, "b", "x"), None);
        assert_eq!(take(&mut waiting, "a", "x"), Some(3));
        assert!(waiting.is_empty() && waiting.lines.is_empty());
    }

    #[test]
    fn a_waiter_of_several_queues_is_taken_once() {
        let mut waiting = Waiting::default();
        enter(&mut waiting, &["a", "b", "a"], Some(&["x", "y", "x"]), 1);
        enter(&mut waiting, &["b"], None, 2);
        assert_eq!(take(&mut waiting, "b", "x"), Some(1));
        assert_eq!(take(&mut waiting, "a", "x"), None);
        assert_eq!(take(&mut waiting, "a", "y"), None);
        assert_eq!(take(&mut waiting, "b", "x"), Some(2));
        assert!(waiting.lines.is_empty(), "nothing is left behind: {waiting:?}");
    }

    #[test]
    fn who_leaves_is_not_served_and_leaves_nothing_behind() {
        let mut waiting = Waiting::default();
        let first = enter(&mut waiting, &["a", "b"], None, 1);
        let second = enter(&mut waiting, &["a"], Some(&["x"]), 2);
        assert_eq!(waiting.first(&name("a"), &name("x")), Some((first, &1)));
        assert_eq!(waiting.remove(first), Some(1));
        assert_eq!(waiting.remove(first), None);
        assert_eq!(waiting.first(&name("a"), &name("x")), Some((second, &2)));
        assert_eq!(waiting.remove(second), Some(2));
        assert!(waiting.is_empty() && waiting.lines.is_empty());
    }

    #[test]
    fn too_many_waiters_are_refused_until_one_leaves() {
        let mut waiting = Waiting::with_limit(2);
        let first = enter(&mut waiting, &["a"], None, 1);
        enter(&mut waiting, &["a"], None, 2);
        assert!(matches!(waiting.register(names(&["a"]), None, 3), Err(Error::Busy)));
        waiting.remove(first);
        enter(&mut waiting, &["a"], None, 4);
        assert_eq!(waiting.clear(), [2, 4]);
        assert!(waiting.is_empty() && waiting.lines.is_empty());
    }
}
