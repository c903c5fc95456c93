//! Schedules as people read them.

use windlass_core::schedule::{CatchUp, Overlap};
use windlass_proto::rest::{FireBody, ScheduleBody, SlotBody, Time};

use crate::cli::output::{fields, table};

pub(super) fn list(items: &[ScheduleBody]) -> String {
    let row = |schedule: &ScheduleBody| {
        vec![
            schedule.id.to_string(),
            schedule.cron.clone(),
            schedule.timezone.clone(),
            format!("{}/{}", schedule.task.queue, schedule.task.kind),
            text(schedule.next_at),
            text(schedule.last_at),
            schedule.fired.to_string(),
            match schedule.standing.code.as_str() {
                "scheduled" => String::new(),
                code => code.to_owned(),
            },
        ]
    };
    table(&["ID", "CRON", "ZONE", "TASK", "NEXT", "LAST", "FIRED", ""], items.iter().map(row).collect())
}

pub(super) fn schedule(schedule: &ScheduleBody) -> String {
    let seconds = |ms: u64| if ms == 0 { String::new() } else { format!("{} s", ms as f64 / 1000.0) };
    let window = match schedule.catch_up.as_str() {
        rule if rule == CatchUp::Skip.as_str() => rule.to_owned(),
        rule => format!("{rule} within {}", seconds(schedule.catch_up_window_seconds.as_ms())),
    };
    let skipped = match schedule.overlap.as_str() {
        rule if rule == Overlap::Allow.as_str() => String::new(),
        _ => schedule.skipped.to_string(),
    };
    let last = schedule.last_task_id.as_ref().map(ToString::to_string).unwrap_or_default();
    fields(&[
        ("id", schedule.id.to_string()),
        ("cron", schedule.cron.clone()),
        ("timezone", schedule.timezone.clone()),
        ("task", format!("{}/{}", schedule.task.queue, schedule.task.kind)),
        ("overlap", schedule.overlap.clone()),
        ("catch-up", window),
        ("jitter", seconds(schedule.jitter_seconds.as_ms())),
        ("starts", text(schedule.starts_at)),
        ("ends", text(schedule.ends_at)),
        ("next", text(schedule.next_at)),
        ("queued", text(schedule.queued_at)),
        ("last", text(schedule.last_at)),
        ("last task", last),
        ("fired", schedule.fired.to_string()),
        ("skipped", skipped),
        ("standing", format!("{}: {}", schedule.standing.code, schedule.standing.text)),
    ])
}

pub(super) fn slots(items: &[SlotBody]) -> String {
    let rows = items.iter().map(|slot| vec![slot.scheduled_at.to_string(), slot.starts_at.to_string()]);
    table(&["SLOT", "STARTS"], rows.collect())
}

pub(super) fn fires(items: &[FireBody]) -> String {
    let rows = items.iter().map(|fire| {
        vec![
            fire.scheduled_at.to_string(),
            fire.task_id.to_string(),
            fire.state.map_or("forgotten", |state| state.as_str()).to_owned(),
            text(fire.started_at),
            text(fire.completed_at),
            if fire.manual { "by hand".to_owned() } else { String::new() },
        ]
    });
    table(&["SLOT", "TASK", "STATE", "STARTED", "FINISHED", ""], rows.collect())
}

fn text(time: Option<Time>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}
