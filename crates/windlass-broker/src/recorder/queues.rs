//! Rows of single queues.

use windlass_core::limits::RECORDED_QUEUES_MAX;
use windlass_core::{Name, StateName};
use windlass_store::QueueCounts;

use super::level::{LEVELS, Track, raise, seconds};
use super::series::Series;

/// A queue that has been idle for this long makes room for another.
const IDLE_MS: u64 = 600_000;

pub(super) const QUEUE_WIDTH: usize = Series::OF_QUEUES.len();
/// How many of these are rates, which come first.
const RATES: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct QueueSample {
    pub(crate) name: Name,
    /// Submitted, completed, failed: since the broker started.
    pub(crate) counts: [u64; RATES],
    /// Pending and running; `None` if the store could not tell.
    pub(crate) depth: Option<[u64; 2]>,
    /// Something waits, runs or happened in the last minute.
    pub(crate) busy: bool,
}

#[derive(Debug, Default)]
pub(super) struct QueueTracks(Vec<QueueTrack>);

#[derive(Debug)]
pub(super) struct QueueTrack {
    pub(super) name: Name,
    pub(super) track: Track,
    windows: [Window; LEVELS.len()],
    busy_mono: u64,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: [u64; RATES],
    since_mono: u64,
    peaks: [f32; QUEUE_WIDTH],
}

impl QueueTracks {
    pub(super) fn get(&self, name: &Name) -> Option<&Track> {
        self.0.iter().find(|queue| queue.name == *name).map(|queue| &queue.track)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueueTrack> {
        self.0.iter()
    }

    /// As a file has it.
    pub(super) fn restore(&mut self, name: Name, track: Track) {
        if self.0.len() < RECORDED_QUEUES_MAX && self.get(&name).is_none() {
            self.0.push(QueueTrack::new(name, track, 0));
        }
    }

    /// Goes on in a new process, whose counters begin at nothing.
    pub(super) fn resumed(mut self, axis_ms: u64, mono: u64) -> QueueTracks {
        for queue in &mut self.0 {
            queue.track.begin(axis_ms);
            queue.windows = [Window::new([0; RATES], mono); LEVELS.len()];
            queue.busy_mono = mono;
        }
        self
    }

    /// Leaves those that are recorded, and as many others as could be, the deepest of them.
    pub(super) fn keep_relevant(&self, counts: &mut Vec<QueueCounts>) {
        let live = |queue: &QueueCounts| depth(queue).iter().sum::<u64>();
        let mut others: Vec<u64> = counts
            .iter()
            .filter(|queue| self.get(&queue.name).is_none())
            .map(live)
            .filter(|live| *live > 0)
            .collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let least = others.get(RECORDED_QUEUES_MAX - 1).copied().unwrap_or(1);
        let mut room = RECORDED_QUEUES_MAX;
        counts.retain(|queue| {
            if self.get(&queue.name).is_some() {
                return true;
            }
            let kept = live(queue) >= least && room > 0;
            room -= usize::from(kept);
            kept
        });
    }

    pub(super) fn take(&mut self, samples: Vec<QueueSample>, axis_ms: u64, mono: u64) {
        for sample in samples {
            let at = match self.0.iter().position(|queue| queue.name == sample.name) {
                Some(at) => at,
                None if sample.busy => match self.admit(&sample, axis_ms, mono) {
                    Some(at) => at,
                    None => continue,
                },
                None => continue,
            };
            self.0[at].take(&sample, axis_ms, mono);
        }
    }

    fn admit(&mut self, sample: &QueueSample, axis_ms: u64, mono: u64) -> Option<usize> {
        // While there is room a queue is recorded from its first second on, and all that was counted lies in that second.
        // Otherwise it was counted for an unknown time.
        let mut window = Window::new([0; RATES], mono.saturating_sub(1000));
        if self.0.len() >= RECORDED_QUEUES_MAX {
            let (at, idlest) = self.0.iter().enumerate().min_by_key(|(_, queue)| queue.busy_mono)?;
            if mono.saturating_sub(idlest.busy_mono) < IDLE_MS {
                return None;
            }
            self.0.swap_remove(at);
            window = Window::new(sample.counts, mono);
        }
        let mut queue = QueueTrack::new(sample.name.clone(), Track::new(QUEUE_WIDTH), mono);
        queue.windows = [window; LEVELS.len()];
        queue.track.begin(axis_ms.saturating_sub(1000));
        self.0.push(queue);
        Some(self.0.len() - 1)
    }
}

impl QueueTrack {
    fn new(name: Name, track: Track, mono: u64) -> QueueTrack {
        QueueTrack { name, track, windows: [Window::new([0; RATES], mono); LEVELS.len()], busy_mono: mono }
    }

    fn take(&mut self, sample: &QueueSample, axis_ms: u64, mono: u64) {
        if sample.busy {
            self.busy_mono = mono;
        }
        let mut gauges = [f32::NAN; QUEUE_WIDTH];
        if let Some(depth) = sample.depth {
            gauges[RATES..].iter_mut().zip(depth).for_each(|(gauge, count)| *gauge = count as f32);
        }
        for ((window, level), (step_ms, _)) in self.windows.iter_mut().zip(&mut self.track.levels).zip(LEVELS)
        {
            raise(&mut window.peaks, &gauges);
            let Some(ended) = level.ended(axis_ms, step_ms) else { continue };
            let seconds = seconds(window.since_mono, mono, step_ms);
            let mut row = window.peaks;
            for (i, figure) in row[..RATES].iter_mut().enumerate() {
                *figure = (sample.counts[i].saturating_sub(window.since[i]) as f64 / seconds) as f32;
            }
            level.put(ended, &row);
            *window = Window::new(sample.counts, mono);
        }
    }
}

impl Window {
    fn new(since: [u64; RATES], since_mono: u64) -> Window {
        Window { since, since_mono, peaks: [f32::NAN; QUEUE_WIDTH] }
    }
}

/// Pending and running.
pub(crate) fn depth(queue: &QueueCounts) -> [u64; 2] {
    [StateName::Pending, StateName::Running].map(|state| queue.by_state[state.index()])
}
