//! NATS JetStream: a stream in files with the retention of a work queue, one durable pull consumer, acknowledged
//! publishing. Workers acknowledge without waiting for an answer, as NATS clients do unless told otherwise.

mod message;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use message::Message;

use crate::driver::{self, Driver, QUEUE, WAIT};
use crate::wire::Wire;

const STREAM: &str = "BENCH";
const CONSUMER: &str = "workers";
/// Tasks that all workers together may hold; the default of 1,000 would hold back batches.
const HELD_MAX: u64 = 100_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Nats {
    pub(crate) addr: SocketAddr,
}

impl Driver for Nats {
    type Producer = Producer;
    type Worker = Worker;

    async fn prepare(&self) -> Result<()> {
        let mut link = Link::open(self.addr, "setup").await?;
        let stream = format!(
            r#"{{"name":"{STREAM}","subjects":["{QUEUE}"],"retention":"workqueue","storage":"file","num_replicas":1}}"#
        );
        link.ask(&format!("$JS.API.STREAM.CREATE.{STREAM}"), &stream).await?;
        let config = format!(
            r#"{{"durable_name":"{CONSUMER}","ack_policy":"explicit","deliver_policy":"all","max_ack_pending":{HELD_MAX}}}"#
        );
        let consumer = format!(r#"{{"stream_name":"{STREAM}","config":{config}}}"#);
        link.ask(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}"), &consumer).await
    }

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { link: Link::open(self.addr, "producer").await?, request: Vec::new() })
    }

    async fn worker(&self, _number: usize, batch: usize) -> Result<Worker> {
        let link = Link::open(self.addr, "worker").await?;
        let asked = format!(r#"{{"batch":{batch},"expires":{}}}"#, WAIT.as_nanos());
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}");
        let mut pull = Vec::new();
        publish(&mut pull, &subject, &link.inbox, asked.as_bytes());
        Ok(Worker { link, batch, pull, wanted: 0, acks: Vec::new() })
    }
}

#[derive(Debug)]
struct Link {
    wire: Wire,
    /// The subject of this connection's answers.
    inbox: String,
    /// Where the latest message wants its acknowledgement; empty if nowhere.
    reply: Vec<u8>,
}

/// Gives each connection an inbox of its own.
static INBOXES: AtomicU64 = AtomicU64::new(0);

impl Link {
    async fn open(addr: SocketAddr, name: &str) -> Result<Link> {
        let inbox = format!("_INBOX.{}", INBOXES.fetch_add(1, Ordering::Relaxed));
        let mut wire = Wire::open(addr).await?;
        wire.line().await.context("read the greeting of NATS")?;
        let options = format!(
            r#"{{"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"name":"{name}"}}"#
        );
        wire.send(format!("CONNECT {options}\r\nSUB {inbox} 1\r\nPING\r\n").as_bytes()).await?;
        let answer = wire.line().await?;
        if answer != b"PONG" {
            bail!("NATS answered {}", String::from_utf8_lossy(answer));
        }
        Ok(Link { wire, inbox, reply: Vec::new() })
    }

    /// A request of the JetStream interface.
    async fn ask(&mut self, subject: &str, body: &str) -> Result<()> {
        let mut request = Vec::new();
        publish(&mut request, subject, &self.inbox, body.as_bytes());
        self.wire.send(&request).await?;
        self.confirmed().await.with_context(|| subject.to_owned())
    }

    /// An answer without an error in it.
    async fn confirmed(&mut self) -> Result<()> {
        let message = self.next().await?;
        let body = self.body(&message).await?;
        if message.status.is_some() || body.windows(8).any(|window| window == b"\"error\":") {
            bail!("NATS answered {}", String::from_utf8_lossy(body));
        }
        Ok(())
    }

    /// The head of the next message, pings aside.
    async fn next(&mut self) -> Result<Message> {
        loop {
            let line = self.wire.line().await?;
            if line == b"PING" {
                self.wire.send(b"PONG\r\n").await?;
            } else if line != b"+OK" && line != b"PONG" {
                let mut message = Message::parse(line, &mut self.reply)?;
                if message.headers > 0 {
                    message.status = Message::status(self.wire.exact(message.headers).await?);
                }
                return Ok(message);
            }
        }
    }

    async fn body(&mut self, message: &Message) -> Result<&[u8]> {
        let bytes = self.wire.exact(message.bytes + 2).await?;
        Ok(&bytes[..message.bytes])
    }
}

fn publish(request: &mut Vec<u8>, subject: &str, reply: &str, body: &[u8]) {
    write!(request, "PUB {subject} {reply} {}\r\n", body.len()).expect("a vector takes everything");
    request.extend_from_slice(body);
    request.extend_from_slice(b"\r\n");
}

#[derive(Debug)]
pub(crate) struct Producer {
    link: Link,
    request: Vec<u8>,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        for payload in payloads {
            publish(&mut self.request, QUEUE, &self.link.inbox, payload);
        }
        self.link.wire.send(&self.request).await?;
        for _ in payloads {
            self.link.confirmed().await?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    link: Link,
    batch: usize,
    pull: Vec<u8>,
    /// Messages that the last pull may still bring.
    wanted: usize,
    acks: Vec<u8>,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        if self.wanted == 0 {
            self.link.wire.send(&self.pull).await?;
            self.wanted = self.batch;
        }
        self.acks.clear();
        let mut taken = 0;
        loop {
            let message = self.link.next().await?;
            if message.status.is_some() {
                self.link.body(&message).await?;
                // The pull ended early: nothing more comes of it.
                self.wanted = 0;
                break;
            }
            if self.link.reply.is_empty() {
                bail!("a task has no subject for its acknowledgement");
            }
            for part in [&b"PUB "[..], &self.link.reply[..], b" 4\r\n+ACK\r\n"] {
                self.acks.extend_from_slice(part);
            }
            start(self.link.body(&message).await?);
            taken += 1;
            self.wanted -= 1;
            if self.wanted == 0 || self.link.wire.waiting() == 0 {
                break;
            }
        }
        if taken > 0 {
            self.link.wire.send(&self.acks).await?;
        }
        Ok(taken)
    }
}
