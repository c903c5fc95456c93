//! Which slots have fired.

use std::collections::BTreeMap;

use super::expect;
use crate::http::Http;
use crate::proof::Trouble;

/// The fires of the schedules: how often each slot of each has a task.
#[derive(Debug, Default)]
pub(super) struct Slots(BTreeMap<(String, String), usize>);

impl Slots {
    pub(super) async fn read(http: &mut Http) -> Result<Slots, Trouble> {
        let mut slots = Slots::default();
        let mut cursor = String::new();
        loop {
            let page =
                expect(http.get(&format!("/api/v1/tasks?limit=1000&queue=slots{cursor}")).await?, 200)?;
            for task in page["items"].as_array().into_iter().flatten() {
                // The payload has the slot as people know it; a beat is known by its id, on a clock that is never set.
                let schedule = task["payload"]["schedule"].as_str().unwrap_or_default();
                let slot = if schedule == "cron" { &task["payload"]["slot"] } else { &task["id"] };
                slots.add(schedule, slot.as_str().unwrap_or_default());
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(slots),
            }
        }
    }

    pub(super) fn add(&mut self, schedule: &str, slot: &str) {
        *self.0.entry((schedule.to_owned(), slot.to_owned())).or_default() += 1;
    }

    pub(super) fn count(&self, schedule: &str) -> usize {
        self.0.iter().filter(|((of, _), _)| of == schedule).map(|(_, count)| count).sum()
    }

    pub(super) fn total(&self) -> usize {
        self.0.values().sum()
    }

    pub(super) fn doubled(&self) -> Vec<String> {
        let twice = self.0.iter().filter(|(_, count)| **count > 1);
        twice
            .map(|((schedule, slot), count)| format!("slot {slot} of {schedule} fired {count} times"))
            .collect()
    }
}
