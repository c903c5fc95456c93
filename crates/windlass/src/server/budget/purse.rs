//! What one body, or one connection of frames, takes of the budget while it grows and shrinks.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::{Account, Size, Wanted, patience};

/// The count follows in steps of this size, so that it rarely changes.
const STEP_BYTES: usize = 64 * 1024;

/// A place in a line, for so many bytes more.
struct Wait {
    size: Size,
    more: usize,
    given: Pin<Box<dyn Future<Output = bool> + Send>>,
}

/// A part of an account that its owner changes in steps.
pub(crate) struct Purse {
    account: Arc<Account>,
    /// A multiple of the step.
    counted: usize,
    /// The part of it that was given as [`Size::Little`].
    little: usize,
    waiting: Option<Wait>,
    /// Whether it is one of those that wait for their client.
    reading: bool,
    /// Whether the task that polls it is the one that ends the connection.
    ends: bool,
}

impl std::fmt::Debug for Purse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Purse").field("counted", &self.counted).finish_non_exhaustive()
    }
}

impl Purse {
    /// For the task of the connection.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { account, counted: 0, little: 0, waiting: None, reading: false, ends: true }
    }

    /// For the task of a call, which ends with its connection.
    pub(crate) fn of_call(account: Arc<Account>) -> Self {
        Self { account, counted: 0, little: 0, waiting: None, reading: false, ends: false }
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether anything is counted, and the connection may be cut for it.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted > 0
    }

    /// Whether it waits for the budget.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Leaves the line without what it waited for.
    pub(crate) fn stop_waiting(&mut self) {
        self.waiting = None;
    }

    /// Counts what is held, whether there is room for it or not.
    pub(crate) fn set(&mut self, held: usize) {
        let wanted = steps(held);
        if wanted > self.counted {
            self.account.add(wanted - self.counted);
            self.counted = wanted;
        } else if wanted < self.counted / 2 || wanted == 0 && self.counted > 0 {
            self.account.sub(self.counted - wanted);
            self.counted = wanted;
            self.set_little(self.little.min(wanted));
        }
    }

    /// Ready with whether so much may be held, after a wait if there is no room for it now. `whole` is what it will be in the end, as far as
    /// that is known: a large body waits with the large ones from its beginning.
    pub(crate) fn poll_set(&mut self, cx: &mut Context<'_>, held: usize, whole: usize) -> Poll<bool> {
        let size = Size::of(whole.max(held));
        // What is little is asked for at once, and waits once at most.
        let held = if size == Size::Little { whole.max(held) } else { held };
        loop {
            let wanted = steps(held);
            if wanted <= self.counted {
                return Poll::Ready(true);
            }
            let more = wanted - self.counted;
            if self.waiting.is_none() && self.account.budget.try_add(size, more) {
                self.account.bytes.fetch_add(more, Ordering::Relaxed);
                self.counted = wanted;
                self.little += if size == Size::Little { more } else { 0 };
                return Poll::Ready(true);
            }
            if self.ends {
                self.account.waker.register(cx.waker());
            }
            let wait = || Wait { size, more, given: Box::pin(wait(Arc::clone(&self.account), size, more)) };
            let waiting = self.waiting.get_or_insert_with(wait);
            let given = ready!(waiting.given.as_mut().poll(cx));
            let Wait { size, more, .. } = *waiting;
            self.waiting = None;
            if !given {
                return Poll::Ready(false);
            }
            self.counted += more;
            self.little += if size == Size::Little { more } else { 0 };
        }
    }

    /// Gives the rest back.
    fn set_little(&mut self, little: usize) {
        self.account.budget.sub_little(self.little - little);
        self.little = little;
    }

    /// Whether the client owes the rest of a body. The task finds out when it is cut.
    pub(crate) fn note_reading(&mut self, cx: &mut Context<'_>, reading: bool) {
        if reading && self.ends {
            self.account.waker.register(cx.waker());
        }
        self.set_reading(reading);
    }

    pub(crate) fn set_reading(&mut self, reading: bool) {
        if reading != self.reading {
            self.reading = reading;
            match reading {
                true => self.account.owed.fetch_add(1, Ordering::Relaxed),
                false => self.account.owed.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.waiting = None;
        self.set_reading(false);
        self.set_little(0);
        if self.counted > 0 {
            self.account.sub(self.counted);
        }
    }
}

fn steps(held: usize) -> usize {
    if held <= UNCOUNTED_BYTES_MAX { 0 } else { held.next_multiple_of(STEP_BYTES) }
}

/// Waits in line for bytes; says whether they came in time.
pub(super) async fn wait(account: Arc<Account>, size: Size, bytes: usize) -> bool {
    let budget = &account.budget;
    let line = &budget.lines[size as usize];
    let _wanted = Wanted::new(line, bytes);
    let _waiting = Counted::new(&account);
    let waits = async {
        let _turn = line.turn.lock().await;
        loop {
            let mut freed = std::pin::pin!(line.freed.notified());
            freed.as_mut().enable();
            if budget.try_add_in_turn(size, bytes) {
                account.bytes.fetch_add(bytes, Ordering::Relaxed);
                return;
            }
            freed.await;
        }
    };
    budget.pressed.notify_one();
    let came = tokio::time::timeout(patience(), waits).await.is_ok();
    if !came {
        budget.refuse();
    }
    came
}

/// Counts among those that wait while it lives.
struct Counted<'a>(&'a Account);

impl<'a> Counted<'a> {
    fn new(account: &'a Account) -> Self {
        account.waiting.fetch_add(1, Ordering::Relaxed);
        Self(account)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
