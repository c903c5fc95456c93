//! What is done to the files.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

use crate::proof::Trouble;

/// Damage to one file of a data directory.
#[derive(Debug)]
pub(super) struct Harm {
    pub(super) kind: &'static str,
    file: PathBuf,
    act: Act,
    /// Whether it only takes away from the end of the log, or hits the last frame: nothing after it can tell.
    pub(super) may_tear: bool,
}

#[derive(Debug)]
enum Act {
    Flip { at: u64, bit: u8 },
    Truncate { to: u64 },
    Remove,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?} of {})", self.kind, self.act, self.file.display())
    }
}

impl Harm {
    /// Draws some damage to the data in `dir`.
    pub(super) fn draw(dir: &Path, random: &mut StdRng) -> Result<Harm, Trouble> {
        let segments = files(dir, "log", "seg")?;
        let blocks = files(dir, "blocks", "blk")?;
        let block = blocks[random.random_range(0..blocks.len())].clone();
        let last = segments.last().cloned().ok_or_else(|| Trouble::failed("the data has no log"))?;
        let segment = segments[random.random_range(0..segments.len())].clone();
        let index = PathBuf::from("index.redb");
        let harm = match random.random_range(0..20) {
            0..9 => Harm::flip("flips in the log", dir, segment, random)?,
            9..13 => Harm::flip("flips in the index", dir, index, random)?,
            13..16 => Harm::flip("flips in blocks", dir, block, random)?,
            16 => Harm::truncate("cuts of the log", dir, segment, random)?,
            17 => Harm::truncate("cuts of the index", dir, index, random)?,
            18 => match random.random_bool(0.5) {
                true => Harm::truncate("cuts of blocks", dir, block, random)?,
                false => Harm::remove("removed blocks", block),
            },
            _ => Harm::remove("removed segments", segment),
        };
        let tail = last_frame(&fs::read(dir.join(&last))?).unwrap_or_default() as u64;
        let may_tear = harm.file == last
            && match harm.act {
                Act::Flip { at, .. } => at >= tail,
                Act::Truncate { .. } | Act::Remove => true,
            };
        Ok(Harm { may_tear, ..harm })
    }

    fn remove(kind: &'static str, file: PathBuf) -> Harm {
        Harm { kind, file, act: Act::Remove, may_tear: false }
    }

    /// Mostly where something is written: most of a file is empty.
    fn flip(kind: &'static str, dir: &Path, file: PathBuf, random: &mut StdRng) -> Result<Harm, Trouble> {
        let bytes = fs::read(dir.join(&file))?;
        let mut at = random.random_range(0..bytes.len());
        if random.random_bool(0.9) {
            at = (at..bytes.len()).chain(0..at).find(|at| bytes[*at] != 0).unwrap_or(at);
        }
        let act = Act::Flip { at: at as u64, bit: random.random_range(0..8) };
        Ok(Harm { kind, file, act, may_tear: false })
    }

    fn truncate(kind: &'static str, dir: &Path, file: PathBuf, random: &mut StdRng) -> Result<Harm, Trouble> {
        let length = fs::metadata(dir.join(&file))?.len();
        Ok(Harm { kind, file, act: Act::Truncate { to: random.random_range(0..length) }, may_tear: false })
    }

    pub(super) fn apply(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(&self.file);
        match self.act {
            Act::Flip { at, bit } => {
                let mut bytes = fs::read(&path)?;
                bytes[at as usize] ^= 1 << bit;
                fs::write(&path, bytes)
            }
            Act::Truncate { to } => File::options().write(true).open(&path)?.set_len(to),
            Act::Remove => fs::remove_file(&path),
        }
    }
}

/// The files of one kind in order, relative to the directory.
fn files(dir: &Path, folder: &str, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir.join(folder))? {
        let name = PathBuf::from(folder).join(entry?.file_name());
        if name.extension().is_some_and(|found| found == extension) {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

const HEADER_BYTES: usize = 4096;
const HEAD_BYTES: usize = 48;

/// The frames of a segment, as places of their heads and lengths of their padded payloads.
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = HEADER_BYTES;
    while bytes.get(at..at + 4) == Some(b"WLfr") && at + HEAD_BYTES <= bytes.len() {
        let length = u32::from_le_bytes([bytes[at + 32], bytes[at + 33], bytes[at + 34], bytes[at + 35]]);
        let padded = (length as usize).next_multiple_of(8);
        frames.push((at, padded));
        at += HEAD_BYTES + padded;
    }
    frames
}

/// Where the last frame begins.
fn last_frame(bytes: &[u8]) -> Option<usize> {
    frames(bytes).last().map(|(at, _)| *at)
}

/// Changes the payload of the newest task in the log and corrects the checksums: what a reader without checks would see.
pub(super) fn forge(dir: &Path) -> Result<(), Trouble> {
    for segment in files(dir, "log", "seg")?.into_iter().rev() {
        let path = dir.join(segment);
        let mut bytes = fs::read(&path)?;
        for (at, padded) in frames(&bytes).into_iter().rev() {
            let payload = at + HEAD_BYTES..at + HEAD_BYTES + padded;
            let marker = super::written::MARKER.as_bytes();
            let found = bytes[payload.clone()].windows(marker.len()).position(|window| window == marker);
            let Some(offset) = found else { continue };
            bytes[payload.start + offset] ^= 1;
            let crc = crc32fast::hash(&bytes[payload]);
            bytes[at + 40..at + 44].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32fast::hash(&bytes[at + 8..at + HEAD_BYTES]);
            bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
            return Ok(fs::write(&path, bytes)?);
        }
    }
    Err(Trouble::failed("the log holds no task to forge"))
}
