//! RabbitMQ over AMQP 0-9-1: messages that survive a restart, publisher confirms, and workers that are pushed as many messages
//! as they take at a time. An acknowledgement of AMQP has no answer.

mod confirms;
mod frame;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use confirms::Confirms;
use frame::{Ack, Frame, Method};

use crate::driver::{self, Driver, QUEUE, WAIT};
use crate::wire::Wire;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RabbitMq {
    pub(crate) addr: SocketAddr,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing is kept over a restart.
    Transient,
    Durable,
    Quorum,
}

impl Driver for RabbitMq {
    type Producer = Producer;
    type Worker = Worker;

    async fn prepare(&self) -> Result<()> {
        let durable = if self.kind == Kind::Transient { 0 } else { 0b10 };
        let declare = Method::new(50, 10).u16(0).short(QUEUE).u8(durable);
        let declare = match self.kind {
            Kind::Quorum => declare.table("x-queue-type", "quorum"),
            Kind::Durable | Kind::Transient => declare.u32(0),
        };
        Channel::open(self.addr).await?.call(declare, (50, 11)).await
    }

    async fn clear(&self) -> Result<()> {
        let delete = Method::new(50, 40).u16(0).short(QUEUE).u8(0);
        Channel::open(self.addr).await?.call(delete, (50, 41)).await?;
        self.prepare().await
    }

    async fn producer(&self) -> Result<Producer> {
        let mut channel = Channel::open(self.addr).await?;
        channel.call(Method::new(85, 10).u8(0), (85, 11)).await?;
        Ok(Producer { channel, kind: self.kind, request: Vec::new(), published: 0 })
    }

    async fn worker(&self, _number: usize, batch: usize) -> Result<Worker> {
        let mut channel = Channel::open(self.addr).await?;
        let ahead = u16::try_from(batch).context("a batch is too large for RabbitMQ")?;
        channel.call(Method::new(60, 10).u32(0).u16(ahead).u8(0), (60, 11)).await?;
        let consume = Method::new(60, 20).u16(0).short(QUEUE).short("").u8(0).u32(0);
        channel.call(consume, (60, 21)).await?;
        Ok(Worker { channel, batch })
    }
}

#[derive(Debug)]
struct Channel {
    wire: Wire,
}

impl Channel {
    async fn open(addr: SocketAddr) -> Result<Channel> {
        let mut channel = Channel { wire: Wire::open(addr).await? };
        channel.wire.send(b"AMQP\x00\x00\x09\x01").await?;
        channel.expect((10, 10)).await?;
        let start = Method::new(10, 11).u32(0).short("PLAIN").long(b"\0guest\0guest").short("en_US");
        channel.wire.send(&start.frame(0)).await?;
        channel.expect((10, 30)).await?;
        // One channel, frames of 128 kB, no heartbeats.
        let tune = Method::new(10, 31).u16(1).u32(131_072).u16(0);
        channel.wire.send(&tune.frame(0)).await?;
        channel.wire.send(&Method::new(10, 40).short("/").short("").u8(0).frame(0)).await?;
        channel.expect((10, 41)).await?;
        channel.call(Method::new(20, 10).short(""), (20, 11)).await?;
        Ok(channel)
    }

    async fn call(&mut self, method: Method, answer: (u16, u16)) -> Result<()> {
        self.wire.send(&method.frame(1)).await?;
        self.expect(answer).await
    }

    async fn expect(&mut self, answer: (u16, u16)) -> Result<()> {
        match self.next().await? {
            Frame::Method { id, .. } if id == answer => Ok(()),
            Frame::Method { id, arguments } => {
                let words = String::from_utf8_lossy(&arguments).into_owned();
                bail!("RabbitMQ answered {id:?}, not {answer:?}: {words}")
            }
            Frame::Content(_) => bail!("RabbitMQ sent a message, not {answer:?}"),
        }
    }

    /// The next method or piece of a message.
    async fn next(&mut self) -> Result<Frame> {
        loop {
            let head = frame::Head::parse(self.wire.exact(7).await?)?;
            let body = self.wire.exact(head.bytes + 1).await?;
            if let Some(frame) = head.read(body)? {
                return Ok(frame);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    channel: Channel,
    kind: Kind,
    request: Vec<u8>,
    /// The server numbers what is published on a channel from one on.
    published: u64,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        self.request.clear();
        for payload in payloads {
            let publish = Method::new(60, 40).u16(0).short("").short(QUEUE).u8(0);
            self.request.extend_from_slice(&publish.frame(1));
            frame::content(&mut self.request, payload, self.kind != Kind::Transient);
        }
        self.channel.wire.send(&self.request).await?;
        let mut confirms = Confirms::new(self.published, payloads.len());
        self.published += payloads.len() as u64;
        while confirms.missing > 0 {
            let Frame::Method { id, arguments } = self.channel.next().await? else {
                bail!("RabbitMQ sent a message to a producer");
            };
            if id != (60, 80) {
                bail!("RabbitMQ answered {id:?} to a message: {}", String::from_utf8_lossy(&arguments));
            }
            confirms.note(&Ack::parse(&arguments)?);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    channel: Channel,
    batch: usize,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let mut tag = 0;
        let mut taken = 0;
        // The first message may take its time; the others are taken if they are here.
        while taken == 0 || (taken < self.batch && self.channel.wire.waiting() > 0) {
            match tokio::time::timeout(WAIT, self.channel.wire.arrive()).await {
                Ok(arrived) => arrived?,
                Err(_) => break,
            }
            match self.channel.next().await? {
                Frame::Method { id: (60, 60), arguments } => tag = frame::delivery_tag(&arguments)?,
                Frame::Content(body) => {
                    start(&body);
                    taken += 1;
                }
                Frame::Method { id, .. } => bail!("RabbitMQ sent {id:?} to a worker"),
            }
        }
        if taken > 0 {
            // This message and all before it.
            self.channel.wire.send(&Method::new(60, 80).u64(tag).u8(1).frame(1)).await?;
        }
        Ok(taken)
    }
}
