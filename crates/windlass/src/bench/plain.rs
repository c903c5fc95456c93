//! The peer of the engine: one file, appended and synced in a loop, with nothing around it.
//!
//! The file is written with zeros and synced beforehand, like the store's own segments, because syncing a file that grows
//! is about twice as slow: the peer must not win or lose by that.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_store::Durability;

use super::{Error, io};

/// As large as a segment; written from the start again at its end, as segments are.
const FILE_BYTES: usize = 64 << 20;
/// Zeros written at once when the file is made: memory is measured, too.
const ZEROS_BYTES: usize = 256 << 10;

/// Neighbouring groups of about the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Plain {
    file: File,
    content: Vec<u8>,
    at: usize,
}

impl Plain {
    pub(super) fn prepare(path: &Path) -> Result<Plain, Error> {
        let action = "prepare the file of the plain loop";
        let file = File::options().create_new(true).read(true).write(true).open(path).map_err(io(action))?;
        let zeros = vec![0; ZEROS_BYTES];
        for at in (0..FILE_BYTES).step_by(ZEROS_BYTES) {
            file.write_all_at(&zeros, at as u64).map_err(io(action))?;
        }
        file.sync_all().map_err(io(action))?;
        let content = Vec::new();
        Ok(Plain { file, content, at: 0 })
    }

    /// Writes the groups one after the other, as durably as the engine did, and says how long it took.
    pub(super) fn write(&mut self, groups: &[Groups], durability: Durability) -> Result<Duration, Error> {
        let size = |run: &Groups| {
            usize::try_from(run.bytes / run.count.max(1)).unwrap_or(FILE_BYTES).clamp(1, FILE_BYTES)
        };
        let largest = groups.iter().map(size).max().unwrap_or_default();
        // Not zeros, so that no layer below can save itself the writing.
        self.content.extend((self.content.len()..largest).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 11) as u8));
        let began = Instant::now();
        let mut synced = began;
        for run in groups {
            let bytes = size(run);
            for _ in 0..run.count {
                if self.at + bytes > FILE_BYTES {
                    self.at = 0;
                }
                self.file
                    .write_all_at(&self.content[..bytes], self.at as u64)
                    .map_err(io("append in the plain loop"))?;
                self.at += bytes;
                let due = match durability {
                    Durability::Sync => true,
                    Durability::IntervalMs(ms) => synced.elapsed() >= Duration::from_millis(ms),
                    Durability::Os | Durability::Snapshots | Durability::None => false,
                };
                if due {
                    self.file.sync_data().map_err(io("sync in the plain loop"))?;
                    synced = Instant::now();
                }
            }
        }
        Ok(began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_written_from_the_start_again_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut plain = Plain::prepare(&dir.path().join("plain")).unwrap();
        let large = FILE_BYTES as u64 / 2 + 1;
        let groups = [Groups { count: 2, bytes: 200 }, Groups { count: 1, bytes: large }];
        plain.write(&groups, Durability::Os).unwrap();
        assert_eq!(plain.at, 200 + large as usize);
        plain.write(&groups[1..], Durability::Sync).unwrap();
        assert_eq!(plain.at, large as usize);
        assert_eq!(plain.file.metadata().unwrap().len(), FILE_BYTES as u64);
    }
}
