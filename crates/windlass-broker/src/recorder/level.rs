//! Rings of rows.

/// Steps in milliseconds, and how many of them are kept: ten minutes, six hours, a week.
pub(super) const LEVELS: [(u64, usize); 3] = [(1000, 600), (10_000, 2160), (60_000, 10_080)];

/// Rows of some figures, on every level.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) levels: [Level; LEVELS.len()],
}

impl Track {
    pub(super) fn new(width: usize) -> Track {
        Track { levels: LEVELS.map(|(_, rows)| Level::new(width, rows)) }
    }

    /// Recording begins here: what ended before is a hole.
    pub(super) fn begin(&mut self, axis_ms: u64) {
        for (level, (step_ms, _)) in self.levels.iter_mut().zip(LEVELS) {
            if let Some(ended) = level.ended(axis_ms, step_ms) {
                level.put(ended, &vec![f32::NAN; level.width]);
            }
        }
    }
}

/// A row stands at its number, taken modulo the size. Memory is taken when the first row comes.
#[derive(Debug)]
pub(super) struct Level {
    width: usize,
    rows: usize,
    /// The number of the newest row.
    pub(super) last: Option<u64>,
    cells: Vec<f32>,
}

impl Level {
    fn new(width: usize, rows: usize) -> Level {
        Level { width, rows, last: None, cells: Vec::new() }
    }

    /// The number of the step that ended last, if its row has not been written.
    pub(super) fn ended(&self, axis_ms: u64, step_ms: u64) -> Option<u64> {
        let number = (axis_ms / step_ms).checked_sub(1)?;
        self.last.is_none_or(|last| number > last).then_some(number)
    }

    /// Writes a row; between it and the one before it are holes. An older row is never written over.
    pub(super) fn put(&mut self, number: u64, row: &[f32]) {
        if self.last.is_some_and(|last| number <= last) {
            return;
        }
        if self.cells.is_empty() {
            self.cells = vec![f32::NAN; self.width * self.rows];
        }
        let missing = self.last.map_or(0, |last| number - last - 1).min(self.rows as u64);
        for hole in number - missing..number {
            let at = self.place(hole);
            self.cells[at..at + self.width].fill(f32::NAN);
        }
        let at = self.place(number);
        self.cells[at..at + self.width].copy_from_slice(row);
        self.last = Some(number);
    }

    /// A figure, `NaN` if there is none.
    pub(super) fn figure(&self, number: u64, column: usize) -> f32 {
        match self.last {
            Some(last) if number <= last && last - number < self.rows as u64 => {
                self.cells[self.place(number) + column]
            }
            _ => f32::NAN,
        }
    }

    /// The numbers that a row may have, oldest first.
    pub(super) fn numbers(&self) -> std::ops::Range<u64> {
        self.last.map_or(0..0, |last| (last + 1).saturating_sub(self.rows as u64)..last + 1)
    }

    fn place(&self, number: u64) -> usize {
        (number % self.rows as u64) as usize * self.width
    }
}

/// What a rate is divided by. Before a broker began, nothing happened; a late sample covers more than its step.
pub(super) fn seconds(since_mono: u64, mono: u64, step_ms: u64) -> f64 {
    mono.saturating_sub(since_mono).max(step_ms) as f64 / 1000.0
}

/// Keeps the largest of each figure.
pub(super) fn raise(peaks: &mut [f32], figures: &[f32]) {
    // `max` takes the number if the other one is none.
    peaks.iter_mut().zip(figures).for_each(|(peak, figure)| *peak = peak.max(*figure));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_its_size_and_its_holes() {
        let mut level = Level::new(1, 5);
        assert_eq!(level.ended(999, 1000), None);
        assert_eq!(level.ended(7_200, 1000), Some(6));
        level.put(6, &[6.0]);
        assert_eq!((level.ended(7_999, 1000), level.ended(8_000, 1000)), (None, Some(7)));
        level.put(8, &[8.0]);
        level.put(7, &[7.0]);
        level.put(9, &[9.0]);
        let shown: Vec<f32> = (3..12).map(|number| level.figure(number, 0)).collect();
        assert_eq!(format!("{shown:?}"), "[NaN, NaN, NaN, 6.0, NaN, 8.0, 9.0, NaN, NaN]");
        level.put(1000, &[1.0]);
        assert_eq!(level.numbers(), 996..1001);
        assert!(level.numbers().take(4).all(|number| level.figure(number, 0).is_nan()));
        assert_eq!(level.figure(1000, 0), 1.0);
    }
}
