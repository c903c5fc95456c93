//! Why a task is not running now.

use windlass_core::flow::{Ageing, Closed, Scope};
use windlass_core::{Class, Ended, Record, State, StateName, TaskId};

use crate::broker::Broker;
use crate::error::Error;

#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub state: StateName,
    /// Nothing but its place in line keeps it from running, or it runs.
    pub runnable: bool,
    /// What holds it up now comes first; what would hold it up afterwards follows.
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// paused, limit_paused, limit_full, rate_limited, scheduled, retrying, blocked, no_worker, worker_paused, position, running
    /// or terminal
    pub code: &'static str,
    pub text: String,
    /// When this reason ends by itself, if that is known; wall clock.
    pub until: Option<u64>,
}

impl Broker {
    pub async fn explain(&self, id: &TaskId) -> Result<Explanation, Error> {
        let mut record = self.inner.store.peek(id).await?.ok_or(Error::NotFound("task"))?;
        self.show(&mut record);
        let now = self.now().wall;
        let mut reasons = Vec::new();
        let own = own_reason(&record, now);
        let waits_alone = own.is_some();
        reasons.extend(own);
        let started = matches!(record.state, State::Running(_));
        if started || record.state.is_terminal() {
            return Ok(Explanation { state: record.state_name(), runnable: started, reasons });
        }
        if let State::Blocked { open } = record.state {
            reasons = vec![self.blocked_reason(&record, open).await?];
        }
        let held_up = reasons.len();
        self.queue_reasons(&record, &mut reasons).await?;
        self.limit_reasons(&record, now, &mut reasons).await?;
        self.worker_reasons(&record, &mut reasons);
        let runnable = !waits_alone && reasons.len() == held_up;
        if record.state == State::Pending {
            reasons.push(self.position_reason(&record).await?);
        }
        Ok(Explanation { state: record.state_name(), runnable, reasons })
    }

    /// Names the first few of those it waits for.
    async fn blocked_reason(&self, record: &Record, open: u32) -> Result<Reason, Error> {
        const NAMED_MAX: usize = 5;
        /// Records looked at to find them; of thousands, those that completed may come first.
        const LOOKED_AT_MAX: usize = 1000;
        let task = self.get(&record.id).await?;
        let ids = task.body.dependencies();
        let mut named: Vec<String> = Vec::new();
        for ids in ids[..ids.len().min(LOOKED_AT_MAX)].chunks(100) {
            let records = self.inner.store.peek_all(ids).await?.into_iter().flatten();
            let waited_for = records.filter(|record| Ended::of(record) != Some(Ended::Completed));
            named.extend(waited_for.map(|it| format!("{} ({})", it.id, it.state_name().as_str())));
            if named.len() >= NAMED_MAX {
                break;
            }
        }
        named.truncate(NAMED_MAX);
        let more = (open as usize).saturating_sub(named.len());
        let text = match (&named[..], more) {
            ([], _) => "The tasks that it depends on have just ended; it is told at once.".to_owned(),
            ([one], 0) => format!("It waits for task {one}."),
            (some, 0) => format!("It waits for {} tasks: {}.", some.len(), some.join(", ")),
            (some, more) => format!("It waits for {open} tasks: {} and {more} more.", some.join(", ")),
        };
        Ok(Reason { code: "blocked", text, until: None })
    }

    async fn queue_reasons(&self, record: &Record, reasons: &mut Vec<Reason>) -> Result<(), Error> {
        let counts = self.inner.store.queues(Some(&record.queue)).await?.pop();
        if counts.is_some_and(|counts| counts.paused) {
            let text = format!("The queue {} is paused; resume it to let its tasks run.", record.queue);
            reasons.push(Reason { code: "paused", text, until: None });
        }
        Ok(())
    }

    async fn limit_reasons(&self, record: &Record, now: u64, reasons: &mut Vec<Reason>) -> Result<(), Error> {
        for hold in self.inner.store.holds(record).await? {
            let what = format!("{} {}", hold.scope.as_str(), hold.name);
            let (code, text, until) = match hold.closed {
                Closed::Paused => {
                    let text = format!("The limit of {what} is paused; change it to let its tasks run.");
                    ("limit_paused", text, None)
                }
                Closed::Full { running, max } => {
                    let ids: Vec<&str> = hold.held_by.iter().map(|id| id.as_str()).collect();
                    let by =
                        if ids.is_empty() { String::new() } else { format!(", held by {}", ids.join(", ")) };
                    let more = if running > ids.len() as u64 && !ids.is_empty() { " and others" } else { "" };
                    ("limit_full", format!("The {what} is at {running}/{max}{by}{more}."), None)
                }
                Closed::NoToken { until } => {
                    let left = until.saturating_sub(now) as f64 / 1000.0;
                    let text = format!("The {what} has used up its rate; next token in {left:.1} s.");
                    ("rate_limited", text, Some(until))
                }
            };
            reasons.push(Reason { code, text, until });
        }
        Ok(())
    }

    fn worker_reasons(&self, record: &Record, reasons: &mut Vec<Reason>) {
        let (queue, kind) = (&record.queue, &record.kind);
        let listening = self.inner.workers.listening(queue, kind, self.now());
        if listening.active > 0 {
            return;
        }
        if !listening.paused.is_empty() {
            let names: Vec<&str> = listening.paused.iter().take(5).map(|name| name.as_str()).collect();
            let count = listening.paused.len();
            let text = format!(
                "Every worker that listens to queue {queue} and type {kind} is paused ({count}: {}).",
                names.join(", ")
            );
            reasons.push(Reason { code: "worker_paused", text, until: None });
            return;
        }
        let others = if listening.others.is_empty() {
            "No worker is connected at all.".to_owned()
        } else {
            format!("Connected: {}.", listening.others.join("; "))
        };
        let text = format!("No worker listens to queue {queue} and type {kind}. {others}");
        reasons.push(Reason { code: "no_worker", text, until: None });
    }

    async fn position_reason(&self, record: &Record) -> Result<Reason, Error> {
        let limit = self.inner.store.limit(Scope::Queue, &record.queue).await?;
        let ageing = limit.and_then(|status| status.limit.ageing);
        let among = if ageing.is_some() { "queue, type and priority" } else { "queue and type" };
        let place = match self.inner.store.position(record).await? {
            Some(0) => format!("It is next in line among the tasks of its {among}."),
            Some(1) => format!("One task of its {among} is ahead of it."),
            Some(ahead) => format!("{ahead} tasks of its {among} are ahead of it."),
            None => "It is far back in line.".to_owned(),
        };
        let counts = self.inner.store.queues(Some(&record.queue)).await?.pop();
        let pending = counts.map_or([0; 4], |counts| counts.pending_by_class);
        let of_class = Class::ALL.iter().zip(pending).filter(|(_, count)| *count > 0);
        let list: Vec<String> =
            of_class.map(|(class, count)| format!("{count} {}", class.as_str())).collect();
        let text = format!(
            "{place} Its priority is {} ({}){}; pending in the queue: {}.",
            record.priority.0,
            record.priority.class().as_str(),
            ageing.map(|ageing| aged(record, ageing, self.now().wall)).unwrap_or_default(),
            if list.is_empty() { "none".to_owned() } else { list.join(", ") }
        );
        Ok(Reason { code: "position", text, until: None })
    }
}

/// What it has gained by waiting.
fn aged(record: &Record, ageing: Ageing, now: u64) -> String {
    let gained = ageing.gained(record.ready_at, now);
    let counts_as = u64::from(record.priority.0) + gained;
    let every = ageing.every_ms as f64 / 1000.0;
    format!(" and counts as {counts_as}, since the queue adds 1 for every {every} s of waiting")
}

/// The reason that lies in the task itself; a pending task has none.
fn own_reason(record: &Record, now: u64) -> Option<Reason> {
    let (code, text, until) = match &record.state {
        State::Pending => return None,
        State::Scheduled { at } => {
            ("scheduled", format!("It waits for its time, {}.", distance(*at, now)), Some(*at))
        }
        State::Retrying { at } => {
            let error = record.error.as_deref().unwrap_or("no error text");
            let text = format!(
                "Attempt {} failed ({}); the next one starts {}.",
                record.attempts,
                first_line(error),
                distance(*at, now)
            );
            ("retrying", text, Some(*at))
        }
        State::Blocked { .. } => ("blocked", "It waits for tasks that it depends on.".to_owned(), None),
        State::Running(lease) => {
            let text = format!(
                "It runs: attempt {} began {} on worker {}.",
                record.attempts,
                distance(lease.started_at, now),
                lease.worker
            );
            ("running", text, Some(lease.expires_at))
        }
        State::Completed { at } => ("terminal", format!("It was completed {}.", distance(*at, now)), None),
        State::DeadLetter { at } => {
            let error = record.error.as_deref().unwrap_or("no error text");
            let text = format!(
                "It became a dead letter {} after {} attempts ({}); retry it to run it again.",
                distance(*at, now),
                record.attempts,
                first_line(error)
            );
            ("terminal", text, None)
        }
        State::Cancelled { at, reason } => {
            let why = match reason {
                windlass_core::CancelReason::Asked => "was cancelled",
                windlass_core::CancelReason::Expired => "expired before it could start and was cancelled",
                windlass_core::CancelReason::Replaced => {
                    "was cancelled because a newer submit with its unique key took its place"
                }
                windlass_core::CancelReason::Dependency => {
                    "was cancelled because a task that it depends on was cancelled,"
                }
                windlass_core::CancelReason::Forgotten => "was cleared away, which its dependents are told,",
            };
            ("terminal", format!("It {why} {}.", distance(*at, now)), None)
        }
    };
    Some(Reason { code, text, until })
}

/// An error text may be a stack trace; the explanation needs its first line only.
fn first_line(error: &str) -> String {
    const CHARS_MAX: usize = 200;
    let line = error.lines().next().unwrap_or_default();
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

/// "in 4 m 10 s" or "4 m 10 s ago".
pub(crate) fn distance(at: u64, now: u64) -> String {
    let length = length(at.abs_diff(now));
    if at > now { format!("in {length}") } else { format!("{length} ago") }
}

/// "4 m 10 s".
pub(crate) fn length(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let (d, h, m, s) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{m} m {s} s"),
        (0, _, _) => format!("{h} h {m} m"),
        _ => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_read_well() {
        assert_eq!(distance(10_000, 0), "in 10 s");
        assert_eq!(distance(0, 250_000), "4 m 10 s ago");
        assert_eq!(distance(0, 3_600_000), "1 h 0 m ago");
        assert_eq!(distance(90_000_000, 0), "in 1 d 1 h");
    }

    #[test]
    fn long_errors_are_cut_at_a_character() {
        assert_eq!(first_line("boom\n  at main"), "boom");
        let long = "ü".repeat(300);
        assert_eq!(first_line(&long).chars().count(), 201);
    }
}
