mod oracle;
mod rules;

use bytes::Bytes;

use super::*;
use crate::task::Payload;
use crate::{limits, retry};

/// Monday, 2 November 2026, 12:00 UTC.
const NOON: u64 = 1_793_620_800_000;
const MINUTE: u64 = 60_000;

fn timing(cron: &str, zone: &str) -> Timing {
    Timing::parse(cron, zone).unwrap_or_else(|error| panic!("{cron}: {error}"))
}

/// A schedule of the pattern in UTC, made at noon.
fn schedule(cron: &str, adjust: impl FnOnce(&mut Definition)) -> Schedule {
    let mut definition = Definition {
        timing: timing(cron, "UTC"),
        template: Template {
            queue: Name::new("default").unwrap(),
            kind: Name::new("report").unwrap(),
            priority: Priority::default(),
            retention_ms: limits::RETENTION_MS_DEFAULT,
            key: None,
            body: Body {
                payload: Payload::Json(Bytes::from_static(br#"{"at":"{{scheduled_at}}"}"#)),
                metadata: Vec::new(),
                timeout_ms: 1000,
                max_retries: 0,
                max_crashes: 1,
                retry: retry::Policy::default(),
                fingerprint: None,
                links: None,
            },
        },
        overlap: Overlap::Allow,
        catch_up: CatchUp::One,
        window_ms: limits::SCHEDULE_WINDOW_MS_DEFAULT,
        jitter_ms: 0,
        starts_at: None,
        ends_at: None,
        paused: false,
    };
    adjust(&mut definition);
    Schedule::new(Name::new("nightly").unwrap(), definition, NOON)
}

/// The slots that a tick fires, after it was carried out; minutes after noon.
fn fired(schedule: &mut Schedule, now: u64, live: bool) -> Vec<u64> {
    let Some(tick) = schedule.tick(now, live) else { return Vec::new() };
    schedule.advance(&tick.advance);
    tick.advance.fires.iter().map(|fire| (fire.slot - NOON) / MINUTE).collect()
}
