//! Files ahead of need and files no longer needed.
//!
//! One thread keeps `spare_segments` files ready, and one more of those that were in use, so that the writer never waits for a file of zeros. The zeros
//! are really written: syncing into blocks that are already written moves no metadata and takes half the
//! time. A released segment becomes a spare as it is, old frames and all, because the salt of its next life
//! tells them apart. The thread holds the lock only to choose its next step, never while it does it, and a
//! failure of its own costs speed, not data: the writer then makes a plain file itself.

use super::active::{BLOCK, Stage, open_direct};
use super::segment;
use super::{Error, io_error, no_space};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment that is made while somebody waits for it, unless segments are smaller or the frame is larger.
const SPOT_BYTES: u64 = 4 << 20;
/// Zeros between two syncs, so that the writer's own syncs never queue behind a whole segment.
const SYNC_EVERY: u64 = 4 << 20;

/// Tells the log which entries are no longer needed. Cheap to clone, for any thread.
#[derive(Debug, Clone)]
pub struct Reclaimer {
    pub(super) shared: Arc<Shared>,
}

impl Reclaimer {
    /// Every entry below `below` is safe elsewhere: segments that hold only such entries may go.
    pub fn release(&self, below: u64) {
        let mut state = self.shared.state.lock();
        state.released = state.released.max(below);
        state.stalled = false;
        self.shared.changed.notify_all();
    }

    /// Makes every entry written so far durable, whatever the sync mode of the log is. The tables must not be ahead of the
    /// log.
    pub fn sync(&self) -> Result<(), Error> {
        let live: Vec<PathBuf> = self.shared.state.lock().live.iter().map(|live| live.path.clone()).collect();
        for path in live {
            match File::open(&path) {
                // The segment was released meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                file => super::sync_file(&file.map_err(io_error("open", &path))?, &path)?,
            }
        }
        Ok(())
    }

    /// How many prepared files wait to become segments.
    pub fn ready_spares(&self) -> usize {
        self.shared.state.lock().spares.len()
    }

    /// Whether to prepare files ahead of need. Files that are released become prepared ones all the same.
    pub fn prepare_files(&self, prepare: bool) {
        let mut state = self.shared.state.lock();
        if state.frugal == prepare {
            state.frugal = !prepare;
            self.shared.changed.notify_all();
        }
    }

    /// The size of the prepared files.
    pub fn ready_bytes(&self) -> u64 {
        self.shared.state.lock().spares.iter().map(|spare| spare.bytes).sum()
    }

    /// Bytes of the segments that hold at least one entry not released.
    pub fn live_bytes(&self) -> u64 {
        let state = self.shared.state.lock();
        let gone = state.live.iter().skip(1).take_while(|next| next.first <= state.released).count();
        state.live.iter().skip(gone).map(|live| live.used).sum()
    }

    /// Waits until the background thread has nothing left to do.
    #[cfg(test)]
    pub(super) fn settle(&self) {
        let mut state = self.shared.state.lock();
        while state.busy || state.next_step(&self.shared).is_some() {
            self.shared.changed.wait(&mut state);
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) dir: PathBuf,
    /// The directory. It stays open, so that a sync of it needs no other descriptor.
    pub(super) names: File,
    pub(super) segment_bytes: u64,
    pub(super) wanted: usize,
    /// Whether zeros go past the page cache, as frames do.
    pub(super) direct: bool,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Every segment of the log in order; the last is the writer's and never touched here.
    pub(super) live: VecDeque<Live>,
    pub(super) spares: Vec<Spare>,
    pub(super) released: u64,
    /// The number in the next file name.
    pub(super) number: u64,
    /// The disk is short: no file is made ahead of need.
    pub(super) frugal: bool,
    /// The last spare could not be made; tried again when a segment is taken or released.
    pub(super) stalled: bool,
    pub(super) closing: bool,
    pub(super) busy: bool,
}

#[derive(Debug)]
pub(super) struct Live {
    pub(super) first: u64,
    pub(super) path: PathBuf,
    /// Size of the file.
    pub(super) bytes: u64,
    /// Bytes of frames in it that have to be replayed.
    pub(super) used: u64,
}

/// A file that can become a segment.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Recycle,
    Delete,
    Prepare,
}

impl State {
    fn next_step(&self, shared: &Shared) -> Option<Step> {
        if self.live.get(1).is_some_and(|next| next.first <= self.released) {
            let fits = self.live[0].bytes == shared.segment_bytes;
            // One more than is made: on a busy log one is always released a moment after one was taken, and would be made in vain.
            let room = self.spares.len() <= shared.wanted;
            return Some(if room && fits { Step::Recycle } else { Step::Delete });
        }
        (self.spares.len() < shared.wanted && !self.stalled && !self.frugal).then_some(Step::Prepare)
    }

    fn take_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl Shared {
    /// A file for a segment of at least `bytes`: a prepared one, or else one made on the spot. The latter is small, so that
    /// the wait is short and a prepared one comes next; written all the same, because syncs of blocks that are only
    /// reserved take far longer.
    pub(super) fn obtain(&self, bytes: u64) -> Result<Spare, Error> {
        let number = {
            let mut state = self.state.lock();
            state.stalled = false;
            if bytes <= self.segment_bytes
                && let Some(spare) = state.spares.pop()
            {
                return Ok(spare);
            }
            state.take_number()
        };
        let path = segment::unfinished_path(&self.dir, number);
        let bytes = bytes.max(SPOT_BYTES.min(self.segment_bytes));
        let made = create(&path).and_then(|file| {
            reserve(&file, bytes)?;
            self.fill(&file, &path, bytes, || true)?;
            Ok(file)
        });
        match made {
            Ok(file) => Ok(Spare { path, file, bytes }),
            Err(error) => {
                remove(&path);
                Err(io_error("prepare", &path)(error))
            }
        }
    }

    /// Makes created, renamed and removed names survive a power cut.
    pub(super) fn sync_names(&self) -> Result<(), Error> {
        self.names.sync_all().map_err(io_error("sync", &self.dir))
    }

    /// Takes back a file that could not become a segment.
    pub(super) fn give_back(&self, spare: Spare) {
        remove(&spare.path);
    }

    /// The background thread.
    pub(super) fn run(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            match state.next_step(self) {
                Some(step) => {
                    state.busy = true;
                    self.perform(step, &mut state);
                    state.busy = false;
                }
                None => {
                    self.changed.notify_all();
                    self.changed.wait(&mut state);
                }
            }
        }
    }

    fn perform(&self, step: Step, state: &mut MutexGuard<'_, State>) {
        let number = state.take_number();
        let outcome = match step {
            Step::Prepare => MutexGuard::unlocked(state, || self.prepare(number)),
            Step::Recycle | Step::Delete => {
                let Some(old) = state.live.pop_front() else { return };
                MutexGuard::unlocked(state, || self.retire(old, step, number))
            }
        };
        match outcome {
            Ok(Some(spare)) => state.spares.push(spare),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, ?step, "the log could not prepare or retire a segment file");
                state.stalled = true;
            }
        }
    }

    /// A segment that is not needed any more. If this fails the file stays and the next start finds it again.
    fn retire(&self, old: Live, step: Step, number: u64) -> Result<Option<Spare>, Error> {
        if step == Step::Delete {
            fs::remove_file(&old.path).map_err(io_error("remove", &old.path))?;
            return Ok(None);
        }
        let path = segment::spare_path(&self.dir, number);
        fs::rename(&old.path, &path).map_err(io_error("rename", &old.path))?;
        // Its header is about to be overwritten: no power cut may bring the old name back after that.
        self.sync_names()?;
        match File::options().read(true).write(true).open(&path) {
            Ok(file) => Ok(Some(Spare { path, file, bytes: old.bytes })),
            Err(error) => {
                remove(&path);
                Err(io_error("open", &path)(error))
            }
        }
    }

    fn prepare(&self, number: u64) -> Result<Option<Spare>, Error> {
        let unfinished = segment::unfinished_path(&self.dir, number);
        let bytes = self.segment_bytes;
        let made = create(&unfinished).and_then(|file| {
            reserve(&file, bytes)?;
            self.fill(&file, &unfinished, bytes, || !self.state.lock().closing)?;
            Ok(file)
        });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                remove(&unfinished);
                let closing = error.kind() == io::ErrorKind::Interrupted;
                return if closing { Ok(None) } else { Err(io_error("prepare", &unfinished)(error)) };
            }
        };
        let path = segment::spare_path(&self.dir, number);
        fs::rename(&unfinished, &path).map_err(io_error("rename", &unfinished))?;
        self.sync_names()?;
        Ok(Some(Spare { path, file, bytes }))
    }

    /// Writes and syncs zeros, for as long as `go_on` says so. Past the page cache that takes hardly any of a core, and the frames
    /// that come after have nothing to throw out of it.
    fn fill(&self, file: &File, path: &Path, bytes: u64, go_on: impl Fn() -> bool) -> io::Result<()> {
        let mut direct = self.direct.then(|| open_direct(path).ok()).flatten();
        // A step is the longest a closing log waits for this thread.
        let mut stage = Stage::new();
        let zeros = &*stage.bytes();
        let (mut at, mut synced) = (0, 0);
        while at < bytes {
            if !go_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let step = (bytes - at).min(zeros.len() as u64);
            let zeros = &zeros[..usize::try_from(step).expect("at most one stage")];
            match direct.take_if(|_| step.is_multiple_of(BLOCK as u64)) {
                // Should the file system not mean it, the usual way says what is wrong.
                Some(past) => match past.write_all_at(zeros, at) {
                    Ok(()) => direct = Some(past),
                    Err(_) => continue,
                },
                None => file.write_all_at(zeros, at)?,
            }
            at += step;
            if at - synced >= SYNC_EVERY {
                file.sync_data()?;
                synced = at;
            }
        }
        file.sync_data()
    }
}

/// The spares of an earlier run that are of use now; the others are removed.
pub(super) fn adopt(
    found: Vec<(u64, PathBuf)>,
    segment_bytes: u64,
    wanted: usize,
) -> Result<Vec<Spare>, Error> {
    let mut spares = Vec::new();
    for (_, path) in found {
        let file = File::options().read(true).write(true).open(&path).map_err(io_error("open", &path))?;
        let bytes = file.metadata().map_err(io_error("inspect", &path))?.len();
        if bytes == segment_bytes && spares.len() < wanted {
            spares.push(Spare { path, file, bytes });
        } else {
            remove(&path);
        }
    }
    Ok(spares)
}

fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

/// Reserves the blocks of a file, where the file system has such a thing.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes a file nothing depends on; should that fail, the next start removes it.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && !no_space(&error)
    {
        tracing::warn!(path = %path.display(), %error, "a file the log does not need could not be removed");
    }
}
