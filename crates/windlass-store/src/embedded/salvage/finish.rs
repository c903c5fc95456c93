//! The last steps: old tokens are made void, everything is synced, and the copy is moved into place.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use windlass_core::{State, StateName, Transition, transition};

use super::report::Report;
use super::whole::raise_claims;
use crate::clock::Clock;
use crate::embedded::elapsed;
use crate::embedded::identity::hex;
use crate::embedded::open::io_error;
use crate::store::{Error, List, Store};

const PAGE: usize = 250;

/// Releases every running task, because the lost data may have given it to another worker.
pub(super) async fn release_running(
    store: &dyn Store,
    clock: &Arc<dyn Clock>,
    report: &mut Report,
) -> Result<(), Error> {
    let mut before = None;
    loop {
        let list = List { states: vec![StateName::Running], before, limit: PAGE, ..List::default() };
        let page = store.list(list).await?;
        let mut released = Vec::with_capacity(page.tasks.len());
        for task in page.tasks {
            let State::Running(lease) = &task.record.state else { continue };
            let decided = transition::release(&task.record, lease.token, None, clock.now().wall);
            let (seq, revision) = (task.record.seq, task.record.revision);
            let change = decided.ok().flatten();
            released.extend(change.map(|change| Transition { id: task.record.id, seq, revision, change }));
        }
        report.released += released.len() as u64;
        if !released.is_empty() {
            store.commit(released).await?;
        }
        before = page.next;
        if before.is_none() {
            return Ok(());
        }
    }
}

/// Raises the claim numbers of the closed store, and makes all of it durable. Returns its id.
pub(super) fn seal(new: &Path, next_claim: u64) -> Result<String, Error> {
    let store = raise_claims(new, next_claim)?;
    sync(new)?;
    Ok(hex(&store))
}

fn sync(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = entry.map_err(io_error("list", dir))?.path();
        match path.is_dir() {
            true => sync(&path)?,
            false => File::open(&path).and_then(|file| file.sync_all()).map_err(io_error("sync", &path))?,
        }
    }
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
}

/// Moves the copy into place. `FORMAT` is moved last, because without it the rest is not a store.
pub(super) fn put_in_place(work: &Path, to: &Path) -> Result<(), Error> {
    for part in ["log", "blocks", "index.redb", elapsed::NAME, "FORMAT"] {
        let (from, to) = (work.join("new").join(part), to.join(part));
        if part == elapsed::NAME && !from.exists() {
            continue;
        }
        fs::rename(&from, &to).map_err(io_error("rename", &from))?;
        sync_dir(to.parent().unwrap_or(&to))?;
    }
    Ok(())
}
