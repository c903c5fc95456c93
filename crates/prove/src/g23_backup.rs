//! G23: a backup that is taken under load holds exactly the state at the position of the log that it names.
//!
//! The oracle is the log itself. The broker has a segment so large that none is used again, so after its kill every entry since the
//! first is still there. The entries up to the position that a backup names, replayed into an empty store, are the state that it must hold: all
//! tasks with all their fields, queues, limits, the ledger. Besides, everything acknowledged before the backup was asked for is in it.
//!
//! Mutant: the same comparison with a store that has some entries less must find a difference, and so must a backup with a flipped bit.

mod sent;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::log::{self, Log};
use windlass_store::migrate::Contents;
use windlass_store::{Durability, Store, SystemClock};

use crate::http::Http;
use crate::proof::{Outcome, Run, Trouble, verdict};
use crate::server::{Server, Setup};
use sent::Sent;

const SUBMITTERS: usize = 4;
const WORKERS: usize = 4;
const BATCH: usize = 50;
/// What all submitters together aim at.
const PER_SECOND: u64 = 5000;
/// The mutant lacks so many entries.
const LESS: usize = 25;
const ENTRIES_AT_ONCE: usize = 1000;

/// One backup, and what was known around it.
struct Taken {
    dir: PathBuf,
    position: usize,
    /// Acknowledged before it was asked for.
    before: HashSet<String>,
    /// Sent before its end came.
    after: HashSet<String>,
}

pub(crate) async fn prove(run: Run) -> Outcome {
    let (count, pause) = run.pick((3, Duration::from_millis(300)), (20, Duration::from_millis(500)));
    let home = run.home()?;
    let setup = Setup::new(&run, home.path())
        .set("store.segment_bytes", run.pick("128MiB", "1GiB"))
        .set("store.disk_reserve_bytes", run.pick("264MiB", "2056MiB"));
    let server = setup.start().await?;
    until_prepared(&home.path().join("data/log")).await?;
    let sent = Arc::new(Sent::default());
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..SUBMITTERS {
        clients.spawn(submit(server.http(), number, Arc::clone(&sent), Arc::clone(&over)));
    }
    for number in 0..WORKERS {
        clients.spawn(work(server.http(), number, Arc::clone(&over)));
    }
    let began = Instant::now();
    let mut taken = Vec::new();
    for number in 0..count {
        // sleep: the load goes on for a while between two backups.
        tokio::time::sleep(pause).await;
        taken.push(take(&run, &server, &sent, home.path().join(format!("backup-{number}"))).await?);
    }
    let rate = sent.acknowledged().len() as f64 / began.elapsed().as_secs_f64();
    server.kill().await?;
    over.store(true, Ordering::SeqCst);
    while clients.join_next().await.is_some() {}

    let entries = read_log(&home.path().join("data"))?;
    let mut complaints = Vec::new();
    let mut tasks = 0;
    for (number, one) in taken.iter().enumerate() {
        let found = restored(&run, &one.dir, &home.path().join(format!("restored-{number}"))).await?;
        tasks = found.tasks.len();
        if one.position > entries.len() {
            complaints.push(format!("backup {number} names entry {} of {}", one.position, entries.len()));
            continue;
        }
        let oracle = home.path().join(format!("oracle-{number}"));
        let expected = replayed(&entries[..one.position], &oracle).await?;
        let place = |words: String| format!("backup {number} at {}: {words}", one.position);
        complaints.extend(expected.differences(&found).into_iter().map(place));
        let ids: HashSet<String> = found.tasks.iter().map(|task| task.record.id.to_string()).collect();
        complaints.extend(
            one.before.difference(&ids).take(3).map(|id| format!("{id} was acknowledged and is missing")),
        );
        complaints.extend(
            ids.difference(&one.after).take(3).map(|id| format!("{id} is there and was not sent yet")),
        );
        if number == 0 {
            let earlier = home.path().join("earlier");
            let less = replayed(&entries[..one.position.saturating_sub(LESS)], &earlier).await?;
            if less.differences(&found).is_empty() {
                return Err(Trouble::failed("the judge finds an earlier state the same"));
            }
            flipped(&run, &one.dir).await?;
        }
        fs::remove_dir_all(home.path().join(format!("restored-{number}")))?;
        fs::remove_dir_all(&oracle)?;
    }
    if taken.windows(2).any(|pair| pair[0].position >= pair[1].position) {
        complaints.push("nothing happened between two backups".to_owned());
    }
    let figures = format!(
        "{count} backups under {rate:.0} submits/s with completes, the last of {tasks} tasks; {} log entries",
        entries.len()
    );
    verdict(figures, complaints)
}

/// The first segment must be the large one: without a prepared file the log would begin with a small one, and release it.
async fn until_prepared(log: &Path) -> Result<(), Trouble> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mut files = fs::read_dir(log)?.flatten().map(|file| file.path());
        if files.any(|path| path.extension().is_some_and(|kind| kind == "spare")) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Trouble::failed("no segment was prepared in 60 s"));
        }
        // sleep: only the directory tells.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn take(run: &Run, server: &Server, sent: &Sent, dir: PathBuf) -> Result<Taken, Trouble> {
    let before = sent.acknowledged();
    let address = format!("http://{}", server.address());
    let words = ["backup", "create", "-o", "json", "--server", &address, "--to"];
    let done = Command::new(&run.binary).args(words).arg(&dir).output().await?;
    let manifest = succeeded(&done)?;
    let position = manifest["log_position"].as_u64().unwrap_or_default() as usize;
    Ok(Taken { dir, position, before, after: sent.begun() })
}

fn succeeded(done: &Output) -> Result<Value, Trouble> {
    if !done.status.success() {
        return Err(Trouble::failed(format!("a backup failed: {}", String::from_utf8_lossy(&done.stderr))));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| Trouble::failed(error.to_string()))
}

async fn restored(run: &Run, backup: &Path, dir: &Path) -> Result<Contents, Trouble> {
    let words = ["backup", "restore", "-o", "json", "--data-dir"];
    succeeded(&Command::new(&run.binary).args(words).arg(dir).arg(backup).output().await?)?;
    contents(dir).await
}

/// A backup with one bit flipped must be refused.
async fn flipped(run: &Run, dir: &Path) -> Result<(), Trouble> {
    let path = dir.join("chunks");
    let mut bytes = fs::read(&path)?;
    let at = bytes.len() / 2;
    bytes[at] ^= 16;
    fs::write(&path, &bytes)?;
    let done = Command::new(&run.binary).args(["backup", "verify"]).arg(dir).output().await?;
    match done.status.code() {
        Some(1) => Ok(()),
        code => Err(Trouble::failed(format!("a damaged backup was not refused: {code:?}"))),
    }
}

async fn contents(dir: &Path) -> Result<Contents, Trouble> {
    let options = Options { durability: Durability::Os, disk_reserve_bytes: 0, ..Options::new(dir) };
    let store = EmbeddedStore::open(options, SystemClock::shared()).await?;
    let contents = Contents::read(&*store).await?;
    store.close().await?;
    Ok(contents)
}

/// All entries of a broker that was killed, in a copy, because reading tidies up.
fn read_log(data: &Path) -> Result<Vec<Bytes>, Trouble> {
    let copy = data.with_extension("log");
    fs::create_dir(&copy)?;
    for file in fs::read_dir(data.join("log"))? {
        let file = file?;
        fs::copy(file.path(), copy.join(file.file_name()))?;
    }
    let mut entries = Vec::new();
    let mut visit = |_: u64, entry: Bytes| -> Result<(), log::VisitError> {
        entries.push(Bytes::copy_from_slice(&entry));
        Ok(())
    };
    let options = log::Options { store: store_id(data)?, ..log::Options::new(&copy) };
    let opened = Log::open(options, 1, &mut visit);
    drop(opened.map_err(|error| Trouble::failed(format!("the log cannot be read: {error}")))?);
    fs::remove_dir_all(&copy)?;
    Ok(entries)
}

/// The id of the store in a data directory.
fn store_id(data: &Path) -> Result<log::StoreId, Trouble> {
    let format = fs::read_to_string(data.join("FORMAT"))?;
    let id = format.lines().find_map(|line| u128::from_str_radix(line.strip_prefix("store ")?, 16).ok());
    id.map(u128::to_be_bytes).ok_or_else(|| Trouble::failed("FORMAT names no store"))
}

/// What an empty store becomes by these entries.
async fn replayed(entries: &[Bytes], dir: &Path) -> Result<Contents, Trouble> {
    let failed = |error: log::Error| Trouble::failed(format!("the oracle cannot be written: {error}"));
    fs::create_dir(dir)?;
    // A store that is being created has no tables yet, so everything in its log is replayed.
    let store = log::StoreId::default();
    let id = u128::from_be_bytes(store);
    fs::write(dir.join("FORMAT"), format!("windlass-data 6\nstore {id:032x}\ncreating\n"))?;
    let options = log::Options {
        store,
        sync: log::SyncMode::Never,
        direct: false,
        segment_bytes: 32 << 20,
        ..log::Options::new(dir.join("log"))
    };
    let mut log = Log::open(options, 1, &mut |_, _| Ok(())).map_err(failed)?;
    for batch in entries.chunks(ENTRIES_AT_ONCE) {
        log.append(batch).map_err(failed)?;
    }
    log.sync().map_err(failed)?;
    drop(log);
    contents(dir).await
}

async fn submit(mut http: Http, number: usize, sent: Arc<Sent>, over: Arc<AtomicBool>) {
    let mut pace =
        tokio::time::interval(Duration::from_micros(1_000_000 * (SUBMITTERS * BATCH) as u64 / PER_SECOND));
    for batch in 0.. {
        pace.tick().await;
        if over.load(Ordering::SeqCst) {
            return;
        }
        let ids: Vec<String> = (0..BATCH).map(|i| format!("s{number}-{batch}-{i}")).collect();
        sent.begin(&ids);
        let task = |(i, id): (usize, &String)| {
            let mut task = json!({"id": id, "type": "t", "payload": {"of": id}});
            if i % 5 == 0 {
                task["key"] = format!("tenant-{}", i % 3).into();
            }
            if i % 11 == 0 {
                task["delay_seconds"] = 3600.into();
            }
            task
        };
        let tasks: Vec<Value> = ids.iter().enumerate().map(task).collect();
        match http.post("/api/v1/tasks/batch", &json!({ "tasks": tasks })).await {
            Ok(answer) if answer.is_success() => sent.acknowledge(ids),
            _ => return,
        }
    }
}

/// Claims and reports until the broker is gone: most tasks complete, some fail, some stay with the worker.
async fn work(mut http: Http, number: usize, over: Arc<AtomicBool>) {
    let claim =
        json!({"worker_id": format!("w{number}"), "max": 20, "wait_seconds": 1, "lease_seconds": 600});
    let mut count = 0;
    while !over.load(Ordering::SeqCst) {
        let Ok(claimed) = http.post("/api/v1/claim", &claim).await else { return };
        for task in claimed.body["tasks"].as_array().into_iter().flatten() {
            count += 1;
            let id = task["id"].as_str().unwrap_or_default();
            let (verb, body) = match count % 9 {
                0 => continue,
                1 => ("fail", json!({"lease": task["lease"], "error": "no"})),
                _ => ("complete", json!({"lease": task["lease"], "result": count})),
            };
            if http.post(&format!("/api/v1/tasks/{id}/{verb}"), &body).await.is_err() {
                return;
            }
        }
    }
}
