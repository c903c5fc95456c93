//! What is printed of it.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_core::StateName;
use windlass_store::migrate::Difference;

use super::{Args, Outcome};
use crate::cli::output::{Output, fields, table};

#[derive(Debug, Serialize)]
struct Body {
    from: String,
    to: String,
    dry_run: bool,
    tasks: u64,
    running: u64,
    /// Absent if nothing was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<Copied>,
    queues: Vec<Queue>,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

#[derive(Debug, Serialize)]
struct Copied {
    added: u64,
    /// By an earlier run that ended before its time.
    there: u64,
    schedules: u64,
    limits: u64,
    operations: u64,
}

#[derive(Debug, Serialize)]
struct Queue {
    queue: String,
    paused: bool,
    states: BTreeMap<&'static str, u64>,
}

pub(super) fn outcome(args: &Args, outcome: &Outcome, output: &Output) {
    let body = body(args, outcome);
    output.value(&body, || text(&body));
}

fn body(args: &Args, outcome: &Outcome) -> Body {
    let Outcome { survey, copied, verified } = outcome;
    let states = |by_state: &[u64; 8]| {
        let counts = StateName::ALL.into_iter().zip(by_state).filter(|(_, count)| **count > 0);
        counts.map(|(state, count)| (state.as_str(), *count)).collect()
    };
    let queue = |queue: &windlass_store::QueueCounts| {
        // As they are at the destination, where that was looked at.
        let moved = verified.as_ref().and_then(|verified| verified.queues.get(&queue.name));
        Queue {
            queue: queue.name.to_string(),
            paused: queue.paused,
            states: states(moved.unwrap_or(&queue.by_state)),
        }
    };
    Body {
        from: args.from.to_string(),
        to: args.to.to_string(),
        dry_run: args.dry_run,
        tasks: survey.tasks,
        running: survey.running,
        copied: copied.map(|copied| Copied {
            added: copied.added,
            there: copied.there,
            schedules: copied.schedules,
            limits: copied.limits,
            operations: copied.operations,
        }),
        queues: survey.queues.iter().map(queue).collect(),
        verified: verified.is_some(),
        workflows: verified.as_ref().map(|verified| verified.workflows),
        digest: verified.as_ref().map(|verified| verified.digest.clone()),
    }
}

fn text(body: &Body) -> String {
    let row = |queue: &Queue| {
        let states: Vec<String> =
            queue.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        vec![
            queue.queue.clone(),
            states.join(", "),
            if queue.paused { "paused".into() } else { String::new() },
        ]
    };
    let queues = table(&["QUEUE", "TASKS", ""], body.queues.iter().map(row).collect());
    let done = match (&body.copied, body.dry_run) {
        (_, true) => format!("would copy {} tasks", body.tasks),
        (Some(copied), _) => format!("copied {}, there before {}", copied.added, copied.there),
        (None, false) => "copied nothing".to_owned(),
    };
    let beside = body.copied.as_ref().map_or(String::new(), |copied| {
        let Copied { schedules, limits, operations, .. } = copied;
        format!("{schedules} schedules, {limits} limits, {operations} operations")
    });
    let workflows = body.workflows.map_or(String::new(), |count| count.to_string());
    let verified = body.digest.as_ref().map_or(String::new(), |digest| format!("the same, sha256 {digest}"));
    let summary = fields(&[
        ("from", body.from.clone()),
        ("to", body.to.clone()),
        ("tasks", done),
        ("running", body.running.to_string()),
        ("beside", beside),
        ("workflows", workflows),
        ("verified", verified),
    ]);
    format!("{queues}\n\n{summary}")
}

#[derive(Debug, Serialize)]
struct Different<'a> {
    verified: bool,
    differences: Vec<BTreeMap<&'static str, &'a str>>,
}

fn row(Difference { what, how }: &Difference) -> BTreeMap<&'static str, &str> {
    BTreeMap::from([("what", what.as_str()), ("how", how.as_str())])
}

/// For programs; people are told by the error.
pub(super) fn differences(some: &[Difference], output: &Output) {
    if !output.is_json() {
        return;
    }
    let body = Different { verified: false, differences: some.iter().map(row).collect() };
    output.value(&body, String::new);
}
