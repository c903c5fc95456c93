//! Reads tables that may be damaged.
//!
//! Every value carries a checksum over its key and itself, so a value that passes is what was written. The tree above the values
//! may be damaged too. Then a look-up fails, finds nothing or panics; all three count as damage.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use redb::{Database, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, Value};
use windlass_core::operation::Operation;
use windlass_core::schedule::Schedule;
use windlass_core::{Name, Task, Workflow};

use super::whole::{STATE_KEY, STORE_KEY};
use crate::embedded::dirty::READY_LANES;
use crate::embedded::edges::EDGES;
use crate::embedded::tables::block::{BLOCK_TASKS, Entry, entries};
use crate::embedded::tables::heap::{self, Files};
use crate::embedded::tables::set::{SPAN, Set};
use crate::embedded::tables::{
    BODY_PART, DATED_IDS, IDS, LANES, LARGE, LaneMessage, META, MetaMessage, QUEUES, QueueMessage,
    RECORD_PART, TASKS, block_at, ids, part_at, seal,
};
use crate::embedded::{codec, flow, operations, schedules, workflows};
use crate::log::StoreId;
use crate::store::{Error, SetLimit};

pub(super) struct Rows {
    read: ReadTransaction,
    files: Files,
    lanes: HashMap<u32, (Name, Name)>,
    pub(super) store: Option<StoreId>,
    pub(super) state: Option<MetaMessage>,
    /// The block that was read last. Neighbouring tasks are usually looked up one after the other.
    latest: Mutex<Option<(u64, Result<Bytes, String>)>>,
    /// The last field, so that the transaction is dropped first.
    _database: Database,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// Why something is lost.
pub(super) type Why = String;

pub(super) fn unreadable() -> Error {
    Error::Damaged("the index cannot be read".to_owned())
}

impl Rows {
    /// Opens a copy of the index, with the blocks of the directory `dir`.
    pub(super) fn open(copy: &Path, dir: &Path) -> Result<Rows, Why> {
        let files = heap::open_all(&dir.join("blocks")).map_err(|error| error.to_string())?;
        let (database, read) = guard(|| {
            let database = Database::open(copy)?;
            let read = database.begin_read()?;
            Ok::<_, redb::Error>((database, read))
        })?
        .map_err(|error| error.to_string())?;
        let latest = Mutex::new(None);
        let mut rows = Rows {
            read,
            files,
            lanes: HashMap::new(),
            store: None,
            state: None,
            latest,
            _database: database,
        };
        let store = rows.meta(STORE_KEY).ok().flatten();
        let store = store.as_deref().and_then(|sealed| seal::open(STORE_KEY, sealed).ok());
        rows.store = store.and_then(|id| id.try_into().ok());
        // Before the first checkpoint there is no state.
        rows.state = match rows.meta(STATE_KEY) {
            Ok(None) => Some(MetaMessage::first()),
            Ok(Some(sealed)) => seal::open(0, &sealed).ok().and_then(|state| MetaMessage::decode(state).ok()),
            Err(_) => None,
        };
        rows.lanes = rows.read_lanes();
        Ok(rows)
    }

    fn read_lanes(&self) -> HashMap<u32, (Name, Name)> {
        let queues: HashMap<u32, Name> =
            self.queues().into_iter().map(|(number, name, _)| (number, name)).collect();
        let mut lanes = HashMap::new();
        let _ = self.walk(LANES, |number, sealed| {
            let lane =
                seal::open(u64::from(number), sealed).ok().and_then(|value| LaneMessage::decode(value).ok());
            let names =
                lane.and_then(|lane| Some((queues.get(&lane.queue)?.clone(), codec::name(&lane.kind).ok()?)));
            lanes.extend(names.map(|names| (number + READY_LANES, names)));
        });
        lanes
    }

    /// All queues with their numbers, and whether they are paused.
    pub(super) fn queues(&self) -> Vec<(u32, Name, bool)> {
        let mut found = Vec::new();
        let _ = self.walk(QUEUES, |number, sealed| {
            let queue =
                seal::open(u64::from(number), sealed).ok().and_then(|value| QueueMessage::decode(value).ok());
            let queue = queue.and_then(|queue| Some((number, codec::name(&queue.name).ok()?, queue.paused)));
            found.extend(queue);
        });
        found
    }

    pub(super) fn schedules(&self, lost: &mut dyn FnMut(String, Why)) -> Vec<Schedule> {
        self.named(schedules::SCHEDULES, "schedule", schedules::decode, lost)
    }

    pub(super) fn operations(&self, lost: &mut dyn FnMut(String, Why)) -> Vec<Operation> {
        self.named(operations::OPERATIONS, "operation", operations::decode, lost)
    }

    pub(super) fn limits(&self, lost: &mut dyn FnMut(String, Why)) -> Vec<SetLimit> {
        let mut found = Vec::new();
        let walked = self.walk(flow::FLOW, |key, sealed| {
            if !key.starts_with("limit/") {
                return;
            }
            let limit = seal::open(key, sealed).map_err(|error| error.to_string());
            match limit.and_then(|bytes| flow::limit_of(key, bytes).map_err(|error| error.to_string())) {
                Ok(limit) => found.extend(limit),
                Err(why) => lost(key.to_owned(), why),
            }
        });
        walked.unwrap_or_else(|why| lost("limits".to_owned(), why));
        found
    }

    fn named<T>(
        &self,
        table: TableDefinition<'static, &'static str, &'static [u8]>,
        what: &str,
        decode: impl Fn(&Name, Bytes) -> Result<T, codec::Undecodable>,
        lost: &mut dyn FnMut(String, Why),
    ) -> Vec<T> {
        let mut found = Vec::new();
        let walked = self.walk(table, |key, sealed| {
            let row = seal::open(key, sealed).map_err(|error| error.to_string()).and_then(|bytes| {
                let name = codec::name(key).map_err(|error| error.to_string())?;
                decode(&name, Bytes::copy_from_slice(bytes)).map_err(|error| error.to_string())
            });
            match row {
                Ok(row) => found.push(row),
                Err(why) => lost(format!("{what} {key}"), why),
            }
        });
        walked.unwrap_or_else(|why| lost(format!("{what}s"), why));
        found
    }

    /// The first block at or above `from`, as the index has it.
    pub(super) fn block_from(&self, from: u64) -> Result<Option<(u64, Vec<u8>)>, Why> {
        self.find(TASKS, |table| {
            Ok(table
                .range(from..)?
                .next()
                .transpose()?
                .map(|(key, value)| (key.value(), value.value().to_vec())))
        })
        .and_then(|found| match found {
            Some((number, _)) if number < from => Err(disordered()),
            found => Ok(found),
        })
    }

    pub(super) fn block_below(&self, before: u64) -> Result<Option<(u64, Vec<u8>)>, Why> {
        self.find(TASKS, |table| {
            Ok(table
                .range(..before)?
                .next_back()
                .transpose()?
                .map(|(key, value)| (key.value(), value.value().to_vec())))
        })
        .and_then(|found| match found {
            Some((number, _)) if number >= before => Err(disordered()),
            found => Ok(found),
        })
    }

    /// The tasks in a block. A damaged part is given as a range of task numbers.
    pub(super) fn tasks(&self, number: u64, value: &[u8]) -> Vec<Result<Task, (u64, u64, Why)>> {
        let (first, last) = (
            number.saturating_mul(BLOCK_TASKS),
            number.saturating_mul(BLOCK_TASKS).saturating_add(BLOCK_TASKS - 1),
        );
        let whole = |why: Error| vec![Err((first, last, words(why)))];
        let bytes = match block_at(&self.files, number, value) {
            Ok(bytes) => bytes,
            Err(why) => return whole(why),
        };
        match entries(number, &bytes) {
            Ok(entries) => entries
                .iter()
                .map(|entry| self.decode(&bytes, entry).map_err(|why| (entry.seq, entry.seq, why)))
                .collect(),
            Err(why) => whole(why),
        }
    }

    fn decode(&self, block: &Bytes, entry: &Entry<'_>) -> Result<Task, Why> {
        let part = |inline: Option<&[u8]>, part| match inline {
            Some(bytes) => Ok(block.slice_ref(bytes)),
            None => self.apart(entry.seq, part),
        };
        let record = part(entry.record, RECORD_PART)?;
        let names = |lane| self.lanes.get(&lane).cloned();
        let record = codec::decode_record(entry.seq, record, names).map_err(|error| error.to_string())?;
        let body = codec::decode_body(part(entry.body, BODY_PART)?).map_err(|error| error.to_string())?;
        Ok(Task { record, body })
    }

    fn apart(&self, seq: u64, part: u8) -> Result<Bytes, Why> {
        let value = self.value(LARGE, (seq, part)).ok_or("a part of it is missing")?;
        part_at(&self.files, (seq, part), &value).map_err(words)
    }

    /// The task with this number, or why it is lost.
    fn task(&self, seq: u64) -> Result<Task, Why> {
        let number = seq / BLOCK_TASKS;
        let mut latest = self.latest.lock();
        if latest.as_ref().is_none_or(|(found, _)| *found != number) {
            let value =
                self.value(TASKS, number).ok_or_else(|| format!("block {number} is not in the index"));
            let bytes = value.and_then(|value| block_at(&self.files, number, &value).map_err(words));
            *latest = Some((number, bytes));
        }
        let Some((_, Ok(bytes))) = &*latest else {
            return Err(latest.as_ref().and_then(|(_, bytes)| bytes.clone().err()).unwrap_or_default());
        };
        let found = entries(number, bytes).map_err(words)?;
        let entry = found.iter().find(|entry| entry.seq == seq).ok_or("it is not in its block")?;
        self.decode(bytes, entry)
    }

    /// Calls `lost` for each id in the index whose task cannot be read.
    pub(super) fn lost_ids(&self, lost: &mut dyn FnMut(String, u64, Why)) -> Result<(), Why> {
        let mut look = |id: String, seq: u64| {
            if let Err(why) = self.task(seq) {
                lost(id, seq, why);
            }
        };
        let mut damaged = None;
        let dated = self.walk(DATED_IDS, |row, sealed| match seal::open(row, sealed) {
            Ok(pairs) => ids::pairs(pairs).for_each(|(id, seq)| look(id, seq)),
            Err(error) => damaged = Some(words(error)),
        });
        let others = self.walk(IDS, |id, seq| look(String::from_utf8_lossy(id).into_owned(), seq));
        dated.and(others).and(damaged.map_or(Ok(()), Err))
    }

    /// Whether one task waits for another.
    pub(super) fn waits(&self, parent: u64, child: u64) -> bool {
        let key = (parent, child / SPAN);
        let row = self.value(EDGES, key);
        let set = row.and_then(|sealed| Set::decode(seal::open(key, &sealed).ok()?).ok());
        set.is_some_and(|set| set.contains(child))
    }

    /// The workflow that a task is a node of.
    pub(super) fn workflow(&self, seq: u64) -> Option<Workflow> {
        let found = self.find(workflows::WORKFLOWS, |table| {
            let last = table.range(..=seq)?.next_back().transpose()?;
            Ok(last.map(|(first, value)| (first.value(), value.value().to_vec())))
        });
        let (first, sealed) = found.ok().flatten()?;
        let bytes = seal::open(first, &sealed).ok()?;
        let workflow = workflows::decode(first, Bytes::copy_from_slice(bytes)).ok()?;
        (workflow.first..workflow.end()).contains(&seq).then_some(workflow)
    }

    fn value<K: Key + 'static>(
        &self,
        table: TableDefinition<'static, K, &'static [u8]>,
        key: impl for<'a> std::borrow::Borrow<K::SelfType<'a>>,
    ) -> Option<Vec<u8>> {
        let found = self.find(table, |table| Ok(table.get(key)?.map(|value| value.value().to_vec())));
        found.ok().flatten()
    }

    fn meta(&self, key: &'static str) -> Result<Option<Vec<u8>>, Why> {
        self.find(META, |table| Ok(table.get(key)?.map(|value| value.value().to_vec())))
    }

    fn find<K: Key + 'static, V: Value + 'static, T>(
        &self,
        table: TableDefinition<'static, K, V>,
        look: impl FnOnce(ReadOnlyTable<K, V>) -> Result<T, redb::Error>,
    ) -> Result<T, Why> {
        guard(|| look(self.read.open_table(table)?))?.map_err(|error| error.to_string())
    }

    fn walk<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
        mut each: impl FnMut(K::SelfType<'_>, V::SelfType<'_>),
    ) -> Result<(), Why> {
        self.find(table, |table| {
            for entry in table.range::<K::SelfType<'_>>(..)? {
                let (key, value) = entry?;
                each(key.value(), value.value());
            }
            Ok(())
        })
    }
}

fn words(error: Error) -> Why {
    match error {
        Error::Damaged(words) => words,
        error => error.to_string(),
    }
}

fn disordered() -> Why {
    "the index is out of order".to_owned()
}

/// Turns a panic into an error: a damaged page can make redb panic.
fn guard<T>(read: impl FnOnce() -> T) -> Result<T, Why> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| "a page of the index is damaged".to_owned())
}
