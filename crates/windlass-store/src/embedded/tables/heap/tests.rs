//! Files that are much smaller than real ones, beside a model.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redb::{Database, ReadableDatabase};

use super::*;
use crate::embedded::identity::{Identity, Stage};
use crate::embedded::tables::{LARGE, TASKS, Tables, sealed_part_at};

/// A tree and its files, beside what they should hold. Odd numbers are parts of large tasks.
struct Held {
    dir: tempfile::TempDir,
    database: Database,
    heap: Heap,
    room: Room,
    model: BTreeMap<u64, Vec<u8>>,
}

/// Where a checkpoint ends: it is done, or the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    BeforeCommit,
    AfterCommit,
}

impl Held {
    fn new() -> Held {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(dir.path().join("index.redb")).unwrap();
        let heap = open(dir.path(), &database).unwrap();
        Held { dir, database, heap, room: Room { short: false, bytes: u64::MAX }, model: BTreeMap::new() }
    }

    /// One checkpoint: `None` removes a block.
    fn save(&mut self, changes: Vec<(u64, Option<Vec<u8>>)>) {
        self.save_until(changes, End::Done);
    }

    fn save_until(&mut self, changes: Vec<(u64, Option<Vec<u8>>)>, end: End) {
        let mut model = self.model.clone();
        let write = self.database.begin_write().unwrap();
        let mut trees =
            Trees { tasks: write.open_table(TASKS).unwrap(), large: write.open_table(LARGE).unwrap() };
        for (number, block) in changes {
            match (part(number), &block) {
                (Some(part), Some(block)) => self.heap.put(&mut trees.large, part, block).unwrap(),
                (Some(part), None) => self.heap.remove(&mut trees.large, part).unwrap(),
                (None, Some(block)) => self.heap.put(&mut trees.tasks, number, block).unwrap(),
                (None, None) => self.heap.remove(&mut trees.tasks, number).unwrap(),
            }
            match block {
                Some(block) => model.insert(number, block),
                None => model.remove(&number),
            };
        }
        self.heap.tidy(&mut trees, self.room).unwrap();
        drop(trees);
        self.heap.save(&write).unwrap();
        if end == End::BeforeCommit {
            write.abort().unwrap();
            return self.reopen().unwrap();
        }
        write.commit().unwrap();
        self.model = model;
        match end {
            End::AfterCommit => self.reopen().unwrap(),
            _ => self.heap.saved().unwrap(),
        }
    }

    fn read_all(&self) -> Result<BTreeMap<u64, Vec<u8>>, Error> {
        let trees = self.trees();
        self.heap.verify(&trees)?;
        let mut all = BTreeMap::new();
        for entry in trees.tasks.range::<u64>(..).unwrap() {
            let (number, value) = entry.unwrap();
            all.insert(number.value(), self.heap.block(number.value(), value.value())?.to_vec());
        }
        for entry in trees.large.range::<(u64, u8)>(..).unwrap() {
            let (key, value) = entry.unwrap();
            let bytes = sealed_part_at(&self.heap.files, key.value(), value.value())?;
            all.insert(2 * key.value().0 + 1, bytes.to_vec());
        }
        Ok(all)
    }

    fn trees(
        &self,
    ) -> Trees<impl ReadableTable<u64, &'static [u8]>, impl ReadableTable<(u64, u8), &'static [u8]>> {
        let read = self.database.begin_read().unwrap();
        Trees { tasks: read.open_table(TASKS).unwrap(), large: read.open_table(LARGE).unwrap() }
    }

    fn files_on_disk(&self) -> Vec<PathBuf> {
        fs::read_dir(self.dir.path().join("blocks")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn reopen(&mut self) -> Result<(), Error> {
        self.heap = open(self.dir.path(), &self.database)?;
        self.heap.remove_strays(&self.trees())
    }
}

/// The key of a number that stands for a part.
fn part(number: u64) -> Option<(u64, u8)> {
    (number % 2 == 1).then_some((number / 2, (number / 2 % 2) as u8))
}

const STORE: StoreId = [5; 16];

/// With files so small that there are many.
fn open(dir: &Path, database: &Database) -> Result<Heap, Error> {
    let write = database.begin_write().unwrap();
    write.open_table(TASKS).unwrap();
    write.open_table(LARGE).unwrap();
    make_table(&write).unwrap();
    write.commit().unwrap();
    Heap::open(dir.join("blocks"), &database.begin_read().unwrap(), 4096, STORE)
}

#[test]
fn blocks_come_back_as_they_were_written_over_kills_and_waste_does_not_grow() {
    let mut random = StdRng::seed_from_u64(7);
    let mut held = Held::new();
    for round in 0..300 {
        let changes = (0..random.random_range(0..40)).map(|_| {
            let number = random.random_range(0..200);
            let block = random.random_bool(0.7).then(|| vec![random.random(); random.random_range(0..300)]);
            (number, block)
        });
        let changes = changes.collect();
        held.room.short = random.random_bool(0.2);
        let end = match random.random_range(0..10) {
            0 => End::BeforeCommit,
            1 => End::AfterCommit,
            _ => End::Done,
        };
        held.save_until(changes, end);
        if round % 50 == 49 {
            held.reopen().unwrap();
        }
        assert_eq!(held.read_all().unwrap(), held.model, "round {round}");
    }
    let live: usize = held.model.values().map(|block| block.len() + HEAD_BYTES).sum();
    // Half of each file, the current one, and the one that is being left.
    assert!(held.heap.bytes() < 2 * live as u64 + 3 * 4096, "{} for {live}", held.heap.bytes());
    let all: Vec<u64> = held.model.keys().copied().collect();
    held.save(all.into_iter().map(|number| (number, None)).collect());
    assert!(held.files_on_disk().len() <= 1, "{:?}", held.files_on_disk());
}

#[test]
fn an_older_view_still_reads_what_was_moved_and_removed_since() {
    let mut held = Held::new();
    held.save((0..100).map(|number| (number, Some(vec![1; 100]))).collect());
    let files = held.heap.files();
    let read = held.database.begin_read().unwrap();
    let tree = read.open_table(TASKS).unwrap();
    held.save((0..100).map(|number| (number, Some(vec![2; 100]))).collect());
    assert!(!held.dir.path().join("blocks/0000000001.blk").exists());
    let value = tree.get(6).unwrap().unwrap();
    assert_eq!(super::super::block_at(&files, 6, value.value()).unwrap(), vec![1; 100]);
}

#[test]
fn what_a_crash_left_behind_is_removed_or_written_over() {
    let mut held = Held::new();
    held.save(vec![(1, Some(b"one".to_vec()))]);
    let first = held.dir.path().join("blocks/0000000001.blk");
    let stray = held.dir.path().join("blocks/0000000002.blk");
    fs::write(&stray, b"never committed").unwrap();
    let mut bytes = fs::read(&first).unwrap();
    bytes.extend_from_slice(b"never committed");
    fs::write(&first, bytes).unwrap();
    held.reopen().unwrap();
    assert!(!stray.exists());
    held.save(vec![(2, Some(b"two".to_vec()))]);
    assert_eq!(held.read_all().unwrap(), held.model);
}

#[test]
fn a_file_that_was_empty_when_it_was_opened_takes_blocks_again() {
    let mut held = Held::new();
    for _ in 0..2 {
        held.save(vec![(1, Some(vec![1; 20]))]);
        held.save(vec![(1, None)]);
    }
    held.save(vec![(2, Some(vec![1; 3000]))]);
    held.save(vec![(2, None)]);
    held.reopen().unwrap();
    // More than one file takes, so that it is no longer the current one.
    held.save((0..100).map(|number| (number, Some(vec![2; 100]))).collect());
    assert_eq!(held.read_all().unwrap(), held.model);
    held.reopen().unwrap();
    assert_eq!(held.read_all().unwrap(), held.model);
}

#[test]
fn on_a_short_disk_smaller_waste_counts_too() {
    let mut held = Held::new();
    held.save((0..400).map(|number| (number, Some(vec![1; 100]))).collect());
    let fifth = |held: &mut Held, short: bool| {
        held.room.short = short;
        held.save((0..400).step_by(5).map(|number| (number, Some(vec![2; 100]))).collect());
        assert_eq!(held.read_all().unwrap(), held.model);
        held.heap.bytes()
    };
    let (at_leisure, short) = (fifth(&mut held, false), fifth(&mut held, true));
    assert!(short < at_leisure, "{short} after {at_leisure}");
}

/// Writes all blocks to one file, the current one, and then removes all but one.
fn purge(held: &mut Held, end: End) {
    held.save((0..30).map(|number| (number, Some(vec![1; 100]))).collect());
    assert_eq!(held.files_on_disk().len(), 1);
    held.save_until((0..30).filter(|number| *number != 8).map(|number| (number, None)).collect(), end);
}

#[test]
fn the_current_file_is_left_too_when_the_disk_is_short() {
    for (short, end) in
        [(true, End::Done), (true, End::AfterCommit), (true, End::BeforeCommit), (false, End::Done)]
    {
        let mut held = Held::new();
        held.room.short = short;
        purge(&mut held, end);
        assert_eq!(held.read_all().unwrap(), held.model, "{short} {end:?}");
        if end == End::BeforeCommit {
            assert_eq!(held.model.len(), 30, "as if nothing had happened");
            purge(&mut held, End::Done);
        }
        let first = held.dir.path().join("blocks/0000000001.blk");
        assert!(!first.exists(), "{short} {end:?}: {:?}", held.files_on_disk());
        assert!(held.heap.bytes() < 300, "{short} {end:?}: {}", held.heap.bytes());
        assert!(!held.heap.has_waste(Room { short, bytes: u64::MAX }));
        held.save((40..60).map(|number| (number, Some(vec![3; 100]))).collect());
        held.reopen().unwrap();
        assert_eq!(held.read_all().unwrap(), held.model, "{short} {end:?}");
    }
}

#[test]
fn an_older_view_still_reads_the_file_that_was_current() {
    let mut held = Held::new();
    held.room.short = true;
    held.save((0..30).map(|number| (number, Some(vec![1; 100]))).collect());
    let files = held.heap.files();
    let read = held.database.begin_read().unwrap();
    let tree = read.open_table(TASKS).unwrap();
    purge(&mut held, End::Done);
    for number in [6, 8] {
        let value = tree.get(number).unwrap().unwrap();
        assert_eq!(super::super::block_at(&files, number, value.value()).unwrap(), vec![1; 100]);
    }
}

/// Moving only a part of a file would take room and free none.
#[test]
fn a_file_is_only_left_if_the_disk_has_room_for_the_rest_of_it() {
    let mut held = Held::new();
    held.save((0..30).map(|number| (number, Some(vec![1; 100]))).collect());
    held.save((0..20).map(|number| (number, None)).collect());
    let room = |bytes| Room { short: true, bytes };
    assert!(!held.heap.has_waste(room(10 * 112 - 1)));
    assert!(held.heap.has_waste(room(10 * 112)));
}

/// A file that was begun to be left on a disk with room must not take the last of it when the disk becomes short.
#[test]
fn a_move_that_cannot_be_finished_takes_no_more_room() {
    let mut held = Held::new();
    held.save((0..60).map(|number| (number, Some(vec![1; 100]))).collect());
    held.room.bytes = 300;
    held.save((0..60).filter(|number| number % 5 < 3).map(|number| (number, None)).collect());
    let before = held.heap.bytes();
    held.room.short = true;
    for _ in 0..20 {
        held.save(Vec::new());
    }
    assert_eq!(held.heap.bytes(), before);
    // Looking through waste takes no room, so one step is enough when the rest fits.
    held.room.bytes = 12 * 112;
    held.save(Vec::new());
    assert!(held.heap.bytes() < before, "{} after {before}", held.heap.bytes());
    assert_eq!(held.read_all().unwrap(), held.model);
}

#[test]
fn blocks_without_their_index_are_left_alone() {
    let mut held = Held::new();
    held.save(vec![(1, Some(b"one".to_vec()))]);
    let (index, away) = (held.dir.path().join("index.redb"), held.dir.path().join("away"));
    fs::rename(&index, &away).unwrap();
    for stage in [Stage::Earlier, Stage::Creating, Stage::Complete] {
        let mut identity = Identity { store: STORE, stage };
        let opened = Tables::open(held.dir.path(), 1 << 20, 0, 4096, &mut identity);
        assert!(matches!(opened, Err(Error::Damaged(_))));
        assert!(!index.exists(), "nothing stands in its place");
    }
    assert_eq!(held.read_all().unwrap(), held.model);
}

#[test]
fn a_file_of_another_store_or_in_the_place_of_another_is_refused() {
    let mut held = Held::new();
    for number in 0..40 {
        held.save(vec![(number, Some(vec![1; 300]))]);
    }
    let mut files = held.files_on_disk();
    files.sort();
    let [first, second, ..] = &files[..] else { panic!("two files") };
    let whole = fs::read(first).unwrap();
    let refused = |held: &mut Held| {
        assert!(matches!(held.reopen(), Err(Error::Damaged(_))));
    };
    fs::copy(second, first).unwrap();
    refused(&mut held);
    let mut foreign = whole.clone();
    foreign[..FILE_HEAD_BYTES as usize].copy_from_slice(&file_head(1, [6; 16]));
    fs::write(first, foreign).unwrap();
    refused(&mut held);
    fs::write(first, whole).unwrap();
    held.reopen().unwrap();
    assert_eq!(held.read_all().unwrap(), held.model);
}

#[test]
fn a_file_that_only_the_places_know_is_not_removed() {
    let mut held = Held::new();
    held.save(vec![(1, Some(b"one".to_vec()))]);
    let write = held.database.begin_write().unwrap();
    write.open_table(FILES).unwrap().remove(1).unwrap();
    write.commit().unwrap();
    assert!(matches!(held.reopen(), Err(Error::Damaged(_))));
    assert_eq!(held.files_on_disk().len(), 1);
}

#[test]
fn damage_is_told_and_never_served() {
    let mut held = Held::new();
    held.save((0..3).map(|number| (number, Some(vec![number as u8; 50]))).collect());
    let path = held.dir.path().join("blocks/0000000001.blk");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        let Some(at) = at.checked_sub(FILE_HEAD_BYTES as usize) else {
            assert!(matches!(held.reopen(), Err(Error::Damaged(_))), "the head of the file, at {at}");
            continue;
        };
        held.reopen().unwrap();
        let in_a_head = at % (HEAD_BYTES + 50) < HEAD_BYTES;
        match held.read_all() {
            Ok(all) => assert!(in_a_head && all == held.model, "at {at}"),
            Err(error) => assert!(!in_a_head && matches!(error, Error::Damaged(_)), "at {at}: {error}"),
        }
    }
    fs::write(&path, &whole[..100]).unwrap();
    assert!(matches!(held.reopen(), Err(Error::Damaged(_))));
    fs::remove_file(&path).unwrap();
    assert!(matches!(held.reopen(), Err(Error::Damaged(_))));
}

#[test]
fn a_file_whose_heads_are_damaged_is_left_alone() {
    let mut held = Held::new();
    held.save((0..100).map(|number| (number, Some(vec![1; 100]))).collect());
    let path = held.dir.path().join("blocks/0000000001.blk");
    let mut bytes = fs::read(&path).unwrap();
    let first = FILE_HEAD_BYTES as usize;
    bytes[first + 8..first + 12].fill(0xff);
    fs::write(&path, bytes).unwrap();
    for _ in 0..3 {
        held.save((1..100).map(|number| (number, Some(vec![2; 100]))).collect());
        assert_eq!(held.read_all().unwrap(), held.model);
    }
    assert!(path.exists());
    held.save(vec![(0, None)]);
    assert!(!path.exists());
}
