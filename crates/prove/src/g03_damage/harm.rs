//! What is done to the files: every kind of file, every kind of damage, one of them at a time.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

use super::frames::{frames, unvouched};
use super::written::copy;
use crate::proof::Trouble;

/// The directories that damage is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    /// The store to be damaged.
    pub(super) own: &'a Path,
    /// The same store at an earlier moment.
    pub(super) earlier: &'a Path,
    /// Another store.
    pub(super) foreign: &'a Path,
}

/// Damage that is documented to go unnoticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exception {
    /// A flip in what no vouch stands behind yet.
    BeforeVouch,
    /// An older log that still reaches past the checkpoint.
    StaleLog,
    /// An old copy of the whole directory.
    OldDirectory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Format,
    Lock,
    Index,
    Block,
    FirstSegment,
    MiddleSegment,
    LastSegment,
    Newest,
    Spare,
    Elapsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Flip,
    Cut,
    Delete,
    Swap,
    Stale,
    Foreign,
}

/// Several files at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    ForeignTables,
    ForeignLog,
    ForeignFormatAndIndex,
    ForeignBlocks,
    StaleLog,
    StaleTables,
    OldDirectory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    One(Target, Act),
    Many(Together),
}

const TARGETS: [Target; 10] = [
    Target::Format,
    Target::Lock,
    Target::Index,
    Target::Block,
    Target::FirstSegment,
    Target::MiddleSegment,
    Target::LastSegment,
    Target::Newest,
    Target::Spare,
    Target::Elapsed,
];
const ACTS: [Act; 6] = [Act::Flip, Act::Cut, Act::Delete, Act::Swap, Act::Stale, Act::Foreign];
const TOGETHER: [Together; 7] = [
    Together::ForeignTables,
    Together::ForeignLog,
    Together::ForeignFormatAndIndex,
    Together::ForeignBlocks,
    Together::StaleLog,
    Together::StaleTables,
    Together::OldDirectory,
];
/// Flips are drawn more often: there are as many as there are bits.
const FLIPPED: [Target; 5] =
    [Target::Index, Target::Block, Target::FirstSegment, Target::MiddleSegment, Target::LastSegment];

/// Every kind of damage.
pub(super) fn kinds() -> Vec<Kind> {
    let one = TARGETS.iter().flat_map(|target| ACTS.iter().map(|act| Kind::One(*target, *act)));
    let flips = FLIPPED.iter().map(|target| Kind::One(*target, Act::Flip));
    one.chain(TOGETHER.iter().map(|together| Kind::Many(*together))).chain(flips).collect()
}

/// Damage that was done.
#[derive(Debug)]
pub(super) struct Harm {
    kind: Kind,
    words: String,
    /// What may go unnoticed, by the documents.
    pub(super) exception: Option<Exception>,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.kind, self.words)
    }
}

impl Harm {
    /// A word for the tally.
    pub(super) fn act(&self) -> &'static str {
        match self.kind {
            Kind::One(_, Act::Flip) => "flips",
            Kind::One(_, Act::Cut) => "cuts",
            Kind::One(_, Act::Delete) => "deletions",
            Kind::One(_, Act::Swap) => "swaps",
            Kind::One(_, Act::Stale) | Kind::Many(Together::StaleLog | Together::StaleTables) => {
                "stale copies"
            }
            Kind::Many(Together::OldDirectory) => "old directories",
            Kind::One(_, Act::Foreign) | Kind::Many(_) => "foreign files",
        }
    }

    /// Whether both files that name the store name the foreign one. A salvage then copies what is whole of that one.
    pub(super) fn is_taken_over(&self) -> bool {
        self.kind == Kind::Many(Together::ForeignFormatAndIndex)
    }

    /// Copies the store to `to` and damages it; `None` if there is nothing to damage in this way.
    pub(super) fn inflict(
        kind: Kind,
        sources: Sources<'_>,
        to: &Path,
        random: &mut StdRng,
    ) -> Result<Option<Harm>, Trouble> {
        let whole = if kind == Kind::Many(Together::OldDirectory) { sources.earlier } else { sources.own };
        copy(whole, to)?;
        match kind {
            Kind::Many(together) => many(together, sources, to).map(Some),
            Kind::One(target, act) => one(target, act, sources, to, random),
        }
    }
}

fn many(together: Together, sources: Sources<'_>, to: &Path) -> Result<Harm, Trouble> {
    let (from, parts): (_, &[&str]) = match together {
        Together::ForeignTables => (sources.foreign, &["index.redb", "blocks"]),
        Together::ForeignLog => (sources.foreign, &["log"]),
        Together::ForeignFormatAndIndex => (sources.foreign, &["FORMAT", "index.redb"]),
        Together::ForeignBlocks => (sources.foreign, &["blocks"]),
        Together::StaleLog => (sources.earlier, &["log"]),
        Together::StaleTables => (sources.earlier, &["index.redb", "blocks"]),
        Together::OldDirectory => (sources.earlier, &[]),
    };
    for part in parts {
        let (from, to) = (from.join(part), to.join(part));
        if from.is_dir() {
            fs::remove_dir_all(&to)?;
            fs::create_dir(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        } else {
            fs::copy(from, to)?;
        }
    }
    let exception = match together {
        Together::StaleLog => Some(Exception::StaleLog),
        Together::OldDirectory => Some(Exception::OldDirectory),
        _ => None,
    };
    Ok(Harm { kind: Kind::Many(together), words: parts.join(", "), exception })
}

fn one(
    target: Target,
    act: Act,
    sources: Sources<'_>,
    to: &Path,
    random: &mut StdRng,
) -> Result<Option<Harm>, Trouble> {
    let Some(file) = pick(target, to, random)? else { return Ok(None) };
    let path = to.join(&file);
    let mut words = file.display().to_string();
    let mut exception = None;
    match act {
        Act::Flip => {
            let mut bytes = fs::read(&path)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let bit = random.random_range(0..8);
            let unvouched = unvouched(&bytes).filter(|_| target == Target::LastSegment);
            let at = match unvouched {
                // The rest of the log is flipped in the store that is vouched for.
                Some(frame) => frame.at + random.random_range(0..frame.bytes),
                None => place(&bytes, random),
            };
            if unvouched.is_some_and(|frame| at >= frame.at) {
                exception = Some(Exception::BeforeVouch);
            }
            bytes[at] ^= 1 << bit;
            fs::write(&path, bytes)?;
            words = format!("{words}, byte {at}");
        }
        Act::Cut => {
            let length = fs::metadata(&path)?.len();
            if length == 0 {
                return Ok(None);
            }
            let left = random.random_range(0..length);
            File::options().write(true).open(&path)?.set_len(left)?;
            words = format!("{words}, {left} of {length} bytes left");
        }
        Act::Delete => fs::remove_file(&path)?,
        Act::Swap => {
            let Some(other) = another(&file, to, random)? else { return Ok(None) };
            let (ours, theirs) = (fs::read(&path)?, fs::read(to.join(&other))?);
            if ours == theirs {
                return Ok(None);
            }
            fs::write(&path, theirs)?;
            fs::write(to.join(&other), ours)?;
            words = format!("{words} with {}", other.display());
        }
        Act::Stale => {
            let old = sources.earlier.join(&file);
            if !old.exists() || fs::read(&old)? == fs::read(&path)? {
                return Ok(None);
            }
            fs::copy(old, &path)?;
            exception = (target == Target::LastSegment).then_some(Exception::StaleLog);
        }
        Act::Foreign => {
            let Some(theirs) = pick(target, sources.foreign, random)? else { return Ok(None) };
            fs::copy(sources.foreign.join(theirs), &path)?;
        }
    }
    Ok(Some(Harm { kind: Kind::One(target, act), words, exception }))
}

fn pick(target: Target, dir: &Path, random: &mut StdRng) -> Result<Option<PathBuf>, Trouble> {
    let any = |files: Vec<PathBuf>, random: &mut StdRng| match files.len() {
        0 => None,
        count => Some(files[random.random_range(0..count)].clone()),
    };
    let named = |name: &str| Some(PathBuf::from(name)).filter(|name| dir.join(name).exists());
    let segments = files(dir, "log", "seg")?;
    Ok(match target {
        Target::Format => named("FORMAT"),
        Target::Lock => named("LOCK"),
        Target::Index => named("index.redb"),
        Target::Newest => named("log/NEWEST"),
        Target::Elapsed => named("ELAPSED"),
        Target::Block => any(files(dir, "blocks", "blk")?, random),
        Target::Spare => any(files(dir, "log", "spare")?, random),
        Target::FirstSegment => segments.first().cloned(),
        Target::LastSegment => segments.last().cloned(),
        Target::MiddleSegment => match segments.len() {
            0..3 => None,
            count => Some(segments[random.random_range(1..count - 1)].clone()),
        },
    })
}

/// Another file of the same kind.
fn another(file: &Path, dir: &Path, random: &mut StdRng) -> Result<Option<PathBuf>, Trouble> {
    let folder = file.parent().and_then(Path::to_str).unwrap_or_default();
    let Some(kind) = file.extension().and_then(|kind| kind.to_str()).filter(|_| !folder.is_empty()) else {
        return Ok(None);
    };
    let mut others = files(dir, folder, kind)?;
    others.retain(|other| other != file);
    Ok(match others.len() {
        0 => None,
        count => Some(others.swap_remove(random.random_range(0..count))),
    })
}

/// Mostly where something is written: most of a file is empty.
fn place(bytes: &[u8], random: &mut StdRng) -> usize {
    let at = random.random_range(0..bytes.len());
    match random.random_bool(0.9) {
        true => (at..bytes.len()).chain(0..at).find(|at| bytes[*at] != 0).unwrap_or(at),
        false => at,
    }
}

/// The files of one kind in order, relative to the directory.
pub(super) fn files(dir: &Path, folder: &str, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let Ok(found) = fs::read_dir(dir.join(folder)) else { return Ok(files) };
    for entry in found {
        let name = PathBuf::from(folder).join(entry?.file_name());
        if name.extension().is_some_and(|found| found == extension) {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// Takes the vouch away that an idle log ends with: the files as they were some milliseconds before.
pub(super) fn take_vouch(dir: &Path) -> Result<(), Trouble> {
    let last = files(dir, "log", "seg")?.pop().ok_or_else(|| Trouble::failed("the data has no log"))?;
    let path = dir.join(last);
    let mut bytes = fs::read(&path)?;
    while let Some(frame) = frames(&bytes).pop().filter(|frame| frame.count == 0) {
        bytes[frame.at..frame.at + frame.bytes].fill(0);
    }
    Ok(fs::write(&path, bytes)?)
}
