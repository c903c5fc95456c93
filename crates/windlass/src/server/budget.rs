//! One memory budget for everything that clients make the broker hold: bodies that are being read, answers that were not taken yet, and what
//! waits for listeners. All interfaces share it.
//!
//! Each connection has an [`Account`]. A connection costs a fixed amount, and what is large beyond that is counted while it is in memory
//! ([`Held`], [`Purse`]). Small requests and answers are covered by the fixed amount: they count nothing.
//!
//! A body is counted as it grows. When the budget is short, the rest of it is not read: it waits in line for a few seconds, and then the request
//! is refused. An answer that only shows something is let go, and made again when there is room for it. The outcome of a change is always kept.
//!
//! Meanwhile the [`cutter`] frees memory. It cuts the clients that neither send nor read, the slowest first, so that those who do get
//! through. A client is cut only while somebody needs its memory.

mod account;
mod cutter;
mod purse;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use windlass_core::limits::{ANSWER_BYTES_MAX, CONNECTION_BYTES, MEMORY_WAIT_MS_MAX};

pub(crate) use self::account::{Account, Held};
pub(crate) use self::cutter::keep;
pub(crate) use self::purse::Purse;

/// Whoever holds no more than this waits in a line of its own.
const LITTLE_BYTES_MAX: usize = 512 * 1024;
/// Pages of lists that are read at once, whatever the budget.
const PAGES_MIN: usize = 2;

#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// The part of it that connections take by being open.
    connected: AtomicUsize,
    /// What was given to those who hold little.
    little: AtomicUsize,
    /// For those who hold little, and for all others.
    lines: [Line; 2],
    /// The largest answer that had no room since the budget became short; 0 while it is not.
    look_bytes: AtomicUsize,
    /// Rings when there may be something to cut.
    pressed: Notify,
    /// Pages of lists that are being read: their size is known only afterwards.
    pages: Semaphore,
    accounts: Mutex<HashMap<u64, Weak<Account>>>,
    opened: AtomicU64,
    cut: AtomicU64,
    refused: AtomicU64,
}

/// How a budget is used, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) limit: usize,
    pub(crate) used: usize,
    pub(crate) cut: u64,
    pub(crate) refused: u64,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let pages = (limit / ANSWER_BYTES_MAX / 2).clamp(PAGES_MIN, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            little: AtomicUsize::new(0),
            lines: Default::default(),
            look_bytes: AtomicUsize::new(0),
            pressed: Notify::new(),
            pages: Semaphore::new(pages),
            accounts: Mutex::default(),
            opened: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// For a process that nobody bounds.
    pub(crate) fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX / 2)
    }

    /// An account for another connection. None if connections take half of the budget already: the other half is for what they send and
    /// read.
    pub(crate) fn connect(self: &Arc<Self>) -> Option<Arc<Account>> {
        let before = self.connected.fetch_add(CONNECTION_BYTES, Ordering::Relaxed);
        if before + CONNECTION_BYTES > self.limit / 2 {
            self.connected.fetch_sub(CONNECTION_BYTES, Ordering::Relaxed);
            self.refuse();
            return None;
        }
        self.add(CONNECTION_BYTES);
        Some(self.account(CONNECTION_BYTES))
    }

    /// An account for requests that do not come over a connection.
    pub(crate) fn without_connection(self: &Arc<Self>) -> Arc<Account> {
        self.account(0)
    }

    fn account(self: &Arc<Self>, base: usize) -> Arc<Account> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let account = Arc::new(Account::new(Arc::clone(self), number, base));
        self.accounts.lock().insert(number, Arc::downgrade(&account));
        account
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            limit: self.limit,
            used: self.used.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether there is less than somebody wants.
    pub(crate) fn is_short(&self) -> bool {
        self.lacks() > 0
    }

    /// How much would have to be freed for all who wait.
    fn lacks(&self) -> usize {
        let lack = |size: Size| {
            let wanted = self.lines[size as usize].wanted.load(Ordering::Relaxed);
            let needed = if wanted > 0 || size == Size::Little {
                self.used.load(Ordering::Relaxed) + wanted
            } else {
                0
            };
            needed.saturating_sub(self.limit_for(size))
        };
        lack(Size::Little).max(lack(Size::Much))
    }

    fn limit_for(&self, size: Size) -> usize {
        match size {
            Size::Little => self.limit,
            Size::Much => self.limit - self.little_limit(),
        }
    }

    /// Leave to read a page of a list. None if there is none for too long.
    pub(crate) async fn page(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.pages.try_acquire() {
            return Some(permit);
        }
        match tokio::time::timeout(patience(), self.pages.acquire()).await {
            Ok(Ok(permit)) => Some(permit),
            _ => {
                self.refuse();
                None
            }
        }
    }

    /// Takes bytes if they are there and nobody else waits for them.
    fn try_add(&self, size: Size, bytes: usize) -> bool {
        self.lines[size as usize].wanted.load(Ordering::SeqCst) == 0 && self.try_add_in_turn(size, bytes)
    }

    fn try_add_in_turn(&self, size: Size, bytes: usize) -> bool {
        let limit = self.limit_for(size);
        let fits = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        let fits = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok();
        if size == Size::Much {
            return fits;
        }
        let little = self.little.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if !fits && little > self.little_limit() {
            self.little.fetch_sub(bytes, Ordering::SeqCst);
            return false;
        }
        if !fits {
            // Answers that have to be kept take more than the budget at times. Those who hold little have their part all the same.
            self.used.fetch_add(bytes, Ordering::SeqCst);
        }
        true
    }

    /// The part that is kept for those who hold little: however many wait for much, they get through.
    fn little_limit(&self) -> usize {
        self.limit / 8
    }

    fn sub_little(&self, bytes: usize) {
        if bytes > 0 {
            self.little.fetch_sub(bytes, Ordering::SeqCst);
        }
    }

    fn add(&self, bytes: usize) {
        let before = self.used.fetch_add(bytes, Ordering::SeqCst);
        if before + bytes > self.limit {
            self.pressed.notify_one();
        }
    }

    fn sub(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        for line in &self.lines {
            if line.wanted.load(Ordering::SeqCst) > 0 {
                line.freed.notify_one();
            }
        }
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn patience() -> Duration {
    Duration::from_millis(MEMORY_WAIT_MS_MAX)
}

/// How much somebody would hold with what he asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Little,
    Much,
}

impl Size {
    fn of(bytes: usize) -> Self {
        if bytes <= LITTLE_BYTES_MAX { Size::Little } else { Size::Much }
    }
}

/// Those who wait, in the order in which they came.
#[derive(Debug, Default)]
struct Line {
    /// Bytes that all of them want.
    wanted: AtomicUsize,
    turn: tokio::sync::Mutex<()>,
    freed: Notify,
}

/// Bytes that somebody waits for, until he gets them or gives up.
struct Wanted<'a>(&'a Line, usize);

impl<'a> Wanted<'a> {
    fn new(line: &'a Line, bytes: usize) -> Self {
        line.wanted.fetch_add(bytes, Ordering::SeqCst);
        Self(line, bytes)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(self.1, Ordering::SeqCst);
        // The next in line may have been passed over.
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
