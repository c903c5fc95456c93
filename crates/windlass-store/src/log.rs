//! The write-ahead log: opaque entries with consecutive indexes, in segment files.
//!
//! **Model.** One at a time appends batches to the [`Log`]. A batch is one frame, written at once (see `active`); after
//! [`Log::sync`] everything appended so far survives a power cut. The sync of one batch and the append of the next may overlap
//! ([`Log::unsynced`]). Segments are files of one
//! size, made ahead by a background thread and used again once a [`Reclaimer`] has released their entries.
//!
//! **Invariants.**
//! - A segment's header, name and directory entry are on disk before its first frame is written, and all
//!   entries of the segment before it are synced by then (unless the log never syncs).
//! - Frames of a segment carry the salt drawn when the file became that segment, so what an earlier life left
//!   in the file is never taken for a frame, nor is any content of an entry.
//! - Each frame and each segment header says up to which index the log was synced when it was written. This is
//!   what tells a torn tail from damage; see `recover`.
//! - A new frame is written only where no intact frame of this life stands behind it. If a crash left one, the
//!   log goes on in a new segment. So what a torn write leaves behind is either overwritten from its start or
//!   never read again.
//! - Every segment carries the id of its store and its own size, and `NEWEST` names the newest segment before it gets an entry. So
//!   a file that was cut short, is missing, or belongs to another store is detected as damage.
//!
//! **Failure.** Without space for a new segment an append fails with [`Error::NoSpace`], nothing is written
//! and the log stays usable. After any other failed write or sync nobody knows what is on disk: the log is
//! poisoned and refuses everything, and a failed sync is never tried again. A log that is damaged, or of an
//! unknown format, is refused at opening and left untouched.

mod active;
mod error;
mod frame;
mod health;
mod newest;
mod options;
mod recover;
mod remains;
mod segment;
mod spare;
#[cfg(test)]
mod tests;

use active::Active;
use bytes::Bytes;
use frame::{Builder, HEAD_BYTES, Place};
use health::Health;
use newest::Newest;
use parking_lot::{Condvar, Mutex};
use recover::Wanted;
use rustix::io::Errno;
use segment::{HEADER_BYTES, Header, Listing, Segment};
use spare::{Live, Shared, State};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

pub use error::Error;
pub use health::Unsynced;
pub use options::{Expected, Options, SyncMode};
pub(crate) use remains::{Intact, Remains};
pub use spare::Reclaimer;

/// Most bytes in one batch, four more counted per entry: what recovery may have to hold at once.
pub const MAX_BATCH_BYTES: usize = 64 << 20;
/// Most entries in one batch; far above any real group, it keeps a nonsensical count from being believed.
pub const MAX_BATCH_ENTRIES: usize = 1 << 20;

/// The id of the store that a log belongs to.
pub type StoreId = [u8; 16];

/// What a visitor may fail with.
pub type VisitError = Box<dyn std::error::Error + Send + Sync>;

/// The log, owned by the one who writes it.
#[derive(Debug)]
pub struct Log {
    sync: SyncMode,
    direct: bool,
    shared: Arc<Shared>,
    preparer: Option<JoinHandle<()>>,
    /// `None` if the next frame needs a new segment.
    active: Option<Active>,
    next: u64,
    health: Arc<Health>,
    written: u64,
    frame: Builder,
    store: StoreId,
    newest: Newest,
    /// The index below which the last vouch confirms every entry.
    vouched: u64,
}

impl Log {
    /// Opens the log or makes a new one that begins with `replay_from`, and shows `visit` every entry from
    /// there on in order. Lower entries may have been released. All entries shown are durable from then on.
    /// An entry is a slice of a large block: whoever keeps it for long should copy it.
    pub fn open(
        options: Options,
        replay_from: u64,
        visit: &mut dyn FnMut(u64, Bytes) -> Result<(), VisitError>,
    ) -> Result<Log, Error> {
        let Options { dir, segment_bytes, spare_segments: wanted, sync, direct, store, expected } = options;
        let segment_bytes = segment_bytes.max(2 * HEADER_BYTES).next_multiple_of(HEADER_BYTES);
        let earlier = expected == Expected::Earlier;
        make_dir(&dir)?;
        let recorded = Newest::read(&dir, store)?;
        let listing = Listing::read(&dir, (!earlier).then_some(store))?;
        let absent = expected == Expected::Nothing && listing.segments.is_empty();
        if recorded.is_none() && !absent && !earlier {
            return Err(Error::Missing { path: dir.join(newest::NAME) });
        }
        let number = listing.spares.iter().map(|(number, _)| *number).max().unwrap_or(0);
        // An upgrade that was interrupted may have removed segments already.
        let newest = recorded.as_ref().filter(|_| !earlier).and_then(Newest::first);
        let wish = Wanted { replay_from, newest, reaches: !earlier };
        let mut recovered = recover::recover(&dir, listing.segments, wish, visit)?;
        if earlier {
            recovered.active = None;
        }
        if let Some(active) = recovered.active.as_mut().filter(|_| direct) {
            active.go_direct();
        }
        // Set the record before any segment is removed: it must never name a missing segment.
        let last = recovered.live.back().map(|live| live.first);
        let newest = match recorded {
            Some(mut newest) => newest.set(last).map(|()| newest)?,
            None => Newest::create(&dir, store, last)?,
        };
        for path in &recovered.dropped {
            fs::remove_file(path).map_err(io_error("remove", path))?;
        }
        listing.unfinished.iter().for_each(|path| spare::remove(path));
        let spares = spare::adopt(listing.spares, segment_bytes, wanted)?;
        // A dropped segment must not come back behind one that is written from now on.
        let names = File::open(&dir).map_err(io_error("open", &dir))?;
        names.sync_all().map_err(io_error("sync", &dir))?;

        let state = State { live: recovered.live, spares, number, ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { dir, names, segment_bytes, wanted, direct, state, changed });
        let background = Arc::clone(&shared);
        let preparer = std::thread::Builder::new()
            .name("log-segments".to_owned())
            .spawn(move || background.run())
            .map_err(io_error("start a thread for", &shared.dir))?;
        Ok(Log {
            sync,
            direct,
            shared,
            preparer: Some(preparer),
            active: recovered.active,
            next: recovered.next,
            health: Arc::new(Health::new(recovered.next)),
            written: recovered.replayed_bytes,
            frame: Builder::default(),
            store,
            newest,
            vouched: 0,
        })
    }

    /// The index the next entry will have.
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// Every entry below this index is durable.
    pub fn durable_index(&self) -> u64 {
        self.health.durable.load(Ordering::Acquire)
    }

    /// Bytes replayed at opening plus bytes appended since. The difference between two readings is what a
    /// replay of the entries between them has to read.
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// The handle by which others say what is no longer needed.
    pub fn reclaimer(&self) -> Reclaimer {
        Reclaimer { shared: Arc::clone(&self.shared) }
    }

    /// Appends one batch and returns the index of its first entry. It is not durable before [`Log::sync`].
    pub fn append<I>(&mut self, entries: I) -> Result<u64, Error>
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        self.health.check()?;
        self.frame.begin();
        for entry in entries {
            self.frame.push(entry.as_ref())?;
        }
        let first = self.next;
        if self.frame.count() > 0 {
            let written = self.write_frame();
            self.health.judge(written)?;
        }
        Ok(first)
    }

    /// Makes everything appended so far durable; does nothing under [`SyncMode::Never`].
    pub fn sync(&mut self) -> Result<(), Error> {
        self.unsynced().sync()
    }

    /// What [`Log::sync`] would make durable, for somebody else to do: meanwhile more can be appended.
    pub fn unsynced(&self) -> Unsynced {
        let nothing = self.sync == SyncMode::Never || self.durable_index() == self.next;
        let file = self.active.as_ref().filter(|_| !nothing);
        let file = file.map(|active| (Arc::clone(&active.file), active.path.clone()));
        Unsynced { file, end: self.next, health: Arc::clone(&self.health) }
    }

    /// Writes a frame that confirms that everything so far is durable. An idle log needs it, because otherwise damage to the last
    /// frame would look like a torn write. It is not synced, because it holds no entries. Returns false if something is not
    /// durable yet; then the caller tries again. A segment of an earlier version may have no room for the frame, and is left as it is.
    pub fn vouch(&mut self) -> Result<bool, Error> {
        self.health.check()?;
        if self.durable_index() != self.next {
            return Ok(false);
        }
        let room = self.active.as_ref().is_some_and(|active| active.at + HEAD_BYTES as u64 <= active.bytes);
        if room && self.vouched != self.next {
            self.frame.begin();
            let written = self.write_frame();
            self.health.judge(written)?;
            self.vouched = self.next;
        }
        Ok(true)
    }

    fn write_frame(&mut self) -> Result<(), Error> {
        let bytes = self.frame.frame_bytes();
        // Every segment keeps room for the frame that confirms its last entries.
        let room = if self.frame.count() > 0 { bytes + HEAD_BYTES as u64 } else { bytes };
        if self.active.as_ref().is_none_or(|active| active.at + room > active.bytes) {
            self.roll(room)?;
        }
        let durable = self.durable_index();
        let active = self.active.as_mut().expect("rolled if there was none");
        let place = Place { salt: active.salt, first: self.next, durable };
        let frame = self.frame.finish(place);
        // Space was reserved, so even a full disk here means that the promise of the file system is broken.
        active.write(frame).map_err(|source| Error::Io {
            action: "write",
            path: active.path.clone(),
            source,
        })?;
        self.next += u64::from(self.frame.count());
        self.written += bytes;
        if let Some(live) = self.shared.state.lock().live.back_mut() {
            live.used += bytes;
        }
        Ok(())
    }

    /// Goes on to a new segment with room for a frame of `frame_bytes`.
    fn roll(&mut self, frame_bytes: u64) -> Result<(), Error> {
        let spare = self.shared.obtain((HEADER_BYTES + frame_bytes).next_multiple_of(HEADER_BYTES))?;
        // A sync covers one file only: what the old one holds has to be durable before it is left.
        self.sync()?;
        let header = Header {
            first: self.next,
            durable: self.durable_index(),
            salt: draw_salt()?,
            store: self.store,
            bytes: spare.bytes,
        };
        let path = segment::segment_path(&self.shared.dir, self.next);
        let named = spare.file.write_all_at(&header.encode(), 0).map_err(io_error("write", &spare.path));
        let named = named.and_then(|()| sync_file(&spare.file, &spare.path));
        let named =
            named.and_then(|()| fs::rename(&spare.path, &path).map_err(io_error("rename", &spare.path)));
        if let Err(error) = named {
            self.shared.give_back(spare);
            return Err(error);
        }
        self.shared.sync_names().map_err(never_harmless)?;
        // Recorded after the name is durable and before the first entry: from here on a missing segment is damage.
        self.newest.set(Some(self.next)).map_err(never_harmless)?;
        let live = Live { first: self.next, path: path.clone(), bytes: spare.bytes, used: 0 };
        self.shared.state.lock().live.push_back(live);
        // Only now: a segment that has just become free is better than a new file.
        self.shared.changed.notify_all();
        let Header { salt, .. } = header;
        let mut active = Active::new(spare.file, path, salt, HEADER_BYTES, spare.bytes);
        if self.direct {
            active.go_direct();
        }
        self.active = Some(active);
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(preparer) = self.preparer.take()
            && preparer.join().is_err()
        {
            tracing::error!("the thread that prepares log segments panicked");
        }
    }
}

/// Removes the segments of a closed log whose entries are all saved elsewhere. The newest is removed first, so that an
/// interruption leaves a log that only ends earlier.
pub fn remove_segments(dir: &Path) -> Result<(), Error> {
    let mut segments = Listing::read(dir, None)?.segments;
    while let Some(Segment { path, .. }) = segments.pop() {
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
        segment::sync_dir(dir)?;
    }
    remove_record(dir)
}

/// Removes the record of the newest segment, which a log of an earlier version does not have.
pub(crate) fn remove_record(dir: &Path) -> Result<(), Error> {
    let record = dir.join(newest::NAME);
    match fs::remove_file(&record) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &record)(error)),
        _ => segment::sync_dir(dir),
    }
}

/// A sync that fails for want of space has lost data like any other.
fn sync_file(file: &File, path: &Path) -> Result<(), Error> {
    file.sync_data().map_err(io_error("sync", path)).map_err(never_harmless)
}

fn never_harmless(error: Error) -> Error {
    match error {
        Error::NoSpace { path } => {
            Error::Io { action: "sync", path, source: io::ErrorKind::StorageFull.into() }
        }
        Error::NoFiles { path } => Error::Io { action: "sync", path, source: Errno::MFILE.into() },
        other => other,
    }
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| {
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            _ if no_space(&source) => Error::NoSpace { path },
            Some(Errno::MFILE | Errno::NFILE) => Error::NoFiles { path },
            _ => Error::Io { action, path, source },
        }
    }
}

fn no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(io_error("make", dir))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => segment::sync_dir(parent),
        _ => segment::sync_dir(Path::new(".")),
    }
}

/// Random, so that no content of an entry can pass for a frame.
fn draw_salt() -> Result<u64, Error> {
    let mut salt = [0; 8];
    let drawn = rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|error| io_error("draw a random number from", Path::new("getrandom"))(error.into()))?;
    Ok(u64::from_le_bytes(salt))
}
