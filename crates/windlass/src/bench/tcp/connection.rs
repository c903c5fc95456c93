//! A client of the frames that spends as little as possible: prepared requests out, and of the answers only type and length.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_proto::tcp::{HEAD_BYTES, Head, Kind};

use crate::bench::Error;

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the next answer begins in the buffer.
    next: usize,
}

impl Connection {
    pub(super) async fn open(addr: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(64 * 1024), next: 0 })
    }

    /// Sends one or more whole frames.
    pub(super) async fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        // Everything before was answered.
        self.buffer.clear();
        self.next = 0;
        self.stream.write_all(frames).await
    }

    /// The JSON of the next answer, which must have this type.
    pub(super) async fn answer(&mut self, call: &'static str, kind: Kind) -> Result<&[u8], Error> {
        let failed = |source| Error::Io { action: "read an answer", source };
        let head = loop {
            let rest = &self.buffer[self.next..];
            match Head::read(rest) {
                Some(head) if rest.len() >= head.frame_bytes() => break head,
                _ => self.fill().await.map_err(failed)?,
            }
        };
        let body = self.next + HEAD_BYTES..self.next + head.frame_bytes();
        self.next = body.end;
        let body = &self.buffer[body];
        if head.kind == Some(kind as u8) {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
        Err(Error::Status { call, status: head.kind.unwrap_or_default().into(), body: text })
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
