//! The checkpoint of a program, as a file that it may read and write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use windlass_core::limits::CHECKPOINT_BYTES_MAX;

use crate::worker::{Context, Job};

/// How often it is looked at while the program runs.
const EVERY: Duration = Duration::from_secs(1);

/// The file goes with this.
#[derive(Debug)]
pub(super) struct Saved {
    path: PathBuf,
    /// What the broker has.
    kept: Bytes,
}

impl Saved {
    /// What an earlier attempt saved; an empty file if there is nothing. The lease in the name is known to nobody else.
    pub(super) fn new(job: &Job) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("windlass-checkpoint-{}", job.token));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        let saved = Self { path, kept: job.checkpoint.clone().unwrap_or_default() };
        file.write_all(&saved.kept)?;
        Ok(saved)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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
        // A program that took the file away has nothing to say. Large files are refused by their length.
        let Ok(about) = fs::metadata(&self.path) else { return };
        if about.len() > CHECKPOINT_BYTES_MAX as u64 {
            context.log(format_args!("a checkpoint of {} bytes is too large to be kept", about.len()));
            return;
        }
        let Ok(written) = fs::read(&self.path).map(Bytes::from) else { return };
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
        // The program may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}
