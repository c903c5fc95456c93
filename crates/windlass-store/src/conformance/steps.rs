//! The short words in which the cases are written.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_core::choice::{Mode, Queue};
use windlass_core::flow::{self, Load, Scope, Status};
use windlass_core::transition::{self, Failure};
use windlass_core::{
    Body, Change, Counted, Name, NewTask, Payload, Priority, Record, Refusal, Stamp, State, StateName, Task,
    TaskId, Token, Transition, retry,
};

use super::Harness;
use crate::clock::Clock;
use crate::store::{
    Claim, Committed, Error, Expire, Extend, Extended, Insert, Inserted, List, ListLimits, QueueCounts,
};

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

pub(super) fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("a valid id")
}

pub(super) fn queue(text: &str, weight: u32) -> Queue {
    Queue { name: name(text), weight }
}

pub(super) fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.record.id.as_str()).collect()
}

pub(super) fn token(record: &Record) -> Token {
    match &record.state {
        State::Running(lease) => lease.token,
        state => panic!("{} is {state:?}, not running", record.id),
    }
}

/// A claim of one task of the queue `q`.
pub(super) fn claim() -> Claim {
    Claim {
        worker: name("w"),
        queues: vec![queue("q", 1)],
        mode: Mode::Weighted,
        types: None,
        max: 1,
        lease_ms: 30_000,
        wait_ms: 0,
        seed: 1,
    }
}

pub(super) fn expire() -> Expire {
    Expire { dead_workers: Vec::new(), limit: 1000 }
}

pub(super) fn extension(record: &Record) -> Extend {
    Extend { id: record.id.clone(), token: token(record), lease_ms: None, progress: None }
}

pub(super) fn failure() -> Failure {
    Failure { error: "it broke".into(), retryable: true, retry_after_ms: None, random: 0.5 }
}

impl Harness {
    /// The present moment on both time lines.
    pub(super) fn now(&self) -> Stamp {
        self.clock.now().stamp()
    }

    pub(super) fn wall(&self) -> u64 {
        self.clock.now().wall
    }

    /// A task of type `t` for the queue `q`, whose content is its id.
    pub(super) fn task(&self, text: &str) -> NewTask {
        let mut fingerprint = [0; 16];
        for (i, byte) in text.bytes().enumerate() {
            fingerprint[i % 16] ^= byte.rotate_left((i / 16) as u32);
        }
        NewTask {
            id: id(text),
            queue: name("q"),
            kind: name("t"),
            priority: Priority::default(),
            created_at: self.wall(),
            scheduled_at: None,
            expires_at: None,
            retention_ms: 60_000,
            counted: Counted { ahead: self.now().ahead, delayed: false },
            unique: None,
            key: None,
            body: Body {
                payload: Payload::Json(Bytes::from(format!("{text:?}"))),
                metadata: vec![("of".into(), text.into())],
                timeout_ms: 5000,
                max_retries: 2,
                max_crashes: 3,
                retry: retry::Policy::default(),
                fingerprint: Some(fingerprint),
                links: None,
            },
        }
    }

    pub(super) async fn insert(&self, tasks: Vec<NewTask>) -> Vec<Inserted> {
        self.store
            .insert(Insert { tasks: tasks.into(), atomic: false, max_depth: None })
            .await
            .expect("insert")
    }

    /// Adds tasks that are all new.
    pub(super) async fn add(&self, tasks: Vec<NewTask>) -> Vec<Record> {
        let new = |answer| match answer {
            Inserted::New(record) => record,
            answer => panic!("not new: {answer:?}"),
        };
        self.insert(tasks).await.into_iter().map(new).collect()
    }

    pub(super) async fn add_named(&self, texts: &[&str]) -> Vec<Record> {
        self.add(texts.iter().map(|text| self.task(text)).collect()).await
    }

    pub(super) async fn take(&self, claim: Claim) -> Vec<Task> {
        self.store.claim(claim).await.expect("claim")
    }

    /// Claims the next task of `q`, which must be there.
    pub(super) async fn take_one(&self) -> Task {
        self.take(claim()).await.pop().expect("a task is ready")
    }

    pub(super) async fn peek(&self, text: &str) -> Record {
        self.store.peek(&id(text)).await.expect("peek").expect("the task is there")
    }

    pub(super) async fn state(&self, text: &str) -> StateName {
        self.peek(text).await.state_name()
    }

    pub(super) async fn commit(&self, record: &Record, change: Change) -> Committed {
        self.store.commit(vec![on(record, change)]).await.expect("commit").remove(0)
    }

    /// Commits what was decided on `record`; it must be decided and win.
    pub(super) async fn done(&self, record: &Record, decision: Result<Option<Change>, Refusal>) -> Record {
        let change = decision.expect("not refused").expect("not a repetition");
        match self.commit(record, change).await {
            Committed::Done(record) => *record,
            answer => panic!("{answer:?} for {record:?}"),
        }
    }

    pub(super) async fn complete(&self, record: &Record) -> Record {
        self.done(record, transition::complete(record, token(record), None, self.now())).await
    }

    /// Completes all of them with one commit.
    pub(super) async fn complete_all(&self, tasks: &[Task]) {
        let completed = |task: &Task| {
            let change = transition::complete(&task.record, token(&task.record), None, self.now());
            on(&task.record, change.expect("it runs").expect("it is new"))
        };
        let answers = self.store.commit(tasks.iter().map(completed).collect()).await.expect("commit");
        assert!(answers.iter().all(|answer| matches!(answer, Committed::Done(_))), "{answers:?}");
    }

    pub(super) async fn fail(&self, task: &Task, failure: Failure) -> Record {
        let Task { record, body } = task;
        self.done(record, transition::fail(record, body, token(record), failure, self.now())).await
    }

    pub(super) async fn release(&self, record: &Record) -> Record {
        self.done(record, transition::release(record, token(record), None, self.now())).await
    }

    pub(super) async fn lose(&self, task: &Task) -> Record {
        let Task { record, body } = task;
        self.done(record, transition::lose_lease(record, body, "its worker went away", self.now())).await
    }

    pub(super) async fn cancel(&self, record: &Record) -> Record {
        self.done(record, transition::cancel(record, self.now())).await
    }

    pub(super) async fn retry(&self, record: &Record) -> Record {
        self.done(record, transition::retry(record, self.now())).await
    }

    pub(super) async fn remove(&self, record: &Record) -> Record {
        self.done(record, transition::remove(record, self.now())).await
    }

    /// What the promoter does: looks at each task whose time has come, until none is left.
    pub(super) async fn promote(&self) -> Vec<Record> {
        let mut promoted = Vec::new();
        loop {
            let due = self.store.due(1000).await.expect("due").tasks;
            if due.is_empty() {
                return promoted;
            }
            for Task { record, .. } in due {
                promoted.push(self.done(&record, transition::tick(&record, self.now())).await);
            }
        }
    }

    pub(super) async fn extend(&self, extension: Extend) -> Extended {
        self.store.extend(vec![extension]).await.expect("extend").remove(0)
    }

    pub(super) async fn pause(&self, queue: &str, paused: bool) {
        self.store.set_paused(&name(queue), paused).await.expect("set_paused");
    }

    pub(super) async fn counts(&self, queue: &str) -> QueueCounts {
        self.store.queues(Some(&name(queue))).await.expect("queues").pop().expect("the queue is known")
    }

    /// Every task that matches, page by page.
    pub(super) async fn walk(&self, list: List) -> Vec<Task> {
        let mut rows: Vec<Task> = Vec::new();
        let mut before = list.before;
        loop {
            let page = self.store.list(List { before, ..list.clone() }).await.expect("list");
            assert!(page.tasks.len() <= list.limit, "a page of {} rows", page.tasks.len());
            rows.extend(page.tasks);
            assert!(rows.is_sorted_by(|a, b| a.record.seq > b.record.seq), "newest first, none twice");
            match page.next {
                Some(next) => assert!(before.replace(next).is_none_or(|last| next < last), "pages go on"),
                None => return rows,
            }
        }
    }

    /// Compares the counters with a scan of everything. A store that was closed has nothing to compare.
    pub async fn check(&self) {
        let ledger = match self.store.ledger().await {
            Err(Error::Closed) => return,
            ledger => ledger.expect("ledger"),
        };
        let tasks = self.walk(List { limit: 1000, ..List::default() }).await;
        assert_eq!(ledger.submitted, tasks.len() as u64 + ledger.removed, "{ledger:?}");
        let counted = self.store.queues(None).await.expect("queues");
        let mut scanned: BTreeMap<Name, QueueCounts> = BTreeMap::new();
        for QueueCounts { name, paused, .. } in &counted {
            scanned.insert(name.clone(), none_of(name, *paused));
        }
        for Task { record, .. } in &tasks {
            let counts = scanned.get_mut(&record.queue).expect("every queue with a task is listed");
            counts.by_state[record.state_name().index()] += 1;
            if record.state == State::Pending {
                counts.pending_by_class[record.priority.class() as usize] += 1;
                let oldest = counts.oldest_pending_at.get_or_insert(record.created_at);
                *oldest = record.created_at.min(*oldest);
            }
        }
        let telling = tasks.iter().filter(|task| task.record.must_tell()).count();
        let endings = self.store.endings(usize::MAX).await.expect("endings");
        assert_eq!(endings.len(), telling, "ends that have yet to be told");
        assert_eq!(counted, scanned.into_values().collect::<Vec<_>>(), "counters and tasks differ");
        let mut list = ListLimits { limit: 1000, ..ListLimits::default() };
        loop {
            let page = self.store.limits(list.clone()).await.expect("limits");
            let Some(last) = page.last() else { return };
            list.after = Some((last.scope, last.name.clone()));
            page.iter().for_each(|status| check_limit(status, &tasks));
        }
    }
}

/// Compares what a limit counts with a scan.
fn check_limit(status: &Status, tasks: &[Task]) {
    let own = |record: &Record| match status.scope {
        Scope::Queue => record.queue == status.name,
        Scope::Type => record.kind == status.name,
        Scope::Key => record.key.as_ref() == Some(&status.name),
    };
    let count = |load| {
        let counted = tasks.iter().filter(|task| own(&task.record));
        counted.filter(|task| flow::load(task.record.state_name()) == Some(load)).count() as u64
    };
    let scanned = (count(Load::Waiting), count(Load::Running));
    assert_eq!((status.waiting, status.running), scanned, "{status:?}");
}

/// The change under the condition that nothing happened since `record` was read.
pub(super) fn on(record: &Record, change: Change) -> Transition {
    Transition { id: record.id.clone(), seq: record.seq, revision: record.revision, change }
}

fn none_of(name: &Name, paused: bool) -> QueueCounts {
    let name = name.clone();
    QueueCounts { name, paused, by_state: [0; 8], pending_by_class: [0; 4], oldest_pending_at: None }
}
