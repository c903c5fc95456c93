//! Reading the log back.
//!
//! Frames are followed from the segment that holds the first wanted entry for as long as each is intact, of
//! this life of its file, and carries the index that is due. Where that ends is either the end of the log or
//! damage. The bytes behind cannot tell by themselves, but the frames and headers behind can: each says up to
//! which index the log was synced when it was written. If one of them vouches for the entry that is missing
//! here, the entry was durable and has been damaged since, and the log is refused as it is. If none does, what
//! follows was never promised to anyone: the tail of a write that a crash cut short. With a sync after every
//! batch this means that any intact later frame makes a hole damage, also the vouch that an idle log ends with; without, a power cut may well keep a
//! later block and lose an earlier one, and that is no reason to refuse to start.
//!
//! No byte is changed here. What is to be dropped is handed to the caller.

use super::active::Active;
use super::frame::{ALIGN, HEAD_BYTES, Head, MAGIC};
use super::segment::{HEADER_BYTES, Segment, segment_path};
use super::spare::Live;
use super::{Error, VisitError, io_error};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One read. An entry kept by the visitor keeps its whole block in memory.
const BLOCK: u64 = 1 << 20;

pub(super) type Visit<'a> = &'a mut dyn FnMut(u64, Bytes) -> Result<(), VisitError>;

#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) next: u64,
    pub(super) live: VecDeque<Live>,
    /// Where to go on writing; `None` if that needs a new segment.
    pub(super) active: Option<Active>,
    /// Files that hold nothing of the log, to be removed before anything is appended.
    pub(super) dropped: Vec<PathBuf>,
    pub(super) replayed_bytes: u64,
}

/// What the log must contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) replay_from: u64,
    /// The first entry of the newest segment, where that is recorded.
    pub(super) newest: Option<u64>,
    /// Whether a log that ends before `replay_from` is damaged. In earlier formats a power cut could cause that.
    pub(super) reaches: bool,
}

pub(super) fn recover(
    dir: &Path,
    mut segments: Vec<Segment>,
    wanted: Wanted,
    visit: Visit<'_>,
) -> Result<Recovered, Error> {
    let Wanted { replay_from, newest, reaches } = wanted;
    if let Some(newest) = newest
        && segments.last().is_none_or(|last| last.first < newest)
    {
        return Err(Error::Missing { path: segment_path(dir, newest) });
    }
    let lowest = segments.first().map_or(replay_from, |segment| segment.first);
    if lowest > replay_from {
        return Err(Error::Gap { wanted: replay_from, first: lowest });
    }
    let Some(start) = segments.partition_point(|segment| segment.first <= replay_from).checked_sub(1) else {
        let (live, active, dropped) = (VecDeque::new(), None, Vec::new());
        return Ok(Recovered { next: replay_from, live, active, dropped, replayed_bytes: 0 });
    };

    let mut replay = Replay::new(segments[start].first, replay_from);
    let mut last = start;
    replay.segment(last, &segments[last], visit)?;
    while segments.get(last + 1).is_some_and(|next| next.first == replay.expected) {
        last += 1;
        replay.segment(last, &segments[last], visit)?;
    }
    let end = replay.end;
    let remains = judge(&segments[last..], end, replay.expected)?;
    if reaches && replay.expected < replay_from {
        return Err(Error::Short { next: replay.expected, wanted: replay_from });
    }
    replay.make_durable(&segments[start..=last], start)?;

    let mut dropped: Vec<_> = segments.drain(last + 1..).map(|segment| segment.path).collect();
    let mut active = None;
    if remains && end == HEADER_BYTES {
        // The next segment will bear the same name.
        dropped.extend(segments.pop().map(|segment| segment.path));
    } else if !remains && replay.expected >= replay_from {
        let tail = &segments[last];
        let file = tail.file.try_clone().map_err(io_error("open", &tail.path))?;
        active = Some(Active::new(file, tail.path.clone(), tail.header.salt, end, tail.bytes));
    }
    if replay.expected < replay_from {
        tracing::warn!(
            end = replay.expected,
            replay_from,
            "the log ends before the checkpoint and goes on from it"
        );
    }
    let live = segments.into_iter().enumerate().map(|(nth, segment)| Live {
        first: segment.first,
        path: segment.path,
        bytes: segment.bytes,
        used: nth.checked_sub(start).and_then(|nth| replay.used.get(nth).copied()).unwrap_or(0),
    });
    Ok(Recovered {
        next: replay.expected.max(replay_from),
        live: live.collect(),
        active,
        dropped,
        replayed_bytes: replay.used.iter().sum(),
    })
}

/// The frames of one replay, followed in order.
#[derive(Debug)]
struct Replay {
    expected: u64,
    replay_from: u64,
    /// Where the frames of the segment read last end.
    end: u64,
    /// Bytes of frames per segment.
    used: Vec<u64>,
    /// First index and place of the frames that no later frame vouches for.
    unproven: VecDeque<(u64, usize, u64)>,
}

impl Replay {
    fn new(expected: u64, replay_from: u64) -> Replay {
        Replay { expected, replay_from, end: 0, used: Vec::new(), unproven: VecDeque::new() }
    }

    fn segment(&mut self, nth: usize, segment: &Segment, visit: Visit<'_>) -> Result<(), Error> {
        let salt = segment.header.salt;
        let mut blocks = Blocks::new(&segment.file, segment.bytes, HEADER_BYTES);
        loop {
            let here = blocks.at;
            let Some(frame) = self.next_frame(&mut blocks, salt).map_err(io_error("read", &segment.path))?
            else {
                break;
            };
            let (head, frame) = frame;
            let Some(entries) = head.entries(frame) else {
                blocks.at = here;
                break;
            };
            for (index, entry) in entries.skip_while(|(index, _)| *index < self.replay_from) {
                visit(index, entry).map_err(Error::Visit)?;
            }
            while self.unproven.front().is_some_and(|(first, ..)| *first < head.durable) {
                self.unproven.pop_front();
            }
            if head.end() > head.first {
                self.unproven.push_back((head.first, nth, here));
            }
            self.expected = head.end();
        }
        self.end = blocks.at;
        self.used.push(self.end - HEADER_BYTES);
        Ok(())
    }

    /// The frame that is due next, if its header stands at the place; its payload is not yet checked.
    fn next_frame(&self, blocks: &mut Blocks<'_>, salt: u64) -> io::Result<Option<(Head, Bytes)>> {
        if !blocks.hold(HEAD_BYTES)? {
            return Ok(None);
        }
        let due = |head: &Head| head.salt == salt && head.first == self.expected;
        let Some(head) = Head::parse(&blocks.held).filter(due) else { return Ok(None) };
        if !blocks.hold(head.frame_bytes())? {
            return Ok(None);
        }
        Ok(Some((head, blocks.take(head.frame_bytes()))))
    }

    /// What has been replayed is about to be acted upon, so it has to be on disk. A sync alone does not do:
    /// after a failed sync the kernel may hold as clean what never reached the disk, and a process that starts
    /// again would read it. So the frames that nothing vouches for are written once more.
    fn make_durable(&self, segments: &[Segment], start: usize) -> Result<(), Error> {
        let Some((_, first, from)) = self.unproven.front().copied() else { return Ok(()) };
        for (segment, used) in segments.iter().zip(&self.used).skip(first - start) {
            let from = if segment.path == segments[first - start].path { from } else { HEADER_BYTES };
            let to = HEADER_BYTES + used;
            rewrite(&segment.file, from, to).map_err(io_error("sync", &segment.path))?;
        }
        Ok(())
    }
}

fn rewrite(file: &File, mut from: u64, to: u64) -> io::Result<()> {
    let mut blocks = Blocks::new(file, to, from);
    while from < to {
        let step = usize::try_from(BLOCK.min(to - from)).expect("at most one block");
        if !blocks.hold(step)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(&blocks.take(step), from)?;
        from += step as u64;
    }
    file.sync_data()
}

/// Decides what the end of the intact frames means. `Ok(true)` if intact frames that were never promised
/// stand behind the end: they could be mistaken for new ones, so nothing may be written before them.
fn judge(rest: &[Segment], end: u64, expected: u64) -> Result<bool, Error> {
    let tail = &rest[0];
    let salt = tail.header.salt;
    let damaged = || Error::Damaged { segment: tail.path.clone(), offset: end, index: expected };
    let (mut vouched, mut remains) = (0, false);
    scan(&tail.file, &tail.path, end, |at, head| {
        if head.salt == salt {
            vouched = vouched.max(head.durable);
            remains |= at > end || head.first != expected;
        }
    })?;
    for later in &rest[1..] {
        let header = later.header;
        vouched = vouched.max(header.durable);
        scan(&later.file, &later.path, HEADER_BYTES, |_, head| {
            if head.salt == header.salt {
                vouched = vouched.max(head.durable);
            }
        })?;
    }
    if vouched > expected {
        return Err(damaged());
    }
    let mut blocks = Blocks::new(&tail.file, tail.bytes, end);
    let begun = blocks.hold(HEAD_BYTES).map_err(io_error("read", &tail.path))?;
    if remains || rest.len() > 1 || (begun && Head::resembles(&blocks.held, salt)) {
        let segment = tail.path.display();
        tracing::warn!(%segment, offset = end, index = expected, "the log ends in a torn write, which is dropped");
    }
    Ok(remains)
}

/// Shows every intact frame header at or after `from`, of whichever life of the file.
fn scan(file: &File, path: &Path, from: u64, mut show: impl FnMut(u64, Head)) -> Result<(), Error> {
    let bytes = file.metadata().map_err(io_error("inspect", path))?.len();
    let mut blocks = Blocks::new(file, bytes, from);
    while blocks.hold(HEAD_BYTES).map_err(io_error("read", path))? {
        let places = (blocks.held.len() - HEAD_BYTES) / ALIGN + 1;
        for place in 0..places {
            let bytes = &blocks.held[place * ALIGN..place * ALIGN + HEAD_BYTES];
            if bytes[..4] == MAGIC
                && let Some(head) = Head::parse(bytes)
            {
                show(blocks.at + (place * ALIGN) as u64, head);
            }
        }
        blocks.take(places * ALIGN);
    }
    Ok(())
}

/// A file read forward in large blocks.
#[derive(Debug)]
struct Blocks<'a> {
    file: &'a File,
    bytes: u64,
    /// File offset of the first byte held.
    at: u64,
    held: Bytes,
}

impl<'a> Blocks<'a> {
    fn new(file: &'a File, bytes: u64, at: u64) -> Blocks<'a> {
        Blocks { file, bytes, at, held: Bytes::new() }
    }

    /// Makes sure that `wanted` bytes are held; `false` if the file ends before.
    fn hold(&mut self, wanted: usize) -> io::Result<bool> {
        if self.held.len() >= wanted {
            return Ok(true);
        }
        let rest = self.bytes.saturating_sub(self.at);
        if (wanted as u64) > rest {
            return Ok(false);
        }
        let size = rest.min(BLOCK.max(wanted as u64));
        let mut block = Vec::with_capacity(usize::try_from(size).expect("bounded by a batch"));
        block.extend_from_slice(&self.held);
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at + self.held.len() as u64))?;
        file.take(size - self.held.len() as u64).read_to_end(&mut block)?;
        self.held = Bytes::from(block);
        Ok(self.held.len() >= wanted)
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        self.at += bytes as u64;
        self.held.split_to(bytes)
    }
}
