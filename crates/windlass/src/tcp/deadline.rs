//! One timer for everything a connection may wait for.
//!
//! A timer for each request would be set and thrown away for each. This one is moved only when something is due earlier than
//! what it is set to; when it rings too early, it is set again.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::Limits;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The next frame.
    Idle,
    /// The rest of a frame.
    Frame,
    /// The first of the requests under way.
    Request,
}

#[derive(Debug)]
pub(super) struct Deadline {
    waiting: Waiting,
    since: Instant,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer knows whom to wake.
    armed: bool,
}

impl Deadline {
    pub(super) fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + limits.idle_timeout));
        Self { waiting: Waiting::Idle, since: now, timer, armed: false }
    }

    /// Somebody else has to be woken from now on.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Ready when the connection has waited too long. `moved` says that what it waited for came, and it waits for the next.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        waiting: Waiting,
        moved: bool,
        limits: &Limits,
    ) -> Poll<Waiting> {
        if moved || waiting != self.waiting {
            (self.waiting, self.since) = (waiting, Instant::now());
        }
        let allowed = match waiting {
            Waiting::Idle => limits.idle_timeout,
            Waiting::Frame => limits.frame_timeout,
            Waiting::Request => limits.request_timeout,
        };
        let due = self.since + allowed;
        if due < self.timer.deadline() {
            self.timer.as_mut().reset(due);
            self.armed = false;
        }
        if self.armed && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.timer.deadline() >= due {
                return Poll::Ready(waiting);
            }
            self.timer.as_mut().reset(due);
        }
        self.armed = true;
        Poll::Pending
    }
}
