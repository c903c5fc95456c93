//! What happens by itself.
//!
//! Every loop has one shape: a step looks at the store, acts on at most [`LOOP_STEP_MAX`] records and says when there
//! will be more to do; the driver sleeps until then, or until the store signals that something nearer came up. A missed
//! signal costs at most [`SLEEP_MAX`]. A step that fails is logged and tried again, ever less often, and a step that
//! panics is logged and its loop started again: a loop ends only with the broker.

mod cron;
mod dependents;
mod gates;
mod names;
mod operator;
mod promoter;
mod pruner;
mod reaper;
mod sampler;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::Rng;
use tokio::sync::Notify;
use windlass_core::limits::LOOP_STEP_MAX;
use windlass_core::{Record, Refusal, State, Task, Transition};
use windlass_store::Committed;

use crate::broker::Broker;
use crate::change;
use crate::error::Error;
use crate::query::LoopHealth;

/// Every loop of the broker. They have no interval: each sleeps until its next deadline.
pub(crate) static ALL: [Loop; 9] = [
    Loop {
        index: 0,
        name: "promoter",
        step: |broker| Box::pin(promoter::step(broker)),
        wakeup: promoter::wakeup,
    },
    Loop { index: 1, name: "reaper", step: |broker| Box::pin(reaper::step(broker)), wakeup: reaper::wakeup },
    Loop { index: 2, name: "pruner", step: |broker| Box::pin(pruner::step(broker)), wakeup: pruner::wakeup },
    Loop { index: 3, name: "cron", step: |broker| Box::pin(cron::step(broker)), wakeup: cron::wakeup },
    Loop {
        index: 4,
        name: "operator",
        step: |broker| Box::pin(operator::step(broker)),
        wakeup: operator::wakeup,
    },
    Loop { index: 5, name: "gates", step: |broker| Box::pin(gates::step(broker)), wakeup: gates::wakeup },
    Loop {
        index: 6,
        name: "dependents",
        step: |broker| Box::pin(dependents::step(broker)),
        wakeup: dependents::wakeup,
    },
    Loop {
        index: 7,
        name: "sampler",
        step: |broker| Box::pin(sampler::step(broker)),
        wakeup: sampler::wakeup,
    },
    Loop { index: 8, name: "names", step: |broker| Box::pin(names::step(broker)), wakeup: names::wakeup },
];

/// The longest sleep of a loop that acts on time: guards against a missed signal and a wall clock that jumps.
const SLEEP_MAX: Duration = Duration::from_secs(30);
/// The sleep after a step that found work and could do none of it.
const SLEEP_STUCK: Duration = Duration::from_millis(100);
/// A step takes milliseconds; one that takes this long will not end, and the next may.
const STEP_MAX: Duration = Duration::from_secs(60);
/// The first and the longest sleep after a failed step.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Loop {
    index: usize,
    name: &'static str,
    step: fn(&Broker) -> Step<'_>,
    wakeup: fn(&Broker) -> &Notify,
}

type Step<'a> = Pin<Box<dyn Future<Output = Result<Next, Error>> + Send + 'a>>;

/// When a loop has something to do again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Now,
    In(Duration),
}

impl Next {
    /// After a step that found `found` records and changed `changed` of them; `deadline` and `now` on the same clock.
    fn after(found: usize, changed: usize, deadline: Option<u64>, now: u64) -> Next {
        match (found, changed) {
            (1.., 0) => Next::In(SLEEP_STUCK),
            (LOOP_STEP_MAX.., _) => Next::Now,
            _ => {
                let left =
                    deadline.map_or(SLEEP_MAX, |at| Duration::from_millis(at.saturating_sub(now).max(1)));
                Next::In(left.min(SLEEP_MAX))
            }
        }
    }
}

/// Runs a loop until the broker stops, starting it again if it panics.
pub(crate) async fn keep(broker: Broker, this: &'static Loop) {
    while let Err(error) = tokio::spawn(drive(broker.clone(), this)).await {
        tracing::error!(name = this.name, %error, "a loop broke down and is started again");
        broker.inner.loops.failed(this.index);
        if broker.pause(BACKOFF_MAX).await {
            return;
        }
    }
}

async fn drive(broker: Broker, this: &'static Loop) {
    let mut failures = 0;
    loop {
        // Listen before looking: what comes up during the step is not missed.
        let woken = (this.wakeup)(&broker).notified();
        let step = tokio::time::timeout(STEP_MAX, (this.step)(&broker)).await;
        let next = match step.unwrap_or(Err(Error::Busy)) {
            Ok(next) => {
                failures = 0;
                broker.inner.loops.ok(this.index, broker.now().wall);
                next
            }
            Err(error) => {
                failures += 1;
                broker.inner.loops.failed(this.index);
                tracing::warn!(name = this.name, %error, failures, "a loop could not do its step; it tries again");
                // A signal must not shorten this sleep, so it is taken here.
                if broker.pause(backoff(failures)).await {
                    return;
                }
                Next::Now
            }
        };
        match next {
            // A long catch-up shares the thread with everybody else.
            Next::Now if broker.inner.stopping.is_cancelled() => return,
            Next::Now => tokio::task::yield_now().await,
            Next::In(sleep) => tokio::select! {
                () = broker.inner.stopping.cancelled() => return,
                () = woken => {}
                // sleep: until the deadline that the step named; a signal ends it early.
                () = tokio::time::sleep(sleep) => {}
            },
        }
    }
}

/// Doubles with every failure; half of it is random, so that brokers on one store do not return in step.
fn backoff(failures: u32) -> Duration {
    let full = BACKOFF_MIN.saturating_mul(1 << failures.clamp(1, 8).saturating_sub(1)).min(BACKOFF_MAX);
    full.mul_f64(rand::rng().random_range(0.5..=1.0))
}

impl Broker {
    /// Sleeps; true if the broker stops.
    async fn pause(&self, length: Duration) -> bool {
        tokio::select! {
            () = self.inner.stopping.cancelled() => true,
            // sleep: the backoff after a failed step; only the end of the broker cuts it short.
            () = tokio::time::sleep(length) => false,
        }
    }

    /// Decides on every task and commits; says how many changed. What somebody else changed first, or what core
    /// refuses, is left for the next step to find if it still matters.
    async fn change_due(
        &self,
        tasks: &[Task],
        decide: impl Fn(&Task) -> change::Decision,
    ) -> Result<usize, Error> {
        let due = tasks.iter().filter_map(|task| Some((task, due_transition(&task.record, decide(task))?)));
        let (due, transitions): (Vec<&Task>, Vec<Transition>) = due.unzip();
        let committed = self.commit(transitions).await?;
        let done = due.into_iter().zip(&committed).filter(|(_, it)| matches!(it, Committed::Done(_)));
        let done: Vec<&Record> = done.map(|(task, _)| &task.record).collect();
        for record in &done {
            if let State::Running(lease) = &record.state {
                self.inner.workers.lost(&lease.worker, &record.id, lease.token);
            }
        }
        Ok(done.len())
    }
}

fn due_transition(
    record: &Record,
    decision: Result<Option<windlass_core::Change>, Refusal>,
) -> Option<Transition> {
    match decision {
        Ok(change) => change.map(|change| change::transition(record, change)),
        Err(refusal) => {
            tracing::debug!(task_id = %record.id, %refusal, "left alone");
            None
        }
    }
}

/// How the loops fare.
#[derive(Debug, Default)]
pub(crate) struct Loops([LoopState; ALL.len()]);

#[derive(Debug, Default)]
struct LoopState {
    /// Wall clock; 0 before the first step.
    ok_at: AtomicU64,
    failures: AtomicU64,
}

impl Loops {
    fn ok(&self, index: usize, wall: u64) {
        self.0[index].ok_at.store(wall, Ordering::Relaxed);
        self.0[index].failures.store(0, Ordering::Relaxed);
    }

    fn failed(&self, index: usize) {
        self.0[index].failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn health(&self) -> Vec<LoopHealth> {
        let health = ALL.iter().zip(&self.0).map(|(this, state)| LoopHealth {
            name: this.name,
            ok_at: Some(state.ok_at.load(Ordering::Relaxed)).filter(|at| *at > 0),
            failures: state.failures.load(Ordering::Relaxed),
        });
        health.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_sleeps_until_its_deadline_and_not_for_ever() {
        assert_eq!(Next::after(0, 0, Some(1500), 1000), Next::In(Duration::from_millis(500)));
        assert_eq!(Next::after(0, 0, None, 1000), Next::In(SLEEP_MAX));
        assert_eq!(Next::after(3, 3, Some(u64::MAX), 1000), Next::In(SLEEP_MAX));
        assert_eq!(Next::after(LOOP_STEP_MAX, 1, None, 1000), Next::Now);
        assert_eq!(Next::after(LOOP_STEP_MAX, 0, Some(0), 1000), Next::In(SLEEP_STUCK));
        assert_eq!(Next::after(0, 0, Some(0), 1000), Next::In(Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_started_again() {
        static STEPS: AtomicU64 = AtomicU64::new(0);
        static AGAIN: Notify = Notify::const_new();
        static FRAGILE: Loop = Loop {
            index: 0,
            name: "fragile",
            step: |_| {
                Box::pin(async {
                    assert!(STEPS.fetch_add(1, Ordering::SeqCst) > 0, "the first step panics on purpose");
                    AGAIN.notify_one();
                    Ok(Next::In(SLEEP_MAX))
                })
            },
            wakeup: promoter::wakeup,
        };
        let broker = crate::tests::start();
        let kept = tokio::spawn(keep(broker.clone(), &FRAGILE));
        AGAIN.notified().await;
        broker.stop().await;
        kept.await.unwrap();
    }

    #[test]
    fn backoff_grows_and_is_bounded() {
        for failures in 1..100 {
            assert!(backoff(failures) <= BACKOFF_MAX);
        }
        assert!(backoff(1) <= BACKOFF_MIN);
        assert!(backoff(20) >= BACKOFF_MAX / 2);
    }
}
