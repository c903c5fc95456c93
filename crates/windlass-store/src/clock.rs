//! Where `now` comes from. The clock is a part one can exchange, so that tests decide what time it is.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Now;

pub trait Clock: Debug + Send + Sync + 'static {
    fn now(&self) -> Now;

    /// The wall alone, which is cheaper.
    fn wall(&self) -> u64 {
        self.now().wall
    }
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { wall: self.wall(), mono: self.start.elapsed().as_millis() as u64 }
    }

    fn wall(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    mono: AtomicU64,
}

impl ManualClock {
    /// Starts in 2026 on the wall and at zero for leases.
    pub fn shared() -> Arc<ManualClock> {
        Arc::new(Self { wall: AtomicU64::new(1_790_000_000_000), mono: AtomicU64::new(0) })
    }

    /// Moves both clocks on.
    pub fn advance_ms(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.mono.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves only the wall clock, forwards or back, as an operator or a time server does.
    pub fn jump_wall_ms(&self, ms: i64) {
        let wall = self.wall.load(Ordering::SeqCst);
        self.wall.store(wall.saturating_add_signed(ms), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        Now { wall: self.wall.load(Ordering::SeqCst), mono: self.mono.load(Ordering::SeqCst) }
    }
}
