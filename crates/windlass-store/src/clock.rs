//! Where `now` comes from. The clock is a part one can exchange, so that tests decide what time it is.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Now;

use crate::pause::PauseDetector;

pub trait Clock: Debug + Send + Sync + 'static {
    fn now(&self) -> Now;

    /// The wall alone, which is cheaper.
    fn wall(&self) -> u64 {
        self.now().wall
    }

    /// When the process last came out of a pause, on the monotonic clock; 0 if it was in none. Whoever would end a lease at
    /// `now` asks this first: the time of a pause counts against nobody who was alive.
    fn resumed_at(&self, _now: Now) -> u64 {
        0
    }
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    pauses: Option<Arc<PauseDetector>>,
}

impl SystemClock {
    pub fn shared() -> Arc<dyn Clock> {
        let start = Instant::now();
        Arc::new(Self { start, pauses: PauseDetector::ticking(start) })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { wall: self.wall(), mono: self.start.elapsed().as_millis() as u64 }
    }

    fn wall(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
    }

    fn resumed_at(&self, now: Now) -> u64 {
        self.pauses.as_ref().map_or(0, |pauses| pauses.look(now.mono))
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    mono: AtomicU64,
    resumed: AtomicU64,
}

impl ManualClock {
    /// Starts in 2026 on the wall and at zero for leases.
    pub fn shared() -> Arc<ManualClock> {
        let wall = AtomicU64::new(1_790_000_000_000);
        Arc::new(Self { wall, mono: AtomicU64::new(0), resumed: AtomicU64::new(0) })
    }

    /// Moves both clocks on.
    pub fn advance_ms(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.mono.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves both clocks on while the process stands still.
    pub fn pause_ms(&self, ms: u64) {
        self.advance_ms(ms);
        self.resumed.store(self.mono.load(Ordering::SeqCst), Ordering::SeqCst);
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

    fn resumed_at(&self, _now: Now) -> u64 {
        self.resumed.load(Ordering::SeqCst)
    }
}
