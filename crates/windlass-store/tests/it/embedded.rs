//! The embedded store passes the suite with its usual sizes, and with sizes so small that every case goes through
//! checkpoints, new segments and windows that hold next to nothing.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::clock::ManualClock;
use windlass_store::conformance::{Harness, Open};
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::store::{Durability, Store};

/// A store in a directory that goes with the harness. What is on trial here is logic, so nothing waits for the disk.
async fn store_with(adjust: fn(&mut Options)) -> Harness {
    let clock = ManualClock::shared();
    let dir = Arc::new(tempfile::tempdir().expect("a directory"));
    let (opening, kept) = (clock.clone(), dir);
    let open: Open = Box::new(move || {
        let mut options = Options::new(kept.path());
        options.durability = Durability::Os;
        options.disk_reserve_bytes = 0;
        options.segment_bytes = 1 << 20;
        adjust(&mut options);
        let (clock, kept) = (opening.clone(), Arc::clone(&kept));
        Box::pin(async move {
            let store: Arc<dyn Store> = EmbeddedStore::open(options, clock).await.expect("open");
            drop(kept);
            store
        })
    });
    Harness::persistent(clock, open).await
}

pub(crate) async fn usual() -> Harness {
    store_with(|_| {}).await
}

windlass_store::conformance_suite!(usual);

pub(crate) fn tiny_sizes(options: &mut Options) {
    options.segment_bytes = 16 << 10;
    options.checkpoint_bytes = 2 << 10;
    options.checkpoint_interval = Duration::from_millis(1);
    options.window_entries = 4;
}

mod tiny {
    use super::*;

    async fn tiny() -> Harness {
        store_with(tiny_sizes).await
    }

    windlass_store::conformance_suite!(tiny);
}
