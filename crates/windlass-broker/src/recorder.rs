//! The figures of the last days, kept by the broker itself: no other server is needed to draw a chart.
//!
//! Once a second `loops::sampler` takes a sample: the counters, which only grow, and what can be read off at that moment
//! (depths, memory). Three *levels* keep rows of figures: one per second for ten minutes, per ten seconds for six hours, per
//! minute for a week. A row holds what happened in its step: rates and percentiles are made of the difference of the counters
//! at both ends of the step, so they are exact on every level, and of what is read off a row has the largest value seen.
//!
//! A level is a ring of fixed size and is never searched: a row stands where its number says. Numbers come from the [`Axis`],
//! which only moves forward, so no jump of the wall clock overwrites a row or makes two of one moment. What was not recorded
//! (the broker was down, or nothing ran whose duration could be told) is a hole, not a zero.
//!
//! The busiest queues have rows of their own, in the same way. A queue that has been idle for a while makes room for another.
//!
//! The rings are saved to a file now and then and when the broker stops. A file that cannot be read is set aside: figures are
//! a comfort, and never keep a broker from starting or working.

mod axis;
mod file;
mod level;
mod queues;
mod range;
mod series;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_core::{Now, StateName};
use windlass_store::QueueCounts;

pub use range::{Range, RangeRequest};
pub use series::Series;

use crate::metrics::Meters;
use axis::Axis;
use level::{LEVELS, Track};
use queues::QueueTracks;
pub(crate) use queues::{QueueSample, depth};
use series::WIDTH;

/// How often the rings are saved: what a killed broker forgets.
const SAVE_EVERY_MS: u64 = 300_000;
/// Looking at all queues may take at most one part in this of the time, however many there are.
const LOOK_SHARE: u32 = 1000;
const LOOK_EVERY_MS_MAX: u64 = 60_000;
/// A store over a network is asked this rarely while nothing changes in it: many brokers may look at one.
const CALM_EVERY_MS: u64 = 5_000;

/// One figure for each series.
type Row = [f32; WIDTH];

const NOTHING: Row = [f32::NAN; WIDTH];

#[derive(Debug)]
pub(crate) struct Recorder {
    state: Mutex<State>,
    file: Option<PathBuf>,
    on: bool,
    /// Others use the store too.
    shared: bool,
    pub(crate) wakeup: Notify,
}

#[derive(Debug)]
struct State {
    axis: Axis,
    all: Track,
    windows: [Window; LEVELS.len()],
    queues: QueueTracks,
    look: Look,
    saved_mono: u64,
}

/// What belongs to the next row of a level.
#[derive(Debug)]
struct Window {
    since: Meters,
    since_cpu_us: u64,
    since_mono: u64,
    peaks: Row,
}

/// The queues as they were seen last.
#[derive(Debug, Default)]
struct Look {
    by_state: Option<[u64; 8]>,
    oldest_pending_at: Option<u64>,
    /// Those that are recorded or could be.
    queues: Vec<QueueCounts>,
    next_mono: u64,
}

/// What the sampler read.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) now: Now,
    pub(crate) meters: Meters,
    pub(crate) queues: Vec<QueueSample>,
    pub(crate) workers: usize,
    pub(crate) cpu_us: u64,
    pub(crate) resident_bytes: Option<u64>,
}

impl Recorder {
    /// `on` is whether anything is recorded at all; what a file has is there to be looked at in any case.
    pub(crate) fn open(on: bool, file: Option<&Path>, now: Now, cpu_us: u64) -> Recorder {
        let saved = file.and_then(file::load);
        let window = || Window::new(Meters::default(), cpu_us, now.mono);
        let (mut axis, mut all, queues) =
            saved.unwrap_or_else(|| (Axis::new(now), Track::new(WIDTH), QueueTracks::default()));
        axis.resume(now);
        let queues = queues.resumed(axis.at_ms, now.mono);
        if on {
            all.begin(axis.at_ms);
        }
        let state = State {
            axis,
            all,
            windows: [window(), window(), window()],
            queues,
            look: Look::default(),
            saved_mono: now.mono,
        };
        let (state, file) = (Mutex::new(state), file.map(Path::to_owned));
        Recorder { state, file, on, shared: false, wakeup: Notify::new() }
    }

    pub(crate) fn of_shared_store(self, shared: bool) -> Recorder {
        Recorder { shared, ..self }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn look_is_due(&self, mono: u64) -> bool {
        mono >= self.state.lock().look.next_mono
    }

    /// The queues, or `None` if the store cannot tell; and what it took to find out.
    pub(crate) fn looked(&self, counts: Option<Vec<QueueCounts>>, now: Now, took: Duration) {
        let mut state = self.state.lock();
        let mut pause_ms = ((took * LOOK_SHARE).as_millis() as u64).min(LOOK_EVERY_MS_MAX);
        let look = match counts {
            Some(counts) => Look::of(counts, &state.queues),
            None => Look::default(),
        };
        let calm =
            (look.by_state, look.oldest_pending_at) == (state.look.by_state, state.look.oldest_pending_at);
        if self.shared && calm {
            pause_ms = pause_ms.max(CALM_EVERY_MS);
        }
        state.look = look;
        state.look.next_mono = now.mono + pause_ms;
    }

    /// The queues to sample: those that are recorded, and those that could be.
    pub(crate) fn queues(&self) -> Vec<QueueCounts> {
        self.state.lock().look.queues.clone()
    }

    pub(crate) fn take(&self, sample: Sample) {
        self.state.lock().take(sample);
    }

    /// Until the second ends.
    pub(crate) fn until_next(&self, now: Now) -> Duration {
        let axis_ms = self.state.lock().axis.advance(now);
        Duration::from_millis(1000 - axis_ms % 1000)
    }

    pub(crate) fn save_is_due(&self, mono: u64) -> bool {
        self.file.is_some() && mono.saturating_sub(self.state.lock().saved_mono) >= SAVE_EVERY_MS
    }

    /// Writes the file; what goes wrong is logged, and tried again when it is due again.
    pub(crate) async fn save(&self, now: Now) {
        let Some(path) = self.file.clone().filter(|_| self.on) else { return };
        let bytes = {
            let mut state = self.state.lock();
            state.saved_mono = now.mono;
            state.axis.advance(now);
            file::encode(&state.axis, &state.all, &state.queues)
        };
        let written =
            tokio::task::spawn_blocking(move || file::write(&path, &bytes).map_err(|error| (path, error)));
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err((path, error))) => {
                tracing::warn!(path = %path.display(), %error, "the recorded metrics were not saved");
            }
            Err(error) => tracing::warn!(%error, "the recorded metrics were not saved"),
        }
    }
}

impl State {
    fn take(&mut self, sample: Sample) {
        let axis_ms = self.axis.advance(sample.now);
        let gauges = self.look.gauges(&sample);
        for ((window, level), (step_ms, _)) in self.windows.iter_mut().zip(&mut self.all.levels).zip(LEVELS) {
            level::raise(&mut window.peaks, &gauges);
            let Some(ended) = level.ended(axis_ms, step_ms) else { continue };
            level.put(ended, &window.row(&sample, step_ms));
            *window = Window::new(sample.meters.clone(), sample.cpu_us, sample.now.mono);
        }
        self.queues.take(sample.queues, axis_ms, sample.now.mono);
    }
}

impl Window {
    fn new(since: Meters, since_cpu_us: u64, since_mono: u64) -> Window {
        Window { since, since_cpu_us, since_mono, peaks: NOTHING }
    }

    fn row(&self, sample: &Sample, step_ms: u64) -> Row {
        let seconds = level::seconds(self.since_mono, sample.now.mono, step_ms);
        let (now, then) = (&sample.meters, &self.since);
        let rate = |of: fn(&Meters) -> u64| (of(now).saturating_sub(of(then)) as f64 / seconds) as f32;
        let shares = [0.5, 0.95, 0.99];
        let mut row = self.peaks;
        let mut set = |series: Series, figure: f32| row[series as usize] = figure;
        set(Series::Submitted, rate(|meters| meters.submitted));
        set(Series::Started, rate(|meters| meters.started));
        set(Series::Completed, rate(|meters| meters.completed));
        set(Series::Failed, rate(|meters| meters.failed));
        set(Series::Retried, rate(|meters| meters.retries.total()));
        set(Series::DeadLettered, rate(|meters| meters.dead_lettered));
        set(Series::Cancelled, rate(|meters| meters.cancelled));
        let cpu_seconds = sample.cpu_us.saturating_sub(self.since_cpu_us) as f64 / 1e6;
        set(Series::CpuPercent, (100.0 * cpu_seconds / seconds) as f32);
        if let Some(waits) = now.wait_ms.quantiles_since(&then.wait_ms, shares) {
            [Series::WaitP50, Series::WaitP95, Series::WaitP99]
                .into_iter()
                .zip(waits)
                .for_each(|(at, ms)| set(at, (ms / 1e3) as f32));
        }
        if let Some(runs) = now.run_ms.quantiles_since(&then.run_ms, shares) {
            [Series::RunP50, Series::RunP95, Series::RunP99]
                .into_iter()
                .zip(runs)
                .for_each(|(at, ms)| set(at, (ms / 1e3) as f32));
        }
        if let Some([commit]) = now.commit_us.quantiles_since(&then.commit_us, [0.99]) {
            set(Series::CommitP99, (commit / 1e6) as f32);
        }
        row
    }
}

impl Look {
    fn of(mut counts: Vec<QueueCounts>, tracks: &QueueTracks) -> Look {
        let mut by_state = [0; 8];
        for queue in &counts {
            by_state.iter_mut().zip(queue.by_state).for_each(|(sum, count)| *sum += count);
        }
        let oldest_pending_at = counts.iter().filter_map(|queue| queue.oldest_pending_at).min();
        tracks.keep_relevant(&mut counts);
        Look { by_state: Some(by_state), oldest_pending_at, queues: counts, next_mono: 0 }
    }

    /// What is read off at this moment.
    fn gauges(&self, sample: &Sample) -> Row {
        let mut row = NOTHING;
        let mut set = |series: Series, figure: f64| row[series as usize] = figure as f32;
        set(Series::Workers, sample.workers as f64);
        if let Some(bytes) = sample.resident_bytes {
            set(Series::MemoryBytes, bytes as f64);
        }
        let Some(by_state) = self.by_state else { return row };
        let states = [
            (Series::Pending, StateName::Pending),
            (Series::Running, StateName::Running),
            (Series::Scheduled, StateName::Scheduled),
            (Series::Retrying, StateName::Retrying),
            (Series::Blocked, StateName::Blocked),
            (Series::DeadLetter, StateName::DeadLetter),
        ];
        for (series, state) in states {
            set(series, by_state[state.index()] as f64);
        }
        let age_ms = self.oldest_pending_at.map_or(0, |at| sample.now.wall.saturating_sub(at));
        set(Series::OldestPending, age_ms as f64 / 1e3);
        row
    }
}
