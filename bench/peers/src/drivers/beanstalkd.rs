//! beanstalkd's text protocol. A batch is as many requests in one write: the protocol has no other.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::driver::{self, Driver, QUEUE, WAIT};
use crate::wire::{Wire, number};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Beanstalkd {
    pub(crate) addr: SocketAddr,
}

impl Driver for Beanstalkd {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        let mut wire = Wire::open(self.addr).await?;
        wire.send(format!("use {QUEUE}\r\n").as_bytes()).await?;
        expect(&mut wire, "USING ").await?;
        Ok(Producer { wire, request: Vec::new() })
    }

    async fn worker(&self, _number: usize, batch: usize) -> Result<Worker> {
        let mut wire = Wire::open(self.addr).await?;
        wire.send(format!("watch {QUEUE}\r\nignore default\r\n").as_bytes()).await?;
        expect(&mut wire, "WATCHING ").await?;
        expect(&mut wire, "WATCHING ").await?;
        // The first one waits; whatever else is there by then comes with it.
        let mut reserve = format!("reserve-with-timeout {}\r\n", WAIT.as_secs());
        for _ in 1..batch {
            reserve.push_str("reserve-with-timeout 0\r\n");
        }
        Ok(Worker { wire, batch, reserve: reserve.into_bytes(), delete: Vec::new() })
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    wire: Wire,
    request: Vec<u8>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        for payload in payloads {
            // Priority, delay, and the seconds that a worker may take.
            write!(self.request, "put 0 0 120 {}\r\n", payload.len())?;
            self.request.extend_from_slice(payload);
            self.request.extend_from_slice(b"\r\n");
        }
        self.wire.send(&self.request).await?;
        for _ in payloads {
            expect(&mut self.wire, "INSERTED ").await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    wire: Wire,
    batch: usize,
    reserve: Vec<u8>,
    delete: Vec<u8>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.wire.send(&self.reserve).await?;
        self.delete.clear();
        let mut taken = 0;
        for _ in 0..self.batch {
            let Some(job) = Reserved::parse(self.wire.line().await?)? else { continue };
            write!(self.delete, "delete {}\r\n", job.id)?;
            let body = self.wire.exact(job.bytes + 2).await?;
            start(&body[..job.bytes]);
            taken += 1;
        }
        if taken > 0 {
            self.wire.send(&self.delete).await?;
            for _ in 0..taken {
                expect(&mut self.wire, "DELETED").await?;
            }
        }
        Ok(taken)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Reserved {
    id: u64,
    bytes: usize,
}

impl Reserved {
    /// Nothing when no job came in time.
    fn parse(line: &[u8]) -> Result<Option<Reserved>> {
        if line == b"TIMED_OUT" {
            return Ok(None);
        }
        let mut words = line.split(|&byte| byte == b' ');
        if words.next() != Some(b"RESERVED") {
            bail!("beanstalkd answered {}", String::from_utf8_lossy(line));
        }
        let (id, bytes) = (words.next().context("no id")?, words.next().context("no length")?);
        Ok(Some(Reserved { id: number(id)?, bytes: number(bytes)? }))
    }
}

async fn expect(wire: &mut Wire, start: &str) -> Result<()> {
    let line = wire.line().await?;
    if !line.starts_with(start.as_bytes()) {
        bail!("beanstalkd answered {}, not {start}", String::from_utf8_lossy(line));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let job = Reserved { id: 17, bytes: 200 };
        assert_eq!(Reserved::parse(b"RESERVED 17 200").unwrap(), Some(job));
        assert_eq!(Reserved::parse(b"TIMED_OUT").unwrap(), None);
    }

    #[test]
    fn other_answers_are_errors() {
        for line in ["DEADLINE_SOON", "RESERVED", "RESERVED 17", "RESERVED x 200", "OUT_OF_MEMORY", ""] {
            assert!(Reserved::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
