//! Committing in the thread of a caller, who has nothing else to do meanwhile.
//!
//! On a fast disk a group is durable before a thread of the store would have been woken by the caller, and the caller by it. So the caller
//! does what those threads do ([`super::engine`]), with everything that waits at that moment.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::EmbeddedStore;
use super::command::Command;
use super::desk::Desk;
use super::engine::{Shared, commit_group};
use super::inbox::{Op, Reply};
use super::space::Unsaved;
use super::tables::ids::own_rows;
use crate::store::{Error, Insert, Inserted, Store};

/// The right to commit. Whoever has it is waited for when the store is closed.
pub(super) struct Place {
    shared: Arc<Shared>,
    desk: Arc<Desk>,
}

impl Place {
    /// None when the disk is so slow that a thread which waits for it should be one of the store's own.
    pub(super) fn take(shared: &Arc<Shared>, desk: &Weak<Desk>) -> Option<Place> {
        let desk = desk.upgrade().filter(|desk| shared.inbox.is_quick() && desk.enter())?;
        Some(Place { shared: Arc::clone(shared), desk })
    }

    /// Commits what waits, as one group.
    fn commit(self) {
        self.shared.guard(|| {
            if commit_group(&self.shared, &self.desk)? > 0 {
                self.shared.gauges.note_caller();
            }
            Ok(())
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.leave(&self.shared);
    }
}

impl EmbeddedStore {
    /// Why there was no answer. Unless the store was closed in order, the outcome is unknown.
    pub(super) fn gone(&self) -> Error {
        let unknown = || Error::Failed("it ended before it answered".to_owned());
        self.shared.failed().or_else(|| self.shared.inbox.closed()).unwrap_or_else(unknown)
    }

    /// Sends a command to the threads of the store, and waits for its answer.
    pub(super) async fn send<T>(
        &self,
        command: Command,
        entry: Bytes,
        reply: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Reply,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        self.shared.inbox.push(Op { command, entry, reply: reply(sender) });
        receiver.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// All of them in one group.
    pub(super) async fn write_here(&self, inserts: Vec<Insert>) -> Vec<Result<Vec<Inserted>, Error>> {
        let Some(place) = Place::take(&self.shared, &self.desk) else {
            return join_all(inserts.into_iter().map(|insert| self.insert(insert))).await;
        };
        let push = |insert: Insert| {
            let ids = own_rows(insert.tasks.iter().map(|task| &task.id));
            let (command, entry) = Command::insert(insert);
            let admitted = self.shared.admit(Unsaved { bytes: entry.len(), ids, blocks: 0 })?;
            let (sender, receiver) = oneshot::channel();
            self.shared.inbox.push_quietly(Op { command, entry, reply: Reply::Inserted(sender) });
            Ok((receiver, admitted))
        };
        let receivers: Vec<_> = inserts.into_iter().map(push).collect();
        place.commit();
        let mut answers = Vec::with_capacity(receivers.len());
        for pushed in receivers {
            answers.push(match pushed {
                Ok((receiver, _admitted)) => receiver.await.unwrap_or_else(|_| Err(self.gone())),
                Err(refused) => Err(refused),
            });
        }
        answers
    }
}
