//! Answers that go past their connection.
//!
//! A writing thread has everything that it takes to answer a submit when it has committed it. To wake the connection for it would take an
//! eighth of its time: so the answer is written and sent at once, and the connection finds out when it looks the next time, which
//! is when its client sends the next request. It is woken only if it waits for the answer, or if the socket did not take all of it.

use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use rustix::net::{SendFlags, send};
use windlass_broker::{Broker, Error, Look, Told};

use super::answer;
use super::connection::WRITE_BYTES_KEPT;
use super::job::{Job, panicked};
use crate::api::problem::Refused;

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
    connection: Waker,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// A second handle; none when the connection has ended, which closes it for the client too.
    socket: Option<TcpStream>,
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
            && let Some(connection) = &self.connection
            && let Some(socket) = socket()
        {
            self.outlet = Some(Arc::new(Outlet::new(socket, connection.clone())));
        }
        let Some(outlet) = &self.outlet else { return Some(Job::Submits(submits)) };
        outlet.state.lock().requests = submits.len();
        self.under_way = true;
        match catch_unwind(AssertUnwindSafe(|| self.broker.submit_told(submits, outlet.clone()))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => outlet.told(Err(error)),
            Err(panic) => outlet.refuse(panicked(panic.as_ref())),
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

impl Drop for Direct {
    fn drop(&mut self) {
        if let Some(outlet) = &self.outlet {
            outlet.state.lock().socket = None;
        }
    }
}

impl Outlet {
    fn new(socket: TcpStream, connection: Waker) -> Self {
        let socket = Some(socket);
        let state = State { socket, requests: 0, answered: false, awaited: false, out: Vec::new() };
        Self { connection, state: Mutex::new(state) }
    }

    fn refuse(&self, refused: Refused) {
        self.answer(|out, requests| answer::refuse_all(out, refused, requests));
    }

    /// Sends what is written to a buffer for so many requests.
    fn answer(&self, write: impl FnOnce(&mut Vec<u8>, usize)) {
        let state = &mut *self.state.lock();
        let requests = state.requests;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| write(&mut state.out, requests))) {
            state.out.clear();
            answer::refuse_all(&mut state.out, panicked(panic.as_ref()), requests);
        }
        // What it does not take now, and what it fails with, is for the connection to deal with.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = state.socket.as_ref().and_then(|socket| send(socket, &state.out, flags).ok()).unwrap_or(0);
        state.answered = true;
        if sent < state.out.len() {
            state.out.drain(..sent);
            state.awaited = true;
        } else if state.out.capacity() > WRITE_BYTES_KEPT {
            state.out = Vec::new();
        } else {
            state.out.clear();
        }
        if state.awaited {
            self.connection.wake_by_ref();
        }
    }
}

impl Told for Outlet {
    fn told(&self, outcomes: Result<&mut dyn ExactSizeIterator<Item = Look<'_>>, Error>) {
        match outcomes {
            Ok(outcomes) => self.answer(|out, _| answer::submitted(out, outcomes)),
            Err(error) => self.refuse(Refused::from(error)),
        }
    }
}
