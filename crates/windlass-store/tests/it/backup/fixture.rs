//! Backups that earlier versions wrote. They are kept for good: every later version must restore them with the same contents.
//!
//! `WINDLASS_WRITE_FIXTURE=1 cargo test -p windlass-store --test it backup::fixture` adds a fixture of the present format.
//! Commit it together with a change of the format. Existing fixtures are never rewritten.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use windlass_core::choice::Queue;
use windlass_core::transition::{self, Failure};
use windlass_core::{NewTask, Payload, Record, State, StateName, Task, Transition};
use windlass_store::backup::{self, folder};
use windlass_store::clock::ManualClock;
use windlass_store::embedded::restore_backup;
use windlass_store::migrate::Contents;
use windlass_store::store::{Claim, Store};

use super::{add, claim, name, open, populated, taken, task};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Describes the contents as text that does not depend on the storage format.
fn described(contents: &Contents) -> String {
    let mut text = String::new();
    for task in contents.tasks.iter().rev() {
        let _ = writeln!(text, "task {}", described_task(task));
    }
    for queue in &contents.queues {
        let _ = writeln!(text, "queue {} paused={} {:?}", queue.name, queue.paused, queue.by_state);
    }
    let ledger = &contents.ledger;
    let _ = writeln!(
        text,
        "ledger submitted={} completed={} failed={} crashed={} dead={} cancelled={} expired={} removed={}",
        ledger.submitted,
        ledger.completed,
        ledger.failed,
        ledger.crashed,
        ledger.dead_lettered,
        ledger.cancelled,
        ledger.expired,
        ledger.removed
    );
    for schedule in &contents.schedules {
        let _ = writeln!(
            text,
            "schedule {} revision={} created={} paused={}",
            schedule.id, schedule.revision, schedule.created_at, schedule.definition.paused
        );
    }
    for operation in &contents.operations {
        let _ = writeln!(text, "operation {} {:?}", operation.id, operation.order.filter);
    }
    for limit in &contents.limits {
        let _ = writeln!(
            text,
            "limit {} {} concurrency={:?} running={} waiting={}",
            limit.scope.as_str(),
            limit.name,
            limit.limit.max_concurrency,
            limit.running,
            limit.waiting
        );
    }
    for workflow in &contents.workflows {
        let _ = writeln!(
            text,
            "workflow {} first={} size={} {:?}",
            workflow.id, workflow.first, workflow.size, workflow.by_state
        );
    }
    for (parent, children) in &contents.endings {
        let _ = writeln!(text, "ending {parent} waited for by {children:?}");
    }
    text
}

fn described_task(Task { record, body }: &Task) -> String {
    let payload = match &body.payload {
        Payload::Json(bytes) => format!("json {} crc={:08x}", bytes.len(), crc32fast::hash(bytes)),
        Payload::Binary(bytes) => format!("binary {} crc={:08x}", bytes.len(), crc32fast::hash(bytes)),
    };
    let token = match &record.state {
        State::Running(lease) => format!(" worker={} token={}", lease.worker, lease.token.number),
        State::Blocked { open } => format!(" open={open}"),
        _ => String::new(),
    };
    let checkpoint = record.checkpoint.as_ref().map(|it| it.bytes.len());
    format!(
        "{} #{} revision={} {}{token} queue={} type={} priority={} order={} attempts={} crashes={} awaited={} key={:?} \
         unique={:?} scheduled={:?} expires={:?} error={:?} result={} checkpoint={checkpoint:?} history={} {payload} waits={:?}",
        record.id,
        record.seq,
        record.revision,
        record.state_name().as_str(),
        record.queue,
        record.kind,
        record.priority.0,
        record.order,
        record.attempts,
        record.crashes,
        record.awaited,
        record.key.as_ref().map(|key| key.as_str()),
        record.unique.as_ref().map(|unique| unique.key.as_str()),
        record.scheduled_at,
        record.expires_at,
        record.error,
        record.result.is_some(),
        record.history.len(),
        body.dependencies().iter().map(|id| id.as_str()).collect::<Vec<_>>(),
    )
}

async fn write_fixture() {
    let home = tempfile::tempdir().unwrap();
    let (store, _) = populated(home.path(), |_| {}).await;
    let sizes = [0, 1, 100, 1023, 1024, 1025, 5000];
    add(&*store, sizes.into_iter().map(|size| task(format!("of-{size}"), vec![7; size])).collect()).await;
    add(
        &*store,
        vec![NewTask { queue: name("letters"), ..task("dead-for-good".to_owned(), b"no".to_vec()) }],
    )
    .await;
    let letters = vec![Queue { name: name("letters"), weight: 1 }];
    let Task { record, body } = store.claim(Claim { queues: letters, ..claim(1) }).await.unwrap().remove(0);
    let State::Running(lease) = &record.state else { panic!("{record:?}") };
    let failure =
        Failure { error: "no such mailbox".into(), retryable: false, retry_after_ms: None, random: 0.5 };
    let change = transition::fail(&record, &body, lease.token, failure, record.updated_at).unwrap().unwrap();
    let Record { id, seq, revision, .. } = record;
    store.commit(vec![Transition { id, seq, revision, change }]).await.unwrap();
    let contents = Contents::read(&*store).await.unwrap();
    let bytes = taken(&*store);
    let manifest = backup::verify(&bytes[..], &mut |_| {}).unwrap();
    let dir = fixtures().join(format!("backup-format-{}", manifest.opening.store_format));
    if dir.exists() {
        return;
    }
    let mut target = folder::Target::create(&dir).unwrap();
    target.write_all(&bytes).unwrap();
    target.finish(&manifest).unwrap();
    fs::write(dir.with_extension("txt"), described(&contents)).unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backup_that_was_ever_committed_restores() {
    if std::env::var_os("WINDLASS_WRITE_FIXTURE").is_some() {
        write_fixture().await;
    }
    let mut count = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let dir = entry.unwrap().path();
        if !dir.is_dir() {
            continue;
        }
        count += 1;
        let home = tempfile::tempdir().unwrap();
        let mut stored = folder::open(&dir).unwrap();
        let restored = restore_backup(&mut stored, home.path(), &mut |_| {}).unwrap();
        stored.check(&restored.manifest).unwrap();
        let store = open(home.path(), &ManualClock::shared(), |_| {}).await;
        let contents = Contents::read(&*store).await.unwrap();
        let expected = fs::read_to_string(dir.with_extension("txt")).unwrap();
        assert_eq!(described(&contents), expected, "{}", dir.display());
        // The fixture has something of every kind.
        for state in StateName::ALL {
            let has = contents.tasks.iter().any(|task| task.record.state_name() == state);
            assert!(has, "no task is {}", state.as_str());
        }
        assert!(!contents.schedules.is_empty() && !contents.operations.is_empty());
        assert!(!contents.limits.is_empty() && !contents.workflows.is_empty());
        assert!(!contents.endings.is_empty() && contents.tasks.len() >= 24);
        store.close().await.unwrap();
    }
    assert!(count > 0);
}
