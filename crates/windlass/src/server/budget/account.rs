//! What one connection holds of the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use windlass_core::limits::UNCOUNTED_BYTES_MAX;

use super::{Budget, Size, purse};

/// How long room is kept for an answer that is being made.
const QUICK: Duration = Duration::from_secs(1);

/// The part of the budget that one connection uses.
#[derive(Debug)]
pub(crate) struct Account {
    pub(super) budget: Arc<Budget>,
    pub(super) number: u64,
    pub(super) base: usize,
    /// Beyond the base.
    pub(super) bytes: AtomicUsize,
    /// Bytes that the client has sent and taken.
    pub(super) moved: AtomicU64,
    /// Whether it held nothing for a moment since the cutter last looked.
    pub(super) emptied: AtomicBool,
    /// Bodies whose rest the client has not sent, and answers that it has not asked for.
    pub(super) owed: AtomicUsize,
    /// Whether the client does not take what is written.
    pub(super) writing: AtomicBool,
    /// Bodies that wait for the budget.
    pub(super) waiting: AtomicUsize,
    pub(super) cut: AtomicBool,
    pub(super) waker: AtomicWaker,
}

impl Account {
    pub(super) fn new(budget: Arc<Budget>, number: u64, base: usize) -> Self {
        Self {
            budget,
            number,
            base,
            bytes: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            emptied: AtomicBool::new(false),
            owed: AtomicUsize::new(0),
            writing: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            cut: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Counts bytes that are in memory in any case. Few bytes are not counted.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return Held::default();
        }
        self.add(bytes);
        Held { account: Some(Arc::clone(self)), bytes, little: 0, owed: false }
    }

    /// Counts bytes that can be let go, if the budget has room for them.
    pub(crate) fn try_hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return Some(Held::default());
        }
        if !self.budget.try_add_in_turn(Size::of(bytes), bytes) {
            return None;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(self.held(bytes))
    }

    /// Room for an answer that is about to be made. Nothing is counted for it unless others had no room lately: then it waits in line for as
    /// much as they wanted, because an answer that has to be let go was read for nothing. None if there is no room in time.
    pub(crate) async fn room_for_look(self: &Arc<Self>) -> Option<Held> {
        match self.budget.look_bytes.load(Ordering::Relaxed) {
            0 => Some(Held::default()),
            bytes => self.reserve(bytes).await,
        }
    }

    /// Counts an answer that can be let go, in the room that was made for it if it fits.
    pub(crate) fn fit(self: &Arc<Self>, mut room: Held, bytes: usize) -> Option<Held> {
        if bytes > UNCOUNTED_BYTES_MAX && bytes <= room.bytes {
            room.shrink(bytes);
            return Some(room);
        }
        drop(room);
        let held = self.try_hold(bytes);
        if held.is_none() {
            self.budget.look_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
        held
    }

    /// Waits in line for room for an answer of this size. None if there is none in time.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let given = purse::wait(Arc::clone(self), Size::of(bytes), bytes).await;
        given.then(|| self.held(bytes))
    }

    /// Bytes that were given in their class.
    fn held(self: &Arc<Self>, bytes: usize) -> Held {
        let little = if Size::of(bytes) == Size::Little { bytes } else { 0 };
        Held { account: Some(Arc::clone(self)), bytes, little, owed: false }
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.add(bytes);
    }

    pub(super) fn sub(&self, bytes: usize) {
        if self.bytes.fetch_sub(bytes, Ordering::Relaxed) == bytes {
            self.emptied.store(true, Ordering::Relaxed);
        }
        self.budget.sub(bytes);
    }

    /// The client has sent or taken so much.
    pub(crate) fn note_moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client keeps a write waiting. The task of `waker` finds out when it is cut.
    pub(crate) fn note_writing(&self, waker: Option<&Waker>) {
        let writing = waker.is_some();
        if let Some(waker) = waker {
            self.waker.register(waker);
        }
        if self.writing.load(Ordering::Relaxed) != writing {
            self.writing.store(writing, Ordering::Relaxed);
        }
    }

    /// This task finds out when the connection is cut.
    pub(crate) fn wakes(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Whether the connection is to end, because it is slow and its memory is needed.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Whether the cut came while the client did not read: then there is nothing left to say.
    pub(crate) fn is_cut_writing(&self) -> bool {
        self.is_cut() && self.writing.load(Ordering::Relaxed)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.accounts.lock().remove(&self.number);
        self.budget.connected.fetch_sub(self.base, Ordering::Relaxed);
        self.budget.sub(self.base + *self.bytes.get_mut());
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    account: Option<Arc<Account>>,
    bytes: usize,
    /// The part of them that was given as [`Size::Little`].
    little: usize,
    /// Whether they wait for the client alone.
    owed: bool,
}

impl Held {
    fn shrink(&mut self, bytes: usize) {
        if let Some(account) = &self.account {
            account.sub(self.bytes - bytes);
            account.budget.sub_little(self.little.saturating_sub(bytes));
            self.bytes = bytes;
            self.little = self.little.min(bytes);
        }
    }

    /// Runs a call and keeps the room for its answer. A call that takes longer than [`QUICK`] loses the room, because it probably waits for
    /// something other than memory.
    pub(crate) async fn while_quick<T>(&mut self, call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        if self.bytes > 0 {
            match tokio::time::timeout(QUICK, &mut call).await {
                Ok(outcome) => return outcome,
                Err(_) => *self = Held::default(),
            }
        }
        call.await
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// They are kept until the client asks for them: a connection that carries several answers writes others meanwhile.
    pub(crate) fn until_taken(mut self) -> Self {
        if let Some(account) = self.account.as_ref().filter(|_| !self.owed) {
            account.owed.fetch_add(1, Ordering::Relaxed);
            self.owed = true;
        }
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            if self.owed {
                account.owed.fetch_sub(1, Ordering::Relaxed);
            }
            account.budget.sub_little(self.little);
            account.sub(self.bytes);
        }
    }
}
