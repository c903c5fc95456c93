//! What a connection has under way, in the order of the requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use futures_util::Stream;
use futures_util::stream::FuturesOrdered;
use windlass_broker::Broker;

use super::job::Done;
use super::outlet::Direct;
use super::window::Load;
use crate::server::budget::Held;

pub(super) struct Jobs<F: Future> {
    /// For submits, in a writing thread. Only when nothing else is under way, so what it has comes first.
    direct: Option<Direct>,
    /// The only other one. Most connections never have a second one, and need nothing that tells several apart.
    only: Option<Pin<Box<F>>>,
    /// All others, when there are more than one.
    several: FuturesOrdered<Pin<Box<F>>>,
    /// The first of these, if it was done before what was handed in directly.
    early: Option<Done>,
    /// Of each.
    loads: VecDeque<Load>,
}

impl<F: Future<Output = Done>> Jobs<F> {
    pub(super) fn new() -> Self {
        Self { direct: None, only: None, several: FuturesOrdered::new(), early: None, loads: VecDeque::new() }
    }

    /// Submits are handed in directly: this is the broker of the thread.
    pub(super) fn go_directly(&mut self, broker: Broker) {
        self.direct = Some(Direct::new(broker));
    }

    /// Whom to wake for what was handed in directly.
    pub(super) fn wakes(&mut self, waker: &Waker) {
        if let Some(direct) = &mut self.direct {
            direct.wakes(waker);
        }
    }

    /// They go on in another thread. None may be under way.
    pub(super) fn move_on(&mut self) {
        self.direct = None;
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Whether one was handed in directly and not taken back.
    pub(super) fn is_direct(&self) -> bool {
        self.direct.as_ref().is_some_and(Direct::is_under_way)
    }

    /// Where the next one can be handed in directly.
    pub(super) fn direct(&mut self) -> Option<&mut Direct> {
        if self.is_busy() { None } else { self.direct.as_mut() }
    }

    /// One that was handed in directly has no future.
    pub(super) fn add(&mut self, load: Load, job: Option<F>) {
        let busy = self.is_busy();
        self.loads.push_back(load);
        match job.map(Box::pin) {
            Some(job) if busy => {
                self.several.extend(self.only.take());
                self.several.push_back(job);
            }
            only => self.only = only,
        }
    }

    /// The next one, if it is done.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Done, Load)>> {
        let direct = self.direct.as_mut().filter(|direct| direct.is_under_way());
        let done = match (direct, &mut self.only) {
            (Some(direct), _) => match direct.end() {
                Some(left) => Done::Written(left, Held::default()),
                None => {
                    // Those behind it work meanwhile.
                    if self.early.is_none()
                        && let Poll::Ready(done) = Pin::new(&mut self.several).poll_next(cx)
                    {
                        self.early = done;
                    }
                    return Poll::Pending;
                }
            },
            (None, Some(only)) => {
                let done = ready!(only.as_mut().poll(cx));
                self.only = None;
                done
            }
            (None, None) => match self.early.take() {
                Some(done) => done,
                None => match ready!(Pin::new(&mut self.several).poll_next(cx)) {
                    Some(done) => done,
                    None => return Poll::Ready(None),
                },
            },
        };
        Poll::Ready(self.loads.pop_front().map(|load| (done, load)))
    }

    /// The connection is to be woken by the answer to what was handed in directly if it `waits` for that, or something behind it does.
    pub(super) fn look_after_direct(&self, waits: bool) {
        if let Some(direct) = self.direct.as_ref().filter(|_| waits || self.loads.len() > 1) {
            direct.wait();
        }
    }
}
