//! Completed tasks, told by several workers of this process at once.
//!
//! Most of what a small report costs Redis is the call itself. So what comes while calls are under way waits for the next one, and goes
//! with it together; a report that comes alone goes at once. Each caller gets the answers to its own, and all of them the error
//! if the call fails.
//!
//! A call that is repeated after a lost answer knows what it has done by the task, not by who asked for it. So two reports of the same
//! task never go together: the second must not be told what the first has done.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot};
use windlass_core::limits::{ANSWER_BYTES_MAX, BATCH_TASKS_MAX};

use super::Shared;
use super::row::Step;
use crate::store::{Committed, Error};

/// Calls under way: one that Redis carries out, and one that is on its way there or back.
const CALLS_MAX: usize = 2;
/// Reports that wait for a call. Beyond it whoever reports is told to come again: Redis is away, or far too slow.
const WAITING_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Reports {
    waiting: Mutex<VecDeque<Report>>,
    work: Notify,
}

#[derive(Debug)]
struct Report {
    steps: Vec<Step>,
    reply: oneshot::Sender<Result<Vec<Committed>, Error>>,
}

impl Reports {
    /// The next ones that go together, as many as fit into a call; a single one always does.
    fn gather(&self) -> Vec<Report> {
        let mut waiting = self.waiting.lock();
        let mut gathered = Vec::new();
        let (mut seen, mut bytes) = (HashSet::new(), 0);
        while let Some(next) = waiting.front() {
            bytes += next.steps.iter().map(|step| step.after.bytes()).sum::<usize>();
            let many = seen.len() + next.steps.len();
            let fits = many <= BATCH_TASKS_MAX && bytes <= ANSWER_BYTES_MAX;
            let met = next.steps.iter().any(|step| seen.contains(&step.before.seq));
            if !gathered.is_empty() && (met || !fits) {
                break;
            }
            seen.extend(next.steps.iter().map(|step| step.before.seq));
            gathered.extend(waiting.pop_front());
        }
        gathered
    }
}

impl Shared {
    /// Writes ends of tasks together with those that others report meanwhile.
    pub(super) async fn report(&self, steps: Vec<Step>) -> Result<Vec<Committed>, Error> {
        let (reply, answer) = oneshot::channel();
        {
            let mut waiting = self.reports.waiting.lock();
            if waiting.len() >= WAITING_MAX {
                return Err(Error::Busy);
            }
            waiting.push_back(Report { steps, reply });
        }
        self.reports.work.notify_one();
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Sends what is reported, as long as there is a store.
    pub(super) async fn serve_reports(self: Arc<Self>) {
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        while let Ok(permit) = Arc::clone(&calls).acquire_owned().await {
            let mut gathered = self.reports.gather();
            while gathered.is_empty() {
                self.reports.work.notified().await;
                gathered = self.reports.gather();
            }
            let shared = Arc::clone(&self);
            tokio::spawn(async move {
                shared.write_reports(gathered).await;
                drop(permit);
            });
        }
    }

    async fn write_reports(&self, gathered: Vec<Report>) {
        let (mut steps, mut replies) = (Vec::new(), Vec::with_capacity(gathered.len()));
        for report in gathered {
            replies.push((report.steps.len(), report.reply));
            steps.extend(report.steps);
        }
        let mut written = self.write_steps(steps).await.map(Vec::into_iter);
        for (many, reply) in replies {
            // Who went away has no need to know.
            let _ = reply.send(match &mut written {
                Ok(committed) => Ok(committed.take(many).collect()),
                Err(error) => Err(error.clone()),
            });
        }
    }
}
