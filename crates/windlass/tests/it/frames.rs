//! A small client of the TCP frames that does as it is told: it also sends what no well-behaved client would.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub(crate) const SUBMIT: u8 = 1;
pub(crate) const CLAIM: u8 = 2;
pub(crate) const RESULT: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 4;
pub(crate) const ACK: u8 = 5;
pub(crate) const NACK: u8 = 6;
pub(crate) const STATUS: u8 = 7;
pub(crate) const CANCEL: u8 = 8;
pub(crate) const LIST: u8 = 9;
pub(crate) const STATS: u8 = 10;

#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kind: u8,
    pub(crate) body: Value,
}

pub(crate) fn frame(kind: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut frame = (body.len() as u32 + 1).to_be_bytes().to_vec();
    frame.push(kind);
    frame.extend_from_slice(body);
    frame
}

impl Frames {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn call(&mut self, kind: u8, body: impl AsRef<[u8]>) -> Answer {
        self.send(&frame(kind, body));
        self.read()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn read(&mut self) -> Answer {
        self.try_read().unwrap()
    }

    pub(crate) fn try_read(&mut self) -> io::Result<Answer> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 1];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { kind: head[4], body: serde_json::from_slice(&body).unwrap() })
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_sending(&mut self) {
        self.stream.get_mut().shutdown(Shutdown::Write).unwrap();
    }

    /// Whether the server closes the connection without another answer.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.kind, ACK, "{}", self.body);
        self.body
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!(self.kind, NACK, "{}", self.body);
        assert_eq!(
            (&self.body["status"], &self.body["code"]),
            (&status.into(), &code.into()),
            "{}",
            self.body
        );
        self.body
    }
}
