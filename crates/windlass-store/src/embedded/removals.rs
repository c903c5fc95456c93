//! Pacing of removals, so that the checkpoint after them fits on the disk.
//!
//! An id that a client chose may be anywhere in the index, and redb copies every page that changes. So a purge of all tasks can need
//! as much free space as the index takes. If the disk does not have that, a checkpoint has to save a part of the removals first:
//! it returns the replaced pages, and the next part uses them. Without this, no checkpoint would ever fit, and the disk would
//! stay full although the tasks are gone. [`super::space`] limits new ids in the same way.

use std::time::Duration;

use windlass_core::{Change, Transition};

use super::engine::Shared;
use super::tables::ids::own_rows;
use crate::store::Error;

/// How long a removal waits for a checkpoint. Then it is refused, and the caller may repeat it.
const WAIT_MAX: Duration = Duration::from_secs(30);

impl Shared {
    /// Waits until the next checkpoint has room for these removals.
    pub(super) async fn permit_removals(&self, transitions: &[Transition]) -> Result<(), Error> {
        let removed = transitions.iter().filter(|it| matches!(it.change, Change::Removed { .. }));
        let ids = own_rows(removed.map(|it| &it.id));
        if ids == 0 || self.space.has_room_to_remove(ids) {
            return Ok(());
        }
        let until_there_is_room = async {
            loop {
                let saved = self.saved.notified();
                if let Some(error) = self.failed() {
                    return Err(error);
                }
                if self.space.has_room_to_remove(ids) {
                    return Ok(());
                }
                self.bell.ring();
                saved.await;
            }
        };
        tokio::time::timeout(WAIT_MAX, until_there_is_room).await.unwrap_or(Err(Error::NoSpace))
    }
}
