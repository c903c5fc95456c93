//! Compares what clients were told with what the broker has after a full drain.

use std::collections::HashMap;
use std::fmt;

use crate::history::{Known, Plan, Story};

/// A task as the broker shows it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: String,
    pub(crate) attempts: u64,
}

/// The figures and the complaints, each sort apart.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acknowledged: usize,
    pub(crate) unknown: usize,
    pub(crate) completed: usize,
    pub(crate) lost: usize,
    pub(crate) unexpected: usize,
    /// Beyond what was planned; at-least-once allows it.
    pub(crate) delivered_twice: usize,
    pub(crate) completed_twice: usize,
    pub(crate) redelivered_after_completion: usize,
    pub(crate) unfinished: usize,
    examples: Vec<String>,
}

const EXAMPLES_MAX: usize = 12;

impl Findings {
    /// What must not be, in words; empty if the history is right.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.examples.clone()
    }

    fn complain(&mut self, words: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(words);
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged, {} unknown, {} completed, {} lost, {} unexpected, {} delivered twice, {} completed twice",
            self.acknowledged,
            self.unknown,
            self.completed,
            self.lost,
            self.unexpected,
            self.delivered_twice,
            self.completed_twice
        )?;
        if self.redelivered_after_completion > 0 {
            write!(f, ", {} given out after completion", self.redelivered_after_completion)?;
        }
        if self.unfinished > 0 {
            write!(f, ", {} unfinished", self.unfinished)?;
        }
        Ok(())
    }
}

pub(crate) fn judge(
    stories: &HashMap<String, Story>,
    seen: &HashMap<String, Seen>,
    surprises: &[String],
) -> Findings {
    let mut findings = Findings::default();
    for words in surprises {
        findings.unexpected += 1;
        findings.complain(words.clone());
    }
    for (id, story) in stories {
        judge_task(id, story, seen.get(id), &mut findings);
    }
    for id in seen.keys().filter(|id| !stories.contains_key(*id)) {
        findings.unexpected += 1;
        findings.complain(format!("unexpected: nobody submitted {id}"));
    }
    findings
}

fn judge_task(id: &str, story: &Story, seen: Option<&Seen>, findings: &mut Findings) {
    match story.submit {
        Known::Acknowledged => findings.acknowledged += 1,
        Known::Unknown => findings.unknown += 1,
        Known::Refused => {}
    }
    judge_deliveries(id, story, findings);
    let Some(seen) = seen else {
        // Whoever was given a task, or heard that it is finished, has seen it accepted.
        let existed = story.submit == Known::Acknowledged || !story.deliveries.is_empty();
        if existed {
            findings.lost += 1;
            findings.complain(format!("lost: {id} was acknowledged and is gone ({story:?})"));
        }
        return;
    };
    if story.submit == Known::Refused {
        findings.unexpected += 1;
        findings.complain(format!("unexpected: {id} was refused and is there"));
    }
    findings.completed += usize::from(seen.state == "completed");
    judge_end(id, story, seen, findings);
}

fn judge_deliveries(id: &str, story: &Story, findings: &mut Findings) {
    findings.delivered_twice += story.deliveries.len().saturating_sub(story.plan.deliveries());
    let mut leases: Vec<&str> = story.completed.iter().map(|delivery| delivery.lease.as_str()).collect();
    leases.sort_unstable();
    leases.dedup();
    if leases.len() > 1 {
        findings.completed_twice += 1;
        findings.complain(format!("completed twice: {id} under the leases {leases:?}"));
    }
    let first = story.completed.iter().map(|delivery| delivery.attempt).min();
    if let Some(first) = first
        && story.deliveries.iter().any(|delivery| delivery.attempt > first)
    {
        findings.redelivered_after_completion += 1;
        findings.complain(format!("given out after its completion: {id} ({story:?})"));
    }
}

/// Whether the final state is what was promised to somebody, or at least what was planned.
fn judge_end(id: &str, story: &Story, seen: &Seen, findings: &mut Findings) {
    let state = seen.state.as_str();
    if let Some(accepted) = story.completed.first() {
        if state != "completed" {
            findings.lost += 1;
            findings.complain(format!("lost: the completion of {id} was accepted, but it is {state}"));
        } else if seen.attempts != accepted.attempt {
            findings.unexpected += 1;
            let (told, shown) = (accepted.attempt, seen.attempts);
            findings.complain(format!("unexpected: {id} was completed at attempt {told}, but shows {shown}"));
        }
        return;
    }
    if !matches!(state, "completed" | "dead_letter" | "cancelled") {
        findings.unfinished += 1;
        findings.complain(format!("not finished after the drain: {id} is {state} ({story:?})"));
        return;
    }
    // A report or a cancel whose answer never came may still have been carried out.
    let right = match (story.plan, story.cancel) {
        (Plan::Cancel, Known::Acknowledged) => state == "cancelled",
        (Plan::Cancel, _) => matches!(state, "cancelled" | "completed"),
        (Plan::Dead, _) => state == "dead_letter",
        (Plan::Complete | Plan::Delayed | Plan::FailOnce, _) => state == "completed",
    };
    if !right {
        findings.unexpected += 1;
        findings.complain(format!("unexpected: {id} ended {state} ({story:?})"));
    }
}

/// Hands the judge histories that are wrong in one way each; a judge that accepts one of them proves nothing.
pub(crate) fn self_test() -> Result<(), crate::proof::Trouble> {
    use crate::history::Delivery;

    let delivery = |attempt| Delivery { attempt, lease: format!("lease-{attempt}") };
    let right = Story {
        submit: Known::Acknowledged,
        deliveries: vec![delivery(1)],
        completed: vec![delivery(1)],
        ..Story::new(Plan::Complete)
    };
    let seen = |state: &str, attempts| Some(Seen { state: state.to_owned(), attempts });
    let verdict = |story: &Story, seen: Option<Seen>| {
        let stories = HashMap::from([("task".to_owned(), story.clone())]);
        judge(&stories, &seen.into_iter().map(|seen| ("task".to_owned(), seen)).collect(), &[])
    };
    let twice = Story { completed: vec![delivery(1), delivery(2)], ..right.clone() };
    let again = Story { deliveries: vec![delivery(1), delivery(2)], ..right.clone() };
    let unreported = Story { completed: Vec::new(), ..right.clone() };
    let dead = Story { plan: Plan::Dead, ..unreported.clone() };
    let nowhere = seen("completed", 1).map(|seen| ("task".to_owned(), seen)).into_iter().collect();
    let nowhere = judge(&HashMap::new(), &nowhere, &[]);
    let cases = [
        ("a right history", verdict(&right, seen("completed", 1)).complaints().is_empty()),
        ("a lost task", verdict(&right, None).lost == 1),
        ("a lost completion", verdict(&right, seen("pending", 1)).lost == 1),
        ("a task completed twice", verdict(&twice, seen("completed", 2)).completed_twice == 1),
        ("a task given out again", verdict(&again, seen("completed", 1)).redelivered_after_completion == 1),
        ("an unfinished task", verdict(&unreported, seen("running", 1)).unfinished == 1),
        ("a wrong end", verdict(&dead, seen("completed", 1)).unexpected == 1),
        ("a task from nowhere", nowhere.unexpected == 1),
    ];
    let misjudged: Vec<String> = cases
        .into_iter()
        .filter(|(_, right)| !right)
        .map(|(case, _)| format!("the judge misjudges {case}"))
        .collect();
    if misjudged.is_empty() { Ok(()) } else { Err(crate::proof::Trouble::Failed(misjudged)) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_judge_sees_every_wrong_history() {
        super::self_test().unwrap();
    }
}
