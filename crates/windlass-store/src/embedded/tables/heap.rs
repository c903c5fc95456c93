//! Blocks of tasks, and parts of large tasks, one behind the other in files of their own.
//!
//! A block is written whole whenever one of its tasks changed, so nothing is gained from keeping it inside a page of a tree, and
//! much is paid: a page of twice the size, its place, its copies. Here a block costs its bytes, and the tree has its [`Place`]
//! and its checksum. What a block was before stays behind as waste: a file without a block that counts is removed, and of one
//! that is waste for more than half the blocks that count move on, in steps of a size that goes with what is written (`tidy`).
//! This includes the file that is being written: then new blocks go to another file.
//!
//! A checkpoint writes blocks and syncs their files before it commits the tree, so the tree never points to what is not there, and
//! removes files after that. Behind the end that the tree knows, a file may hold what a crash left; it is written over.

mod folder;
mod place;
#[cfg(test)]
mod tests;
mod tidy;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

pub(super) use self::folder::expect_none;
use self::folder::{files_in, make_dir, open_known, path};
pub(in crate::embedded) use self::folder::{open_all, rename_owner};
use self::place::Owner;
pub(in crate::embedded) use self::place::{Place, Pointer};
pub(in crate::embedded) use self::tidy::Room;
pub(in crate::embedded) use self::trees::{Trees, Writing};
use super::{failed, seal};
use crate::log::StoreId;
use crate::store::Error;

/// What the tree knows of each file: how far it is written, and how much of that counts.
const FILES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("block_files");

/// What is written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The head of each file: a magic number, the id of the store, and the number of the file.
const FILE_HEAD_BYTES: u32 = 32;
const FILE_MAGIC: [u8; 8] = *b"WINDBLK\0";
/// In front of each block: its number and length, for those who read a file from its beginning.
const HEAD_BYTES: usize = 12;
/// More files than about this are not made: each is open as long as the store is. They get larger instead…
const FILES_MAX: u64 = 256;
/// …up to this.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The open files, as of one checkpoint. One that was removed since can still be read.
pub(in crate::embedded) type Files = Arc<BTreeMap<u32, Arc<File>>>;

/// A block, verified.
pub(in crate::embedded) fn read(files: &Files, number: u64, place: Place) -> Result<Bytes, Error> {
    let file = files.get(&place.file).ok_or_else(|| missing(place.file))?;
    let mut bytes = vec![0; place.bytes as usize];
    file.read_exact_at(&mut bytes, u64::from(place.at) + HEAD_BYTES as u64)
        .map_err(|error| damaged(format!("block {number} cannot be read: {error}")))?;
    if seal::checksum(number, &bytes) != place.checksum {
        return Err(damaged(format!("the checksum of block {number} is wrong")));
    }
    Ok(bytes.into())
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Use {
    /// Where the first block is: 0 in files of earlier formats, which have no head.
    start: u32,
    end: u32,
    /// Bytes of blocks that the tree points to.
    live: u32,
}

/// The files and what is on its way into the last of them.
#[derive(Debug)]
pub(in crate::embedded) struct Heap {
    dir: PathBuf,
    /// The directory. It stays open, so that a sync of it needs no other descriptor.
    names: File,
    files: Files,
    uses: BTreeMap<u32, Use>,
    /// Whose use the tree does not know yet.
    changed: BTreeSet<u32>,
    /// Where blocks are written to.
    current: u32,
    buffer: Vec<u8>,
    /// For a value of the tree.
    value: Vec<u8>,
    /// A file that has grown to this takes no more.
    file_bytes: u32,
    /// Written to since the last sync.
    unsynced: Vec<Arc<File>>,
    /// Whether a file was made since the last sync.
    grown: bool,
    /// Files that the checkpoint under way has forgotten.
    forgotten: Vec<u32>,
    tidying: tidy::Tidying,
    store: StoreId,
}

impl Heap {
    /// The files that the tree knows.
    pub(super) fn open(
        dir: PathBuf,
        read: &ReadTransaction,
        file_bytes: u32,
        store: StoreId,
    ) -> Result<Heap, Error> {
        make_dir(&dir)?;
        let table = read.open_table(FILES).map_err(failed("open a table"))?;
        let (mut uses, mut files) = (BTreeMap::new(), BTreeMap::new());
        for entry in table.range::<u32>(..).map_err(failed("read the files of blocks"))? {
            let (number, value) = entry.map_err(failed("read the files of blocks"))?;
            let number = number.value();
            let known = decode(seal::open(u64::from(number), value.value())?)?;
            files.insert(number, Arc::new(open_known(&dir, number, known, store)?));
            uses.insert(number, known);
        }
        let current = uses.last_key_value().map_or(1, |(number, _)| *number);
        let names = File::open(&dir).map_err(failed("open the folder of blocks"))?;
        Ok(Heap {
            dir,
            names,
            files: Arc::new(files),
            uses,
            changed: BTreeSet::new(),
            current,
            buffer: Vec::new(),
            value: Vec::new(),
            file_bytes,
            unsynced: Vec::new(),
            grown: false,
            forgotten: Vec::new(),
            tidying: tidy::Tidying::default(),
            store,
        })
    }

    /// Removes files that a crash left behind, made or forgotten by a checkpoint that was not finished. For when everything else
    /// about the directory was found to be right.
    pub(super) fn remove_strays<T, L>(&self, trees: &Trees<T, L>) -> Result<(), Error>
    where
        T: ReadableTable<u64, &'static [u8]>,
        L: ReadableTable<(u64, u8), &'static [u8]>,
    {
        let mut strays = files_in(&self.dir)?;
        strays.retain(|number| !self.uses.contains_key(number));
        if strays.is_empty() {
            return Ok(());
        }
        trees.places(&mut |_, place| {
            if strays.contains(&place.file) {
                return Err(damaged(format!("the index does not know file {} of blocks", place.file)));
            }
            Ok(())
        })?;
        for number in strays {
            fs::remove_file(path(&self.dir, number)).map_err(failed("remove a file of blocks"))?;
        }
        Ok(())
    }

    pub(super) fn files(&self) -> Files {
        Arc::clone(&self.files)
    }

    /// The block that a value of the tree stands for.
    pub(in crate::embedded) fn block(&self, number: u64, value: &[u8]) -> Result<Bytes, Error> {
        super::block_at(&self.files, number, value)
    }

    /// What all files hold, waste included.
    pub(super) fn bytes(&self) -> u64 {
        self.uses.values().map(|known| u64::from(known.end)).sum()
    }

    /// Reads every block that the tree points to, and adds up what they take of each file.
    pub(super) fn verify<T, L>(&self, trees: &Trees<T, L>) -> Result<(), Error>
    where
        T: ReadableTable<u64, &'static [u8]>,
        L: ReadableTable<(u64, u8), &'static [u8]>,
    {
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        trees.places(&mut |number, place| {
            read(&self.files, number, place)?;
            *live.entry(place.file).or_default() += place.taken();
            Ok(())
        })?;
        let known = self.uses.iter().filter(|(_, known)| known.live > 0);
        if !known.map(|(number, known)| (*number, known.live)).eq(live) {
            return Err(damaged("the index and its files of blocks do not belong together".to_owned()));
        }
        Ok(())
    }

    /// Replaces what the tree has of a block.
    pub(in crate::embedded) fn put<K: Pointer>(
        &mut self,
        tree: &mut Table<'_, K, &'static [u8]>,
        key: K,
        block: &[u8],
    ) -> Result<(), Error> {
        let number = key.number();
        let place = self.append(number, block)?;
        let value = place.write(number, &mut self.value);
        let before = tree.insert(key, value).map_err(failed("write a task"))?;
        let before = before.map(|value| Place::read(key, value.value())).transpose()?;
        before.flatten().map_or(Ok(()), |before| self.leave(before))
    }

    pub(in crate::embedded) fn remove<K: Pointer>(
        &mut self,
        tree: &mut Table<'_, K, &'static [u8]>,
        key: K,
    ) -> Result<(), Error> {
        let before = tree.remove(key).map_err(failed("remove a task"))?;
        let before = before.map(|value| Place::read(key, value.value())).transpose()?;
        before.flatten().map_or(Ok(()), |before| self.leave(before))
    }

    fn append(&mut self, number: u64, block: &[u8]) -> Result<Place, Error> {
        let bytes = u32::try_from(block.len()).map_err(failed("write a block"))?;
        let mut at = self.uses.get(&self.current).map_or(0, |known| known.end);
        if at >= self.file_bytes && u64::from(at) >= (self.bytes() / FILES_MAX).min(FILE_BYTES_MAX) {
            self.flush()?;
            self.current += 1;
            at = 0;
        }
        if at == 0 {
            self.buffer.extend_from_slice(&file_head(self.current, self.store));
            at = FILE_HEAD_BYTES;
            self.uses.insert(self.current, Use { start: at, end: at, live: 0 });
        }
        let place = Place { file: self.current, at, bytes, checksum: seal::checksum(number, block) };
        self.buffer.extend_from_slice(&number.to_le_bytes());
        self.buffer.extend_from_slice(&bytes.to_le_bytes());
        self.buffer.extend_from_slice(block);
        let known = self.uses.entry(self.current).or_default();
        known.end += place.taken();
        known.live += place.taken();
        self.changed.insert(self.current);
        self.tidying.note(place.taken());
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(place)
    }

    /// A block that counted no longer does.
    fn leave(&mut self, place: Place) -> Result<(), Error> {
        let known = self.uses.get_mut(&place.file).ok_or_else(|| missing(place.file))?;
        known.live = known.live.checked_sub(place.taken()).ok_or_else(|| {
            damaged(format!("more left file {} of blocks than was written to it", place.file))
        })?;
        self.changed.insert(place.file);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let number = self.current;
        let file = match self.files.get(&number) {
            Some(file) => Arc::clone(file),
            None => {
                let mut options = File::options();
                let file =
                    options.read(true).write(true).create(true).truncate(true).open(path(&self.dir, number));
                let file = Arc::new(file.map_err(failed("make a file of blocks"))?);
                Arc::make_mut(&mut self.files).insert(number, Arc::clone(&file));
                self.grown = true;
                file
            }
        };
        let end = self.uses.get(&number).map_or(0, |known| known.end);
        let at = u64::from(end) - self.buffer.len() as u64;
        file.write_all_at(&self.buffer, at).map_err(failed("write blocks"))?;
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES);
        if !self.unsynced.last().is_some_and(|last| Arc::ptr_eq(last, &file)) {
            self.unsynced.push(file);
        }
        Ok(())
    }

    /// Everything is on the disk, and the tree knows what the files hold. Its commit comes next.
    pub(in crate::embedded) fn save(&mut self, write: &WriteTransaction) -> Result<(), Error> {
        self.flush()?;
        for file in self.unsynced.drain(..) {
            file.sync_data().map_err(failed("sync blocks"))?;
        }
        if std::mem::take(&mut self.grown) {
            self.names.sync_all().map_err(failed("sync the folder of blocks"))?;
        }
        // A new file is only worth it if that makes room.
        let is_spent =
            |known: &Use| known.live == 0 && known.end >= self.file_bytes / tidy::CURRENT_SHARE_SHORT;
        if self.uses.get(&self.current).is_some_and(is_spent) {
            self.current += 1;
        }
        let mut table = write.open_table(FILES).map_err(failed("open a table"))?;
        let current = self.current;
        let empty = self.uses.extract_if(.., |number, known| known.live == 0 && *number != current);
        self.forgotten.extend(empty.map(|(number, _)| number));
        for number in &self.forgotten {
            table.remove(number).map_err(failed("forget a file of blocks"))?;
        }
        for number in std::mem::take(&mut self.changed) {
            let Some(known) = self.uses.get(&number) else { continue };
            let mut value = encode(*known);
            table
                .insert(number, seal::close(u64::from(number), &mut value))
                .map_err(failed("write the files of blocks"))?;
        }
        Ok(())
    }

    /// The tree is committed.
    pub(in crate::embedded) fn saved(&mut self) -> Result<(), Error> {
        for number in std::mem::take(&mut self.forgotten) {
            if Arc::make_mut(&mut self.files).remove(&number).is_some() {
                fs::remove_file(path(&self.dir, number)).map_err(failed("remove a file of blocks"))?;
            }
        }
        Ok(())
    }
}

pub(super) fn make_table(write: &WriteTransaction) -> Result<(), Error> {
    write.open_table(FILES).map_err(failed("make a table"))?;
    Ok(())
}

/// Copies the rows about the files into another index of the same store.
pub(super) fn copy_table(read: &ReadTransaction, write: &WriteTransaction) -> Result<(), Error> {
    crate::embedded::catalogue::copy_rows(FILES, read, write)
}

fn encode(known: Use) -> Vec<u8> {
    [known.end.to_le_bytes(), known.live.to_le_bytes(), known.start.to_le_bytes()].concat()
}

fn file_head(number: u32, store: StoreId) -> [u8; FILE_HEAD_BYTES as usize] {
    let mut head = [0; FILE_HEAD_BYTES as usize];
    head[..8].copy_from_slice(&FILE_MAGIC);
    head[8..24].copy_from_slice(&store);
    head[24..28].copy_from_slice(&number.to_le_bytes());
    let checksum = crc32fast::hash(&head[..28]);
    head[28..].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn decode(value: &[u8]) -> Result<Use, Error> {
    let (numbers, rest) = value.as_chunks::<4>();
    match (numbers, rest) {
        ([end, live, start @ ..], []) if start.len() <= 1 => Ok(Use {
            start: start.first().map_or(0, |start| u32::from_le_bytes(*start)),
            end: u32::from_le_bytes(*end),
            live: u32::from_le_bytes(*live),
        }),
        _ => Err(damaged("what the index says about a file of blocks cannot be read".to_owned())),
    }
}

fn missing(file: u32) -> Error {
    damaged(format!("file {file} of blocks is missing"))
}

fn damaged(words: String) -> Error {
    Error::Damaged(words)
}
