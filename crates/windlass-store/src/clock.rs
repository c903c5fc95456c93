//! Where `now` comes from. The clock is a part one can exchange, so that tests decide what time it is.
//!
//! Elapsed time ([`windlass_core::time`]) is counted by the monotonic clock. A store records how far it had come when the
//! previous process ended, and lets the clock [resume](Clock::resume) there. After a restart, elapsed time is never behind that
//! record, and never behind the wall clock, because only the wall clock knows how long no process ran.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use windlass_core::Now;

use crate::pause::PauseDetector;
/// The wall clock counts as set if it differs from elapsed time by more than this. A smaller difference is the time between two
/// readings, or a correction so small that elapsed time may follow it.
const SET_MS: u64 = 250;

pub trait Clock: Debug + Send + Sync + 'static {
    fn now(&self) -> Now;

    /// Moves elapsed time forward to this value, unless it is already past it.
    fn resume(&self, elapsed: u64);

    /// When the last pause of the process ended, on the monotonic clock; 0 if there was none. Code that ends leases at `now`
    /// must call this first, because the time of a pause must not count against live workers.
    fn resumed_at(&self, _now: Now) -> u64 {
        0
    }
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    pauses: Option<Arc<PauseDetector>>,
    /// Elapsed time at `start`.
    anchor: AtomicU64,
    /// The last value of [`Now::ahead`].
    ahead: AtomicI64,
}

impl SystemClock {
    pub fn shared() -> Arc<dyn Clock> {
        let (start, anchor) = (Instant::now(), AtomicU64::new(wall()));
        Arc::new(Self { start, pauses: PauseDetector::ticking(start), anchor, ahead: AtomicI64::new(0) })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let mono = self.start.elapsed().as_millis() as u64;
        let wall = wall();
        let elapsed = self.anchor.load(Ordering::Relaxed).saturating_add(mono);
        let (found, known) = (elapsed as i64 - wall as i64, self.ahead.load(Ordering::Relaxed));
        // A small difference is ignored, so that records of one time do not differ by the milliseconds between readings.
        if found.abs_diff(known) <= SET_MS {
            return Now { wall, mono, ahead: known };
        }
        self.ahead.store(found, Ordering::Relaxed);
        Now { wall, mono, ahead: found }
    }

    fn resume(&self, elapsed: u64) {
        let mono = self.start.elapsed().as_millis() as u64;
        self.anchor.fetch_max(elapsed.saturating_sub(mono), Ordering::Relaxed);
    }

    fn resumed_at(&self, now: Now) -> u64 {
        self.pauses.as_ref().map_or(0, |pauses| pauses.look(now.mono))
    }
}

fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicU64,
    mono: AtomicU64,
    resumed: AtomicU64,
    /// Elapsed time when `mono` was zero.
    anchor: AtomicU64,
}

impl ManualClock {
    /// Starts in 2026 on the wall and at zero for leases.
    pub fn shared() -> Arc<ManualClock> {
        const START: u64 = 1_790_000_000_000;
        ManualClock::starting(START)
    }

    fn starting(wall: u64) -> Arc<ManualClock> {
        let (mono, resumed) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { wall: AtomicU64::new(wall), mono, resumed, anchor: AtomicU64::new(wall) })
    }

    /// The clock of the next process on the same machine. Its elapsed time begins at the wall clock.
    pub fn restarted(&self) -> Arc<ManualClock> {
        ManualClock::starting(self.wall.load(Ordering::SeqCst))
    }

    /// Moves both clocks on.
    pub fn advance_ms(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.mono.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves both clocks on while the process is paused.
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
        let (wall, mono) = (self.wall.load(Ordering::SeqCst), self.mono.load(Ordering::SeqCst));
        let elapsed = self.anchor.load(Ordering::SeqCst) + mono;
        Now { wall, mono, ahead: elapsed as i64 - wall as i64 }
    }

    fn resume(&self, elapsed: u64) {
        self.anchor.fetch_max(elapsed.saturating_sub(self.mono.load(Ordering::SeqCst)), Ordering::SeqCst);
    }

    fn resumed_at(&self, _now: Now) -> u64 {
        self.resumed.load(Ordering::SeqCst)
    }
}
