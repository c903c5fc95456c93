//! The books of a broker against a full scan of its tasks, through its API.
//!
//! Statistics and lists are separate requests, so the scan stands between two readings of the statistics and counts only
//! if they agree; timers may have moved something meanwhile.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::http::Http;
use crate::judge::Seen;
use crate::proof::Trouble;

const TRIES: usize = 20;

/// Everything a broker has.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) stats: Value,
    pub(crate) queues: Value,
    pub(crate) tasks: Vec<Value>,
    running: Vec<Value>,
}

/// Groups that were written and synced by the thread that had read them, in this life of the broker.
pub(crate) async fn groups_by_callers(http: &mut Http) -> Result<u64, Trouble> {
    let metrics = expect(http, "/metrics").await?;
    let mut lines = metrics.as_str().unwrap_or_default().lines();
    let count = lines.find_map(|line| line.strip_prefix("taskqueue_store_groups_by_callers_total "));
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or_default())
}

impl Scan {
    /// Everything at one moment.
    pub(crate) async fn take(http: &mut Http) -> Result<Scan, Trouble> {
        for _ in 0..TRIES {
            let before = expect(http, "/api/v1/stats").await?;
            let scan = Scan {
                queues: expect(http, "/api/v1/queues").await?,
                tasks: list(http, "").await?,
                running: list(http, "&state=running").await?,
                stats: expect(http, "/api/v1/stats").await?,
            };
            if before["tasks"] == scan.stats["tasks"] && before["ledger"] == scan.stats["ledger"] {
                return Ok(scan);
            }
        }
        Err(Trouble::failed("unknown: the broker never came to rest for a scan"))
    }

    pub(crate) fn seen(&self) -> HashMap<String, Seen> {
        let seen = |task: &Value| {
            let attempts = task["attempts"].as_u64().unwrap_or_default();
            (text(task, "id"), Seen { state: text(task, "state"), attempts })
        };
        self.tasks.iter().map(seen).collect()
    }

    /// G8: a task runs exactly while it is leased, and every counter says so.
    pub(crate) fn judge_leases(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for task in &self.tasks {
            let runs = task["state"] == "running";
            if runs == task["worker_id"].is_null() || runs == task["lease_expires_at"].is_null() {
                wrong.push(format!("state and lease disagree: {task}"));
            }
        }
        let mut scanned: Vec<String> = self
            .tasks
            .iter()
            .filter(|task| task["state"] == "running")
            .map(|task| text(task, "id"))
            .collect();
        let mut listed: Vec<String> = self.running.iter().map(|task| text(task, "id")).collect();
        scanned.sort_unstable();
        listed.sort_unstable();
        if scanned != listed {
            wrong.push(format!("{} tasks run, but {} are listed as running", scanned.len(), listed.len()));
        }
        wrong.extend(self.judge_counters());
        wrong
    }

    /// Counters by state, of all and of each queue, against the scan.
    fn judge_counters(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let all = counted(self.tasks.iter());
        wrong.extend(disagreement("all queues", &all, &self.stats["tasks"]));
        for queue in self.queues["items"].as_array().into_iter().flatten() {
            let of_queue = counted(self.tasks.iter().filter(|task| task["queue"] == queue["name"]));
            wrong.extend(disagreement(&text(queue, "name"), &of_queue, &queue["tasks"]));
        }
        wrong
    }

    /// G12: what was submitted is there, or was removed. Holds for runs without manual retries.
    pub(crate) fn judge_ledger(&self) -> Vec<String> {
        let ledger = |name: &str| self.stats["ledger"][name].as_u64().unwrap_or(u64::MAX);
        let all = counted(self.tasks.iter());
        let count = |state: &str| all.get(state).copied().unwrap_or_default();
        let total = self.tasks.len() as u64;
        let mut wrong = Vec::new();
        let mut balance = |what: &str, booked: u64, found: u64| {
            if booked != found {
                wrong.push(format!("the books do not balance: {what} booked {booked}, found {found}"));
            }
        };
        balance("submitted less removed", ledger("submitted").wrapping_sub(ledger("removed")), total);
        let ended = ledger("cancelled").wrapping_add(ledger("expired"));
        if ledger("removed") == 0 {
            balance("completed", ledger("completed"), count("completed"));
            balance("dead", ledger("dead_lettered"), count("dead_letter"));
            balance("cancelled and expired", ended, count("cancelled"));
        }
        wrong
    }

    pub(crate) fn live(&self) -> u64 {
        let live = |task: &&Value| {
            !matches!(task["state"].as_str(), Some("completed" | "dead_letter" | "cancelled"))
        };
        self.tasks.iter().filter(live).count() as u64
    }
}

fn counted<'a>(tasks: impl Iterator<Item = &'a Value>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for task in tasks {
        *counts.entry(text(task, "state")).or_default() += 1;
    }
    counts
}

fn disagreement(whose: &str, counted: &BTreeMap<String, u64>, told: &Value) -> Option<String> {
    let told: BTreeMap<String, u64> = told
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(state, count)| Some((state.clone(), count.as_u64().filter(|count| *count > 0)?)))
        .collect();
    (told != *counted).then(|| format!("the counters of {whose} say {told:?}, but there are {counted:?}"))
}

/// Every page of a list.
pub(crate) async fn list(http: &mut Http, filter: &str) -> Result<Vec<Value>, Trouble> {
    let mut tasks = Vec::new();
    let mut cursor = String::new();
    loop {
        let mut page = expect(http, &format!("/api/v1/tasks?limit=1000{filter}{cursor}")).await?;
        if let Some(items) = page["items"].as_array_mut() {
            tasks.append(items);
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(tasks),
        }
    }
}

/// The body of an answer that must be a success.
pub(crate) async fn expect(http: &mut Http, path: &str) -> Result<Value, Trouble> {
    let answer = http.get(path).await?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    Err(Trouble::failed(format!("GET {path} answered {}: {}", answer.status, answer.body)))
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Scans that are wrong in one way each: an audit that accepts one of them proves nothing.
pub(crate) fn self_test() -> Result<(), Trouble> {
    use serde_json::json;

    let task =
        json!({"id": "a", "queue": "q", "state": "running", "worker_id": "w", "lease_expires_at": "t"});
    let right = || Scan {
        stats: json!({"tasks": {"running": 1, "pending": 0},
            "ledger": {"submitted": 1, "completed": 0, "dead_lettered": 0, "cancelled": 0, "expired": 0, "removed": 0}}),
        queues: json!({"items": [{"name": "q", "tasks": {"running": 1}}]}),
        tasks: vec![task.clone()],
        running: vec![task.clone()],
    };
    let judged = |change: &dyn Fn(&mut Scan)| {
        let mut scan = right();
        change(&mut scan);
        (!scan.judge_leases().is_empty(), !scan.judge_ledger().is_empty())
    };
    let cases = [
        ("right books", judged(&|_| {}), (false, false)),
        ("a lease without a worker", judged(&|scan| scan.tasks[0]["worker_id"] = Value::Null), (true, false)),
        ("a running task that is not listed", judged(&|scan| scan.running.clear()), (true, false)),
        ("a wrong counter", judged(&|scan| scan.stats["tasks"]["running"] = json!(2)), (true, false)),
        (
            "a wrong counter of a queue",
            judged(&|scan| scan.queues["items"][0]["tasks"]["pending"] = json!(1)),
            (true, false),
        ),
        ("a vanished task", judged(&|scan| scan.stats["ledger"]["submitted"] = json!(2)), (false, true)),
        (
            "a completion from nowhere",
            judged(&|scan| scan.stats["ledger"]["completed"] = json!(1)),
            (false, true),
        ),
    ];
    let misjudged: Vec<String> = cases
        .into_iter()
        .filter(|(_, judged, right)| judged != right)
        .map(|(case, ..)| format!("the audit misjudges {case}"))
        .collect();
    if misjudged.is_empty() { Ok(()) } else { Err(Trouble::Failed(misjudged)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_audit_sees_every_wrong_book() {
        super::self_test().unwrap();
    }
}
