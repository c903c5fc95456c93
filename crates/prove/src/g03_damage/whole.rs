//! Which tasks of a damaged store are provably whole, worked out by the proof itself: those whose record and body pass their
//! checksums in the tables, and those whose submit is in a whole frame behind the checkpoint.
//!
//! It uses redb to walk the tree, and nothing of the store.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{Database, ReadTransaction, ReadableDatabase, TableDefinition};

use super::frames;
use crate::proof::Trouble;

const TASKS: TableDefinition<'static, u64, &[u8]> = TableDefinition::new("tasks");
const LARGE: TableDefinition<'static, (u64, u8), &[u8]> = TableDefinition::new("large");
const QUEUES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("queues");
const LANES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("lanes");
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const BLOCK_TASKS: u64 = 16;

/// The ids that are whole in `dir`, a store with this id. `scratch` is for a copy of the index.
pub(super) fn ids(dir: &Path, store: &[u8], scratch: &Path) -> Result<BTreeSet<String>, Trouble> {
    let index = dir.join("index.redb");
    let mut found = BTreeSet::new();
    let mut applied = 0;
    if index.exists() {
        fs::copy(&index, scratch)?;
        let opened = quiet(|| {
            let database = Database::open(scratch).ok()?;
            let read = database.begin_read().ok()?;
            Some((database, read))
        });
        if let Some((_database, read)) = opened.flatten() {
            let id = meta(&read, "store")
                .and_then(|sealed| open(&u64::from(crc32fast::hash(b"store")).to_le_bytes(), &sealed));
            // An index without its id may be this store's.
            if id.is_none_or(|id| id == store) {
                let state = meta(&read, "state").and_then(|sealed| open(&0u64.to_le_bytes(), &sealed));
                applied = state.and_then(|state| field(&state, 1).map(|(number, _)| number)).unwrap_or(0);
                in_tables(&read, dir, &mut found);
            }
        }
        fs::remove_file(scratch)?;
    }
    for (index, entry) in frames::entries(dir, store)? {
        if index > applied {
            found.extend(submitted(&entry));
        }
    }
    Ok(found)
}

fn in_tables(read: &ReadTransaction, dir: &Path, found: &mut BTreeSet<String>) {
    // There is one queue and one type: without their names no task can be told.
    let named = |table: TableDefinition<'static, u32, &'static [u8]>| {
        let sealed = quiet(|| Some(read.open_table(table).ok()?.get(0u32).ok()??.value().to_vec()));
        sealed.flatten().and_then(|sealed| open(&0u64.to_le_bytes(), &sealed)).is_some()
    };
    if !named(QUEUES) || !named(LANES) {
        return;
    }
    let up = |from: u64| {
        let table = read.open_table(TASKS).ok()?;
        let row = table.range(from..).ok()?.next();
        Some(row.transpose().ok()?.map(|(key, value)| (key.value(), value.value().to_vec())))
    };
    let down = |before: u64| {
        let table = read.open_table(TASKS).ok()?;
        let row = table.range(..before).ok()?.next_back();
        Some(row.transpose().ok()?.map(|(key, value)| (key.value(), value.value().to_vec())))
    };
    let mut from = 0;
    let broken = loop {
        match quiet(|| up(from)).flatten() {
            Some(Some((number, value))) if number >= from => {
                found.extend(in_block(read, dir, number, &value));
                let Some(next) = number.checked_add(1) else { break false };
                from = next;
            }
            Some(None) => break false,
            _ => break true,
        }
    };
    if !broken {
        return;
    }
    let mut before = u64::MAX;
    loop {
        match quiet(|| down(before)).flatten() {
            Some(Some((number, value))) if (from..before).contains(&number) => {
                found.extend(in_block(read, dir, number, &value));
                before = number;
            }
            _ => break,
        }
    }
}

/// The tasks of a block whose record and body are whole.
fn in_block(read: &ReadTransaction, dir: &Path, number: u64, value: &[u8]) -> Vec<String> {
    let is_place = value.first() == Some(&0xff);
    let block = if is_place { pointed(dir, number, value) } else { open(&number.to_le_bytes(), value) };
    let Some(block) = block else { return Vec::new() };
    let mut rest = &block[..];
    let mut ids = Vec::new();
    while rest.len() >= 9 {
        let seq = number * BLOCK_TASKS + u64::from(rest[0]);
        let lengths =
            [&rest[1..5], &rest[5..9]].map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]));
        rest = &rest[9..];
        let mut parts = Vec::new();
        for (part, length) in (0u8..).zip(lengths) {
            if length == u32::MAX {
                let place =
                    quiet(|| Some(read.open_table(LARGE).ok()?.get((seq, part)).ok()??.value().to_vec()));
                let number = 1 << 63 | seq << 1 | u64::from(part);
                let sealed = place.flatten().and_then(|place| pointed(dir, number, &place));
                let key = [&seq.to_le_bytes()[..], &[part]].concat();
                parts.extend(sealed.and_then(|sealed| open(&key, &sealed)));
            } else {
                parts.push(rest[..length as usize].to_vec());
                rest = &rest[length as usize..];
            }
        }
        if let [record, _] = &parts[..] {
            ids.extend(text(record, 1));
        }
    }
    ids
}

/// What a row of the index points to, if it is whole.
fn pointed(dir: &Path, number: u64, value: &[u8]) -> Option<Vec<u8>> {
    let key = number.to_le_bytes();
    let place = open(&key, value)?;
    let part = |nth: usize| {
        place
            .get(1 + 4 * nth..5 + 4 * nth)
            .map(|part| u32::from_le_bytes([part[0], part[1], part[2], part[3]]))
    };
    let file = fs::read(dir.join(format!("blocks/{:010}.blk", part(0)?))).ok()?;
    let at = part(1)? as usize + 12;
    let bytes = file.get(at..at + part(2)? as usize)?.to_vec();
    (sum(&key, &bytes) == part(3)?).then_some(bytes)
}

fn meta(read: &ReadTransaction, key: &str) -> Option<Vec<u8>> {
    quiet(|| Some(read.open_table(META).ok()?.get(key).ok()??.value().to_vec())).flatten()
}

fn quiet<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// A value without its checksum, if that is right.
fn open(key: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (value, found) = sealed.split_at_checked(sealed.len().checked_sub(4)?)?;
    (sum(key, value).to_le_bytes() == found).then(|| value.to_vec())
}

fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// The ids of the tasks that an entry of the log submits.
fn submitted(entry: &[u8]) -> Vec<String> {
    let Some((_, insert)) = field(entry, 1) else { return Vec::new() };
    let tasks = fields(&insert).into_iter().filter(|(tag, ..)| *tag == 1);
    tasks.filter_map(|(_, _, task)| text(&task, 1)).collect()
}

fn text(message: &[u8], tag: u64) -> Option<String> {
    String::from_utf8(field(message, tag)?.1).ok()
}

fn field(message: &[u8], tag: u64) -> Option<(u64, Vec<u8>)> {
    fields(message).into_iter().find(|(found, ..)| *found == tag).map(|(_, number, bytes)| (number, bytes))
}

/// The fields of a protobuf message: tag, number or length, bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(key) = varint(&mut message) {
        let (tag, wire) = (key >> 3, key & 7);
        let fixed = match wire {
            1 => 8,
            5 => 4,
            _ => 0,
        };
        let number = if fixed > 0 { fixed } else { varint(&mut message).unwrap_or(0) };
        let length = if wire == 0 { 0 } else { number as usize };
        let Some((bytes, rest)) = message.split_at_checked(length) else { break };
        message = rest;
        found.push((tag, number, bytes.to_vec()));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
