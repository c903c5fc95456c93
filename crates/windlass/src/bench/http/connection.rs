//! A client that spends as little as possible: a kept connection, a prepared request, and of the answer only the status
//! and the length. On a machine that also runs the server, every cycle saved here is one the server gets.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bench::Error;

#[derive(Debug)]
pub(in crate::bench) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(in crate::bench) struct Answer<'a> {
    pub(in crate::bench) status: u16,
    pub(in crate::bench) body: &'a [u8],
}

impl Answer<'_> {
    /// The body, if the call succeeded.
    pub(in crate::bench) fn ok(&self, call: &'static str) -> Result<&[u8], Error> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned();
        Err(Error::Status { call, status: self.status, body })
    }
}

impl Connection {
    pub(in crate::bench) async fn open(addr: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a whole request and reads the whole answer.
    pub(in crate::bench) async fn call(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            self.fill().await?;
            if let Some(head) = Head::find(&self.buffer)? {
                break head;
            }
        };
        let end = head.bytes + head.content_length;
        self.buffer.reserve(end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < end {
            self.fill().await?;
        }
        Ok(Answer { status: head.status, body: &self.buffer[head.bytes..end] })
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: usize,
    content_length: usize,
}

impl Head {
    /// The head of an answer, when all of it is there.
    fn find(buffer: &[u8]) -> io::Result<Option<Head>> {
        let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let text = std::str::from_utf8(&buffer[..end]).map_err(|_| invalid())?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let (status, content_length) = (status.ok_or_else(invalid)?, length.ok_or_else(invalid)?);
        Ok(Some(Head { status, bytes: end + 4, content_length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let answer = b"HTTP/1.1 201 Created\r\nx: y\r\nContent-Length: 5\r\n\r\nhello";
        for length in 0..answer.len() - 5 {
            assert_eq!(Head::find(&answer[..length]).unwrap(), None, "{length}");
        }
        let head = Head { status: 201, bytes: answer.len() - 5, content_length: 5 };
        assert_eq!(Head::find(answer).unwrap(), Some(head));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in
            ["SMTP ready\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 20\r\ncontent-length: 0\r\n\r\n"]
        {
            assert!(Head::find(text.as_bytes()).is_err(), "{text}");
        }
    }
}
