//! Adapts the pieces of a stream to [`Read`].

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;
use windlass_client::rest::Backup;
use windlass_store::backup::Source;

/// How many pieces the network may be ahead of the disk.
const PIECES_AHEAD: usize = 4;

/// A reader of the pieces, one after the other. Reading blocks.
#[derive(Debug)]
pub(super) struct Pieces {
    from: Origin,
    current: Bytes,
}

#[derive(Debug)]
enum Origin {
    Broker(mpsc::Receiver<io::Result<Bytes>>),
    Store(Box<dyn Source>),
}

impl Pieces {
    pub(super) fn from_broker(mut stream: Backup) -> Pieces {
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        tokio::spawn(async move {
            loop {
                let piece = match stream.next().await {
                    Ok(Some(piece)) => Ok(piece),
                    Ok(None) => return,
                    Err(error) => Err(io::Error::other(error)),
                };
                let over = piece.is_err();
                if sender.send(piece).await.is_err() || over {
                    return;
                }
            }
        });
        Pieces { from: Origin::Broker(receiver), current: Bytes::new() }
    }

    pub(super) fn from_store(source: Box<dyn Source>) -> Pieces {
        Pieces { from: Origin::Store(source), current: Bytes::new() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            let next = match &mut self.from {
                Origin::Broker(receiver) => receiver.blocking_recv().transpose()?,
                Origin::Store(source) => source.next().map_err(io::Error::other)?,
            };
            match next {
                Some(piece) => self.current = piece,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.current.len());
        buffer[..count].copy_from_slice(&self.current[..count]);
        self.current.advance(count);
        Ok(count)
    }
}

/// A writer that remembers why a write failed, because the reader of a relay only sees a failed read.
#[derive(Debug)]
pub(super) struct Noting<W> {
    pub(super) to: W,
    pub(super) refused: Option<io::Error>,
}

impl<W: Write> Noting<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            // An interrupted write is retried.
            if kind != io::ErrorKind::Interrupted {
                self.refused.get_or_insert(error);
            }
            io::Error::from(kind)
        })
    }
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.to.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.to.flush();
        self.note(done)
    }
}
