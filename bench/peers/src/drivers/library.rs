//! Windlass in library mode: a broker without an interface in this program, straight on Redis. Producers and workers share it, as
//! they would in a program of one's own.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_broker::{Broker, ClaimRequest, Finish, Settings, Start, Submit, Verdict};
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Payload, Priority, State, limits, retry};
use windlass_store::SystemClock;
use windlass_store::redis::{Options, RedisStore};

use crate::driver::{self, Driver, QUEUE, WAIT};

#[derive(Debug, Clone)]
pub(crate) struct Library {
    addr: SocketAddr,
    broker: Rc<OnceCell<Opened>>,
}

/// It stops when nobody uses it any more, whatever has become of its Redis.
#[derive(Debug)]
struct Opened(Broker);

impl Drop for Opened {
    fn drop(&mut self) {
        let broker = self.0.clone();
        tokio::spawn(async move { broker.stop().await });
    }
}

impl Library {
    pub(crate) fn at(addr: SocketAddr) -> Library {
        Library { addr, broker: Rc::default() }
    }

    async fn broker(&self) -> Result<Broker> {
        let open = || async {
            let clock = SystemClock::shared();
            let options = Options::parse(&format!("redis://{}", self.addr))?;
            let store = RedisStore::open(options, Arc::clone(&clock)).await?;
            Ok::<_, anyhow::Error>(Opened(Broker::start(store, clock, Settings::default())))
        };
        Ok(self.broker.get_or_try_init(open).await?.0.clone())
    }
}

impl Driver for Library {
    type Producer = Producer;
    type Worker = Worker;

    async fn producer(&self) -> Result<Producer> {
        Ok(Producer { broker: self.broker().await? })
    }

    async fn worker(&self, number: usize, batch: usize) -> Result<Worker> {
        let claim = ClaimRequest {
            worker: name(&format!("bench-{number}"))?,
            queues: vec![Queue { name: name(QUEUE)?, weight: 1 }],
            mode: Mode::Weighted,
            types: Some(vec![name("task")?]),
            max: batch as u32,
            wait_ms: WAIT.as_millis() as u64,
            lease_ms: None,
        };
        Ok(Worker { broker: self.broker().await?, claim })
    }
}

#[derive(Debug)]
pub(crate) struct Producer {
    broker: Broker,
}

impl driver::Producer for Producer {
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()> {
        if let [payload] = payloads {
            self.broker.submit(submit(payload)?).await?;
            return Ok(());
        }
        let tasks = payloads.iter().map(|payload| submit(payload)).collect::<Result<Vec<_>>>()?;
        for answer in self.broker.submit_batch(tasks, false).await? {
            answer?;
        }
        Ok(())
    }
}

/// As a submit that says nothing but type, queue and payload.
fn submit(payload: &[u8]) -> Result<Submit> {
    Ok(Submit {
        id: None,
        queue: name(QUEUE)?,
        kind: name("task")?,
        key: None,
        payload: Payload::Json(Bytes::copy_from_slice(payload)),
        priority: Priority::default(),
        start: Start::Now,
        expires_at: None,
        retry: retry::Policy::default(),
        max_retries: limits::RETRIES_DEFAULT,
        max_crashes: limits::CRASHES_DEFAULT,
        timeout_ms: limits::TIMEOUT_MS_DEFAULT,
        retention_ms: limits::RETENTION_MS_DEFAULT,
        metadata: Vec::new(),
        unique: None,
        fingerprint: None,
        links: None,
    })
}

#[derive(Debug)]
pub(crate) struct Worker {
    broker: Broker,
    claim: ClaimRequest,
}

impl driver::Worker for Worker {
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let tasks = self.broker.claim(self.claim.clone()).await?;
        let mut reports = Vec::with_capacity(tasks.len());
        for task in tasks {
            let State::Running(lease) = &task.record.state else { bail!("a claimed task does not run") };
            start(task.body.payload.bytes());
            let verdict = Verdict::Completed { result: None };
            reports.push(Finish { id: task.record.id.clone(), token: lease.token, verdict });
        }
        let count = reports.len();
        if count > 0 {
            for answer in self.broker.finish_all(reports).await? {
                answer?;
            }
        }
        Ok(count)
    }
}

fn name(text: &str) -> Result<Name> {
    Name::new(text).with_context(|| format!("{text} is no name"))
}
