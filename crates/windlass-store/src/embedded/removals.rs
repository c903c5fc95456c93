//! Pacing of removals, so that the checkpoint after them fits on the disk.
//!
//! What is left of a block is written again when tasks are removed from it. An id that a client chose may be anywhere in the index, and redb
//! copies every page that changes. So a purge can need as much free space as the data takes. If the disk does not have that, a
//! checkpoint has to save a part of the removals first: it returns the replaced pages, and the next part uses them. Without this, no
//! checkpoint would ever fit, and the disk would stay full although the tasks are gone. [`super::space`] limits new ids in the same way.

use std::time::Duration;

use windlass_core::{Change, Transition};

use super::EmbeddedStore;
use super::command::Command;
use super::engine::Shared;
use super::inbox::Reply;
use super::space::Unsaved;
use super::tables::block::BLOCK_TASKS;
use super::tables::ids::has_own_row;
use crate::store::{Committed, Error, OperationChange};

/// How long a removal waits for a checkpoint. Then it is refused, and the caller may repeat it.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Removals that are committed at once when there is no room for all of them. Even if each is in another block, the slack in the disk
/// reserve is enough for them.
const REMOVALS_AT_ONCE: usize = 64;

impl EmbeddedStore {
    /// Commits transitions, in parts if the next checkpoint has no room for all that they remove.
    pub(super) async fn commit_paced(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        if self.shared.has_room_to_remove(&transitions) {
            return self.commit_at_once(transitions).await;
        }
        let mut committed = Vec::with_capacity(transitions.len());
        for part in transitions.chunks(REMOVALS_AT_ONCE) {
            self.shared.permit_removals(part).await?;
            committed.extend(self.commit_at_once(part.to_vec()).await?);
        }
        Ok(committed)
    }

    async fn commit_at_once(&self, transitions: Vec<Transition>) -> Result<Vec<Committed>, Error> {
        let command = Command::Commit { transitions };
        let entry = command.encode();
        self.send(command, entry, Reply::Committed).await
    }
}

impl Shared {
    /// Whether the next checkpoint has room for these removals.
    fn has_room_to_remove(&self, transitions: &[Transition]) -> bool {
        let removals = removals(transitions);
        removals == Unsaved::default() || self.space.has_room_to_remove(removals)
    }

    /// Waits until the next checkpoint has room for what a step of an operation removes.
    pub(super) async fn permit_step(&self, change: &OperationChange) -> Result<(), Error> {
        match change {
            OperationChange::Step { transitions, .. } => self.permit_removals(transitions).await,
            _ => Ok(()),
        }
    }

    /// Waits until the next checkpoint has room for these removals. The first ones after a checkpoint always have it.
    async fn permit_removals(&self, transitions: &[Transition]) -> Result<(), Error> {
        let removals = removals(transitions);
        let has_room = || {
            removals == Unsaved::default()
                || self.space.has_no_removals()
                || self.space.has_room_to_remove(removals)
                // No checkpoint fits, so it is no use to wait for one. A block needs no room when all of its tasks are gone.
                || !self.space.had_room()
        };
        if has_room() {
            return Ok(());
        }
        let until_there_is_room = async {
            loop {
                let saved = self.saved.notified();
                if let Some(error) = self.failed() {
                    return Err(error);
                }
                if has_room() {
                    return Ok(());
                }
                self.bell.ring();
                saved.await;
            }
        };
        tokio::time::timeout(WAIT_MAX, until_there_is_room).await.unwrap_or(Err(Error::NoSpace))
    }
}

fn removals(transitions: &[Transition]) -> Unsaved {
    let (mut removals, mut last) = (Unsaved::default(), None);
    for removed in transitions.iter().filter(|it| matches!(it.change, Change::Removed { .. })) {
        let block = Some(removed.seq / BLOCK_TASKS);
        removals.ids += usize::from(has_own_row(removed.id.as_str()));
        removals.blocks += usize::from(last != block);
        last = block;
    }
    removals
}
