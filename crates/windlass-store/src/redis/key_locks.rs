//! Locks on unique keys, and the retries of submits that contend for them.
//!
//! A submit with a unique key reads the holder of the key, decides, and commits under the condition that the holder is still
//! the same. Of many submits that replace each other only one can commit at a time, and each of the others decides again. So
//! after its first conflict a submit takes the locks of its keys, and submits that find a lock taken queue up for it from the start:
//! within a process they follow each other without conflicts, in the order in which they came. Between processes there is no lock. There
//! a conflict is retried after a short random pause, for a bounded time.
//!
//! A lock decides nothing; the guards of the transaction do. So a submit continues without its turn when the line does not move, and a
//! Redis that does not answer holds up nobody for long.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use windlass_core::limits::{CONFLICT_MS_MAX, CONFLICT_TRIES_MAX, KEY_LINE_MS_MAX, KEY_TURN_MS_MAX};
use windlass_core::{NewTask, UniqueKey};

/// The longest pause after a conflict is two to this power, in milliseconds.
const PAUSE_DOUBLINGS_MAX: u32 = 5;

/// The submits of one key: the one whose turn it is, and those that wait.
#[derive(Debug, Default)]
struct Line {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many have had their turn.
    passed: AtomicU64,
}

impl Line {
    /// Waits for as long as the line moves, up to a bound; `None` if the turn did not come.
    async fn take_turn(&self, until: Instant) -> Option<OwnedMutexGuard<()>> {
        let mut turn = std::pin::pin!(Arc::clone(&self.turn).lock_owned());
        let mut seen = self.passed.load(Ordering::Relaxed);
        loop {
            if let Ok(guard) = tokio::time::timeout(Duration::from_millis(KEY_TURN_MS_MAX), &mut turn).await {
                return Some(guard);
            }
            let passed = self.passed.load(Ordering::Relaxed);
            if passed == seen || Instant::now() >= until {
                return None;
            }
            seen = passed;
        }
    }
}

/// The lines of a process. Only keys that somebody holds or waits for are in the map.
#[derive(Debug, Default)]
pub(super) struct KeyLocks(Mutex<HashMap<UniqueKey, Arc<Line>>>);

impl KeyLocks {
    fn is_contended(&self, keys: &BTreeSet<UniqueKey>) -> bool {
        let lines = self.0.lock();
        keys.iter().any(|key| lines.contains_key(key))
    }

    /// Takes the locks of some keys, in their order, so that no two submits wait for each other.
    async fn lock<'a>(&'a self, keys: &'a BTreeSet<UniqueKey>) -> Vec<Turn<'a>> {
        let until = Instant::now() + Duration::from_millis(KEY_LINE_MS_MAX);
        let mut turns = Vec::with_capacity(keys.len());
        for key in keys {
            let line = Arc::clone(self.0.lock().entry(key.clone()).or_default());
            let mut turn = Turn { locks: self, key, line: Some(line), guard: None };
            // No other handle of the line: the one who gives up here must see whether it is the last.
            if let Some(line) = &turn.line {
                turn.guard = line.take_turn(until).await;
            }
            turns.push(turn);
        }
        turns
    }
}

/// A place in the line of a key; the last one to leave takes the line out of the map.
#[derive(Debug)]
struct Turn<'a> {
    locks: &'a KeyLocks,
    key: &'a UniqueKey,
    line: Option<Arc<Line>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let (Some(line), Some(_)) = (&self.line, self.guard.take()) {
            line.passed.fetch_add(1, Ordering::Relaxed);
        }
        let mut lines = self.locks.0.lock();
        self.line = None;
        if lines.get(self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(self.key);
        }
    }
}

/// The unique keys that some tasks ask for.
pub(super) fn keys_of(tasks: &[NewTask]) -> BTreeSet<UniqueKey> {
    tasks.iter().filter_map(|new| Some(new.unique.as_ref()?.key.clone())).collect()
}

/// The tries of one submit that is decided here and committed under conditions.
#[derive(Debug)]
pub(super) struct Tries<'a> {
    locks: &'a KeyLocks,
    keys: &'a BTreeSet<UniqueKey>,
    turns: Vec<Turn<'a>>,
    /// When it began, or when its turn came.
    began: Instant,
    /// After which there are only as many tries as everywhere.
    patience: Duration,
    tries: u32,
}

impl<'a> Tries<'a> {
    pub(super) fn new(locks: &'a KeyLocks, keys: &'a BTreeSet<UniqueKey>) -> Tries<'a> {
        let patience = Duration::from_millis(CONFLICT_MS_MAX);
        Tries { locks, keys, turns: Vec::new(), began: Instant::now(), patience, tries: 0 }
    }

    /// Waits until it is time for the next try; `false` if there were enough.
    pub(super) async fn next(&mut self) -> bool {
        let tried = self.tries;
        self.tries += 1;
        if tried as usize >= CONFLICT_TRIES_MAX && self.began.elapsed() >= self.patience {
            return false;
        }
        let is_free = self.turns.is_empty() && !self.keys.is_empty();
        if is_free && (tried > 0 || self.locks.is_contended(self.keys)) {
            self.turns = self.locks.lock(self.keys).await;
            self.began = Instant::now();
        } else if tried > 0 {
            let longest = 1 << tried.min(PAUSE_DOUBLINGS_MAX);
            // sleep: another process was faster, and tells nobody when it is done with the key.
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..=longest))).await;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(texts: &[&str]) -> BTreeSet<UniqueKey> {
        texts.iter().map(|text| UniqueKey::new(text).unwrap()).collect()
    }

    /// Whether it has to wait for its turn.
    async fn waits(tries: &mut Tries<'_>) -> bool {
        tokio::select! {
            biased;
            _ = tries.next() => false,
            () = std::future::ready(()) => true,
        }
    }

    #[tokio::test]
    async fn a_submit_that_meets_a_lock_queues_up_and_leaves_nothing_behind() {
        let locks = KeyLocks::default();
        let (both, one, other) = (keys(&["a", "b"]), keys(&["b"]), keys(&["c"]));
        let mut first = Tries::new(&locks, &both);
        assert!(first.next().await && first.turns.is_empty(), "the first try takes no lock");
        assert!(first.next().await);
        assert_eq!(first.turns.len(), 2, "a conflict makes it take both");
        let mut free = Tries::new(&locks, &other);
        assert!(!waits(&mut free).await && free.turns.is_empty(), "nobody contends for that key");
        let mut second = Tries::new(&locks, &one);
        assert!(waits(&mut second).await, "it is not its turn");
        drop(first);
        assert!(!locks.is_contended(&both), "a submit that gave up waiting left nothing behind");
        assert!(!waits(&mut second).await && second.turns.iter().all(|turn| turn.guard.is_some()));
        let mut third = Tries::new(&locks, &both);
        assert!(waits(&mut third).await, "it queues up before its first try");
        drop(second);
        assert!(!waits(&mut third).await);
        drop(third);
        assert!(locks.0.lock().is_empty());
    }

    #[tokio::test]
    async fn tries_end() {
        let locks = KeyLocks::default();
        for keys in [keys(&["a"]), keys(&[])] {
            let mut tries = Tries { patience: Duration::ZERO, ..Tries::new(&locks, &keys) };
            let mut made = 0;
            while tries.next().await {
                made += 1;
            }
            assert_eq!(made, CONFLICT_TRIES_MAX);
        }
    }
}
