//! Pacing of removals, so that the checkpoint after them fits on the disk.
//!
//! What is left of a block is written again when tasks are removed from it. An id that a client chose may be anywhere in the index, and redb
//! copies every page that changes. So a purge can need as much free space as the data takes. If the disk does not have that, a checkpoint has to save a part of the removals first:
//! it returns the replaced pages, and the next part uses them. Without this, no checkpoint would ever fit, and the disk would
//! stay full although the tasks are gone. [`super::space`] limits new ids in the same way.

use std::time::Duration;

use windlass_core::{Change, Transition};

use super::engine::Shared;
use super::space::Unsaved;
use super::tables::block::BLOCK_TASKS;
use super::tables::ids::has_own_row;
use crate::store::Error;

/// How long a removal waits for a checkpoint. Then it is refused, and the caller may repeat it.
const WAIT_MAX: Duration = Duration::from_secs(30);

impl Shared {
    /// Waits until the next checkpoint has room for these removals.
    pub(super) async fn permit_removals(&self, transitions: &[Transition]) -> Result<(), Error> {
        let removals = removals(transitions);
        if removals == Unsaved::default() || self.space.has_room_to_remove(removals) {
            return Ok(());
        }
        let until_there_is_room = async {
            loop {
                let saved = self.saved.notified();
                if let Some(error) = self.failed() {
                    return Err(error);
                }
                if self.space.has_room_to_remove(removals) {
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
