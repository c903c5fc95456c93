//! Noticing that a client has closed its side of a connection, whatever it sent before that.
//!
//! A claim that waits must end when nobody is there to work on its tasks. The end of the stream comes behind everything else that the
//! client has sent, so reading finds it too late if requests wait in the buffers. The system tells of it at once.

use std::io;
use std::net;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::descriptors;

/// Watches a socket, by a descriptor of its own. It is polled in the runtime where it was made.
#[derive(Debug)]
pub(crate) struct Gone(TcpStream);

impl Gone {
    pub(crate) fn watch(socket: impl AsFd) -> io::Result<Gone> {
        let socket: net::TcpStream = socket.as_fd().try_clone_to_owned()?.into();
        if descriptors::is_reserved(&socket) {
            return Err(io::Error::other("no descriptor to spare"));
        }
        TcpStream::from_std(socket).map(Gone)
    }

    /// Ready when the client has closed its side, or the connection failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !has_closed(&self.0) {
            if ready!(self.0.poll_read_ready(cx)).is_err() {
                break;
            }
            // What there is to read is somebody else's. The next thing that happens wakes this.
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.0.try_io(Interest::READABLE, nothing);
        }
        Poll::Ready(())
    }
}

/// A watch that begins when somebody first asks.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<Gone>);

impl Watch {
    /// Whether the client is gone. If not, the task is woken when it goes.
    pub(crate) fn poll<S: AsFd>(&mut self, cx: &mut Context<'_>, socket: impl FnOnce() -> Option<S>) -> bool {
        if self.0.is_none() {
            self.0 = socket().and_then(|socket| Gone::watch(socket).ok());
        }
        self.0.as_mut().is_some_and(|gone| gone.poll(cx).is_ready())
    }
}

fn has_closed(socket: &TcpStream) -> bool {
    let mut looked = [PollFd::new(socket, PollFlags::RDHUP)];
    let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    match poll(&mut looked, Some(&Timespec::default())) {
        Ok(_) => looked[0].revents().intersects(closed),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_end_is_noticed_behind_what_nobody_has_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut gone = Gone::watch(&server).unwrap();
        client.write_all(&[7; 10_000]).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), poll_fn(|cx| gone.poll(cx))).await;
        assert!(early.is_err(), "it is still there");
        client.shutdown().await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(60), poll_fn(|cx| gone.poll(cx))).await;
        end.expect("it has closed its side");
    }
}
