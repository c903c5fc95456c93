//! A stream whose writes must make progress, and whose end does not swallow the last answer.
//!
//! Closing a socket while the client still sends resets the connection, and a reset may overtake the answer that explains
//! the close (a body that is too large, a head that never ends). So after the last byte the stream reads on for a short
//! while and throws away what comes, until the client closes too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::Place;
use super::budget::Account;

/// How long a client may go on sending after the last answer.
const LINGER: Duration = Duration::from_millis(500);

/// Fails a write or flush that made no progress for the time allowed, or whose memory is needed. Reads pass through.
#[derive(Debug)]
pub(crate) struct Stall<S> {
    stream: S,
    allowed: Duration,
    /// Runs while a write waits; kept between waits, because most writes never do.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
    /// Runs once the writing side is closed.
    lingering: Option<Pin<Box<Sleep>>>,
    /// What it holds of the memory budget.
    account: Option<Arc<Account>>,
    /// Whether a cut ends the reading too.
    ends: bool,
    /// What it takes up among the connections, for as long as it is open: a WebSocket takes the stream away from its server.
    _place: Option<Place>,
}

impl<S> Stall<S> {
    pub(crate) fn new(stream: S, allowed: Duration) -> Self {
        Self {
            stream,
            allowed,
            timer: None,
            waiting: false,
            lingering: None,
            account: None,
            ends: false,
            _place: None,
        }
    }

    /// At this place. A client that is cut while it reads gets an answer first.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { account: Some(Arc::clone(&place.account)), _place: Some(place), ..self }
    }

    /// Counts on this account what is read and written.
    pub(crate) fn counted(self, account: Arc<Account>) -> Self {
        Self { account: Some(account), ..self }
    }

    /// Ends at once when it is cut, whatever it was doing.
    pub(crate) fn ending(self) -> Self {
        Self { ends: true, ..self }
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Of something that was written in so many bytes.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = &polled {
            if let Some(account) = &self.account {
                account.note_moved(written.as_ref().map_or(0, bytes));
                if self.waiting {
                    account.note_writing(None);
                }
            }
            self.waiting = false;
            return polled;
        }
        if let Some(account) = &self.account {
            account.note_writing(Some(cx.waker()));
            if account.is_cut_writing() {
                return Poll::Ready(Err(cut()));
            }
        }
        let until = Instant::now() + self.allowed;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(until);
        }
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "memory is short, and the client is slow")
}

impl<S: AsyncRead + Unpin> Stall<S> {
    /// Ready when the client has closed or the time is over.
    fn discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.as_mut().is_none_or(|timer| timer.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(account) = &self.account {
            if polled.is_ready() {
                account.note_moved(buffer.filled().len() - before);
            } else if self.ends {
                account.wakes(cx.waker());
                if account.is_cut() {
                    return Poll::Ready(Err(cut()));
                }
            }
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, polled, |bytes| *bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.judge(cx, polled, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.judge(cx, polled, |()| 0))?;
            self.lingering = Some(Box::pin(tokio::time::sleep(LINGER)));
        }
        self.discard(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_given_up_and_a_slow_one_is_not() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Stall::new(near, Duration::from_secs(5));
        let slow = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..8 {
                // sleep: simulated time, the pauses of a slow reader.
                tokio::time::sleep(Duration::from_secs(4)).await;
                far.read_exact(&mut byte).await.unwrap();
            }
            far
        });
        near.write_all(b"twelve bytes").await.unwrap();
        let _far = slow.await.unwrap();
        let error = near.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_a_client_that_still_sends_but_not_for_ever() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Stall::new(near, Duration::from_secs(5));
        let sending = tokio::spawn(async move {
            far.write_all(b"far more than fits").await.unwrap();
            far.shutdown().await.unwrap();
        });
        near.shutdown().await.unwrap();
        sending.await.unwrap();

        let (near, _silent) = tokio::io::duplex(4);
        let mut near = Stall::new(near, Duration::from_secs(5));
        near.shutdown().await.unwrap();
    }
}
