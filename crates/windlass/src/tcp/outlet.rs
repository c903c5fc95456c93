//! Answers that go past their connection.
//!
//! A writing thread has everything that it takes to answer a submit when it has committed it. To wake the connection for it would take as
//! long as a quarter of the rest: so the answer is written and sent at once, and the connection finds out when it looks the next time, which
//! is when its client sends the next request. It is woken only if it waits for the answer, or if the socket did not take all of it.

use std::net::TcpStream;
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use rustix::net::{SendFlags, send};
use windlass_broker::{Broker, Error, Look, Told};

use super::answer;
use super::job::Job;
use crate::api::problem::Refused;

/// A buffer of answers that grew beyond this is not kept.
const BYTES_KEPT: usize = 16 * 1024;

/// What a connection hands in that way: one job at a time, and only when nothing else is under way.
#[derive(Debug)]
pub(super) struct Direct {
    broker: Broker,
    connection: Option<Waker>,
    /// Since the first job.
    outlet: Option<Arc<Outlet>>,
    under_way: bool,
}

#[derive(Debug)]
struct Outlet {
    /// A second handle.
    socket: TcpStream,
    connection: Waker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: usize,
    /// Whether the job is answered and the connection does not know.
    answered: bool,
    /// Whether the connection has something to do when it is.
    awaited: bool,
    /// What has to be sent.
    out: Vec<u8>,
}

impl Direct {
    /// `broker` is that of a writing thread, where the connection lives.
    pub(super) fn new(broker: Broker) -> Self {
        Self { broker, connection: None, outlet: None, under_way: false }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Whom to wake: always the same, as long as the connection lives here.
    pub(super) fn wakes(&mut self, connection: &Waker) {
        self.connection = Some(connection.clone());
    }

    /// Hands in a job of submits; gives back any other. `socket` makes a handle for the first.
    pub(super) fn begin(&mut self, job: Job, socket: impl FnOnce() -> Option<TcpStream>) -> Option<Job> {
        let Job::Submits(submits) = job else { return Some(job) };
        if self.outlet.is_none()
            && let Some(connection) = self.connection.take()
            && let Some(socket) = socket()
        {
            self.outlet = Some(Arc::new(Outlet { socket, connection, state: Mutex::default() }));
        }
        let Some(outlet) = &self.outlet else { return Some(Job::Submits(submits)) };
        outlet.state.lock().requests = submits.len();
        self.under_way = true;
        if let Err(error) = self.broker.submit_told(submits, outlet.clone()) {
            outlet.told(Err(error));
        }
        None
    }

    /// What is left to be sent, if the job is answered.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        let outlet = self.outlet.as_ref().filter(|_| self.under_way)?;
        let state = &mut *outlet.state.lock();
        if !std::mem::take(&mut state.answered) {
            return None;
        }
        state.awaited = false;
        self.under_way = false;
        // Mostly nothing, and the buffer stays.
        Some(if state.out.is_empty() { Vec::new() } else { std::mem::take(&mut state.out) })
    }

    /// The connection is to be woken when the job is answered.
    pub(super) fn wait(&self) {
        if let Some(outlet) = self.outlet.as_ref().filter(|_| self.under_way) {
            let mut state = outlet.state.lock();
            state.awaited = true;
            if state.answered {
                outlet.connection.wake_by_ref();
            }
        }
    }
}

impl Told for Outlet {
    fn told(&self, outcomes: Result<&mut dyn ExactSizeIterator<Item = Look<'_>>, Error>) {
        let state = &mut *self.state.lock();
        match outcomes {
            Ok(outcomes) => answer::submitted(&mut state.out, outcomes),
            Err(error) => answer::refuse_all(&mut state.out, Refused::from(error), state.requests),
        }
        // What it does not take now, and what it fails with, is for the connection to deal with.
        let sent = send(&self.socket, &state.out, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0);
        state.answered = true;
        if sent < state.out.len() {
            state.out.drain(..sent);
            state.awaited = true;
        } else if state.out.capacity() > BYTES_KEPT {
            state.out = Vec::new();
        } else {
            state.out.clear();
        }
        if state.awaited {
            self.connection.wake_by_ref();
        }
    }
}
