//! Writing down the answers and sending them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use windlass_core::limits::FRAME_ANSWERS_BYTES_MAX;

use super::super::answer;
use super::super::job::{Done, Job};
use super::{Connection, WRITE_BYTES_KEPT};

impl<S, R, F> Connection<'_, S, R, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    R: Fn(Job) -> F,
    F: Future<Output = Done>,
{
    /// Whether enough answers wait for the client to read them.
    pub(super) fn is_choked(&self) -> bool {
        self.out.len() - self.sent >= FRAME_ANSWERS_BYTES_MAX
    }

    /// Writes down the answers whose turn it is.
    pub(super) fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        let mut answered = false;
        while !self.is_choked() {
            let Poll::Ready(Some((mut done, load))) = self.jobs.poll(cx) else { break };
            self.load.take(load);
            self.written.extend(done.take_held());
            answer::write(&mut self.out, done);
            answered = true;
        }
        answered
    }

    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.sent < self.out.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.out[self.sent..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => self.sent += bytes,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    if self.sent >= FRAME_ANSWERS_BYTES_MAX {
                        self.out.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
            }
        }
        self.sent = 0;
        self.out.clear();
        self.written.clear();
        if self.out.capacity() > WRITE_BYTES_KEPT {
            self.out = Vec::new();
        }
        Ok(())
    }
}
