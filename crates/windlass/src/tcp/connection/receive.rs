//! Reading, as far as there is memory for it.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use windlass_broker::Error;
use windlass_proto::tcp::Head;

use super::super::job::{Done, Job};
use super::{Connection, READ_BYTES_MAX, READ_BYTES_MIN};
use crate::server::budget::Held;

impl<S, R, F> Connection<'_, S, R, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Job) -> F,
    F: Future<Output = Done>,
{
    pub(super) fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.open || self.full {
            return Ok(false);
        }
        if !self.has_memory(cx) {
            return Ok(false);
        }
        self.make_room();
        let room = self.input.capacity() - self.input.len();
        match pin!(self.stream.read_buf(&mut self.input)).poll(cx) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(0)) => {
                self.hang_up();
                Ok(true)
            }
            Poll::Ready(Ok(bytes)) => {
                if bytes == room {
                    self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
                }
                Ok(true)
            }
        }
    }

    /// The announced length of a frame is believed only as far as its bytes have come.
    fn make_room(&mut self) {
        let so_far = self.input.len();
        if so_far == 0 && self.load.requests == 0 && self.input.capacity() > READ_BYTES_MAX {
            self.input = BytesMut::new();
            self.read_bytes = READ_BYTES_MIN;
        }
        let missing = self.missing();
        if so_far > READ_BYTES_MAX && self.input.capacity() - so_far < missing {
            // No more than that: the buffer would double by itself, and take more than the memory budget counts.
            let mut larger = BytesMut::with_capacity(so_far + missing);
            larger.extend_from_slice(&self.input);
            self.input = larger;
        }
        self.input.reserve(missing);
    }

    /// Whether the memory budget has room for the next read. A frame that has waited for it too long is refused.
    fn has_memory(&mut self, cx: &mut Context<'_>) -> bool {
        if self.input.is_empty() {
            return true;
        }
        let held = self.held_bytes();
        let frame = Head::read(&self.input).map_or(0, |head| head.frame_bytes());
        let whole = held + frame.saturating_sub(self.input.len());
        self.purse.set_reading(false);
        match self.purse.poll_set(cx, held + self.missing(), whole) {
            Poll::Ready(true) => true,
            Poll::Ready(false) => {
                self.end_with(Error::Busy.into());
                false
            }
            Poll::Pending => false,
        }
    }

    /// What the next read makes room for, if the frame is not complete.
    fn missing(&self) -> usize {
        let so_far = self.input.len();
        let missing = Head::read(&self.input).map_or(0, |head| head.frame_bytes().saturating_sub(so_far));
        missing.clamp(self.read_bytes, (so_far / 2).max(self.read_bytes))
    }

    /// What is in memory for this client: what was read, what is under way, and what was not sent yet.
    fn held_bytes(&self) -> usize {
        let written: usize = self.written.iter().map(Held::bytes).sum();
        self.input.len() + self.load.bytes + self.out.capacity().saturating_sub(written)
    }

    /// Counts that in the memory budget. `reads` says that the client owes the rest of a frame.
    pub(super) fn count_memory(&mut self, cx: &mut Context<'_>, reads: bool) {
        if !self.purse.is_waiting() {
            self.purse.set(self.held_bytes());
        }
        if self.purse.is_counted() {
            self.purse.note_reading(cx, reads && !self.purse.is_waiting());
        } else {
            self.purse.set_reading(false);
        }
    }
}
