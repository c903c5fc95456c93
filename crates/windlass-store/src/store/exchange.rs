//! How processes on one store tell each other what happened, so that whoever listens on one of them hears of all.
//!
//! The store carries pieces of bytes and knows nothing of what is in them. Nothing is carried while nobody listens anywhere:
//! who listens says so, again and again, and who does not hear that stays silent.

use std::fmt::Debug;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

/// Pieces on their way out. More wait with whoever has them, and gather there.
const OUTGOING_MAX: usize = 4;

/// Is told what other processes said. It must be quick and must not wait.
pub trait Hearer: Debug + Send + Sync {
    /// One piece, as it was said. The own ones come too.
    fn heard(&self, said: Bytes);

    /// For a while nothing was heard, whether or not something was said.
    fn missed(&self);
}

#[derive(Debug)]
pub struct Exchange {
    /// The first of the numbers that this process may give to events: no other process of this store gives them.
    first_id: u64,
    wanted: AtomicBool,
    listening: watch::Sender<bool>,
    hearer: Mutex<Option<Weak<dyn Hearer>>>,
    outgoing: mpsc::Sender<Bytes>,
}

impl Exchange {
    /// And what is to be carried to the others.
    pub fn new(first_id: u64) -> (Exchange, mpsc::Receiver<Bytes>) {
        let (outgoing, receiver) = mpsc::channel(OUTGOING_MAX);
        let exchange = Exchange {
            first_id,
            wanted: AtomicBool::new(false),
            listening: watch::Sender::new(false),
            hearer: Mutex::default(),
            outgoing,
        };
        (exchange, receiver)
    }

    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// Whether anybody elsewhere listens.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether this process wants to hear the others from here on.
    pub fn listen(&self, on: bool) {
        self.listening.send_if_modified(|listening| std::mem::replace(listening, on) != on);
    }

    /// Takes the place of an earlier one. Nothing is told before [`Exchange::listen`].
    pub fn hear(&self, hearer: Weak<dyn Hearer>) {
        *self.hearer.lock() = Some(hearer);
    }

    /// Says a piece to the others; gives it back if too many are on their way.
    pub fn say(&self, piece: Bytes) -> Result<(), Bytes> {
        self.outgoing.try_send(piece).map_err(|error| error.into_inner())
    }

    /// For the store: somebody elsewhere listens, or nobody any more.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// For the store: whether to bring what the others say.
    pub fn listening(&self) -> watch::Receiver<bool> {
        self.listening.subscribe()
    }

    /// For the store: brings something to the hearer.
    pub fn tell(&self, news: impl FnOnce(&dyn Hearer)) {
        if let Some(hearer) = self.hearer.lock().as_ref().and_then(Weak::upgrade) {
            news(&*hearer);
        }
    }
}
