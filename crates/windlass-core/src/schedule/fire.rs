//! From a slot to a task.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use super::{Fire, Schedule};
use crate::choice::Draws;
use crate::ids::TaskId;
use crate::task::{Body, Counted, NewTask, Payload};
use crate::time::Stamp;

/// Stands for the slot in the payload of a template.
pub const PLACEHOLDER: &str = "{{scheduled_at}}";

/// A slot that will fire, and when its task may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub slot: u64,
    pub starts_at: u64,
}

impl Schedule {
    /// The next slots as they are known now, without regard to overlaps.
    pub fn preview(&self, now: impl Into<Stamp>, count: usize) -> Vec<Planned> {
        let now = now.into();
        let shown = |at: u64| self.definition.shown(at, now);
        let mut from = self.definition.clock(now).max(self.progress.cursor);
        let next = || {
            from = self.definition.next_slot(from)?;
            Some(Planned { slot: shown(from), starts_at: shown(self.starts_at(from)) })
        };
        std::iter::from_fn(next).take(count).collect()
    }

    /// The same slot always gets the same jitter, on every machine.
    pub(super) fn starts_at(&self, slot: u64) -> u64 {
        let seed = self.id.as_str().bytes().fold(slot, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
        slot + Draws::new(seed).next_u64() % (self.definition.jitter_ms + 1)
    }

    pub(super) fn fire_slot(&self, slot: u64, now: Stamp) -> (Fire, NewTask) {
        // The id uses the clock of the slots, on which no two slots are equal.
        let id = format!("{}:{}", self.id, slot_text(slot));
        let task = TaskId::new(&id).expect("the id of a schedule leaves room for a slot");
        let shown = |at: u64| self.definition.shown(at, now);
        let fire = Fire { slot: shown(slot), fired_at: now.wall, task, manual: false };
        self.fire(fire, shown(self.starts_at(slot)), now)
    }

    /// `starts_at` is when the task may start; a moment that has come means at once.
    pub(super) fn fire(&self, fire: Fire, starts_at: u64, now: Stamp) -> (Fire, NewTask) {
        let template = &self.definition.template;
        let task = NewTask {
            id: fire.task.clone(),
            queue: template.queue.clone(),
            kind: template.kind.clone(),
            priority: template.priority,
            created_at: fire.fired_at,
            scheduled_at: Some(starts_at),
            expires_at: None,
            retention_ms: template.retention_ms,
            counted: Counted { ahead: now.ahead, delayed: self.definition.timing.is_steady() },
            unique: None,
            key: template.key.clone(),
            body: Body {
                payload: fill(&template.body.payload, fire.slot),
                // With a fingerprint the store looks the id up, and finds what was fired before.
                fingerprint: Some(fingerprint(fire.slot)),
                ..template.body.clone()
            },
        };
        (fire, task)
    }
}

fn fingerprint(slot: u64) -> [u8; 16] {
    let mut bytes = *b"schedule\0\0\0\0\0\0\0\0";
    bytes[8..].copy_from_slice(&slot.to_be_bytes());
    bytes
}

/// As in ids: RFC 3339 in UTC, with milliseconds only if there are any.
fn slot_text(slot: u64) -> String {
    text(slot, (!slot.is_multiple_of(1000)).then_some(3))
}

fn text(ms: u64, precision: Option<u8>) -> String {
    let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let printer = DateTimePrinter::new().precision(precision.or(Some(0)));
    printer.timestamp_to_string(&moment.unwrap_or(Timestamp::MAX))
}

/// Replaces [`PLACEHOLDER`] by the slot wherever it stands, as such, in a string that is a value of a JSON payload. Keys
/// and bytes are left alone.
fn fill(payload: &Payload, slot: u64) -> Payload {
    let Payload::Json(json) = payload else { return payload.clone() };
    let Ok(json_text) = std::str::from_utf8(json) else { return payload.clone() };
    if !json_text.contains(PLACEHOLDER) {
        return payload.clone();
    }
    let slot: Arc<str> = text(slot, Some(3)).into();
    let mut filled = String::with_capacity(json_text.len() + 64);
    let mut rest = json_text;
    while let Some(start) = rest.find('"') {
        let end = start + 1 + string_bytes(&rest[start + 1..]);
        filled.push_str(&rest[..start]);
        let string = &rest[start..end];
        rest = &rest[end..];
        let is_key = rest.trim_start().starts_with(':');
        if is_key {
            filled.push_str(string);
        } else {
            filled.push_str(&string.replace(PLACEHOLDER, &slot));
        }
    }
    filled.push_str(rest);
    Payload::Json(Bytes::from(filled))
}

/// How far a JSON string goes, its closing quote included.
fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_filled_into_values_and_nothing_else() {
        let fill = |text: &str| {
            let filled =
                super::fill(&Payload::Json(Bytes::copy_from_slice(text.as_bytes())), 1_790_000_000_000);
            String::from_utf8(filled.bytes().to_vec()).unwrap()
        };
        let slot = "2026-09-21T14:13:20.000Z";
        let cases = [
            (r#"{"at":"{{scheduled_at}}"}"#, format!(r#"{{"at":"{slot}"}}"#)),
            (
                r#"[ "from {{scheduled_at}} to {{scheduled_at}}" , 1]"#,
                format!(r#"[ "from {slot} to {slot}" , 1]"#),
            ),
            (r#"{"{{scheduled_at}}" : "x"}"#, r#"{"{{scheduled_at}}" : "x"}"#.to_owned()),
            (
                r#"{"a\"{{scheduled_at}}":"\"{{scheduled_at}}\\"}"#,
                format!(r#"{{"a\"{{{{scheduled_at}}}}":"\"{slot}\\"}}"#),
            ),
            (r#""{{scheduled_at}}""#, format!(r#""{slot}""#)),
            (r#"{"at":"{{ scheduled_at }}"}"#, r#"{"at":"{{ scheduled_at }}"}"#.to_owned()),
        ];
        for (template, filled) in cases {
            assert_eq!(fill(template), filled, "{template}");
        }
        let bytes = Payload::Binary(Bytes::from_static(b"\"{{scheduled_at}}\""));
        assert_eq!(super::fill(&bytes, 0), bytes);
    }

    #[test]
    fn slots_read_as_times() {
        assert_eq!(slot_text(1_790_000_000_000), "2026-09-21T14:13:20Z");
        assert_eq!(slot_text(1_790_000_000_500), "2026-09-21T14:13:20.500Z");
    }
}
