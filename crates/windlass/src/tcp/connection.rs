//! One connection, as a state machine that is polled: read, cut into frames, run, answer, write, until nothing moves any more.

mod receive;
mod send;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net;
use std::pin::pin;
use std::sync::Arc;
use std::task::{self, Poll};

use axum::http::StatusCode;
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use windlass_broker::{Broker, Error};
use windlass_core::limits::FRAMES_IN_FLIGHT_MAX;
use windlass_proto::tcp::{Head, take};

use super::deadline::{Deadline, Waiting};
use super::job::{Done, Job};
use super::jobs::Jobs;
use super::window::Load;
use super::{Limits, Stopping, request};
use crate::api::State;
use crate::api::problem::Refused;
use crate::server::budget::{Account, Held, Purse};
use crate::server::gone::Watch;
use crate::server::stall::Stall;

/// Room for reading that an idle connection keeps: a few usual requests.
const READ_BYTES_MIN: usize = 4 * 1024;
/// What one read may take from a client that has much to say.
const READ_BYTES_MAX: usize = 64 * 1024;
/// A buffer of answers that grew beyond this is not kept.
pub(super) const WRITE_BYTES_KEPT: usize = 64 * 1024;

pub(super) struct Connection<'a, S, R, F: Future> {
    stream: Stall<S>,
    state: &'a State,
    limits: &'a Limits,
    stopping: &'a Stopping,
    /// What it holds of the memory budget.
    purse: Purse,
    run: R,
    input: BytesMut,
    read_bytes: usize,
    /// Whether more frames are taken; not after the end of the stream, of the server, or of understanding each other.
    open: bool,
    /// Whether the next frame is there and must wait for room.
    full: bool,
    /// Which jobs are begun here.
    here: fn(&Job) -> bool,
    /// The first one that is not, and all after it: the window bounds them like those under way.
    held: VecDeque<(Job, Load)>,
    jobs: Jobs<F>,
    /// Of all jobs.
    load: Load,
    /// Makes another handle of the socket.
    handle: fn(&S) -> Option<net::TcpStream>,
    out: Vec<u8>,
    sent: usize,
    /// What the large answers in `out` take of the memory budget.
    written: Vec<Held>,
    deadline: Deadline,
    /// Whether the client has closed its side, seen while nothing is read.
    watch: Watch,
    gone: CancellationToken,
}

/// What a connection is served with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) state: &'a State,
    pub(super) limits: &'a Limits,
    pub(super) stopping: &'a Stopping,
    pub(super) account: &'a Arc<Account>,
}

/// What a round of polling moved.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    admitted: bool,
    answered: bool,
}

impl<R, F: Future<Output = Done>> Connection<'_, TcpStream, R, F> {
    /// Lives in a writing thread, whose broker this is.
    pub(super) fn write_with(&mut self, broker: Broker) {
        self.jobs.go_directly(broker);
    }

    /// Has this runtime watch the socket instead of the one that did, which costs a detour for everything that comes.
    pub(super) fn come_here(&mut self) -> io::Result<()> {
        self.jobs.move_on();
        self.deadline.disarm();
        self.watch = Watch::default();
        let socket = self.stream.get_mut();
        let handle = (self.handle)(socket).ok_or_else(|| io::Error::other("no descriptor to spare"))?;
        *socket = TcpStream::from_std(handle)?;
        Ok(())
    }
}

impl<'a, S, R, F> Connection<'a, S, R, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Job) -> F,
    F: Future<Output = Done>,
{
    pub(super) fn new(
        stream: S,
        Context { state, limits, stopping, account }: Context<'a>,
        handle: fn(&S) -> Option<net::TcpStream>,
        run: R,
    ) -> Self {
        Self {
            stream: Stall::new(stream, limits.write_timeout).counted(account.clone()),
            state,
            limits,
            stopping,
            purse: Purse::new(account.clone()),
            run,
            input: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            open: true,
            full: false,
            here: |_| true,
            held: VecDeque::new(),
            jobs: Jobs::new(),
            load: Load::default(),
            handle,
            out: Vec::new(),
            sent: 0,
            written: Vec::new(),
            deadline: Deadline::new(limits),
            watch: Watch::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Until the client has closed its side and has every answer, or cannot be served any longer.
    pub(super) async fn serve(mut self) -> io::Result<()> {
        self.serve_while(|_| true).await.map(drop)
    }

    /// As [`Connection::serve`], or until it comes to a job that does not belong `here`, and all before it are done. Says whether it ended.
    pub(super) async fn serve_while(&mut self, here: fn(&Job) -> bool) -> io::Result<bool> {
        self.here = here;
        self.begin_held();
        let mut stopping = pin!(self.stopping.signal.cancelled());
        let mut listening = false;
        let ended = poll_fn(|cx| {
            // A task has one waker all its life, so the signal is told once; it is not free, and all connections share it.
            if !std::mem::replace(&mut listening, true) {
                let _ = stopping.as_mut().poll(cx);
                self.jobs.wakes(cx.waker());
            }
            self.poll(cx)
        });
        let ended = ended.await?;
        if ended {
            self.stream.shutdown().await?;
        }
        Ok(ended)
    }

    /// Ready with whether it ended; if not, it has to go on elsewhere.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<bool>> {
        if self.stopping.has_begun() {
            self.open = false;
        }
        if self.open && self.purse.account().is_cut() {
            self.end_with(Error::Busy.into());
        }
        loop {
            let moved = self.go_as_far_as_possible(cx)?;
            if !self.jobs.is_busy() && !self.held.is_empty() {
                return Poll::Ready(Ok(false));
            }
            if !self.open && !self.jobs.is_busy() && self.out.is_empty() {
                return Poll::Ready(Ok(true));
            }
            self.look_whether_gone(cx);
            let (waiting, moved) = match self.waits_for() {
                Waiting::Frame => (Waiting::Frame, moved.admitted),
                Waiting::Request => (Waiting::Request, moved.answered),
                Waiting::Idle => (Waiting::Idle, moved.admitted || moved.answered),
            };
            match self.deadline.poll(cx, waiting, moved, self.limits) {
                Poll::Pending => {
                    self.count_memory(cx, waiting == Waiting::Frame);
                    // An answer past this connection frees memory that only this connection gives back.
                    let counts = self.purse.is_counted();
                    self.jobs.look_after_direct(!self.open || self.full || counts || !self.held.is_empty());
                    return Poll::Pending;
                }
                Poll::Ready(Waiting::Idle) => return Poll::Ready(Ok(true)),
                Poll::Ready(Waiting::Request) => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "a request hangs")));
                }
                Poll::Ready(Waiting::Frame) => self.end_with(Refused::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_timeout",
                    "The frame came too slowly",
                )),
            }
        }
    }

    /// A client that has sent more than there is room for may be gone, and its claims would wait for nobody.
    fn look_whether_gone(&mut self, cx: &mut task::Context<'_>) {
        let socket = || (self.handle)(self.stream.get_mut());
        if self.full && !self.gone.is_cancelled() && self.watch.poll(cx, socket) {
            self.gone.cancel();
        }
    }

    fn waits_for(&self) -> Waiting {
        if self.open && !self.full && !self.input.is_empty() {
            Waiting::Frame
        } else if self.jobs.is_busy() {
            Waiting::Request
        } else {
            Waiting::Idle
        }
    }

    /// When this returns, whatever can move next has the waker.
    fn go_as_far_as_possible(&mut self, cx: &mut task::Context<'_>) -> io::Result<Moved> {
        let mut ever = Moved::default();
        loop {
            // What was answered past this connection makes room for the next.
            if self.jobs.is_direct() && self.collect(cx) {
                self.deadline.rest();
            }
            loop {
                let read = self.receive(cx)?;
                let admitted = self.admit();
                ever.admitted |= admitted;
                if !(read || admitted) {
                    break;
                }
            }
            let answered = self.collect(cx);
            ever.answered |= answered;
            let held_back = self.is_choked();
            self.flush(cx)?;
            let unchoked = held_back && !self.is_choked();
            if !(unchoked || (answered && self.full)) {
                return Ok(ever);
            }
        }
    }

    /// The client sends no more. It may still read its answers, but it is not going to work on tasks that a claim waits for.
    fn hang_up(&mut self) {
        self.gone.cancel();
        if self.input.is_empty() {
            self.open = false;
        } else {
            let title = "The last frame is not complete";
            self.end_with(Refused::new(StatusCode::BAD_REQUEST, "malformed", title));
        }
    }

    /// The last answer: what comes after it cannot be understood.
    fn end_with(&mut self, refused: Refused) {
        self.open = false;
        self.input = BytesMut::new();
        // Nothing more is read, so those behind it in line must not wait for it.
        self.purse.stop_waiting();
        let load = Load::one();
        self.load.add(load);
        self.start(Job::Refused(refused), load);
    }

    /// Takes every frame that is there and has room, joining neighbours.
    fn admit(&mut self) -> bool {
        let mut joined: Option<(Job, Load)> = None;
        let mut admitted = false;
        self.full = false;
        while self.open
            && let Some(head) = Head::read(&self.input)
        {
            let longest = self.state.settings.body_bytes_max();
            if head.length > longest {
                if let Some((job, load)) = joined.take() {
                    self.start(job, load);
                }
                self.end_with(Refused::too_large(longest));
                return true;
            }
            if self.input.len() < head.frame_bytes() {
                break;
            }
            let load = Load::of(head);
            if !self.load.has_room_for(load) {
                self.full = true;
                break;
            }
            self.load.add(load);
            admitted = true;
            let body = take(&mut self.input, head);
            let next = request::read(self.state, head.kind, body, &self.gone);
            // Of a pipeline most of what is left are requests like this one.
            let alike = (1 + self.input.len() / head.frame_bytes()).min(FRAMES_IN_FLIGHT_MAX);
            match &mut joined {
                None => joined = Some((Job::begin(next, alike), load)),
                Some((job, sum)) => match job.join(next) {
                    None => sum.add(load),
                    Some(next) => {
                        let before = joined.replace((Job::begin(next, alike), load));
                        before.into_iter().for_each(|(job, load)| self.start(job, load));
                    }
                },
            }
        }
        if let Some((job, load)) = joined {
            self.start(job, load);
        }
        admitted
    }

    /// Begins a job, unless it or one before it does not belong here.
    fn start(&mut self, job: Job, load: Load) {
        if !self.held.is_empty() || !(self.here)(&job) {
            return self.held.push_back((job, load));
        }
        self.begin(job, load);
    }

    fn begin_held(&mut self) {
        for (job, load) in std::mem::take(&mut self.held) {
            self.start(job, load);
        }
    }

    fn begin(&mut self, job: Job, load: Load) {
        let job = match self.jobs.direct() {
            Some(direct) if self.out.is_empty() => direct.begin(job, || (self.handle)(self.stream.get_mut())),
            _ => Some(job),
        };
        self.jobs.add(load, job.map(&self.run));
    }
}
