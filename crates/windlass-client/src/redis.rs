//! Library mode: producers and workers straight on Redis, with no broker to run.
//!
//! A broker is a library too. [`Library`] starts one in this process, without an interface, on a Redis that it shares with
//! other processes like it and with brokers of the usual kind, which show what it does. Delays, retries, leases and schedules
//! are looked after by whichever of them leads.

use std::sync::Arc;

use windlass_broker::{Broker, Settings};
use windlass_store::redis::{self, Options};
use windlass_store::{Error, SystemClock};

use crate::client::Client;
use crate::worker::embedded::BrokerPort;
use crate::worker::{Builder, Worker};

/// A broker in this process, on Redis. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Library {
    broker: Broker,
}

impl Library {
    /// Connects to `redis://[user:password@]host[:port][/database][?prefix=word]`, or to `redis+sentinel://…` or
    /// `redis+cluster://…`, see `docs/stores.md`. Must be called inside a tokio runtime.
    pub async fn open(url: &str) -> Result<Library, Error> {
        let clock = SystemClock::shared();
        let store = redis::open(Options::parse(url)?, Arc::clone(&clock)).await?;
        Ok(Library { broker: Broker::start(store, clock, Settings::default()) })
    }

    pub fn client(&self) -> Client {
        Client::embedded(self.broker.clone())
    }

    /// A worker that has yet to be given its handlers.
    pub fn worker(&self) -> Builder {
        Worker::builder(BrokerPort::new(self.broker.clone()))
    }

    /// Stops what runs by itself and lets another process lead. Stop the workers first.
    pub async fn stop(self) -> Result<(), Error> {
        self.broker.stop().await;
        self.broker.store().close().await
    }
}
