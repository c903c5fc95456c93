//! Submits that come together go to the store together.
//!
//! Many clients that submit one task each cost the store as many commands, although it syncs them as one group. So whoever comes first
//! lets others run who are ready to, once round, and then hands in what has come meanwhile in a few batches, in which every task
//! stands for itself. Nobody waits for anything but that turn of the runtime. Who came first is handed in first.
//!
//! Only for a store that this broker has to itself: there a batch is one commit, and what keeps it from being made is nearly always
//! everybody's. Where several servers have a part in it, one of them would keep back what is meant for the others.

use std::time::Instant;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_core::NewTask;
use windlass_store::{self as store, Inserted};

use crate::broker::Broker;
use crate::error::Error;

/// What one batch takes, unless a single caller brings more. Its bodies share a piece of memory until they are saved, so it is little.
const TASKS_MAX: usize = 256;
const BYTES_MAX: usize = 256 * 1024;

type Answer = Result<Vec<Inserted>, Error>;

/// Who waits for the end of the turn.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    waiting: Mutex<Vec<Caller>>,
    /// Whether all who come are of one thread, which may be held up.
    pub(crate) here: bool,
}

#[derive(Debug)]
struct Caller {
    tasks: Vec<NewTask>,
    reply: oneshot::Sender<Answer>,
    came: Instant,
}

impl Caller {
    fn bytes(&self) -> usize {
        self.tasks.iter().map(|task| task.body.bytes()).sum()
    }

    /// One whose tasks depend on others may have as many dependencies as one commit takes.
    fn goes_alone(&self) -> bool {
        self.tasks.iter().any(|task| task.body.links.is_some())
    }
}

/// Hands in for everybody who has come.
struct Leader {
    broker: Broker,
    led: bool,
}

impl Leader {
    async fn lead(mut self) {
        tokio::task::yield_now().await;
        self.led = true;
        let batches = batches(self.broker.gather.take());
        if self.broker.gather.here {
            return self.broker.insert_here(batches).await;
        }
        // Begun in their order, and all of them before the first is done.
        join_all(batches.into_iter().map(|batch| self.broker.insert_together(batch))).await;
    }
}

impl Drop for Leader {
    /// With its runtime, before it could do anything: nobody is left waiting for it.
    fn drop(&mut self) {
        if !self.led {
            drop(self.broker.gather.take());
        }
    }
}

impl Gather {
    pub(crate) fn here() -> Gather {
        Gather { here: true, ..Gather::default() }
    }

    fn take(&self) -> Vec<Caller> {
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// Callers whose tasks are one insert.
#[derive(Debug, Default)]
struct Batch {
    callers: Vec<Caller>,
    /// How many tasks each of them brought.
    counts: Vec<usize>,
}

impl Batch {
    fn add(&mut self, caller: Caller) {
        self.counts.push(caller.tasks.len());
        self.callers.push(caller);
    }

    /// When the first of them came.
    fn came(&self) -> Instant {
        self.callers[0].came
    }

    /// All tasks; kept where they may be needed once more.
    fn take_tasks(&mut self) -> Vec<NewTask> {
        match &mut self.callers[..] {
            [only] => std::mem::take(&mut only.tasks),
            several => several.iter().flat_map(|caller| &caller.tasks).cloned().collect(),
        }
    }
}

/// None of them is empty.
fn batches(callers: Vec<Caller>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let (mut tasks, mut bytes, mut closed) = (0, 0, true);
    for caller in callers {
        let (alone, more_tasks, more_bytes) = (caller.goes_alone(), caller.tasks.len(), caller.bytes());
        tasks += more_tasks;
        bytes += more_bytes;
        if closed || alone || tasks > TASKS_MAX || bytes > BYTES_MAX {
            (tasks, bytes) = (more_tasks, more_bytes);
            batches.push(Batch::default());
        }
        closed = alone;
        batches.last_mut().expect("the first caller opens a batch").add(caller);
    }
    batches
}

impl Broker {
    /// Adds tasks that stand each for itself, together with those that others add in this moment. The i-th answer belongs to the
    /// i-th task.
    pub(crate) async fn insert_gathered(&self, tasks: Vec<NewTask>) -> Answer {
        let shared = self.inner.store.signals().observed.is_none();
        if shared {
            return self.insert(tasks, false, Instant::now()).await;
        }
        let (reply, answer) = oneshot::channel();
        let first = {
            let mut waiting = self.gather.waiting.lock();
            waiting.push(Caller { tasks, reply, came: Instant::now() });
            waiting.len() == 1
        };
        if first {
            // A task of its own: a caller who goes away must not take the others along.
            tokio::spawn(Leader { broker: self.clone(), led: false }.lead());
        }
        let unknown = || Error::Store(store::Error::Failed("it ended before it answered".to_owned()));
        answer.await.unwrap_or_else(|_| Err(unknown()))
    }

    async fn insert_together(&self, mut batch: Batch) {
        let tasks = batch.take_tasks();
        let outcome = self.insert(tasks, false, batch.came()).await;
        self.tell(batch, outcome).await;
    }

    /// The same with all batches at once, in a thread that may be held up.
    async fn insert_here(&self, mut batches: Vec<Batch>) {
        let inserts = batches.iter_mut().map(|batch| self.batch(batch.take_tasks(), false)).collect();
        let outcomes = self.inner.store.insert_here(inserts).await;
        for (batch, outcome) in batches.into_iter().zip(outcomes) {
            let outcome = self.inserted(outcome, batch.came());
            self.tell(batch, outcome).await;
        }
    }

    /// Everybody gets their own part of the answer. What may be the fault of one is tried with each alone.
    async fn tell(&self, Batch { mut callers, counts }: Batch, outcome: Answer) {
        // A caller who has gone needs no answer.
        if callers.len() == 1
            && let Some(only) = callers.pop()
        {
            return drop(only.reply.send(outcome));
        }
        match outcome {
            Ok(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                for (caller, count) in callers.into_iter().zip(counts) {
                    drop(caller.reply.send(Ok(outcomes.by_ref().take(count).collect())));
                }
            }
            Err(error) if is_of_one(&error) => {
                let again = callers.into_iter().map(|Caller { tasks, reply, came }| async move {
                    drop(reply.send(self.insert(tasks, false, came).await));
                });
                join_all(again).await;
            }
            Err(error) => callers.into_iter().for_each(|caller| drop(caller.reply.send(Err(error.clone())))),
        }
    }
}

/// Whether a single task may be the reason why a batch was refused; nothing of it was done then.
fn is_of_one(error: &Error) -> bool {
    matches!(error, Error::TooManyLanes | Error::Store(store::Error::TooLarge))
}
