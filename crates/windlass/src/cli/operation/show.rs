//! Operations as people read them.

use windlass_proto::rest::{OperationBody, PreviewBody, SampleBody, Time};

use crate::cli::output::{fields, table};

pub(super) fn list(items: &[OperationBody]) -> String {
    let row = |operation: &OperationBody| {
        vec![
            operation.id.to_string(),
            operation.state.clone(),
            act(operation),
            operation.filter.clone(),
            operation.changed.to_string(),
            operation.skipped.to_string(),
            operation.failed.to_string(),
            operation.created_at.to_string(),
            operation.by.clone().unwrap_or_default(),
        ]
    };
    let header = ["ID", "STATE", "ACTION", "FILTER", "CHANGED", "SKIPPED", "FAILED", "BEGAN", "BY"];
    table(&header, items.iter().map(row).collect())
}

pub(super) fn operation(operation: &OperationBody) -> String {
    fields(&[
        ("id", operation.id.to_string()),
        ("state", operation.state.clone()),
        ("reason", operation.reason.clone().unwrap_or_default()),
        ("action", act(operation)),
        ("filter", operation.filter.clone()),
        ("by", operation.by.clone().unwrap_or_default()),
        ("began", operation.created_at.to_string()),
        ("ended", operation.ended_at.map(|time: Time| time.to_string()).unwrap_or_default()),
        ("expected", at_least(operation.expected, operation.expected_at_least)),
        ("changed", operation.changed.to_string()),
        ("skipped", operation.skipped.to_string()),
        ("failed", operation.failed.to_string()),
        ("progress", format!("{:.1} %", operation.progress * 100.0)),
        ("rate", format!("{:.0}/s", operation.rate_per_second)),
    ])
}

/// Beside the bar.
pub(super) fn line(operation: &OperationBody) -> String {
    let expected = at_least(operation.expected, operation.expected_at_least);
    format!(
        "{} of {expected} · {} changed · {} skipped · {:.0}/s",
        operation.seen, operation.changed, operation.skipped, operation.rate_per_second
    )
}

pub(super) fn preview(preview: &PreviewBody) -> String {
    let row = |task: &SampleBody| {
        let error = task.error.as_deref().unwrap_or_default();
        let error = error.lines().next().unwrap_or_default();
        vec![
            task.id.to_string(),
            task.state.as_str().to_owned(),
            task.queue.to_string(),
            task.kind.to_string(),
            task.priority.to_string(),
            error.chars().take(60).collect(),
        ]
    };
    let sample = table(
        &["ID", "STATE", "QUEUE", "TYPE", "PRIORITY", "ERROR"],
        preview.sample.iter().map(row).collect(),
    );
    let counts = fields(&[
        ("match", at_least(preview.matched, preview.matched_at_least)),
        ("would change", at_least(preview.would_change, preview.would_change_at_least)),
    ]);
    if preview.sample.is_empty() { counts } else { format!("{counts}\n{sample}") }
}

pub(super) fn at_least(count: u64, at_least: bool) -> String {
    if at_least { format!("at least {count}") } else { count.to_string() }
}

fn act(operation: &OperationBody) -> String {
    let to = operation.priority.map(|priority| priority.to_string());
    let to = to.or_else(|| operation.queue.as_ref().map(ToString::to_string));
    match to {
        Some(to) => format!("{} {to}", operation.action),
        None => operation.action.clone(),
    }
}
