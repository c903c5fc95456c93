//! Frees memory when the budget is short, by cutting the clients that hold some and keep the broker waiting.
//!
//! While the budget is short it looks at all connections several times a second. A connection is slow if it held something for a whole
//! [`WINDOW`], owed the rest of a body or did not take an answer, and moved fewer than [`FAST_BYTES`] in that time. The slowest are cut first,
//! of equals the largest, and no more of them than are needed. Only if nobody is slow, bodies that wait for the budget are given up too, those
//! that have come least far first: otherwise many bodies that each have a part of what they need could wait for each other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Account, Budget, LITTLE_BYTES_MAX};

/// How often it looks while the budget is short.
const TICK: Duration = Duration::from_millis(250);
/// For how long a client is watched before it is called slow.
const WINDOW: Duration = Duration::from_secs(1);
/// Whoever moves this much in a window is not slow.
const FAST_BYTES: u64 = 1 << 20;
/// How long bodies may wait for each other.
const WAITS_MAX: Duration = Duration::from_secs(2);

/// What a connection did since the window began.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    moved: u64,
    /// How much it moved in the last whole window, if that was little.
    slow: Option<u64>,
}

/// A connection that may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Slow ones come before those that only wait.
    waits: bool,
    moved: u64,
    /// Negative for slow ones: the largest comes first.
    bytes: isize,
    number: u64,
}

/// Runs as long as the broker.
pub(crate) async fn keep(budget: Arc<Budget>) {
    let mut windows = HashMap::new();
    let mut short_since = None;
    loop {
        if !budget.is_short() {
            windows.clear();
            short_since = None;
            budget.look_bytes.store(0, Ordering::Relaxed);
            budget.pressed.notified().await;
        }
        let now = Instant::now();
        let since = *short_since.get_or_insert(now);
        budget.free(&mut windows, now, now - since >= WAITS_MAX);
        // sleep: how slow somebody is shows with time only.
        tokio::time::sleep(TICK).await;
    }
}

impl Budget {
    /// Cuts as many as are needed. `stuck` says that the wait takes so long that bodies may be waiting for each other.
    fn free(&self, windows: &mut HashMap<u64, Window>, now: Instant, stuck: bool) {
        let accounts: Vec<Arc<Account>> =
            self.accounts.lock().values().filter_map(|it| it.upgrade()).collect();
        let mut seen = HashMap::with_capacity(windows.len());
        let mut candidates = Vec::new();
        for account in &accounts {
            let (candidate, window) = account.judge(windows.get(&account.number), now);
            seen.extend(window.map(|window| (account.number, window)));
            candidates.extend(candidate.filter(|it| !it.waits || stuck));
        }
        *windows = seen;
        candidates.sort_unstable();
        let mut needed = self.lacks();
        let mut victims = Vec::new();
        for candidate in candidates {
            if needed == 0 {
                break;
            }
            needed = needed.saturating_sub(candidate.bytes.unsigned_abs());
            victims.push(candidate.number);
            // One at a time: the others may get on with what it had.
            if candidate.waits {
                break;
            }
        }
        for account in accounts.iter().filter(|account| victims.contains(&account.number)) {
            self.cut.fetch_add(1, Ordering::Relaxed);
            account.cut.store(true, Ordering::Relaxed);
            account.waker.wake();
        }
    }
}

impl Account {
    /// Whether it may be cut, and the window in which it is watched from now on.
    fn judge(&self, window: Option<&Window>, now: Instant) -> (Option<Candidate>, Option<Window>) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let moved = self.moved.load(Ordering::Relaxed);
        let emptied = self.emptied.swap(false, Ordering::Relaxed);
        if bytes == 0 || self.is_cut() {
            return (None, None);
        }
        let held = isize::try_from(bytes).unwrap_or(isize::MAX);
        let candidate = |waits, moved, bytes| Candidate { waits, moved, bytes, number: self.number };
        let writing = self.writing.load(Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) > 0 && !writing {
            // Little would not help those who wait for much.
            let much = bytes > LITTLE_BYTES_MAX;
            return (much.then(|| candidate(true, 0, held)), None);
        }
        let blocked = writing || self.owed.load(Ordering::Relaxed) > 0;
        let mut watched = match window {
            Some(window) if blocked && !emptied => *window,
            _ => return (None, blocked.then_some(Window { since: now, moved, slow: None })),
        };
        if now - watched.since >= WINDOW {
            let little = Some(moved - watched.moved).filter(|moved| *moved < FAST_BYTES);
            watched = Window { since: now, moved, slow: little };
        }
        (watched.slow.map(|moved| candidate(false, moved, -held)), Some(watched))
    }
}
