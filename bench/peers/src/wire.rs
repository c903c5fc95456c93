//! A TCP connection that spends as little as possible: every driver that speaks its protocol by hand stands on it, so that
//! no peer is slowed down by its client.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room for an answer of the usual size; a larger one makes the buffer grow.
const ROOM: usize = 64 * 1024;
/// No line of any protocol here is longer.
const LINE_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// What was read; the part before `start` is used up.
    buffer: Vec<u8>,
    start: usize,
}

impl Wire {
    pub(crate) async fn open(addr: SocketAddr) -> Result<Wire> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: Vec::with_capacity(ROOM), start: 0 })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("send a request")
    }

    /// The next line, without its end.
    pub(crate) async fn line(&mut self) -> Result<&[u8]> {
        let mut looked = 0;
        loop {
            if let Some(at) = find_end(&self.buffer[self.start + looked..]) {
                let (from, to) = (self.start, self.start + looked + at);
                self.start = to + 2;
                return Ok(&self.buffer[from..to]);
            }
            // The first half of an end may be there already.
            looked = self.waiting().saturating_sub(1);
            if looked > LINE_MAX {
                bail!("the server sent a line of more than {LINE_MAX} bytes");
            }
            self.fill().await?;
        }
    }

    /// The next so many bytes.
    pub(crate) async fn exact(&mut self, count: usize) -> Result<&[u8]> {
        while self.waiting() < count {
            self.fill().await?;
        }
        let from = self.start;
        self.start += count;
        Ok(&self.buffer[from..from + count])
    }

    /// Everything up to and including `end`.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Result<&[u8]> {
        loop {
            let found = self.buffer[self.start..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                let from = self.start;
                self.start += at + end.len();
                return Ok(&self.buffer[from..self.start]);
            }
            if self.waiting() > LINE_MAX {
                bail!("the server sent a head of more than {LINE_MAX} bytes");
            }
            self.fill().await?;
        }
    }

    /// Waits until there is something to read. May be given up at any time without losing anything.
    pub(crate) async fn arrive(&mut self) -> Result<()> {
        if self.waiting() == 0 { self.fill().await } else { Ok(()) }
    }

    /// Bytes that were read and not yet used.
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }

    async fn fill(&mut self) -> Result<()> {
        if self.waiting() == 0 {
            self.buffer.clear();
            self.start = 0;
        } else if self.start > ROOM / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.reserve(ROOM / 2);
        match self.stream.read_buf(&mut self.buffer).await.context("read an answer")? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|&byte| byte == b'\r') {
        match bytes.get(from + at + 1) {
            Some(b'\n') => return Some(from + at),
            Some(_) => from += at + 1,
            None => return None,
        }
    }
    None
}

/// A decimal number and nothing else.
pub(crate) fn number<T: std::str::FromStr>(bytes: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok())
        .with_context(|| format!("`{}` is no number", String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_line_is_two_bytes() {
        assert_eq!(find_end(b"ab\r\ncd"), Some(2));
        assert_eq!(find_end(b"a\rb\r\n"), Some(3));
        assert_eq!(find_end(b"ab\r"), None);
        assert_eq!(find_end(b"ab\n"), None);
    }

    #[test]
    fn numbers_are_whole() {
        assert_eq!(number::<i64>(b"-12").unwrap(), -12);
        assert!(number::<u64>(b"12 ").is_err());
        assert!(number::<u64>(b"").is_err());
    }

    /// Answers arrive in pieces of any size.
    #[tokio::test]
    async fn pieces_are_put_together() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for byte in b"OK 5\r\nhello\r\nhead\r\n\r\n" {
                stream.write_all(&[*byte]).await.unwrap();
                stream.flush().await.unwrap();
            }
        });
        let mut wire = Wire::open(addr).await.unwrap();
        assert_eq!(wire.line().await.unwrap(), b"OK 5");
        assert_eq!(wire.exact(5).await.unwrap(), b"hello");
        assert_eq!(wire.line().await.unwrap(), b"");
        assert_eq!(wire.until(b"\r\n\r\n").await.unwrap(), b"head\r\n\r\n");
        server.await.unwrap();
        assert!(wire.line().await.is_err(), "the end of the stream is an error");
    }
}
