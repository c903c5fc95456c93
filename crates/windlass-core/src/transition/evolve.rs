//! How a record becomes its successor.

use crate::limits::ATTEMPTS_KEPT_MAX;
use crate::state::{CancelReason, Lease, State};
use crate::task::{Attempt, Checkpoint, Outcome, Record};
use crate::time::Stamp;
use crate::transition::Change;
use crate::transition::depend::distinct;

impl Record {
    /// Applies a change that was decided on this very revision. `order` is the store's next number: it becomes the
    /// task's place in line if [`Change::takes_place`]. A task that was given back or lost keeps its place.
    pub fn evolve(&mut self, change: &Change, order: u64) {
        self.revision += 1;
        self.updated_at = change.at();
        match change {
            Change::Claimed { at, token, worker, lease_ms } => {
                self.attempts += 1;
                self.started_at = Some(at.wall);
                self.progress = None;
                self.state = State::Running(Lease {
                    token: *token,
                    worker: worker.clone(),
                    lease_ms: *lease_ms,
                    started_at: at.wall,
                    expires_at: at.wall.saturating_add(*lease_ms),
                });
            }
            Change::Completed { at, result } => {
                self.end_attempt(*at, Outcome::Completed, None);
                self.error = None;
                self.result = result.clone();
                self.checkpoint = None;
                self.end(*at, State::Completed { at: at.wall });
            }
            Change::Failed { at, error, retry_at } => {
                self.end_attempt(*at, Outcome::Failed, Some(error));
                self.error = Some(error.clone());
                match retry_at {
                    Some(retry_at) => self.count_until(*at, State::Retrying { at: *retry_at }),
                    None => self.end(*at, State::DeadLetter { at: at.wall }),
                }
            }
            Change::LeaseLost { at, error, dead } => {
                self.end_attempt(*at, Outcome::Crashed, Some(error));
                // The old holder's reports are refused from here on, repeated or not.
                self.ended = None;
                self.crashes += 1;
                self.error = Some(error.clone());
                match dead {
                    true => self.end(*at, State::DeadLetter { at: at.wall }),
                    false => self.state = State::Pending,
                }
            }
            Change::Released { at, until } => {
                self.end_attempt(*at, Outcome::Released, None);
                self.attempts -= 1;
                match until {
                    Some(until) => self.count_until(*at, State::Scheduled { at: *until }),
                    None => self.state = State::Pending,
                }
            }
            Change::Cancelled { at, reason } => {
                self.end_attempt(*at, Outcome::Cancelled, None);
                self.end(*at, State::Cancelled { at: at.wall, reason: *reason });
                if *reason == CancelReason::Forgotten {
                    self.retention_ms = 0;
                }
            }
            Change::Checkpointed { at, bytes } => {
                let saved = || Box::new(Checkpoint { bytes: bytes.clone(), saved_at: at.wall });
                self.checkpoint = (!bytes.is_empty()).then(saved);
            }
            Change::Promoted { at } => {
                self.take_place(order, *at);
                self.ahead = None;
                self.state = State::Pending;
            }
            Change::Settled { at, count } => {
                let State::Blocked { open } = &mut self.state else { return };
                *open = open.saturating_sub(*count);
                if *open == 0 {
                    self.take_place(order, *at);
                    match self.scheduled_at {
                        // A delay counts from the submit, also while the task is blocked.
                        Some(start) if start > self.clock_of_state(*at) => {
                            self.state = State::Scheduled { at: start };
                        }
                        _ => {
                            self.ahead = None;
                            self.state = State::Pending;
                        }
                    }
                }
            }
            Change::Requeued { at, after } => {
                self.take_place(order, *at);
                self.attempts = 0;
                self.crashes = 0;
                self.ended = None;
                self.result = None;
                // A retry asked for after `expires_at` means that the task is wanted all the same; one before it does
                // not change by when the task has to start.
                self.expires_at = self.expires_at.filter(|expires| *expires > at.wall);
                self.ahead = None;
                self.state = State::Pending;
                self.wait_for(distinct(after));
            }
            Change::Reprioritised { at, priority } => {
                self.take_place(order, *at);
                self.priority = *priority;
            }
            Change::Moved { at, queue } => {
                self.take_place(order, *at);
                self.queue = queue.clone();
            }
            Change::Removed { .. } => {}
        }
    }

    fn take_place(&mut self, order: u64, at: Stamp) {
        self.order = order;
        self.ready_at = at.wall;
    }

    /// Enters a state that waits for a duration which began at `at`.
    fn count_until(&mut self, at: Stamp, state: State) {
        self.ahead = Some(at.ahead);
        self.state = state;
    }

    /// Enters a final state. Retention counts from `at`.
    fn end(&mut self, at: Stamp, state: State) {
        self.ahead = Some(at.ahead).filter(|ahead| *ahead != 0);
        self.state = state;
    }

    /// Closes the running attempt, if there is one.
    fn end_attempt(&mut self, at: Stamp, outcome: Outcome, error: Option<&str>) {
        let State::Running(lease) = &self.state else { return };
        if self.history.len() >= ATTEMPTS_KEPT_MAX {
            self.history.remove(0);
        }
        // Most tasks have one attempt, and each that ended keeps the room for it.
        if self.history.is_empty() {
            self.history.reserve_exact(1);
        }
        self.history.push(Attempt {
            number: self.attempts,
            worker: lease.worker.clone(),
            started_at: lease.started_at,
            ended_at: at.wall,
            outcome,
            error: error.map(Box::from),
        });
        self.ended = Some(lease.token);
        self.progress = None;
    }
}
