//! What every system under test can do. Each driver is compiled for itself (no boxed futures), and all of them run on the
//! same single-threaded runtime.

use std::time::Duration;

use anyhow::Result;

pub(crate) const QUEUE: &str = "bench";
/// How long a worker waits for a task at most before it asks again; the longest wait that all systems offer in whole
/// seconds.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// A server that is ready, seen from its clients.
pub(crate) trait Driver: Clone + 'static {
    type Producer: Producer + 'static;
    type Worker: Worker + 'static;

    /// Makes the queue, where queues must be made.
    async fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Empties the queue, where a new server takes too long to start.
    async fn clear(&self) -> Result<()> {
        anyhow::bail!("only a new server is empty")
    }

    async fn producer(&self) -> Result<Self::Producer>;

    /// A worker that takes up to `batch` tasks at a time.
    async fn worker(&self, number: usize, batch: usize) -> Result<Self::Worker>;
}

pub(crate) trait Producer {
    /// Submits one task per payload and returns when the server has confirmed all of them. More than one payload goes out in
    /// the way that is fastest for the system.
    async fn submit(&mut self, payloads: &[&[u8]]) -> Result<()>;
}

pub(crate) trait Worker {
    /// Takes tasks, shows the payload of each to `start`, reports them done, and says how many there were: zero when none came
    /// within [`WAIT`].
    async fn turn(&mut self, start: &mut dyn FnMut(&[u8])) -> Result<usize>;
}
