//! How much happened per second over the last minute.

/// The window, in seconds.
const WINDOW: usize = 60;

/// Events per second over the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PerSecond {
    pub(crate) submitted: f64,
    pub(crate) completed: f64,
    pub(crate) failed: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Submitted,
    Completed { duration_ms: u64 },
    Failed,
}

/// One cell per second of the window; a cell is cleared when its second comes round again.
#[derive(Debug)]
pub(crate) struct Ring(Box<[Cell; WINDOW]>);

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    second: u64,
    submitted: u32,
    completed: u32,
    failed: u32,
    duration_ms: u64,
}

impl Default for Ring {
    fn default() -> Self {
        Self(Box::new([Cell::default(); WINDOW]))
    }
}

impl Ring {
    pub(crate) fn count(&mut self, what: Counted, mono: u64) {
        let second = mono / 1000;
        let cell = &mut self.0[(second % WINDOW as u64) as usize];
        if cell.second != second {
            *cell = Cell { second, ..Cell::default() };
        }
        match what {
            Counted::Submitted => cell.submitted += 1,
            Counted::Completed { duration_ms } => {
                cell.completed += 1;
                cell.duration_ms += duration_ms;
            }
            Counted::Failed => cell.failed += 1,
        }
    }

    /// `age_ms` is how long there has been anything to count: a young broker does not divide by a whole minute.
    pub(crate) fn per_second(&self, mono: u64, age_ms: u64) -> PerSecond {
        let seconds = (age_ms as f64 / 1000.0).clamp(1.0, WINDOW as f64);
        let rate =
            |of: fn(&Cell) -> u32| self.recent(mono).map(|cell| f64::from(of(cell))).sum::<f64>() / seconds;
        PerSecond {
            submitted: rate(|cell| cell.submitted),
            completed: rate(|cell| cell.completed),
            failed: rate(|cell| cell.failed),
        }
    }

    pub(crate) fn mean_duration_ms(&self, mono: u64) -> Option<f64> {
        let completed: u64 = self.recent(mono).map(|cell| u64::from(cell.completed)).sum();
        let duration_ms: u64 = self.recent(mono).map(|cell| cell.duration_ms).sum();
        (completed > 0).then(|| duration_ms as f64 / completed as f64)
    }

    /// Whether anything happened in the window.
    pub(crate) fn is_busy(&self, mono: u64) -> bool {
        self.recent(mono).any(|cell| cell.submitted + cell.completed + cell.failed > 0)
    }

    fn recent(&self, mono: u64) -> impl Iterator<Item = &Cell> {
        let now = mono / 1000;
        self.0.iter().filter(move |cell| cell.second <= now && now - cell.second < WINDOW as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_moves_on() {
        let mut ring = Ring::default();
        for second in 0..120 {
            ring.count(Counted::Submitted, second * 1000);
            ring.count(Counted::Completed { duration_ms: second }, second * 1000);
        }
        let rates = ring.per_second(119_000, 120_000);
        assert_eq!((rates.submitted, rates.completed, rates.failed), (1.0, 1.0, 0.0));
        assert_eq!(ring.mean_duration_ms(119_000), Some(89.5));
        assert_eq!(ring.per_second(149_000, 150_000).submitted, 0.5);
        assert_eq!(ring.per_second(300_000, 300_000), PerSecond::default());
        assert_eq!(ring.mean_duration_ms(300_000), None);
    }

    #[test]
    fn a_young_broker_shows_its_real_rate() {
        let mut ring = Ring::default();
        for _ in 0..20 {
            ring.count(Counted::Failed, 1500);
        }
        assert_eq!(ring.per_second(2000, 2000).failed, 10.0);
    }
}
