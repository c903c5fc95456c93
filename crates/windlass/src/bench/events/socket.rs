//! The least of a WebSocket client: it asks, reads messages, and answers nothing but pings.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
/// A pong without content, masked with zeros as a client must.
const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
/// More than any event.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    pings: usize,
}

impl Socket {
    pub(super) async fn open(addr: SocketAddr, query: &str) -> io::Result<Socket> {
        let mut stream = TcpStream::connect(addr).await?;
        let head = format!(
            "GET /ws{query} HTTP/1.1\r\nhost: {addr}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let mut socket = Socket { stream, buffer: Vec::with_capacity(4096), pings: 0 };
        loop {
            socket.fill().await?;
            if let Some(end) = socket.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                if !socket.buffer.starts_with(b"HTTP/1.1 101") {
                    let answer = String::from_utf8_lossy(&socket.buffer).into_owned();
                    return Err(io::Error::other(answer));
                }
                socket.buffer.drain(..end + 4);
                return Ok(socket);
            }
        }
    }

    /// Waits for more. May be dropped and called again.
    pub(super) async fn read(&mut self) -> io::Result<()> {
        while self.pings > 0 {
            self.pings -= 1;
            self.stream.write_all(&PONG).await?;
        }
        self.fill().await
    }

    /// Shows every message that has arrived.
    pub(super) fn take(&mut self, mut hear: impl FnMut(&[u8])) -> io::Result<()> {
        let mut begin = 0;
        while let Some((kind, content, end)) = frame(&self.buffer[begin..])? {
            match kind {
                TEXT => hear(&self.buffer[begin + content..begin + end]),
                PING => self.pings += 1,
                CLOSE => return Err(io::ErrorKind::ConnectionAborted.into()),
                _ => {}
            }
            begin += end;
        }
        self.buffer.drain(..begin);
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The kind of the first frame, where its content begins and where it ends; `None` if it is not all there.
fn frame(bytes: &[u8]) -> io::Result<Option<(u8, usize, usize)>> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (content, length) = match second & 0x7f {
        126 => match rest {
            [a, b, ..] => (4, u64::from(u16::from_be_bytes([*a, *b]))),
            _ => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(length) => (10, u64::from_be_bytes(*length)),
            None => return Ok(None),
        },
        short => (2, u64::from(short)),
    };
    if length > MESSAGE_BYTES_MAX || second & 0x80 != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let end = content + length as usize;
    Ok((bytes.len() >= end).then_some((first & 0x0f, content, end)))
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn frames_are_cut_out_of_what_came() {
        assert_eq!(frame(&[0x81]).unwrap(), None);
        assert_eq!(frame(&[0x81, 2, b'h']).unwrap(), None);
        assert_eq!(frame(&[0x81, 2, b'h', b'i', 0x89]).unwrap(), Some((1, 2, 4)));
        assert_eq!(frame(&[0x89, 0]).unwrap(), Some((9, 2, 2)));
        let long = [&[0x81, 126, 1, 0][..], &[0; 256]].concat();
        assert_eq!(frame(&long).unwrap(), Some((1, 4, 260)));
        assert_eq!(frame(&long[..3]).unwrap(), None);
        assert_eq!(frame(&[0x81, 127, 0, 0, 0, 0, 0, 0, 0]).unwrap(), None);
        assert!(frame(&[0x81, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(frame(&[0x81, 0x82, 0, 0, 0, 0]).is_err(), "a server does not mask");
    }
}
