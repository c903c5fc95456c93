//! Submits that come together go to the store together.
//!
//! Many clients that submit one task each cost the store as many commands, although it syncs them as one group. So whoever comes first
//! lets others run who are ready to, once round, and then hands in what has come meanwhile in a few batches, in which every task
//! stands for itself. Nobody waits for anything but that turn of the runtime; or a few of them, as long as each brings more, in a thread that
//! commits itself and can do nothing else meanwhile. Who came first is handed in first.
//!
//! Only for a store that this broker has to itself: there a batch is one commit, and what keeps it from being made is nearly always
//! everybody's. Where several servers have a part in it, one of them would keep back what is meant for the others.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;
use std::vec;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_core::{Body, NewTask, Record};
use windlass_store::{self as store, Inserted};

use crate::broker::Broker;
use crate::error::Error;
use crate::submit::look;

/// What one batch takes, unless a single caller brings more. Its bodies share a piece of memory until they are saved, so it is little.
const TASKS_MAX: usize = 256;
const BYTES_MAX: usize = 256 * 1024;
/// Turns for which a thread that is held up by a commit waits at most, as long as each of them brings more.
const TURNS_MAX: usize = 4;

type Answer = Result<Vec<Inserted>, Error>;

/// The record and the body of a task, which was added or there before; or why it was not added.
pub type Look<'a> = Result<(&'a Record, &'a Body), Error>;

/// Somebody who is told what came of a submit, by [`Broker::submit_told`].
pub trait Told: Debug + Send + Sync {
    /// The i-th of the outcomes belongs to the i-th task. It is called in the thread that commits, which should not be held up.
    fn told(&self, outcomes: Result<&mut dyn ExactSizeIterator<Item = Look<'_>>, Error>);
}

/// Who waits for the end of the turn.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    waiting: Mutex<Waiting>,
    /// Whether all who come are of one thread, which may be held up.
    pub(crate) here: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    callers: Vec<Caller>,
    /// When the first of them came.
    since: Option<Instant>,
}

#[derive(Debug)]
struct Caller {
    tasks: Vec<NewTask>,
    reply: Reply,
}

#[derive(Debug)]
enum Reply {
    Waiting(oneshot::Sender<Answer>),
    Told(Teller),
}

/// Tells once, whatever happens to it.
#[derive(Debug)]
struct Teller(Option<Arc<dyn Told>>);

impl Teller {
    fn tell(&mut self, outcomes: Result<&mut dyn ExactSizeIterator<Item = Look<'_>>, Error>) {
        if let Some(told) = self.0.take() {
            told.told(outcomes);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.tell(Err(unknown()));
    }
}

impl Reply {
    /// With the first `outcomes`, which belong to `tasks`.
    fn accept(self, tasks: &[NewTask], outcomes: &mut vec::IntoIter<Inserted>) {
        match self {
            // A caller who has gone needs no answer. Of the only one the outcomes stay where they are.
            Reply::Waiting(reply) if outcomes.len() == tasks.len() => {
                drop(reply.send(Ok(std::mem::take(outcomes).collect())));
            }
            Reply::Waiting(reply) => drop(reply.send(Ok(outcomes.by_ref().take(tasks.len()).collect()))),
            Reply::Told(mut teller) => {
                let bodies = tasks.iter().map(|task| &task.body);
                let mut looks =
                    outcomes.as_slice().iter().zip(bodies).map(|(outcome, body)| look(outcome, body));
                teller.tell(Ok(&mut looks));
                outcomes.by_ref().take(tasks.len()).for_each(drop);
            }
        }
    }

    fn refuse(self, error: Error) {
        match self {
            Reply::Waiting(reply) => drop(reply.send(Err(error))),
            Reply::Told(mut teller) => teller.tell(Err(error)),
        }
    }
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
        if self.broker.gather.here {
            self.wait_for_more().await;
        }
        self.led = true;
        let Waiting { callers, since } = self.broker.gather.take();
        let (batches, since) = (batches(callers), since.unwrap_or_else(Instant::now));
        if self.broker.gather.here {
            return self.broker.insert_here(batches, since).await;
        }
        // Begun in their order, and all of them before the first is done.
        join_all(batches.into_iter().map(|batch| self.broker.insert_together(batch, since))).await;
    }

    /// Whoever comes during a commit waits for the next, and a commit costs the same for few and for many.
    async fn wait_for_more(&self) {
        let mut before = 1;
        for _ in 1..TURNS_MAX {
            let now = self.broker.gather.waiting.lock().callers.len();
            if now == before {
                return;
            }
            before = now;
            tokio::task::yield_now().await;
        }
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

    fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting.lock())
    }
}

/// Callers whose tasks are one insert.
#[derive(Debug)]
struct Batch {
    tasks: Vec<NewTask>,
    /// With the number of tasks that each of them brought.
    callers: Vec<(usize, Reply)>,
}

impl Batch {
    /// With room for so many tasks.
    fn new(room: usize) -> Batch {
        Batch { tasks: Vec::with_capacity(room.min(TASKS_MAX)), callers: Vec::new() }
    }

    fn add(&mut self, mut caller: Caller) {
        self.callers.push((caller.tasks.len(), caller.reply));
        if self.tasks.capacity() == 0 {
            self.tasks = caller.tasks;
        } else {
            self.tasks.append(&mut caller.tasks);
        }
    }
}

/// None of them is empty.
fn batches(callers: Vec<Caller>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let (mut tasks, mut bytes, mut closed) = (0, 0, true);
    let mut left: usize = callers.iter().map(|caller| caller.tasks.len()).sum();
    for caller in callers {
        let (alone, more_tasks, more_bytes) = (caller.goes_alone(), caller.tasks.len(), caller.bytes());
        tasks += more_tasks;
        bytes += more_bytes;
        if closed || alone || tasks > TASKS_MAX || bytes > BYTES_MAX {
            (tasks, bytes) = (more_tasks, more_bytes);
            // The tasks of a single caller stay where they are.
            batches.push(Batch::new(if alone || more_tasks == left { 0 } else { left }));
        }
        closed = alone;
        left -= more_tasks;
        batches.last_mut().expect("the first caller opens a batch").add(caller);
    }
    batches
}

impl Broker {
    /// Adds tasks that stand each for itself, together with those that others add in this moment. The i-th answer belongs to the
    /// i-th task.
    pub(crate) async fn insert_gathered(&self, tasks: Vec<NewTask>) -> Answer {
        if self.is_shared() {
            return self.insert(tasks.into(), false, Instant::now()).await;
        }
        let (reply, answer) = oneshot::channel();
        self.join(Caller { tasks, reply: Reply::Waiting(reply) });
        answer.await.unwrap_or_else(|_| Err(unknown()))
    }

    /// The same for somebody who does not wait.
    pub(crate) fn insert_and_tell(&self, tasks: Vec<NewTask>, told: Arc<dyn Told>) {
        let caller = Caller { tasks, reply: Reply::Told(Teller(Some(told))) };
        if !self.is_shared() {
            return self.join(caller);
        }
        let (broker, mut alone) = (self.clone(), Batch::new(0));
        alone.add(caller);
        tokio::spawn(async move { broker.insert_together(alone, Instant::now()).await });
    }

    /// Whether other brokers write to the store too.
    fn is_shared(&self) -> bool {
        self.inner.store.signals().observed.is_none()
    }

    fn join(&self, caller: Caller) {
        let first = {
            let mut waiting = self.gather.waiting.lock();
            waiting.callers.push(caller);
            if waiting.callers.len() == 1 {
                waiting.since = Some(Instant::now());
            }
            waiting.callers.len() == 1
        };
        if first {
            // A task of its own: a caller who goes away must not take the others along.
            tokio::spawn(Leader { broker: self.clone(), led: false }.lead());
        }
    }

    async fn insert_together(&self, Batch { tasks, callers }: Batch, since: Instant) {
        let tasks = Arc::new(tasks);
        let outcome = self.insert(Arc::clone(&tasks), false, since).await;
        self.tell(callers, &tasks, outcome, since).await;
    }

    /// The same with all batches at once, in a thread that may be held up.
    async fn insert_here(&self, batches: Vec<Batch>, since: Instant) {
        let share = |Batch { tasks, callers }| (Arc::new(tasks), callers);
        let batches: Vec<_> = batches.into_iter().map(share).collect();
        let inserts = batches.iter().map(|(tasks, _)| self.batch(Arc::clone(tasks), false)).collect();
        let outcomes = self.inner.store.insert_here(inserts).await;
        for ((tasks, callers), outcome) in batches.into_iter().zip(outcomes) {
            let outcome = self.inserted(outcome, since);
            self.tell(callers, &tasks, outcome, since).await;
        }
    }

    /// Everybody gets their own part of the answer. What may be the fault of one is tried with each alone.
    async fn tell(&self, callers: Vec<(usize, Reply)>, tasks: &[NewTask], outcome: Answer, since: Instant) {
        let mut rest = tasks;
        let parts =
            callers.into_iter().map(|(count, reply)| (rest.split_off(..count).unwrap_or_default(), reply));
        match outcome {
            Ok(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                parts.for_each(|(tasks, reply)| reply.accept(tasks, &mut outcomes));
            }
            Err(error) if parts.len() > 1 && is_of_one(&error) => {
                let again = parts.map(|(tasks, reply)| async move {
                    match self.insert(tasks.to_vec().into(), false, since).await {
                        Ok(outcomes) => reply.accept(tasks, &mut outcomes.into_iter()),
                        Err(error) => reply.refuse(error),
                    }
                });
                join_all(again).await;
            }
            Err(error) => parts.for_each(|(_, reply)| reply.refuse(error.clone())),
        }
    }
}

fn unknown() -> Error {
    Error::Store(store::Error::Failed("it ended before it answered".to_owned()))
}

/// Whether a single task may be the reason why a batch was refused; nothing of it was done then.
fn is_of_one(error: &Error) -> bool {
    matches!(error, Error::TooManyLanes | Error::Store(store::Error::TooLarge))
}
