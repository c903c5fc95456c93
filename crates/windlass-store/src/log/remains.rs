//! Reads what is left of a log that is refused.
//!
//! The files are only read. Each frame carries a checksum and the salt of its segment, which changes when the file is reused. So
//! an intact frame proves its entries wherever it is found, also after a hole. Two rules exclude frames that never counted: a
//! frame must carry the salt of its segment, and it must come before the first entry of the next segment, which replaced what a
//! crash left there.

use super::frame::{ALIGN, Entries, HEAD_BYTES, Head};
use super::newest::Newest;
use super::segment::{HEADER_BYTES, Header};
use super::{Error, StoreId, io_error};
use bytes::Bytes;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How much is read at once when searching for the next frame.
const SEARCH_BYTES: usize = 1 << 20;

/// The readable segments of a log directory.
#[derive(Debug)]
pub(crate) struct Remains {
    dir: PathBuf,
    pieces: Vec<Piece>,
    /// Files of which all or a part cannot be read, and why.
    pub(crate) broken: Vec<(PathBuf, String)>,
    /// The store and the first entry of the newest segment, as recorded.
    newest: Option<(StoreId, Option<u64>)>,
}

/// A segment whose salt is known, so that its frames can be recognised.
#[derive(Debug, Clone)]
struct Piece {
    path: PathBuf,
    first: u64,
    salt: u64,
    /// `None` if the header is damaged.
    store: Option<StoreId>,
    durable: u64,
    bytes: u64,
    /// The first entry of the next segment, if there is one.
    bound: u64,
}

impl Remains {
    /// Lists what is left of a log. A log of an earlier version has no record of its newest segment.
    pub(crate) fn list(dir: &Path, earlier: bool) -> Result<Remains, Error> {
        let (pieces, broken, newest) = (Vec::new(), Vec::new(), Newest::peek(dir)?);
        let mut remains = Remains { dir: dir.to_owned(), pieces, broken, newest };
        let files = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                remains.broken.push((dir.to_owned(), "it is missing".to_owned()));
                return Ok(remains);
            }
            files => files.map_err(io_error("list", dir))?,
        };
        for found in files {
            let path = found.map_err(io_error("list", dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_suffix(".seg").filter(|stem| stem.len() == 20);
            if let Some(first) = number.and_then(|stem| stem.parse().ok()) {
                remains.add(first, path)?;
            }
        }
        if remains.newest.is_none() && !earlier {
            remains.broken.push((dir.join(super::newest::NAME), "it is missing or damaged".to_owned()));
        }
        remains.pieces.sort_by_key(|piece| piece.first);
        Ok(remains)
    }

    fn add(&mut self, first: u64, path: PathBuf) -> Result<(), Error> {
        let file = File::open(&path).map_err(io_error("open", &path))?;
        let bytes = file.metadata().map_err(io_error("inspect", &path))?.len();
        let piece = |first, salt, store, durable| {
            let path = path.clone();
            Piece { path, first, salt, store, durable, bytes, bound: u64::MAX }
        };
        match Header::read(&file, &path) {
            Ok(Some(header)) => {
                if bytes < header.bytes {
                    let words = format!("it has {bytes} of {} bytes", header.bytes);
                    self.broken.push((path.clone(), words));
                }
                // The header proves what the file is; its name does not.
                if header.first != first {
                    let words = format!("it is the segment that begins with entry {}", header.first);
                    self.broken.push((path.clone(), words));
                }
                self.pieces.push(piece(header.first, header.salt, Some(header.store), header.durable));
            }
            Ok(None) | Err(Error::Version { .. }) => {
                // The first frame has the salt, if it is the frame that must be there.
                let mut head = [0; HEAD_BYTES];
                let read = file.read_exact_at(&mut head, HEADER_BYTES);
                let head = read.ok().and_then(|()| Head::parse(&head)).filter(|head| head.first == first);
                self.broken.push((path.clone(), "its header is damaged".to_owned()));
                self.pieces.extend(head.map(|head| piece(first, head.salt, None, 0)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The id of the store that the segments name, if they name one.
    pub(crate) fn store(&self) -> Option<StoreId> {
        self.pieces.iter().find_map(|piece| piece.store)
    }

    /// Drops segments that belong to another store.
    pub(crate) fn keep(&mut self, store: StoreId) {
        let broken = &mut self.broken;
        self.pieces.retain(|piece| {
            let own = piece.store.is_none_or(|found| found == store);
            if !own {
                broken.push((piece.path.clone(), "it belongs to another store".to_owned()));
            }
            own
        });
        self.newest = self.newest.filter(|(found, _)| *found == store);
        if let Some((_, Some(newest))) = self.newest
            && self.pieces.last().is_none_or(|last| last.first < newest)
        {
            let words = format!("the segment that begins with entry {newest} is missing or cannot be read");
            self.broken.push((self.dir.clone(), words));
        }
    }

    /// The intact entries from `from` on.
    pub(crate) fn entries(&self, from: u64) -> Intact {
        let mut pieces = self.pieces.clone();
        for nth in 1..pieces.len() {
            pieces[nth - 1].bound = pieces[nth].first;
        }
        let durable = pieces.iter().map(|piece| piece.durable).max().unwrap_or(0);
        let newest = self.newest.and_then(|(_, first)| first).unwrap_or(0);
        pieces.reverse();
        let (promised, uncertain) = (durable.max(newest), !self.broken.is_empty());
        // A log that never had a segment has no end.
        let reached = if matches!(self.newest, Some((_, None))) { from } else { 1 };
        Intact { pieces, open: None, from, next: from, promised, reached, uncertain, torn: false, held: None }
    }
}

/// Intact entries in order, with holes where frames are damaged.
#[derive(Debug)]
pub(crate) struct Intact {
    /// The segments that are still to be read, the next one last.
    pieces: Vec<Piece>,
    open: Option<Open>,
    /// The first entry that was asked for.
    from: u64,
    /// The lowest index that was not returned yet.
    next: u64,
    /// The index after the last intact frame, whether its entries were asked for or not.
    reached: u64,
    /// Every entry below this was durable once.
    promised: u64,
    /// Whether a file that may have had the end of the log is missing or damaged.
    uncertain: bool,
    /// Whether the last segment ends in a damaged frame.
    torn: bool,
    held: Option<(u64, Bytes)>,
}

#[derive(Debug)]
struct Open {
    piece: Piece,
    file: File,
    at: u64,
    entries: Option<Entries>,
}

impl Intact {
    /// Returns the next intact entry and its index.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Bytes)>, Error> {
        if let Some((index, entry)) = self.held.take() {
            self.next = index + 1;
            return Ok(Some((index, entry)));
        }
        loop {
            let Some(open) = &mut self.open else {
                let Some(piece) = self.pieces.pop() else { return Ok(None) };
                let file = File::open(&piece.path).map_err(io_error("open", &piece.path))?;
                self.reached = self.reached.max(piece.first);
                self.torn = false;
                self.open = Some(Open { piece, file, at: HEADER_BYTES, entries: None });
                continue;
            };
            if let Some((index, entry)) = open.entries.as_mut().and_then(Iterator::next) {
                if index < self.next {
                    continue;
                }
                self.next = index + 1;
                return Ok(Some((index, entry)));
            }
            let frame = open.frame(&mut self.torn).map_err(io_error("read", &open.piece.path))?;
            match frame {
                Some((head, entries)) => {
                    self.promised = self.promised.max(head.durable);
                    self.reached = self.reached.max(head.end());
                    open.entries = entries;
                }
                None => self.open = None,
            }
        }
    }

    /// The lowest index that was not returned yet.
    pub(crate) fn expected(&self) -> u64 {
        self.next
    }

    /// Takes back the last entry, so that `next` returns it again.
    pub(crate) fn put_back(&mut self, entry: (u64, Bytes), expected: u64) {
        self.next = expected;
        self.held = Some(entry);
    }

    /// The range of entries that are missing at the end of the log, if there are any. Its end may be unknown.
    pub(crate) fn missing_at_end(&self) -> Option<(u64, Option<u64>)> {
        match self.promised > self.next {
            true => Some((self.next, Some(self.promised - 1))),
            // A log that ends before the entries asked for is an old copy: what came after is unknown.
            false => (self.torn || self.uncertain || self.reached < self.from).then_some((self.next, None)),
        }
    }
}

impl Open {
    /// The next intact header at or after the current position, with its entries if they are intact too.
    fn frame(&mut self, torn: &mut bool) -> io::Result<Option<(Head, Option<Entries>)>> {
        loop {
            let Some((at, head)) = self.search(torn)? else { return Ok(None) };
            let fits = at + head.frame_bytes() as u64 <= self.piece.bytes;
            let mut frame = vec![0; if fits { head.frame_bytes() } else { 0 }];
            self.file.read_exact_at(&mut frame, at)?;
            let entries = head.entries(frame.into()).filter(|_| head.first < self.piece.bound);
            *torn = entries.is_none();
            // After a damaged payload the next header must be searched for, because the length may be wrong too.
            self.at = at + entries.as_ref().map_or(ALIGN, |_| head.frame_bytes()) as u64;
            if entries.is_some() || head.first < self.piece.bound {
                return Ok(Some((head, entries)));
            }
        }
    }

    /// Finds the next intact header with the salt of this segment.
    fn search(&self, torn: &mut bool) -> io::Result<Option<(u64, Head)>> {
        let mut from = self.at;
        let mut buffer = vec![0; HEAD_BYTES];
        loop {
            let rest = self.piece.bytes.saturating_sub(from);
            if rest < HEAD_BYTES as u64 {
                return Ok(None);
            }
            buffer.resize(rest.min(buffer.len() as u64) as usize, 0);
            self.file.read_exact_at(&mut buffer, from)?;
            let places = (buffer.len() - HEAD_BYTES) / ALIGN + 1;
            for place in 0..places {
                let bytes = &buffer[place * ALIGN..];
                let at = from + (place * ALIGN) as u64;
                if let Some(head) = Head::parse(bytes).filter(|head| head.salt == self.piece.salt) {
                    return Ok(Some((at, head)));
                }
                *torn |= at == self.at && Head::resembles(bytes, self.piece.salt);
            }
            from += (places * ALIGN) as u64;
            buffer.resize(SEARCH_BYTES, 0);
        }
    }
}
