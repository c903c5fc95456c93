//! Detects that the whole process was paused: SIGSTOP, a frozen cgroup, a paused virtual machine.
//!
//! During a pause leases run out on the monotonic clock, while the extensions of live workers wait unread in sockets. So a
//! pause must be noticed before any code acts on the time that has passed, whichever thread runs first. A thread ticks while
//! the process runs, and code that ends leases also checks with the time that it acts on. The first check that finds the
//! last sign of life too old detects the pause, and all later checks learn of it.
//!
//! A monotonic clock that stands still during a pause, as in a suspended machine, shows no gap and ends no lease either.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const TICK: Duration = Duration::from_millis(250);
/// The shortest pause: four ticks. A machine under load delays a tick by less than that. A worker extends
/// its lease when more time than that is left.
const PAUSE_MS_MIN: u64 = 1000;

#[derive(Debug, Default)]
pub(crate) struct PauseDetector {
    signs: Mutex<Signs>,
}

/// Moments on the monotonic clock.
#[derive(Debug, Default)]
struct Signs {
    /// The last sign of life.
    last: u64,
    /// The end of the last pause; 0 if there was none.
    resumed: u64,
}

impl PauseDetector {
    /// Starts a thread that ticks until the detector is dropped; `None` if the thread cannot be started.
    pub(crate) fn ticking(start: Instant) -> Option<Arc<PauseDetector>> {
        let detector = Arc::new(PauseDetector::default());
        let ticking = Arc::downgrade(&detector);
        let thread = std::thread::Builder::new().name("pause-detector".to_owned());
        let spawned = thread.spawn(move || tick(&ticking, start));
        let failed = |error| tracing::warn!(%error, "cannot detect pauses of this process");
        spawned.map_err(failed).is_ok().then_some(detector)
    }

    /// Records a sign of life at this moment. Returns when the last pause ended; 0 if there was none.
    pub(crate) fn look(&self, mono: u64) -> u64 {
        let mut signs = self.signs.lock();
        let gap = mono.saturating_sub(signs.last);
        signs.last = signs.last.max(mono);
        if gap >= PAUSE_MS_MIN {
            signs.resumed = mono;
            tracing::warn!(paused_ms = gap, "this process was paused; every lease gets a fresh window");
        }
        signs.resumed
    }
}

fn tick(detector: &Weak<PauseDetector>, start: Instant) {
    while let Some(detector) = detector.upgrade() {
        detector.look(start.elapsed().as_millis() as u64);
        drop(detector);
        // sleep: the tick itself. Nothing can signal that a process is paused.
        std::thread::sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_notices_a_pause_and_later_looks_return_it() {
        let detector = PauseDetector::default();
        for mono in (0..5000).step_by(250) {
            assert_eq!(detector.look(mono), 0);
        }
        assert_eq!(detector.look(20_000), 20_000);
        assert_eq!(detector.look(20_001), 20_000);
        assert_eq!(detector.look(4_900), 20_000, "one that read the clock before the pause decides on that");
        assert_eq!(detector.look(20_900), 20_000);
        assert_eq!(detector.look(22_000), 22_000);
    }

    #[test]
    fn a_late_tick_is_no_pause() {
        let detector = PauseDetector::default();
        for mono in (0..10_000).step_by(PAUSE_MS_MIN as usize - 1) {
            assert_eq!(detector.look(mono), 0);
        }
    }
}
