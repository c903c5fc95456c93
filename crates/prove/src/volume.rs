//! A broker and its store inside this process, with a clock that the proof moves: for what must be tried very often.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_broker::{Broker, ClaimRequest, Settings, Start, Submit};
use windlass_core::choice::{Mode, Queue};
use windlass_core::{Name, Payload, Priority, State, Task, TaskId, Token, limits, retry};
use windlass_store::clock::ManualClock;
use windlass_store::embedded::{EmbeddedStore, Options};
use windlass_store::{Durability, Store};

use crate::proof::Trouble;

pub(crate) const LEASE_MS: u64 = 1000;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker: Broker,
    options: Options,
}

/// Small files and small memory, so that short runs also go through rolling, checkpoints and windows.
pub(crate) fn options(dir: impl Into<PathBuf>, durability: Durability) -> Options {
    Options {
        durability,
        segment_bytes: 1 << 20,
        disk_reserve_bytes: 1 << 20,
        checkpoint_bytes: 1 << 20,
        checkpoint_interval: Duration::from_secs(5),
        window_entries: 256,
        ..Options::new(dir)
    }
}

impl World {
    pub(crate) async fn open(options: Options) -> Result<World, Trouble> {
        let clock = ManualClock::shared();
        let store = EmbeddedStore::open(options.clone(), clock.clone()).await?;
        let broker = Broker::start(store, clock.clone(), Settings::default());
        Ok(World { clock, broker, options })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.broker.store()
    }

    /// Lets time pass, and tells the loops, which do not watch this clock.
    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        let signals = self.store().signals();
        signals.leases.notify_one();
        signals.due.notify_one();
    }

    /// Ends the broker and its store and starts them on the same data, at the same time.
    pub(crate) async fn restart(&mut self) -> Result<(), Trouble> {
        self.close().await?;
        let store = EmbeddedStore::open(self.options.clone(), self.clock.clone()).await?;
        self.broker = Broker::start(store, self.clock.clone(), Settings::default());
        Ok(())
    }

    pub(crate) async fn close(&self) -> Result<(), Trouble> {
        self.broker.stop().await;
        Ok(self.store().close().await?)
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("the names of the proofs are valid")
}

pub(crate) fn id(text: &str) -> TaskId {
    TaskId::new(text).expect("the ids of the proofs are valid")
}

/// A task that may crash as often as it likes.
pub(crate) fn submit(text: &str) -> Submit {
    Submit {
        id: Some(id(text)),
        queue: name("default"),
        kind: name("volume"),
        key: None,
        payload: Payload::Json(Bytes::from(format!("{{\"is\":\"{text}\"}}"))),
        priority: Priority::default(),
        start: Start::Now,
        expires_at: None,
        retry: retry::Policy::default(),
        max_retries: limits::RETRIES_MAX,
        max_crashes: u32::MAX,
        timeout_ms: limits::TIMEOUT_MS_DEFAULT,
        retention_ms: limits::RETENTION_MS_MAX,
        metadata: Vec::new(),
        unique: None,
        fingerprint: None,
        links: None,
    }
}

pub(crate) fn claim(worker: &str, max: u32) -> ClaimRequest {
    ClaimRequest {
        worker: name(worker),
        queues: vec![Queue { name: name("default"), weight: 1 }],
        mode: Mode::Weighted,
        types: None,
        max,
        wait_ms: 0,
        lease_ms: Some(LEASE_MS),
    }
}

/// The lease of a task that was just claimed.
pub(crate) fn token(task: &Task) -> Option<Token> {
    match &task.record.state {
        State::Running(lease) => Some(lease.token),
        _ => None,
    }
}
