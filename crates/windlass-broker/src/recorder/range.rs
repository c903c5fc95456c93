//! Answers: some series over some time, in steps that are fine enough to see and few enough to draw.

use windlass_core::limits::RANGE_POINTS_MAX;
use windlass_core::{Name, Now};

use super::level::{LEVELS, Level, Track};
use super::series::Series;
use super::{Recorder, State};
use crate::broker::Broker;
use crate::error::Error;

/// What steps there are. Each is made of rows of the coarsest level that it is a multiple of.
const STEPS_MS: [u64; 14] = [
    1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
    3_600_000, 7_200_000,
];
/// When nobody says how far back.
const FROM_MS_DEFAULT: u64 = 600_000;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RangeRequest {
    pub series: Vec<Series>,
    /// `None` for all together.
    pub queue: Option<Name>,
    /// Wall clock; ten minutes before `to` if not given, and never further back than anything is kept.
    pub from: Option<u64>,
    /// Wall clock; now if not given.
    pub to: Option<u64>,
    /// The answer has this step or the next larger one that fits.
    pub step_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    pub step_ms: u64,
    /// Where the first step begins, wall clock.
    pub from: u64,
    /// Where the last step ends.
    pub to: u64,
    /// One figure per step, `NaN` where nothing was recorded.
    pub series: Vec<(Series, Vec<f32>)>,
}

impl Broker {
    pub async fn range(&self, request: &RangeRequest) -> Result<Range, Error> {
        if let Some(queue) = &request.queue {
            let unknown = request.series.iter().find(|series| !Series::OF_QUEUES.contains(series));
            if let Some(series) = unknown {
                let names = Series::OF_QUEUES.map(Series::as_str).join(", ");
                let message =
                    format!("{} is not recorded for single queues; these are: {names}", series.as_str());
                return Err(Error::Invalid { field: "series", message });
            }
            if !self.inner.recorder.has(queue) {
                self.queue(queue).await?;
            }
        }
        if let (Some(from), Some(to)) = (request.from, request.to)
            && from >= to
        {
            return Err(Error::Invalid { field: "from", message: "must lie before to".to_owned() });
        }
        Ok(self.inner.recorder.range(request, self.now()))
    }
}

impl Recorder {
    fn has(&self, queue: &Name) -> bool {
        self.state.lock().queues.get(queue).is_some()
    }

    pub(super) fn range(&self, request: &RangeRequest, now: Now) -> Range {
        self.state.lock().range(request, now)
    }
}

impl State {
    fn range(&mut self, request: &RangeRequest, now: Now) -> Range {
        let now_ms = self.axis.advance(now);
        let of_wall = |wall: u64| self.axis.of_wall(wall).min(now_ms);
        let to_ms = request.to.map_or(now_ms, of_wall);
        let from_ms = request.from.map_or(to_ms.saturating_sub(FROM_MS_DEFAULT), of_wall).min(to_ms);
        let plan = Plan::new(&self.all, now_ms, (from_ms, to_ms), request.step_ms.unwrap_or(0));
        let empty;
        let track = match &request.queue {
            None => &self.all,
            Some(name) => match self.queues.get(name) {
                Some(track) => track,
                None => {
                    empty = Track::new(Series::OF_QUEUES.len());
                    &empty
                }
            },
        };
        let column = |series: Series| match &request.queue {
            None => series as usize,
            Some(_) => {
                Series::OF_QUEUES.iter().position(|it| *it == series).expect("it was looked for before")
            }
        };
        let figures =
            |series: Series| plan.figures(&track.levels[plan.level], column(series), series.is_mean());
        Range {
            step_ms: plan.step_ms,
            from: self.axis.wall(plan.first * plan.step_ms),
            to: self.axis.wall(plan.end * plan.step_ms),
            series: request.series.iter().map(|series| (*series, figures(*series))).collect(),
        }
    }
}

/// Which rows make which points.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    level: usize,
    step_ms: u64,
    /// Numbers of steps.
    first: u64,
    end: u64,
}

impl Plan {
    fn new(all: &Track, now_ms: u64, (from_ms, to_ms): (u64, u64), wanted_ms: u64) -> Plan {
        let kept_ms = |level: usize| LEVELS[level].0 * LEVELS[level].1 as u64;
        let oldest_ms = now_ms.saturating_sub(kept_ms(LEVELS.len() - 1));
        let (from_ms, to_ms) = (from_ms.max(oldest_ms), to_ms.max(oldest_ms));
        let plan = |step_ms: u64| {
            let level = LEVELS.iter().rposition(|(row_ms, _)| step_ms.is_multiple_of(*row_ms)).unwrap_or(0);
            // The step under way has no row yet, and the one before it may be on its way.
            let recorded_ms = all.levels[level].last.map_or(0, |last| (last + 1) * LEVELS[level].0);
            let to_ms =
                if to_ms + 2 * step_ms > now_ms { to_ms.min(recorded_ms.max(from_ms)) } else { to_ms };
            Plan { level, step_ms, first: from_ms / step_ms, end: to_ms.div_ceil(step_ms) }
        };
        let fits = |plan: &Plan| {
            plan.step_ms >= wanted_ms
                && plan.end.saturating_sub(plan.first) <= RANGE_POINTS_MAX as u64
                // A question takes a moment to arrive.
                && now_ms.saturating_sub(from_ms) <= kept_ms(plan.level) / 20 * 21
        };
        let largest = STEPS_MS[STEPS_MS.len() - 1];
        STEPS_MS.into_iter().map(plan).find(fits).unwrap_or_else(|| plan(largest))
    }

    fn figures(&self, level: &Level, column: usize, mean: bool) -> Vec<f32> {
        let rows = self.step_ms / LEVELS[self.level].0;
        let point = |step: u64| {
            let figures = (step * rows..(step + 1) * rows).map(|row| level.figure(row, column));
            let there = figures.filter(|figure| !figure.is_nan());
            let (count, sum, max) = there.fold((0u32, 0.0, f32::NAN), |(count, sum, max), figure| {
                (count + 1, sum + f64::from(figure), f32::max(max, figure))
            });
            if mean && count > 0 { (sum / f64::from(count)) as f32 } else { max }
        };
        (self.first..self.end).map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_000;

    fn recorded() -> Track {
        let mut all = Track::new(1);
        for (level, (step_ms, _)) in all.levels.iter_mut().zip(LEVELS) {
            level.put(NOW / step_ms - 1, &[1.0]);
        }
        all
    }

    #[track_caller]
    fn check(ago_ms: u64, wanted_ms: u64, step_ms: u64, level: usize) {
        let plan = Plan::new(&recorded(), NOW, (NOW - ago_ms, NOW), wanted_ms);
        assert_eq!((plan.step_ms, plan.level), (step_ms, level));
        assert!(plan.end - plan.first <= RANGE_POINTS_MAX as u64);
    }

    #[test]
    fn the_finest_step_is_taken_that_fits_and_is_kept() {
        const MINUTE: u64 = 60_000;
        check(10 * MINUTE, 0, 1000, 0);
        check(10 * MINUTE, 5000, 5000, 0);
        check(10 * MINUTE, 7000, 10_000, 1);
        check(11 * MINUTE, 0, 10_000, 1);
        check(60 * MINUTE, 0, 10_000, 1);
        check(6 * 60 * MINUTE, 0, 30_000, 1);
        check(7 * 60 * MINUTE, 0, MINUTE, 2);
        check(24 * 60 * MINUTE, 0, 2 * MINUTE, 2);
        check(7 * 24 * 60 * MINUTE, 0, 15 * MINUTE, 2);
        check(NOW, 0, 15 * MINUTE, 2);
        check(MINUTE, u64::MAX, 7_200_000, 2);
    }

    #[test]
    fn the_step_under_way_is_left_out() {
        let plan = Plan::new(&recorded(), NOW + 900, (NOW - 5000, NOW + 900), 0);
        assert_eq!((plan.first, plan.end), (NOW / 1000 - 5, NOW / 1000));
        let plan = Plan::new(&recorded(), NOW, (NOW - 20_000, NOW - 10_000), 0);
        assert_eq!(plan.end - plan.first, 10, "and the past is as it was asked for");
    }
}
