//! Pages of lists: most of the reading is done beside the state, so that nobody waits for it.

use super::EmbeddedStore;
use super::machine::{Listing, Stored};
use crate::store::{Error, List};

impl EmbeddedStore {
    /// The part of a list that reads the tables, beside the state.
    pub(super) async fn look_through(&self, list: List) -> Result<(Listing, Result<Stored, Error>), Error> {
        let listing = self.with(|machine| Ok(machine.begin_list(list)))?;
        tokio::task::spawn_blocking(move || {
            let stored = listing.read();
            (listing, stored)
        })
        .await
        .inspect(|(listing, stored)| self.shared.gauges.note_page(listing.looked_at(stored)))
        .map_err(|_| Error::Damaged("the index cannot be read".to_owned()))
        .inspect_err(|error| self.shared.fail(error.to_string()))
    }
}
