//! What a schedule is about to do, in words.

use windlass_core::Stamp;
use windlass_core::schedule::Schedule;

use crate::explain::{Reason, distance};

/// `stuck` is why it could not fire when its slot came.
pub(super) fn of(schedule: &Schedule, stuck: Option<&str>, now: Stamp) -> Reason {
    let progress = &schedule.progress;
    let shown = |at: u64| schedule.definition.shown(at, now);
    let (code, text, until) = match (schedule.definition.paused, progress.queued, progress.wake_at) {
        (true, _, _) => ("paused", "It is paused; resume it to let it fire.".to_owned(), None),
        (_, queued, at) if stuck.is_some() && (queued.is_some() || at.is_some()) => {
            let text = format!(
                "Its slot has come and cannot fire: {}. The broker tries again every second.",
                stuck.unwrap_or_default()
            );
            ("cannot_fire", text, None)
        }
        (_, Some(_), _) => {
            let text = "A slot has come and waits until the last fire is finished.".to_owned();
            ("queued", text, None)
        }
        (_, None, None) => ("ended", "It has no more slots.".to_owned(), None),
        (_, None, Some(at)) if schedule.set_back(now).is_some() => {
            let text = format!(
                "The wall clock was set back to before slots that have already fired. The next new slot comes {}.",
                distance(shown(at), now.wall)
            );
            ("clock_set_back", text, Some(shown(at)))
        }
        (_, None, Some(at)) if shown(at) > now.wall => {
            ("scheduled", format!("Its next slot comes {}.", distance(shown(at), now.wall)), Some(shown(at)))
        }
        (_, None, Some(at)) => {
            ("late", format!("Its slot came {} and is about to fire.", distance(shown(at), now.wall)), None)
        }
    };
    Reason { code, text, until }
}
