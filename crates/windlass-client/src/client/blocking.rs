//! The producer for programs without an async runtime.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use windlass_core::TaskId;

use super::{Batch, Submit, Submitted, Task};
use crate::error::Error;

/// [`crate::Client`] with calls that wait. It has a thread of its own for its connection; do not use it inside an async
/// function, where waiting would stop everybody else.
#[derive(Debug)]
pub struct Client {
    pub(super) inner: super::Client,
    pub(super) runtime: Runtime,
}

impl Client {
    /// Over gRPC; `address` as `http://127.0.0.1:9090`.
    pub fn connect(address: &str) -> Result<Self, Error> {
        let runtime = runtime()?;
        let inner = {
            let _inside = runtime.enter();
            super::Client::connect(address)?
        };
        Ok(Self { inner, runtime })
    }

    /// Over REST; `address` as `http://127.0.0.1:8080`.
    pub fn rest(address: &str) -> Result<Self, Error> {
        Ok(Self { inner: super::Client::rest(address)?, runtime: runtime()? })
    }

    /// Straight on a broker in the same process, which has a runtime of its own.
    #[cfg(any(test, feature = "embedded"))]
    pub fn embedded(broker: windlass_broker::Broker) -> Result<Self, Error> {
        Ok(Self { inner: super::Client::embedded(broker), runtime: runtime()? })
    }

    /// See [`crate::Client::patience`].
    pub fn patience(mut self, patience: Duration) -> Self {
        self.inner = self.inner.patience(patience);
        self
    }

    pub fn submit(&self, submit: Submit) -> Result<Submitted, Error> {
        self.runtime.block_on(self.inner.submit(submit))
    }

    pub fn submit_batch(&self, batch: &[Submit]) -> Result<Batch, Error> {
        self.runtime.block_on(self.inner.submit_batch(batch))
    }

    pub fn submit_all(&self, batch: &[Submit]) -> Result<Vec<Submitted>, Error> {
        self.runtime.block_on(self.inner.submit_all(batch))
    }

    pub fn task(&self, id: &TaskId) -> Result<Task, Error> {
        self.runtime.block_on(self.inner.task(id))
    }

    pub fn wait(&self, id: &TaskId, wait: Duration) -> Result<Task, Error> {
        self.runtime.block_on(self.inner.wait(id, wait))
    }

    pub fn result<T: DeserializeOwned>(&self, id: &TaskId, wait: Duration) -> Result<T, Error> {
        self.runtime.block_on(self.inner.result(id, wait))
    }
}

fn runtime() -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("windlass-client")
        .enable_all()
        .build()
        .map_err(|error| Error::Unreachable { detail: format!("cannot start a thread: {error}") })
}
