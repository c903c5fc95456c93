//! How a record becomes its successor.

use crate::limits::ATTEMPTS_KEPT_MAX;
use crate::state::{CancelReason, Lease, State};
use crate::task::{Attempt, Checkpoint, Outcome, Record};
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
                self.started_at = Some(*at);
                self.progress = None;
                self.state = State::Running(Lease {
                    token: *token,
                    worker: worker.clone(),
                    lease_ms: *lease_ms,
                    started_at: *at,
                    expires_at: at.saturating_add(*lease_ms),
                });
            }
            Change::Completed { at, result } => {
                self.end_attempt(*at, Outcome::Completed, None);
                self.error = None;
                self.result = result.clone();
                self.checkpoint = None;
                self.state = State::Completed { at: *at };
            }
            Change::Failed { at, error, retry_at } => {
                self.end_attempt(*at, Outcome::Failed, Some(error));
                self.error = Some(error.clone());
                self.state = match retry_at {
                    Some(at) => State::Retrying { at: *at },
                    None => State::DeadLetter { at: *at },
                };
            }
            Change::LeaseLost { at, error, dead } => {
                self.end_attempt(*at, Outcome::Crashed, Some(error));
                // The old holder's reports are refused from here on, repeated or not.
                self.ended = None;
                self.crashes += 1;
                self.error = Some(error.clone());
                self.state = if *dead { State::DeadLetter { at: *at } } else { State::Pending };
            }
            Change::Released { at, until } => {
                self.end_attempt(*at, Outcome::Released, None);
                self.attempts -= 1;
                self.state = match until {
                    Some(at) => State::Scheduled { at: *at },
                    None => State::Pending,
                };
            }
            Change::Cancelled { at, reason } => {
                self.end_attempt(*at, Outcome::Cancelled, None);
                self.state = State::Cancelled { at: *at, reason: *reason };
                if *reason == CancelReason::Forgotten {
                    self.retention_ms = 0;
                }
            }
            Change::Checkpointed { at, bytes } => {
                let saved = || Box::new(Checkpoint { bytes: bytes.clone(), saved_at: *at });
                self.checkpoint = (!bytes.is_empty()).then(saved);
            }
            Change::Promoted { at } => {
                self.take_place(order, *at);
                self.state = State::Pending;
            }
            Change::Settled { at, count } => {
                let State::Blocked { open } = &mut self.state else { return };
                *open = open.saturating_sub(*count);
                if *open == 0 {
                    self.take_place(order, *at);
                    self.state = match self.scheduled_at {
                        Some(start) if start > *at => State::Scheduled { at: start },
                        _ => State::Pending,
                    };
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
                self.expires_at = self.expires_at.filter(|expires| expires > at);
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

    fn take_place(&mut self, order: u64, at: u64) {
        self.order = order;
        self.ready_at = at;
    }

    /// Closes the running attempt, if there is one.
    fn end_attempt(&mut self, at: u64, outcome: Outcome, error: Option<&str>) {
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
            ended_at: at,
            outcome,
            error: error.map(Box::from),
        });
        self.ended = Some(lease.token);
        self.progress = None;
    }
}
