//! The figures of every second, while somebody wants them; and the end of recording when nobody has listened for long.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::limits::EVENT_QUEUES_MAX;
use windlass_core::{Name, StateName};
use windlass_store::QueueCounts;

use super::{Event, EventData, EventKind};
use crate::broker::Broker;
use crate::error::Error;
use crate::process::Process;

const EVERY: Duration = Duration::from_secs(1);
/// Figures take at most one part in this many of the time, however many queues there are.
const SHARE: u32 = 50;

#[derive(Debug, Clone, PartialEq)]
pub struct QueueDepth {
    pub queue: Name,
    /// By [`StateName::index`].
    pub by_state: [u64; 8],
    /// Of the oldest pending task, where a store knows it without a search.
    pub oldest_pending_ms: Option<u64>,
    pub paused: bool,
}

/// Totals grow while the broker runs; what lies between two of them is a rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SystemFigures {
    pub submitted: u64,
    /// Attempts since the broker started.
    pub started: u64,
    pub completed: u64,
    /// Attempts, lost leases included.
    pub failed: u64,
    /// By a failure, a lost lease or a person, since the broker started.
    pub retried: u64,
    pub dead_lettered: u64,
    /// Expired ones included.
    pub cancelled: u64,
    pub workers: usize,
    pub running: u64,
    pub pending: u64,
    pub memory_bytes: Option<u64>,
    /// 100 is one core.
    pub cpu_percent: Option<f64>,
}

/// Runs until the broker stops.
pub(crate) async fn tell_figures(broker: Broker) {
    let feed = &broker.inner.events;
    let mut processor = Processor::default();
    loop {
        let wanted = feed.seats.lock().figures > 0;
        let began = Instant::now();
        if wanted && let Err(error) = broker.publish_figures(&mut processor).await {
            tracing::debug!(%error, "the figures of this second are missing");
        }
        let next = if wanted { Some(began + EVERY.max(began.elapsed() * SHARE)) } else { feed.fall_silent() };
        tokio::select! {
            () = broker.inner.stopping.cancelled() => return,
            // sleep: until the next second, or until events need not be kept any more.
            () = sleep_until(next) => {}
            // Whoever comes first gets figures at once; for the others the second goes on.
            () = feed.turnstile.notified(), if !wanted => {}
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Broker {
    async fn publish_figures(&self, processor: &mut Processor) -> Result<(), Error> {
        let feed = &self.inner.events;
        let queues = self.inner.store.depths().await?;
        let ledger = self.inner.store.ledger().await?;
        let (meters, ()) = self.inner.counters.meters(|_| ());
        let process = Process::look();
        let now = self.now();
        let sum = |state: StateName| queues.iter().map(|queue| queue.by_state[state.index()]).sum();
        let figures = SystemFigures {
            submitted: ledger.submitted,
            started: meters.started,
            completed: ledger.completed,
            failed: ledger.failed + ledger.crashed,
            retried: meters.retries.total(),
            dead_lettered: ledger.dead_lettered,
            cancelled: ledger.cancelled + ledger.expired,
            workers: self.inner.workers.active(now),
            running: sum(StateName::Running),
            pending: sum(StateName::Pending),
            memory_bytes: process.resident_bytes,
            cpu_percent: processor.percent(now.mono, process.cpu_us),
        };
        let depths = deepest(queues, now.wall);
        feed.show([
            Event::new(EventKind::QueueDepth, now.wall, EventData::Depths(depths)),
            Event::new(EventKind::SystemMetrics, now.wall, EventData::Figures(figures)),
        ]);
        Ok(())
    }
}

/// The deepest queues, the deepest first.
fn deepest(mut queues: Vec<QueueCounts>, now: u64) -> Vec<QueueDepth> {
    let depth =
        |queue: &QueueCounts| std::cmp::Reverse(queue.waiting() + queue.by_state[StateName::Running.index()]);
    if queues.len() > EVENT_QUEUES_MAX {
        queues.select_nth_unstable_by_key(EVENT_QUEUES_MAX, depth);
        queues.truncate(EVENT_QUEUES_MAX);
    }
    queues.sort_unstable_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| a.name.cmp(&b.name)));
    let shown = |queue: QueueCounts| QueueDepth {
        queue: queue.name,
        by_state: queue.by_state,
        oldest_pending_ms: queue.oldest_pending_at.map(|at| now.saturating_sub(at)),
        paused: queue.paused,
    };
    queues.into_iter().map(shown).collect()
}

/// How much of a core this process took since it was last asked.
#[derive(Debug, Default)]
struct Processor {
    /// On the monotonic clock, and what it had taken by then.
    last: Option<(u64, u64)>,
}

impl Processor {
    fn percent(&mut self, mono_ms: u64, taken_us: u64) -> Option<f64> {
        let (then, before_us) = self.last.replace((mono_ms, taken_us))?;
        let passed_ms = mono_ms.checked_sub(then).filter(|ms| *ms > 0)?;
        Some(taken_us.saturating_sub(before_us) as f64 / 10.0 / passed_ms as f64)
    }
}
