//! A stream per queue with one consumer group. A task that is done is acknowledged and deleted: a queue does not keep
//! everything it ever held.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use super::resp::{Resp, Token, command, head, word};
use crate::driver::{self, Driver, QUEUE, WAIT};

const GROUP: &[u8] = b"workers";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) addr: SocketAddr,
}

impl Driver for Streams {
    type Producer = Producer;
    type Worker = Worker;

    async fn prepare(&self) -> Result<()> {
        let mut request = Vec::new();
        command(&mut request, &[b"XGROUP", b"CREATE", QUEUE.as_bytes(), GROUP, b"0", b"MKSTREAM"]);
        let mut resp = Resp::open(self.addr).await?;
        resp.send(&request).await?;
        resp.done().await
    }

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { resp: Resp::open(self.addr).await?, request: Vec::new() })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let (name, count, wait) =
            (format!("worker-{number}"), batch.to_string(), WAIT.as_millis().to_string());
        let (name, count, wait) = (name.as_bytes(), count.as_bytes(), wait.as_bytes());
        let mut claim = Vec::new();
        let queue = QUEUE.as_bytes();
        let words: [&[u8]; 11] =
            [b"XREADGROUP", b"GROUP", GROUP, name, b"COUNT", count, b"BLOCK", wait, b"STREAMS", queue, b">"];
        command(&mut claim, &words);
        Ok(Worker { resp: Resp::open(self.addr).await?, claim, done: Vec::new(), ids: Vec::new() })
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    resp: Resp,
    request: Vec<u8>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        for payload in payloads {
            command(&mut self.request, &[b"XADD", QUEUE.as_bytes(), b"*", b"task", payload]);
        }
        self.resp.send(&self.request).await?;
        for _ in payloads {
            self.resp.done().await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    resp: Resp,
    claim: Vec<u8>,
    done: Vec<u8>,
    ids: Vec<Vec<u8>>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.resp.send(&self.claim).await?;
        // One stream: its name, and its entries.
        match self.resp.token().await? {
            Token::Nil => return Ok(0),
            Token::Array(1) => {}
            other => bail!("Redis answered {other:?} to XREADGROUP"),
        }
        self.array().await?;
        self.resp.done().await?;
        let count = self.array().await?;
        self.ids.clear();
        for _ in 0..count {
            self.entry(start).await?;
        }
        self.done.clear();
        head(&mut self.done, 3 + count);
        for part in [b"XACK", QUEUE.as_bytes(), GROUP] {
            word(&mut self.done, part);
        }
        self.ids.iter().for_each(|id| word(&mut self.done, id));
        head(&mut self.done, 2 + count);
        for part in [b"XDEL", QUEUE.as_bytes()] {
            word(&mut self.done, part);
        }
        self.ids.iter().for_each(|id| word(&mut self.done, id));
        self.resp.send(&self.done).await?;
        self.resp.done().await?;
        self.resp.done().await?;
        Ok(count)
    }
}

impl Worker {
    /// An id, and its one field with its value.
    async fn entry(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.array().await?;
        let Token::Bulk(id) = self.resp.token().await? else { bail!("an entry has no id") };
        self.ids.push(id.to_vec());
        self.array().await?;
        self.resp.done().await?;
        let Token::Bulk(payload) = self.resp.token().await? else { bail!("an entry has no payload") };
        start(payload);
        Ok(())
    }

    async fn array(&mut self) -> Result<usize> {
        match self.resp.token().await? {
            Token::Array(count) => Ok(count),
            other => bail!("Redis answered {other:?}, not an array"),
        }
    }
}
