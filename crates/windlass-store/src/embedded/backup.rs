//! Taking a backup of a store while it serves, and restoring a data directory from one.
//!
//! A backup first requests a checkpoint that contains everything applied so far. Then it *pins* the tables of that checkpoint: a
//! read transaction of redb and the open files of blocks. Nothing is locked meanwhile. While a pin is held, pages and files that
//! later checkpoints replace stay on the disk. So a pin ends after [`LIFETIME`], and when the store closes. Each piece of the
//! stream is read on demand: a slow reader holds a cursor and nothing else.

mod restore;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

pub(super) use self::restore::check;
pub use self::restore::{Restored, restore};
use super::catalogue::{self, Enough, View};
use super::engine::Shared;
use super::identity::{FORMAT, hex};
use super::tables::Snapshot;
use crate::backup::{CHUNK_BYTES_MAX, Encoder, Kind, Manifest, Opening, Source, VERSION, put_row};
use crate::store::Error;

/// How long a backup may keep its tables pinned.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How long a backup waits for its checkpoint, which takes a few seconds at most on a busy machine.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(45);
/// How long the checkpoint may take to ask again whether the disk has room: an older answer may be wrong by now.
const ROOM_WAIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The running backup, of which there is at most one.
#[derive(Debug, Default)]
pub(super) struct Backups {
    current: Mutex<Weak<Pin>>,
}

/// The tables that a backup reads, until the store revokes them.
#[derive(Debug)]
struct Pin {
    since: Instant,
    view: Mutex<Held>,
}

#[derive(Debug)]
enum Held {
    /// The state before the first piece is read.
    Nothing,
    View(Arc<Snapshot>),
    Revoked(Error),
}

impl Backups {
    fn begin(&self, shared: &Shared) -> Result<Arc<Pin>, Error> {
        let mut current = self.current.lock();
        // Under the lock, so that a store that closes finds every pin.
        if let Some(error) = shared.failed().or_else(|| shared.inbox.closed()) {
            return Err(error);
        }
        if current.strong_count() > 0 {
            return Err(Error::BackupRunning);
        }
        let pin = Arc::new(Pin { since: Instant::now(), view: Mutex::new(Held::Nothing) });
        *current = Arc::downgrade(&pin);
        Ok(pin)
    }

    /// Ends the running backup because the store closes: its files must not stay in use.
    pub(super) fn close(&self) {
        self.revoke(Error::Closed);
    }

    /// Ends a backup that has taken too long. Called before each checkpoint.
    pub(super) fn expire(&self) {
        self.expire_older(LIFETIME);
    }

    fn expire_older(&self, lifetime: Duration) {
        let old = |pin: &Arc<Pin>| pin.since.elapsed() > lifetime;
        if self.current.lock().upgrade().filter(old).is_some() {
            self.revoke(too_old());
        }
    }

    fn revoke(&self, error: Error) {
        let pin = self.current.lock().upgrade();
        if let Some(pin) = pin {
            let held = std::mem::replace(&mut *pin.view.lock(), Held::Revoked(error));
            drop(held);
        }
    }
}

fn too_old() -> Error {
    Error::Failed(format!("the backup took longer than {} minutes", LIFETIME.as_secs() / 60))
}

/// A backup that is being taken.
#[derive(Debug)]
pub(super) struct Stream {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
    encoder: Encoder,
    opening: Option<Opening>,
    /// The position in the catalogue of the table that is being read, and the last key.
    table: usize,
    after: Option<Vec<u8>>,
    /// Rows of this table that were read and not returned yet.
    pending: Vec<u8>,
    tasks: u64,
    done: bool,
}

impl Stream {
    pub(super) fn begin(shared: &Arc<Shared>) -> Result<Stream, Error> {
        Ok(Stream {
            pin: shared.backups.begin(shared)?,
            shared: Arc::clone(shared),
            encoder: Encoder::default(),
            opening: None,
            table: 0,
            after: None,
            pending: Vec::new(),
            tasks: 0,
            done: false,
        })
    }

    fn piece(&mut self) -> Result<Bytes, Error> {
        let pin = Arc::clone(&self.pin);
        if self.opening.is_none() {
            let snapshot = pin_tables(&self.shared)?;
            let mut held = pin.view.lock();
            if let Held::Revoked(error) = &*held {
                return Err(error.clone());
            }
            *held = Held::View(snapshot);
        }
        if pin.since.elapsed() > LIFETIME {
            self.shared.backups.expire();
        }
        let held = pin.view.lock();
        let snapshot = match &*held {
            Held::View(snapshot) => snapshot,
            Held::Revoked(error) => return Err(error.clone()),
            Held::Nothing => return Err(Error::Failed("the backup has no tables".to_owned())),
        };
        let view = snapshot.view();
        match self.opening.is_none() {
            true => self.open(view),
            false => self.chunk(view),
        }
    }

    fn open(&mut self, view: View<'_>) -> Result<Bytes, Error> {
        let mut rows = BTreeMap::new();
        for table in catalogue::tables() {
            rows.insert(table.name().to_owned(), table.count(view.read)?);
        }
        let opening = Opening {
            windlass: env!("CARGO_PKG_VERSION").to_owned(),
            store_format: FORMAT,
            store_id: Some(hex(&self.shared.store)),
            log_position: catalogue::state(view.read)?.applied,
            created_at_ms: self.shared.clock.now().wall,
            rows,
        };
        let preface = self.encoder.preface();
        let text = json(&opening)?;
        let chunk = self.encoder.chunk(Kind::Opening, "", &text);
        self.opening = Some(opening);
        Ok([preface, chunk].concat().into())
    }

    /// The next chunk of rows, or the manifest if there are no more.
    fn chunk(&mut self, view: View<'_>) -> Result<Bytes, Error> {
        while let Some(table) = catalogue::table(self.table) {
            let (pending, tasks) = (&mut self.pending, &mut self.tasks);
            let (mut last, mut broken) = (None, None);
            if pending.len() < CHUNK_BYTES_MAX {
                table.scan(view, self.after.as_deref(), &mut |key, value| {
                    match table.check(crate::backup::Row { key, value }) {
                        Ok(held) => *tasks += held,
                        Err(error) => broken = Some(error),
                    }
                    put_row(pending, key, value);
                    last = Some(key.to_vec());
                    if pending.len() >= CHUNK_BYTES_MAX || broken.is_some() {
                        Enough::Yes
                    } else {
                        Enough::No
                    }
                })?;
            }
            if let Some(error) = broken {
                return Err(error);
            }
            self.after = last.or_else(|| self.after.take());
            if !self.pending.is_empty() {
                let length = self.pending.len().min(CHUNK_BYTES_MAX);
                let chunk = self.encoder.chunk(Kind::Rows, table.name(), &self.pending[..length]);
                self.pending.drain(..length);
                return Ok(chunk);
            }
            self.table += 1;
            self.after = None;
        }
        let opening = self.opening.clone().ok_or(Error::Closed)?;
        let (Encoder { chunks, bytes, .. }, sha256) = (&self.encoder, self.encoder.sha256());
        let manifest =
            Manifest { version: VERSION, opening, tasks: self.tasks, chunks: *chunks, bytes: *bytes, sha256 };
        let text = json(&manifest)?;
        self.done = true;
        Ok(self.encoder.chunk(Kind::Manifest, "", &text))
    }
}

impl Source for Stream {
    fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.done {
            return Ok(None);
        }
        // A damaged page can make the tables panic.
        let piece = catch_unwind(AssertUnwindSafe(|| self.piece()))
            .unwrap_or_else(|_| Err(Error::Damaged("the index cannot be read".to_owned())));
        if let Err(error) = &piece {
            self.done = true;
            // The store keeps serving. Damage is reported to the callers that read the damaged data.
            tracing::error!(%error, "a backup failed");
        }
        piece.map(Some)
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec_pretty(value).map_err(|error| Error::Failed(error.to_string()))
}

/// Waits for a checkpoint that contains everything applied, and so everything acknowledged. Returns its tables.
fn pin_tables(shared: &Shared) -> Result<Arc<Snapshot>, Error> {
    let began = Instant::now();
    let mut machine = shared.machine.lock();
    let wanted = machine.applied();
    loop {
        if let Some(error) = shared.failed().or_else(|| shared.inbox.closed()) {
            return Err(error);
        }
        let snapshot = machine.snapshot();
        if catalogue::state(snapshot.view().read)?.applied >= wanted {
            return Ok(Arc::clone(snapshot));
        }
        shared.bell.ring();
        // Checkpoints signal `room`. Other events that end the wait do not, so the wait has a timeout.
        shared.room.wait_for(&mut machine, LOOK_AGAIN);
        let waited = began.elapsed();
        if waited > ROOM_WAIT && !shared.space.had_room() {
            return Err(Error::NoSpace);
        }
        if waited > CHECKPOINT_WAIT {
            return Err(Error::Busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::embedded::{EmbeddedStore, Options};
    use crate::store::{Durability, Store};

    /// A pin ends after its lifetime, even if the backup is not read any further.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_that_takes_too_long_ends() {
        let dir = tempfile::tempdir().unwrap();
        let options =
            Options { durability: Durability::Os, disk_reserve_bytes: 0, ..Options::new(dir.path()) };
        let store = EmbeddedStore::open(options, ManualClock::shared()).await.unwrap();
        let mut stream = Stream::begin(&store.shared).unwrap();
        stream.next().unwrap();
        let pinned = match &*stream.pin.view.lock() {
            Held::View(snapshot) => Arc::downgrade(snapshot),
            held => panic!("{held:?}"),
        };
        let holders = || pinned.strong_count();
        let (before, since) = (holders(), stream.pin.since);
        store.shared.backups.expire();
        assert_eq!(holders(), before, "it has half an hour");
        store.shared.backups.expire_older(Duration::ZERO);
        assert_eq!(holders(), before - 1, "{since:?}");
        let error = stream.next().unwrap_err();
        assert!(error.to_string().contains("longer than 30 minutes"), "{error}");
        drop(stream);
        assert!(store.backup().is_ok(), "another one can begin");
    }
}
