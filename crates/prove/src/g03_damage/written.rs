//! A data directory whose every task is known, and the comparison with what a store serves from a copy of it.

use std::fs;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use windlass_core::choice::{Mode, Queue};
use windlass_core::limits::{CLAIM_TASKS_MAX, PAGE_ROWS_MAX};
use windlass_core::transition::{self, Failure};
use windlass_core::{
    Body, NewTask, OnConflict, Payload, Priority, State, StateName, Task, Transition, Unique, UniqueKey,
    limits, retry,
};
use windlass_store::clock::ManualClock;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::{Claim, Error, Insert, List, Store};

use super::history::{History, Tasks};
use super::{frames, harm};
use crate::proof::Trouble;
use crate::volume;

pub(super) const MARKER: &str = "only-as-it-was-written";
const COMMANDS: usize = 400;
/// The commands after which the earlier copies are made: one before the checkpoint and one after it.
const EARLIER: usize = 150;
const RECENT: usize = 380;

/// How the store that wrote the data ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The files as a kill leaves them: much of the state is only in the log.
    Killed,
    Closed,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) dir: PathBuf,
    /// A copy of the directory from before the last checkpoint.
    pub(super) earlier: PathBuf,
    /// A later copy of the directory. In a store that was killed, it is from after the last checkpoint.
    pub(super) recent: PathBuf,
    /// The id of the store.
    pub(super) id: Vec<u8>,
    pub(super) history: History,
}

/// What became of opening and reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Refused(String),
    /// Loud, but no clear word; nothing wrong was served.
    Panicked,
    Right,
    /// Everything as it was at an earlier moment.
    TailDropped,
    Wrong(String),
}

impl Written {
    /// A store whose ids begin with `name`.
    pub(super) async fn make(home: &Path, name: &str, ending: Ending) -> Result<Written, Trouble> {
        let [live, dir, earlier, recent] = ["live", "kept", "earlier", "recent"].map(|name| home.join(name));
        let store = open(&live).await?;
        let mut history = History::default();
        for number in 0..COMMANDS {
            act(&store, name, number, &mut history).await?;
            let kept = match number {
                EARLIER => &earlier,
                RECENT => &recent,
                _ => continue,
            };
            let now = Written { dir: kept.clone(), history, ..Written::default() };
            now.keep(&live, home, false).await?;
            history = now.history;
        }
        if ending == Ending::Closed {
            store.close().await?;
        }
        let id = store_id(&live)?;
        let written = Written { dir, earlier, recent, id, history };
        written.keep(&live, home, true).await?;
        store.close().await?;
        let log = frames::entries(&written.dir, &written.id)?;
        match log.last() {
            Some((last, _)) if *last != written.history.entries => {
                let counted = written.history.entries;
                Err(Trouble::failed(format!("the log has {last} entries, and {counted} were counted")))
            }
            _ => Ok(written),
        }
    }

    /// Copies the files of a store that nobody uses just now. A checkpoint may be under way; a copy that reads back is as good as
    /// a kill. `vouched` waits until the log vouches for its end.
    async fn keep(&self, live: &Path, home: &Path, vouched: bool) -> Result<(), Trouble> {
        for _ in 0..100 {
            let _ = fs::remove_dir_all(&self.dir);
            copy(live, &self.dir)?;
            let probe = home.join("probe");
            let _ = fs::remove_dir_all(&probe);
            copy(&self.dir, &probe)?;
            if self.read(&probe).await? == Reading::Right && (!vouched || ends_with_vouch(&self.dir)?) {
                return Ok(());
            }
            // sleep: nobody tells when a checkpoint ends, or when the log was idle long enough.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Trouble::failed("the data never read back as it was written"))
    }

    /// The same store some milliseconds before its log vouched for its end.
    pub(super) fn before_vouch(&self, dir: PathBuf) -> Result<Written, Trouble> {
        copy(&self.dir, &dir)?;
        harm::take_vouch(&dir)?;
        Ok(Written { dir, ..self.clone() })
    }

    /// Opens a directory, reads everything in every way there is, and compares.
    pub(super) async fn read(&self, dir: &Path) -> Result<Reading, Trouble> {
        let store = match open(dir).await {
            Ok(store) => store,
            Err(error) if error.to_string().contains("panicked") => return Ok(Reading::Panicked),
            Err(error) => return Ok(Reading::Refused(error.to_string())),
        };
        let compared = AssertUnwindSafe(self.compare(&store)).catch_unwind().await;
        let reading = match compared {
            Ok(Ok(reading)) => reading,
            // Found when it was read: the store has ended and serves nothing.
            Ok(Err(error)) => Reading::Refused(error.to_string()),
            Err(_) => Reading::Panicked,
        };
        let _ = store.close().await;
        Ok(reading)
    }

    async fn compare(&self, store: &EmbeddedStore) -> Result<Reading, Error> {
        let listed = read_all(store).await?;
        let reading = match () {
            () if listed == self.history.last => Reading::Right,
            () if self.history.has_been(&listed) => Reading::TailDropped,
            () => return Ok(Reading::Wrong(difference(&listed, &self.history.last))),
        };
        let expected = &listed;
        for (id, task) in expected {
            let got = store.get(id).await?.map(plain);
            if got.as_ref() != Some(task) {
                let (got, task) = (got.as_ref().map(brief), brief(task));
                return Ok(Reading::Wrong(format!("{id} is served as {got:?} instead of {task}")));
            }
        }
        let ledger = store.ledger().await?;
        if ledger.submitted - ledger.removed != expected.len() as u64 {
            return Ok(Reading::Wrong(format!("the books say {ledger:?} for {} tasks", expected.len())));
        }
        let count =
            |state: StateName| expected.values().filter(|task| task.record.state_name() == state).count();
        for state in StateName::ALL {
            let told: u64 = store.queues(None).await?.iter().map(|queue| queue.by_state[state.index()]).sum();
            if told != count(state) as u64 {
                return Ok(Reading::Wrong(format!("{told} tasks are said to be {}", state.as_str())));
            }
            let list = List { states: vec![state], limit: PAGE_ROWS_MAX, ..List::default() };
            let listed = store.list(list).await?.tasks.len();
            if listed != count(state) {
                return Ok(Reading::Wrong(format!("{listed} tasks are listed as {}", state.as_str())));
            }
        }
        drain(store, expected, reading).await
    }
}

/// Every pending task must be given out, once, highest priority first.
async fn drain(store: &EmbeddedStore, expected: &Tasks, reading: Reading) -> Result<Reading, Error> {
    let mut pending: Vec<&Task> =
        expected.values().filter(|task| task.record.state_name() == StateName::Pending).collect();
    pending.sort_by_key(|task| (std::cmp::Reverse(task.record.priority.0), task.record.order));
    let claimed = store.claim(claim(CLAIM_TASKS_MAX)).await?;
    let ids = |tasks: &[&Task]| tasks.iter().map(|task| task.record.id.clone()).collect::<Vec<_>>();
    let (wanted, got) = (ids(&pending), ids(&claimed.iter().collect::<Vec<_>>()));
    if wanted != got {
        return Ok(Reading::Wrong(format!("{} tasks wait, and {} are given out", wanted.len(), got.len())));
    }
    Ok(reading)
}

fn ends_with_vouch(dir: &Path) -> Result<bool, Trouble> {
    let Some(last) = harm::files(dir, "log", "seg")?.pop() else { return Ok(false) };
    Ok(frames::frames(&fs::read(dir.join(last))?).last().is_some_and(|frame| frame.count == 0))
}

/// The id as `FORMAT` has it.
fn store_id(dir: &Path) -> Result<Vec<u8>, Trouble> {
    let text = fs::read_to_string(dir.join("FORMAT"))?;
    let id = text.lines().find_map(|line| line.strip_prefix("store ")).unwrap_or_default();
    let number = u128::from_str_radix(id, 16).map_err(|_| Trouble::failed("the store has no id"))?;
    Ok(number.to_be_bytes().to_vec())
}

/// Everything but what is not a file.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for folder in ["", "log", "blocks"] {
        fs::create_dir_all(to.join(folder))?;
        for entry in fs::read_dir(from.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

pub(super) async fn open(dir: &Path) -> Result<Arc<EmbeddedStore>, Error> {
    let options = Options {
        segment_bytes: 16 << 10,
        checkpoint_bytes: 160 << 10,
        checkpoint_interval: Duration::from_secs(3600),
        cache_bytes: 1 << 20,
        window_entries: 64,
        disk_reserve_bytes: 1 << 20,
        ..Options::new(dir)
    };
    EmbeddedStore::open(options, ManualClock::shared()).await
}

/// Submits, and every kind of change; each command is a frame of the log.
async fn act(store: &EmbeddedStore, name: &str, number: usize, history: &mut History) -> Result<(), Error> {
    if number % 3 != 2 {
        let atomic = true;
        store.insert(Insert { tasks: vec![task(name, number)].into(), atomic, max_depth: None }).await?;
        history.record(read_all(store).await?);
        return Ok(());
    }
    let Some(held) = store.claim(claim(1)).await?.pop() else { return Ok(()) };
    history.record(read_all(store).await?);
    let (record, now) = (&held.record, held.record.updated_at + 1);
    let Some(token) = volume::token(&held) else { return Ok(()) };
    let failure =
        |retryable| Failure { error: "broken".to_owned(), retryable, retry_after_ms: None, random: 0.5 };
    let decided = match (number / 3) % 5 {
        0 => transition::complete(record, token, Some(Payload::Json(Bytes::from_static(b"[1,2,3]"))), now),
        1 => transition::fail(record, &held.body, token, failure(true), now),
        2 => transition::fail(record, &held.body, token, failure(false), now),
        3 => transition::cancel(record, now),
        _ => Ok(None),
    };
    if let Ok(Some(change)) = decided {
        let change = Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change };
        store.commit(vec![change]).await?;
        history.record(read_all(store).await?);
    }
    Ok(())
}

fn unique(number: usize) -> Box<Unique> {
    let key = UniqueKey::new(&format!("key {number}")).expect("a valid key");
    Box::new(Unique { key, for_ms: None, on_conflict: OnConflict::Reject })
}

fn task(name: &str, number: usize) -> NewTask {
    NewTask {
        id: volume::id(&format!("{name}-{number}")),
        queue: volume::name("default"),
        kind: volume::name("proof"),
        priority: Priority((number * 7 % 256) as u8),
        created_at: 1_790_000_000_000 + number as u64,
        scheduled_at: number.is_multiple_of(7).then_some(1_790_000_100_000 + number as u64),
        expires_at: None,
        retention_ms: limits::RETENTION_MS_DEFAULT,
        counted: windlass_core::Counted::default(),
        unique: number.is_multiple_of(5).then(|| unique(number)),
        key: None,
        body: Body {
            payload: Payload::Json(Bytes::from(format!(
                "\"{MARKER} {number} {}\"",
                "z".repeat(number % 900)
            ))),
            metadata: vec![("number".to_owned(), number.to_string())],
            timeout_ms: limits::TIMEOUT_MS_DEFAULT,
            max_retries: 3,
            max_crashes: 5,
            retry: retry::Policy::default(),
            fingerprint: Some([number as u8; 16]),
            links: None,
        },
    }
}

fn claim(max: u32) -> Claim {
    Claim {
        worker: volume::name("reader"),
        queues: vec![Queue { name: volume::name("default"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max,
        lease_ms: 60_000,
        wait_ms: 0,
        seed: 1,
    }
}

pub(super) async fn read_all(store: &EmbeddedStore) -> Result<Tasks, Error> {
    let mut tasks = Tasks::new();
    let mut list = List { limit: PAGE_ROWS_MAX, ..List::default() };
    loop {
        let page = store.list(list.clone()).await?;
        tasks.extend(page.tasks.into_iter().map(|task| (task.record.id.clone(), plain(task))));
        match page.next {
            Some(next) => list.before = Some(next),
            None => return Ok(tasks),
        }
    }
}

/// Without what a restart renews.
fn plain(mut task: Task) -> Task {
    if let State::Running(lease) = &mut task.record.state {
        lease.expires_at = 0;
    }
    task
}

fn difference(served: &Tasks, written: &Tasks) -> String {
    let strange = served.iter().find(|(id, task)| written.get(*id) != Some(*task));
    let missing = written.keys().filter(|id| !served.contains_key(*id)).count();
    match strange {
        Some((id, task)) => {
            format!("{id} is listed as {} instead of {:?}", brief(task), written.get(id).map(brief))
        }
        None => format!("{missing} tasks are missing without a word"),
    }
}

fn brief(task: &Task) -> String {
    let Task { record, body } = task;
    let (state, revision, bytes) =
        (record.state_name().as_str(), record.revision, body.payload.bytes().len());
    format!("{state} at revision {revision} with {bytes} bytes")
}
