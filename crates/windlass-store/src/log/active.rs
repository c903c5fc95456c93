//! The segment being written.
//!
//! Where the file system allows it, frames go past the page cache: a write and its sync then cost about half the time and a
//! third less of a core, because nothing is looked for among dirty pages. Such writes consist of whole blocks, so the begun block
//! at the end of the log is kept in memory and written again with the next frame, and what is left of a block behind a frame is
//! zeros. Bytes that were durable are written again as they are, whatever becomes of the rest of their block.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What such writes are made of: no device in use has larger blocks.
pub(super) const BLOCK: usize = 4096;
/// What one write takes at most; larger frames take several.
const STAGE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Active {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) salt: u64,
    /// Where the next frame goes.
    pub(super) at: u64,
    pub(super) bytes: u64,
    direct: Option<Direct>,
}

/// A second handle to the file, and what is on its way to it.
#[derive(Debug)]
struct Direct {
    file: File,
    stage: Stage,
    /// How much of the stage is the block that the last frame began.
    held: usize,
}

impl Active {
    pub(super) fn new(file: File, path: PathBuf, salt: u64, at: u64, bytes: u64) -> Active {
        Active { file: Arc::new(file), path, salt, at, bytes, direct: None }
    }

    /// Writes past the page cache from here on, if that is possible.
    pub(super) fn go_direct(&mut self) {
        self.direct = Direct::open(&self.file, &self.path, self.at).ok();
    }

    /// Writes a frame where the last one ended.
    pub(super) fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        match &mut self.direct {
            Some(direct) => direct.write(frame, self.at)?,
            None => self.file.write_all_at(frame, self.at)?,
        }
        self.at += frame.len() as u64;
        Ok(())
    }

    /// The handle that frames go through.
    #[cfg(test)]
    pub(super) fn written(&mut self) -> &mut File {
        match &mut self.direct {
            Some(direct) => &mut direct.file,
            None => Arc::get_mut(&mut self.file).expect("no sync is under way"),
        }
    }
}

impl Direct {
    fn open(file: &File, path: &Path, at: u64) -> io::Result<Direct> {
        let direct = open_direct(path)?;
        let mut stage = Stage::new();
        let held = (at % BLOCK as u64) as usize;
        let begun = at - held as u64;
        let block = &mut stage.bytes()[..BLOCK];
        // Written back as it is: only that shows whether the file system means it.
        file.read_exact_at(block, begun)?;
        direct.write_all_at(block, begun)?;
        Ok(Direct { file: direct, stage, held })
    }

    fn write(&mut self, mut frame: &[u8], at: u64) -> io::Result<()> {
        let stage = self.stage.bytes();
        let mut begun = at - self.held as u64;
        while !frame.is_empty() {
            let (now, later) = frame.split_at(frame.len().min(stage.len() - self.held));
            let filled = self.held + now.len();
            stage[self.held..filled].copy_from_slice(now);
            let whole = filled.next_multiple_of(BLOCK);
            stage[filled..whole].fill(0);
            self.file.write_all_at(&stage[..whole], begun)?;
            let done = filled / BLOCK * BLOCK;
            stage.copy_within(done..filled, 0);
            self.held = filled - done;
            begun += done as u64;
            frame = later;
        }
        Ok(())
    }
}

/// A handle whose writes go past the page cache, from a [`Stage`] and in whole blocks.
pub(super) fn open_direct(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options().write(true).custom_flags(flags).open(path)
}

/// Memory that begins where a block may begin.
#[derive(Debug)]
pub(super) struct Stage {
    memory: Vec<u8>,
    start: usize,
}

impl Stage {
    pub(super) fn new() -> Stage {
        let memory = vec![0; STAGE_BYTES + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        Stage { memory, start }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + STAGE_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of every length around the edges of blocks and stages, each from where the last one ended.
    #[test]
    fn past_the_page_cache_the_same_bytes_arrive() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("segment");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let bytes = 4 * STAGE_BYTES as u64;
        file.write_all_at(&vec![0xee; bytes as usize], 0).unwrap();
        let begin = BLOCK as u64 + 24;
        let mut active = Active::new(file.try_clone().unwrap(), path, 0, begin, bytes);
        active.go_direct();
        let direct = active.direct.is_some();
        let mut expected = Vec::new();
        let lengths =
            [1, 8, 4071, 1, 4095, 4096, 4097, 8192, STAGE_BYTES - 8, STAGE_BYTES, STAGE_BYTES + 1, 3];
        for (nth, length) in lengths.into_iter().enumerate() {
            let frame = vec![nth as u8 + 1; length];
            active.write(&frame).unwrap();
            expected.extend_from_slice(&frame);
            let mut found = vec![0; expected.len()];
            file.read_exact_at(&mut found, begin).unwrap();
            assert!(found == expected, "after a frame of {length} bytes");
            if nth == 5 {
                // As after a restart.
                active.direct = None;
                active.go_direct();
                assert_eq!(active.direct.is_some(), direct);
            }
        }
        let mut before = vec![0; begin as usize];
        file.read_exact_at(&mut before, 0).unwrap();
        assert!(before.iter().all(|byte| *byte == 0xee), "what stood before the first frame is untouched");
        let end = begin + expected.len() as u64;
        assert_eq!(active.at, end);
        let mut rest = vec![1; (bytes - end) as usize];
        file.read_exact_at(&mut rest, end).unwrap();
        let padding = if direct { end.next_multiple_of(BLOCK as u64) - end } else { 0 } as usize;
        assert!(rest[..padding].iter().all(|byte| *byte == 0));
        assert!(rest[padding..].iter().all(|byte| *byte == 0xee), "blocks behind are untouched");
    }
}
