//! What a schedule is about to do, in words.

use windlass_core::schedule::Schedule;

use crate::explain::{Reason, distance};

pub(super) fn of(schedule: &Schedule, now: u64) -> Reason {
    let progress = &schedule.progress;
    let (code, text, until) = match (schedule.definition.paused, progress.queued, progress.wake_at) {
        (true, _, _) => ("paused", "It is paused; resume it to let it fire.".to_owned(), None),
        (_, Some(_), _) => {
            let text = "A slot has come and waits until the last fire is finished.".to_owned();
            ("queued", text, None)
        }
        (_, None, None) => ("ended", "It has no more slots.".to_owned(), None),
        (_, None, Some(at)) if at > now => {
            ("scheduled", format!("Its next slot comes {}.", distance(at, now)), Some(at))
        }
        (_, None, Some(at)) => {
            ("late", format!("Its slot came {} and is about to fire.", distance(at, now)), None)
        }
    };
    Reason { code, text, until }
}
