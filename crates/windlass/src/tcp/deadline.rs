//! One timer for everything a connection may wait for.
//!
//! A timer for each request would be set and thrown away for each. This one is moved only when something is due earlier than
//! what it is set to; when it rings too early, it is set again.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::coop::has_budget_remaining;
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

    /// The request was answered while nobody looked. The next frame is waited for since then, or since it came, which is all that is known.
    pub(super) fn rest(&mut self) {
        if self.waiting == Waiting::Request {
            self.waiting = Waiting::Idle;
        }
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
        // Without a budget the timer has only said that it will be asked again.
        self.armed = has_budget_remaining();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    /// Waits from now on for something, looks away for five seconds, and says when it is due after that.
    async fn due_after(first: Waiting, then: Waiting) -> (Waiting, u64) {
        let limits = Limits::default();
        let mut deadline = Deadline::new(&limits);
        let began = Instant::now();
        let looked = poll_fn(|cx| Poll::Ready(deadline.poll(cx, first, true, &limits))).await;
        assert!(looked.is_pending());
        tokio::time::advance(Duration::from_secs(5)).await;
        deadline.rest();
        let due = poll_fn(|cx| deadline.poll(cx, then, false, &limits)).await;
        (due, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_answered_unseen_idles_since_the_request() {
        let limits = Limits::default();
        let idle = (Waiting::Idle, limits.idle_timeout.as_secs());
        assert_eq!(due_after(Waiting::Request, Waiting::Idle).await, idle);
        // Half a frame behind the request is waited for as long as ever.
        let frame = (Waiting::Frame, limits.frame_timeout.as_secs());
        assert_eq!(due_after(Waiting::Frame, Waiting::Frame).await, frame);
    }
}
