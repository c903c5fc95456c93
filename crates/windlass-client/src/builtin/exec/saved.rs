//! The checkpoint of a program, as a file that it may read and write.
//!
//! The program writes whenever it likes, so what is found may be half of it. A program that cares writes another file and
//! renames it; for those that do not, an empty file counts only when they have ended by themselves: it is what
//! a writer has just truncated. Whatever else stands in the place of the file is not opened for reading, and never more
//! than one byte above the limit is read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;
use windlass_core::limits::CHECKPOINT_BYTES_MAX;

use crate::worker::{Context, Job};

/// How often it is looked at while the program runs.
const EVERY: Duration = Duration::from_secs(1);

/// The file goes with this.
#[derive(Debug)]
pub(super) struct Saved {
    /// None if there is no place for files; the program then runs without.
    path: Option<PathBuf>,
    /// What the broker has.
    kept: Bytes,
}

impl Saved {
    /// What an earlier attempt saved; an empty file if there is nothing.
    pub(super) fn new(job: &Job) -> Self {
        static TOLD: Once = Once::new();
        let kept = job.checkpoint.clone().unwrap_or_default();
        let made = make(&std::env::temp_dir(), &kept);
        if let Err(error) = &made {
            TOLD.call_once(|| {
                let dir = std::env::temp_dir();
                tracing::warn!(%error, dir = %dir.display(), "no file for checkpoints can be made; programs run without");
            });
        }
        Self { path: made.ok(), kept }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Looks at the file now and then; never ends by itself.
    pub(super) async fn keep(&mut self, context: &Context) {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            self.look(context).await;
        }
    }

    /// Has the broker keep what the program wrote, if that is something new.
    pub(super) async fn look(&mut self, context: &Context) {
        match self.path.as_deref().map(read) {
            Some(Ok(Some(written))) if !written.is_empty() => self.save(written, context).await,
            Some(Err(TooLarge)) => {
                context
                    .log(format_args!("a checkpoint of more than {CHECKPOINT_BYTES_MAX} bytes is not kept"));
            }
            _ => {}
        }
    }

    /// The same when the program has ended by itself, which may also have left nothing to keep.
    pub(super) async fn look_last(&mut self, context: &Context) {
        match self.path.as_deref().map(read) {
            Some(Ok(Some(written))) if written.is_empty() => self.save(written, context).await,
            _ => self.look(context).await,
        }
    }

    async fn save(&mut self, written: Bytes, context: &Context) {
        if written == self.kept {
            return;
        }
        match context.save_checkpoint(written.clone()).await {
            Ok(()) => self.kept = written,
            Err(error) => context.log(format_args!("the checkpoint was not kept: {error}")),
        }
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The program may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// A file that only this user can read, under a name that nobody can foresee.
fn make(dir: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let path = dir.join(format!("windlass-checkpoint-{:032x}", rand::random::<u128>()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    match file.write_all(content) {
        Ok(()) => Ok(path),
        Err(error) => {
            // Half a checkpoint is worse than none.
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct TooLarge;

/// What the file has. None if there is none, or something else in its place: a pipe would have us wait, a link lead elsewhere.
fn read(path: &Path) -> Result<Option<Bytes>, TooLarge> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path) else {
        return Ok(None);
    };
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match file.take(CHECKPOINT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes) {
        Ok(read) if read > CHECKPOINT_BYTES_MAX => Err(TooLarge),
        Ok(_) => Ok(Some(bytes.into())),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn the_file_is_private_and_its_name_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (make(dir.path(), b"page 7").unwrap(), make(dir.path(), b"").unwrap());
        assert_ne!(one, two);
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&one), Ok(Some(Bytes::from_static(b"page 7"))));
        assert_eq!(read(&two), Ok(Some(Bytes::new())));
        assert!(make(&dir.path().join("none"), b"").is_err());
    }

    #[test]
    fn only_regular_files_of_a_decent_length_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(read(&path), Ok(None));
        assert_eq!(read(dir.path()), Ok(None), "a directory");
        fs::write(&path, vec![1; CHECKPOINT_BYTES_MAX]).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().len(), CHECKPOINT_BYTES_MAX);
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(read(&link), Ok(None));
        fs::write(&path, vec![1; CHECKPOINT_BYTES_MAX + 1]).unwrap();
        assert_eq!(read(&path), Err(TooLarge));
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&pipe), Ok(None), "it does not wait for a writer");
        symlink("/dev/zero", dir.path().join("zero")).unwrap();
        assert_eq!(read(&dir.path().join("zero")), Ok(None));
        assert_eq!(read(Path::new("/dev/zero")), Ok(None));
    }
}
