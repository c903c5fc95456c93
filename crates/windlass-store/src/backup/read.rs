//! Reading a stream. Every length, checksum, number and the order are checked before the data is used.

use std::collections::BTreeMap;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use super::chunk::{HEAD_BYTES, Head, Kind, PREFACE_BYTES, Preface, read_preface};
use super::{Error, Manifest, Opening, VERSION, hex};
use crate::embedded::catalogue;

/// The two lengths before each row.
const ROW_HEAD_BYTES: usize = 8;
/// Far above every key and value that a store writes, to reject a damaged length.
const KEY_BYTES_MAX: usize = 64 << 10;
const VALUE_BYTES_MAX: usize = 64 << 20;

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Receives the contents of a stream in order.
pub(crate) trait Sink {
    /// Called once, after the version and the tables were checked.
    fn open(&mut self, opening: &Opening) -> Result<(), Error>;
    /// Receives rows of one table, each of them checked.
    fn put(&mut self, table: &'static str, rows: &[Row<'_>]) -> Result<(), Error>;
}

/// The progress of reading a stream: rows done, rows in total, and bytes read.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
    pub bytes: u64,
}

/// Reads a stream to its end and checks everything about it.
pub fn verify(input: impl Read, watch: &mut dyn FnMut(Progress)) -> Result<Manifest, Error> {
    struct Nothing;
    impl Sink for Nothing {
        fn open(&mut self, _: &Opening) -> Result<(), Error> {
            Ok(())
        }
        fn put(&mut self, _: &'static str, _: &[Row<'_>]) -> Result<(), Error> {
            Ok(())
        }
    }
    read(input, &mut Nothing, watch)
}

/// A reader that copies everything it reads to a writer, so that a stream can be verified while it is copied.
#[derive(Debug)]
pub struct Relay<R, W> {
    pub from: R,
    pub to: W,
}

impl<R: Read, W: io::Write> Read for Relay<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.to.write_all(&buffer[..count])?;
        Ok(count)
    }
}

pub(crate) fn read(
    input: impl Read,
    sink: &mut dyn Sink,
    watch: &mut dyn FnMut(Progress),
) -> Result<Manifest, Error> {
    let mut reader = Reader { input, at: 0, chunks: 0, hash: Sha256::new() };
    reader.preface()?;
    let opening = reader.opening()?;
    sink.open(&opening)?;
    let total = opening.total_rows();
    let mut run = Run::new(&opening);
    loop {
        let (before, sum) = ((reader.at, reader.chunks), reader.hash.clone());
        let (kind, name, content) = reader.chunk()?;
        let damaged = |what: &str| Error::Damaged { at: before.0, what: what.to_owned() };
        match kind {
            Kind::Rows => run.add(&name, &content, before.0, sink)?,
            Kind::Manifest => {
                run.finish(before.0)?;
                let manifest: Manifest =
                    serde_json::from_slice(&content).map_err(|_| damaged("the manifest cannot be read"))?;
                let found = Manifest {
                    version: VERSION,
                    opening: Opening { rows: run.counts, ..opening },
                    tasks: run.tasks,
                    chunks: before.1,
                    bytes: before.0,
                    sha256: hex(&sum.finalize()),
                };
                if manifest != found {
                    return Err(damaged("the manifest does not match the data before it"));
                }
                reader.end()?;
                return Ok(manifest);
            }
            Kind::Opening => return Err(damaged("there is a second opening")),
        }
        watch(Progress { done: run.done, total, bytes: reader.at });
    }
}

struct Reader<R> {
    input: R,
    /// The number of bytes read so far.
    at: u64,
    chunks: u32,
    hash: Sha256,
}

impl<R: Read> Reader<R> {
    fn preface(&mut self) -> Result<(), Error> {
        let mut bytes = [0; PREFACE_BYTES];
        self.take(&mut bytes)?;
        match read_preface(&bytes) {
            Preface::Known => Ok(()),
            Preface::OtherVersion(found) => Err(Error::Version { found, known: VERSION }),
            Preface::Damaged => Err(Error::Damaged { at: 0, what: "the preface cannot be read".to_owned() }),
            Preface::Foreign => Err(Error::NotABackup),
        }
    }

    fn opening(&mut self) -> Result<Opening, Error> {
        let damaged = |what: &str| Error::Damaged { at: PREFACE_BYTES as u64, what: what.to_owned() };
        let (kind, _, content) = self.chunk()?;
        if kind != Kind::Opening {
            return Err(damaged("the stream does not begin with its opening"));
        }
        let opening: Opening =
            serde_json::from_slice(&content).map_err(|_| damaged("the opening cannot be read"))?;
        catalogue::check_opening(&opening)?;
        Ok(opening)
    }

    fn chunk(&mut self) -> Result<(Kind, String, Vec<u8>), Error> {
        let at = self.at;
        let damaged = |what: &str| Error::Damaged { at, what: what.to_owned() };
        let mut head = [0; HEAD_BYTES];
        self.take(&mut head)?;
        let head = Head::read(&head).ok_or_else(|| damaged("the head of a chunk cannot be read"))?;
        if head.number != self.chunks {
            return Err(damaged("a chunk is missing or out of order"));
        }
        let mut name = vec![0; head.name_bytes];
        self.take(&mut name)?;
        let mut content = vec![0; head.bytes];
        self.take(&mut content)?;
        if head.checksum_of(&name, &content) != head.checksum {
            return Err(damaged("the checksum of a chunk is wrong"));
        }
        let name = String::from_utf8(name).map_err(|_| damaged("the name of a chunk cannot be read"))?;
        self.chunks += 1;
        Ok((head.kind, name, content))
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.input.read(&mut [0]).map_err(Error::io("read the backup"))? {
            0 => Ok(()),
            _ => Err(Error::Damaged { at: self.at, what: "there is data after the manifest".to_owned() }),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let at = self.at;
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Unfinished { at },
            _ => Error::io("read the backup")(error),
        })?;
        self.at += bytes.len() as u64;
        self.hash.update(bytes);
        Ok(())
    }
}

/// The rows of the table that is being read, and what was counted so far.
struct Run {
    table: Option<&'static str>,
    /// The beginning of a row whose end is in the next chunk.
    rest: Vec<u8>,
    last_key: Option<Vec<u8>>,
    /// The rows counted so far in each table that the opening announced.
    counts: BTreeMap<String, u64>,
    tasks: u64,
    done: u64,
}

impl Run {
    fn new(opening: &Opening) -> Run {
        let counts = opening.rows.keys().map(|name| (name.clone(), 0)).collect();
        Run { table: None, rest: Vec::new(), last_key: None, counts, tasks: 0, done: 0 }
    }

    fn add(&mut self, name: &str, content: &[u8], at: u64, sink: &mut dyn Sink) -> Result<(), Error> {
        let damaged = |what: String| Error::Damaged { at, what };
        let table = catalogue::name(name).ok_or_else(|| Error::UnknownTable(name.to_owned()))?;
        if self.table != Some(table) {
            self.finish(at)?;
            if self.table.is_some_and(|before| catalogue::place(before) >= catalogue::place(table)) {
                return Err(damaged(format!("the table {table} is out of order")));
            }
            self.table = Some(table);
            self.last_key = None;
        }
        let count = self.counts.get_mut(table);
        let count = count.ok_or_else(|| damaged(format!("the opening does not name the table {table}")))?;
        self.rest.extend_from_slice(content);
        let mut rows: Vec<Row<'_>> = Vec::new();
        let mut left: &[u8] = &self.rest;
        while let Some((row, behind)) = next_row(left).map_err(|what| damaged(what.to_owned()))? {
            let last = rows.last().map(|row| row.key).or(self.last_key.as_deref());
            if last.is_some_and(|last| row.key <= last) {
                return Err(damaged(format!("the rows of {table} are not in order")));
            }
            let tasks = catalogue::check_row(table, row).map_err(|error| damaged(error.to_string()))?;
            self.tasks += tasks;
            rows.push(row);
            left = behind;
        }
        if let Some(last) = rows.last() {
            sink.put(table, &rows)?;
            self.last_key = Some(last.key.to_vec());
        }
        *count += rows.len() as u64;
        self.done += rows.len() as u64;
        self.rest = left.to_vec();
        Ok(())
    }

    /// Checks that the table does not end in the middle of a row.
    fn finish(&self, at: u64) -> Result<(), Error> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(Error::Damaged { at, what: "a table ends in the middle of a row".to_owned() }),
        }
    }
}

/// Splits off the first row. Returns `None` if it is not complete.
fn next_row(bytes: &[u8]) -> Result<Option<(Row<'_>, &[u8])>, &'static str> {
    let Some((head, rest)) = bytes.split_first_chunk::<ROW_HEAD_BYTES>() else { return Ok(None) };
    let [k0, k1, k2, k3, v0, v1, v2, v3] = *head;
    let key_bytes = u32::from_le_bytes([k0, k1, k2, k3]) as usize;
    let value_bytes = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
    if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
        return Err("the length of a row is above the limit");
    }
    let Some((row, behind)) = rest.split_at_checked(key_bytes + value_bytes) else { return Ok(None) };
    let (key, value) = row.split_at(key_bytes);
    Ok(Some((Row { key, value }, behind)))
}
