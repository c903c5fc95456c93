//! Where a bench keeps its files, and the store it keeps there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tempfile::TempDir;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::{Durability, SystemClock};

use super::machine::file_system;
use super::{Error, io};
use crate::config::value::FromText;

#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Where to make the temporary data directory: the disk that is measured
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// When an answer is given: sync, interval:50ms or os
    #[arg(long, default_value = "sync", value_parser = durability, value_name = "HOW")]
    pub(super) durability: Durability,
}

fn durability(text: &str) -> Result<Durability, String> {
    Durability::from_text(text)
}

impl Place {
    /// A directory that goes away with the bench, on a disk.
    pub(super) fn make(&self) -> Result<TempDir, Error> {
        if let Some(kind) = file_system(&self.dir)
            && ["tmpfs", "ramfs", "devtmpfs"].contains(&kind.as_str())
        {
            return Err(Error::InMemory(self.dir.clone(), kind));
        }
        let made = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(&self.dir);
        made.map_err(io("make a directory for the bench"))
    }

    pub(super) async fn open(&self, dir: &Path) -> Result<Arc<EmbeddedStore>, Error> {
        let options = Options { durability: self.durability, ..Options::new(dir) };
        Ok(EmbeddedStore::open(options, SystemClock::shared()).await?)
    }

    pub(super) fn durability_word(&self) -> String {
        match self.durability {
            Durability::Sync => "sync".to_owned(),
            Durability::IntervalMs(ms) => format!("interval:{ms}ms"),
            Durability::Os | Durability::Snapshots | Durability::None => "os".to_owned(),
        }
    }
}

/// What a directory takes up on the disk, blocks reserved but unused included.
pub(super) fn disk_bytes(dir: &Path) -> Result<u64, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in std::fs::read_dir(dir).map_err(io("list the data directory"))? {
        let entry = entry.map_err(io("list the data directory"))?;
        // A segment may be used again under another name while this looks.
        let Ok(facts) = entry.metadata() else { continue };
        total += if facts.is_dir() { disk_bytes(&entry.path())? } else { facts.blocks() * 512 };
    }
    Ok(total)
}
