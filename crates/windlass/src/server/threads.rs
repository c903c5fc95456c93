//! The threads that serve frames and gRPC: each has connections and a runtime of its own, so that nothing is handed from one to another.
//!
//! Clients of frames who submit one task at a time have threads for themselves. Such a thread reads what all its clients have sent, writes it
//! to the disk as one group, and answers. Nobody is woken on the way, and where there are few cores waking takes longer
//! than everything else. It is held up while it writes: so it serves nobody but them, who wait for that anyway, and leaves it to the store
//! where the disk is slow (`Store::insert_here`).
//!
//! On a store that has a use for it every connection of frames begins there, and moves to one of the other threads with its first request of
//! another kind, or of many or large tasks at once: those gain nothing by it, and reading them is work for all cores. It moves when
//! all before that request are answered, so what a client sends stays in order.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use windlass_broker::Broker;

/// Half of the cores write, because on small machines the clients need the others. More than these would get in each other's way.
const WRITING_MAX: usize = 4;
const OTHERS_MAX: usize = 16;
/// Threads that read lists for the clients of one thread.
const BLOCKING_MAX: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Threads {
    writing: Vec<Thread>,
    others: Vec<Thread>,
    begun: AtomicUsize,
    moved: AtomicUsize,
    over: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct Thread {
    /// For what its clients submit.
    pub(crate) broker: Broker,
    runtime: Handle,
}

/// One of the threads that do not write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Other(usize);

/// A connection, until it has ended or was asked to move.
pub(crate) type Serving<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Threads {
    /// They end with this, and with them what others began there: it lives as long as the broker.
    pub(crate) fn start(broker: &Broker, frames: bool) -> io::Result<Threads> {
        let cores = available_parallelism().map_or(1, usize::from);
        let mut threads = Threads::default();
        if frames && broker.has_use_for_threads() {
            for _ in 0..(cores / 2).clamp(1, WRITING_MAX) {
                threads.writing.push(Thread::start(broker.of_writing_thread(), &threads.over)?);
            }
        }
        for _ in 0..cores.min(OTHERS_MAX) {
            threads.others.push(Thread::start(broker.of_thread(), &threads.over)?);
        }
        Ok(threads)
    }

    /// Where the next connection begins: they come in turns. None where no thread writes.
    pub(crate) fn first(&self) -> Option<&Thread> {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        self.writing.get(begun.checked_rem(self.writing.len())?)
    }

    /// Where the next one moves to.
    pub(crate) fn other(&self) -> Other {
        Other(self.moved.fetch_add(1, Ordering::Relaxed) % self.others.len())
    }

    pub(crate) fn get(&self, other: Other) -> &Thread {
        &self.others[other.0]
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Thread {
    fn start(broker: Broker, over: &CancellationToken) -> io::Result<Thread> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_MAX).build()?;
        let (handle, over) = (runtime.handle().clone(), over.clone());
        let serve = move || runtime.block_on(over.cancelled());
        std::thread::Builder::new().name("windlass-serve".to_owned()).spawn(serve)?;
        Ok(Thread { broker, runtime: handle })
    }

    /// Serves a connection there until it ends, or gives it back when it `moves`. Nothing if it panicked, which was said then.
    pub(crate) async fn serve<T: Send + 'static>(
        &self,
        mut connection: Serving<T>,
        moves: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<Result<T, Serving<T>>> {
        let there = self.runtime.spawn(async move {
            let ended = poll_fn(|cx| match connection.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if moves() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            ended.await.ok_or(connection)
        });
        there.await.ok()
    }
}
