//! A list per queue, and a list per worker for the tasks that it has taken: LMOVE from one to the other is the claim.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use super::resp::{Resp, Token, command, head, word};
use crate::driver::{self, Driver, QUEUE, WAIT};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lists {
    pub(crate) addr: SocketAddr,
}

impl Driver for Lists {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { resp: Resp::open(self.addr).await?, request: Vec::new() })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let taken = format!("taken:{number}").into_bytes();
        let queue = QUEUE.as_bytes();
        let mut claim = Vec::new();
        let wait = WAIT.as_secs().to_string();
        command(&mut claim, &[b"BLMOVE", queue, &taken, b"RIGHT", b"LEFT", wait.as_bytes()]);
        for _ in 1..batch {
            command(&mut claim, &[b"LMOVE", queue, &taken, b"RIGHT", b"LEFT"]);
        }
        Ok(Worker { resp: Resp::open(self.addr).await?, batch, claim, taken, done: Vec::new() })
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
        head(&mut self.request, 2 + payloads.len());
        word(&mut self.request, b"LPUSH");
        word(&mut self.request, QUEUE.as_bytes());
        for payload in payloads {
            word(&mut self.request, payload);
        }
        self.resp.send(&self.request).await?;
        self.resp.done().await
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    resp: Resp,
    batch: usize,
    claim: Vec<u8>,
    taken: Vec<u8>,
    done: Vec<u8>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.resp.send(&self.claim).await?;
        self.done.clear();
        let mut count = 0;
        for _ in 0..self.batch {
            match self.resp.token().await? {
                Token::Bulk(payload) => {
                    start(payload);
                    count += 1;
                    if self.batch == 1 {
                        command(&mut self.done, &[b"LREM", &self.taken, b"1", payload]);
                    }
                }
                Token::Nil => {}
                other => bail!("Redis answered {other:?} to LMOVE"),
            }
        }
        if count > 0 {
            if self.batch > 1 {
                // All of them are done, and nobody else writes to this list.
                command(&mut self.done, &[b"DEL", &self.taken]);
            }
            self.resp.send(&self.done).await?;
            self.resp.done().await?;
        }
        Ok(count)
    }
}
