//! What processes on one Redis tell each other: that tasks became ready, or that something comes up sooner than a loop may
//! know. A hint that is lost costs time and nothing else: everybody looks again now and then.
//!
//! On the channel a hint is a line: who tells it, the earliest wake-up and the earliest prune (a dash for none), letters for
//! the loops to wake, and the lanes as `<queue>/<type>`, where a star stands for all types or all queues.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use windlass_core::{Name, Record, Stamp, StateName};

use super::Shared;
use super::link::{Answer, Args};
use super::script::Script;
use crate::store::Error;

/// Lanes that are named one by one; beyond it everybody looks at all of theirs.
const LANES_NAMED_MAX: usize = 100;

/// How soon a process that leads looks by itself, whatever it knows.
const LOOKED_AT_MS: u64 = 30_000;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) due: Option<u64>,
    pub(super) prune: Option<u64>,
    /// The earliest prune that is so near that other processes must hear of it.
    pub(super) prune_soon: Option<u64>,
    pub(super) loops: BTreeSet<Loop>,
    pub(super) lanes: BTreeSet<Lane>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loop {
    Schedules,
    Operations,
    Dependents,
    /// A rate is used up: its next token is to be waited for.
    Gates,
    /// Nobody leads any more.
    Leader,
    /// The one who says it wants to hear of what happens.
    Listens,
    /// The one who says it was not here when others said that they listen.
    WhoListens,
}

/// Where something may be ready.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Type(Name, Name),
    Queue(Name),
    Everywhere,
}

impl Loop {
    const ALL: [(Loop, char); 7] = [
        (Loop::Schedules, 's'),
        (Loop::Operations, 'o'),
        (Loop::Dependents, 'd'),
        (Loop::Gates, 'g'),
        (Loop::Leader, 'l'),
        (Loop::Listens, 'e'),
        (Loop::WhoListens, 'w'),
    ];
}

impl Hint {
    /// What a task that is now like this means to others.
    pub(super) fn add(&mut self, record: &Record) {
        let earlier = |at: &mut Option<u64>, new: Option<u64>| *at = at.take().into_iter().chain(new).min();
        // Converted with the clock of the sender, as it was when the time was set.
        let told = Stamp { wall: record.updated_at, ahead: record.ahead.unwrap_or(0) };
        earlier(&mut self.due, record.wakes().first(told));
        let prune_at = record.ended_at().map(|at| at.saturating_add(record.retention_ms));
        earlier(&mut self.prune, prune_at);
        earlier(&mut self.prune_soon, prune_at.filter(|_| record.retention_ms < LOOKED_AT_MS));
        if record.must_tell() {
            self.loops.insert(Loop::Dependents);
        }
        if record.state_name() == StateName::Pending && self.lanes.len() <= LANES_NAMED_MAX {
            self.lanes.insert(Lane::Type(record.queue.clone(), record.kind.clone()));
        }
    }

    pub(super) fn wakes(mut self, wake: Loop) -> Hint {
        self.loops.insert(wake);
        self
    }

    /// Nothing if others need not hear of it.
    pub(super) fn write(&self, origin: &str) -> String {
        let silent = self.due.is_none() && self.prune_soon.is_none();
        if silent && self.loops.is_empty() && self.lanes.is_empty() {
            return String::new();
        }
        let time = |at: Option<u64>| at.map_or("-".to_owned(), |at| at.to_string());
        let letters = Loop::ALL.iter().filter(|(wake, _)| self.loops.contains(wake));
        let letters: String = std::iter::once('+').chain(letters.map(|(_, letter)| *letter)).collect();
        let mut line = format!("{origin} {} {} {letters}", time(self.due), time(self.prune_soon));
        if self.lanes.len() > LANES_NAMED_MAX {
            line.push_str(" */*");
            return line;
        }
        for lane in &self.lanes {
            match lane {
                Lane::Type(queue, kind) => line.push_str(&format!(" {queue}/{kind}")),
                Lane::Queue(queue) => line.push_str(&format!(" {queue}/*")),
                Lane::Everywhere => line.push_str(" */*"),
            }
        }
        line
    }

    /// Who told it, and what; `None` for what another version may say.
    pub(super) fn read(line: &str) -> Option<(&str, Hint)> {
        let mut words = line.split(' ');
        let (origin, due, prune, letters) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let lane = |word: &str| match word.split_once('/')? {
            ("*", "*") => Some(Lane::Everywhere),
            (queue, "*") => Some(Lane::Queue(Name::new(queue).ok()?)),
            (queue, kind) => Some(Lane::Type(Name::new(queue).ok()?, Name::new(kind).ok()?)),
        };
        let loops = Loop::ALL.iter().filter(|(_, letter)| letters.contains(*letter)).map(|(wake, _)| *wake);
        let hint = Hint {
            due: due.parse().ok(),
            prune: prune.parse().ok(),
            prune_soon: prune.parse().ok(),
            loops: loops.collect(),
            lanes: words.filter_map(lane).collect(),
        };
        Some((origin, hint))
    }
}

/// What a loop sleeps until, as far as this process knows.
#[derive(Debug)]
pub(super) struct Horizon(AtomicU64);

impl Default for Horizon {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Horizon {
    pub(super) fn set(&self, next: Option<u64>) {
        self.0.store(next.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Wakes the loop if this is nearer.
    pub(super) fn tell(&self, at: Option<u64>, nearer: &Notify) {
        let Some(at) = at else { return };
        if at < self.0.fetch_min(at, Ordering::SeqCst) {
            nearer.notify_one();
        }
    }
}

impl Shared {
    /// Calls a script whose effect others may wait for. A call that failed may have been carried out all the same. Then this
    /// process gets no notification, so it acts on the hint itself.
    pub(super) async fn call_and_tell(
        &self,
        script: &Script,
        args: &Args,
        hint: &Hint,
    ) -> Result<Answer, Error> {
        let answer = self.link.call(script, args).await;
        self.stirred.store(true, Ordering::Relaxed);
        if answer.is_err() {
            self.heed(hint);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_read_as_it_was_written() {
        let name = |text: &str| Name::new(text).unwrap();
        let lanes = [Lane::Type(name("q"), name("t:1")), Lane::Queue(name("r"))];
        let hint = Hint {
            due: Some(7),
            prune: Some(9),
            prune_soon: Some(9),
            loops: BTreeSet::from([Loop::Dependents]),
            lanes: BTreeSet::from(lanes),
        };
        let line = hint.write("me");
        assert_eq!(line, "me 7 9 +d q/t:1 r/*");
        assert_eq!(Hint::read(&line), Some(("me", hint)));
        assert_eq!(Hint::read("something else"), None);
        let distant = Hint { prune: Some(9), ..Hint::default() };
        assert_eq!(distant.write("me"), "", "nobody need hear of it");
    }

    #[test]
    fn many_lanes_become_all() {
        let mut hint = Hint::default();
        for i in 0..=LANES_NAMED_MAX {
            hint.lanes.insert(Lane::Queue(Name::new(&format!("q{i}")).unwrap()));
        }
        let (_, read) = Hint::read(&hint.write("me")).map(|(who, hint)| (who.to_owned(), hint)).unwrap();
        assert_eq!(read.lanes, BTreeSet::from([Lane::Everywhere]));
    }
}
