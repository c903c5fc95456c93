//! What failed last, from whatever told it.

use windlass_core::StateName;
use windlass_proto::rest::{LedgerBody, StatsBody, TaskEventBody, Time};

use super::snapshot::{FAILURES_MAX, Failed};

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The latest first. `None` until somebody asked for them.
    failures: Option<Vec<Failed>>,
    /// What had failed when they were asked for.
    seen: Option<(LedgerBody, u64, u64)>,
}

impl Recent {
    pub(super) fn failures(&self) -> Vec<Failed> {
        self.failures.clone().unwrap_or_default()
    }

    /// Whether the broker must be asked for them. Failed tasks come with their payloads, so that is not done without need: not
    /// while events tell them, nor while nothing failed.
    pub(super) fn is_stale(&self, stats: &StatsBody, told: bool) -> bool {
        self.failures.is_none() || (!told && self.seen != Some(seen(stats)))
    }

    pub(super) fn asked(&mut self, failures: Vec<Failed>, stats: &StatsBody) {
        self.failures = Some(failures);
        self.seen = Some(seen(stats));
    }

    /// Events are missing.
    pub(super) fn forget(&mut self) {
        self.failures = None;
    }

    pub(super) fn hear(&mut self, task: TaskEventBody, at: Time) {
        // What is asked for later knows of it.
        let Some(failures) = &mut self.failures else { return };
        let id = task.task_id.to_string();
        let known = failures.iter().position(|failed| failed.task_id == id);
        let before = known.map(|row| failures.remove(row));
        if !matches!(task.state, StateName::Retrying | StateName::DeadLetter) {
            return;
        }
        // One event says that it failed, the next what becomes of it, and only the first has the error.
        let error = task.error.map(String::from);
        let error = error.or_else(|| before.map(|failed| failed.error)).unwrap_or_default();
        let failed = Failed {
            task_id: id,
            kind: task.kind.to_string(),
            queue: task.queue.to_string(),
            state: task.state.as_str().to_owned(),
            attempts: task.attempts,
            error,
            at,
        };
        failures.insert(0, failed);
        failures.truncate(FAILURES_MAX);
    }
}

fn seen(stats: &StatsBody) -> (LedgerBody, u64, u64) {
    // Only what counts failures: the rest changes all the time.
    let LedgerBody { failed, crashed, dead_lettered, .. } = stats.ledger;
    let ledger = LedgerBody { failed, crashed, dead_lettered, ..LedgerBody::default() };
    (ledger, stats.tasks.retrying, stats.tasks.dead_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: &str, state: &str, error: Option<&str>) -> TaskEventBody {
        serde_json::from_value(serde_json::json!({"task_id": id, "type": "t", "queue": "q", "state": state,
            "revision": 1, "priority": 100, "attempts": 2, "error": error}))
        .unwrap()
    }

    #[test]
    fn the_last_failure_is_first_and_what_runs_again_is_none() {
        let mut recent = Recent { failures: Some(Vec::new()), seen: None };
        let ids = |recent: &Recent| -> Vec<String> {
            recent
                .failures()
                .into_iter()
                .map(|failed| format!("{} {}", failed.task_id, failed.error))
                .collect()
        };
        recent.hear(told("a", "retrying", Some("boom")), Time::from_ms(1));
        recent.hear(told("b", "dead_letter", Some("bang")), Time::from_ms(2));
        recent.hear(told("a", "dead_letter", None), Time::from_ms(3));
        assert_eq!(ids(&recent), ["a boom", "b bang"]);
        recent.hear(told("b", "pending", None), Time::from_ms(4));
        assert_eq!(ids(&recent), ["a boom"], "somebody retried it");
        for n in 0..2 * FAILURES_MAX {
            recent.hear(told(&format!("t{n}"), "retrying", Some("x")), Time::from_ms(5));
        }
        assert_eq!(recent.failures().len(), FAILURES_MAX);
    }
}
