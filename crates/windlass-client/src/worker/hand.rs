//! What a worker has in hand: every task from its claim until its outcome was answered.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass_core::Token;

use super::context::{Cause, Context};
use super::port::{Held, Stop};

/// By token: a task may come again while its old handler ends. Clones share one hand.
#[derive(Debug, Clone, Default)]
pub struct Hand {
    held: Arc<Mutex<HashMap<Token, Context>>>,
}

impl Hand {
    /// Everything that is held now, to be named to the broker.
    pub fn held(&self) -> Vec<Held> {
        self.held.lock().values().map(Context::held).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.held.lock().len()
    }

    pub(super) fn take_up<'a>(&self, contexts: impl Iterator<Item = &'a Context>) {
        let mut held = self.held.lock();
        held.extend(contexts.map(|context| (context.lease_token(), context.clone())));
    }

    pub(super) fn let_go(&self, tokens: impl Iterator<Item = Token>) {
        let mut held = self.held.lock();
        for token in tokens {
            held.remove(&token);
        }
    }

    pub(super) fn stop_all(&self, cause: Cause) {
        for context in self.held.lock().values() {
            context.stop(cause);
        }
    }

    /// Tells the handlers what the broker said.
    pub(super) fn obey(&self, stops: &[Stop]) {
        if stops.is_empty() {
            return;
        }
        let held = self.held.lock();
        for stop in stops {
            if let Some(context) = held.get(&stop.token) {
                context.stop(stop.cause);
            }
        }
    }
}
