//! Tasks as people read them.

use windlass_core::Payload;
use windlass_proto::rest::{AttemptsBody, ExplanationBody, TaskBody, Time};

use crate::cli::output::{escape, escape_lines, fields, table};

const PAYLOAD_CHARS_MAX: usize = 2000;
const ERROR_CHARS_MAX: usize = 60;

pub(super) fn tasks(items: &[TaskBody]) -> String {
    let row = |task: &TaskBody| {
        vec![
            task.id.to_string(),
            task.queue.to_string(),
            task.kind.to_string(),
            task.state.as_str().to_owned(),
            task.priority.to_string(),
            format!("{}/{}", task.attempts, task.max_retries + 1),
            task.created_at.to_string(),
            task.error.as_deref().map(|error| shortened(error, ERROR_CHARS_MAX)).unwrap_or_default(),
        ]
    };
    table(
        &["ID", "QUEUE", "TYPE", "STATE", "PRIO", "ATTEMPTS", "CREATED", "ERROR"],
        items.iter().map(row).collect(),
    )
}

pub(super) fn task(task: &TaskBody) -> String {
    let time = |time: Option<Time>| time.map(|time| time.to_string()).unwrap_or_default();
    let progress = task.progress.as_ref().map(|progress| {
        format!("{:.0} % {}", progress.fraction * 100.0, progress.note.as_deref().unwrap_or_default())
    });
    let crashes =
        if task.crashes > 0 { format!("{} of {}", task.crashes, task.max_crashes) } else { String::new() };
    let metadata = task.metadata.0.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
    let mut text = fields(&[
        ("id", task.id.to_string()),
        ("type", task.kind.to_string()),
        ("queue", task.queue.to_string()),
        ("key", task.key.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("state", task.state.as_str().to_owned()),
        ("priority", task.priority.to_string()),
        ("unique key", task.unique_key.clone().unwrap_or_default()),
        ("cancelled", task.cancel_reason.clone().unwrap_or_default()),
        ("attempts", format!("{} of {}", task.attempts, task.max_retries + 1)),
        ("crashes", crashes),
        ("created", task.created_at.to_string()),
        ("scheduled", time(task.scheduled_at)),
        ("expires", time(task.expires_at)),
        ("started", time(task.started_at)),
        ("finished", time(task.completed_at)),
        ("next retry", time(task.next_retry_at)),
        ("worker", task.worker_id.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("lease until", time(task.lease_expires_at)),
        ("progress", progress.unwrap_or_default()),
        ("metadata", metadata.join(" ")),
        ("payload", content(Some(task.payload()))),
        ("result", content(task.result())),
    ]);
    if let Some(error) = &task.error {
        text.push_str(&format!("error\n{}\n", escape_lines(error)));
    }
    text
}

pub(super) fn attempts(attempts: &AttemptsBody) -> String {
    let rows = attempts.items.iter().map(|attempt| {
        vec![
            attempt.attempt.to_string(),
            attempt.worker_id.to_string(),
            attempt.started_at.to_string(),
            attempt.duration_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
            attempt.outcome.clone(),
            attempt.error.as_deref().map(|error| shortened(error, ERROR_CHARS_MAX)).unwrap_or_default(),
        ]
    });
    table(&["ATTEMPT", "WORKER", "STARTED", "RAN", "OUTCOME", "ERROR"], rows.collect())
}

pub(super) fn explanation(explanation: &ExplanationBody) -> String {
    let mut lines = vec![format!("{} is {}", explanation.id, explanation.state.as_str())];
    for reason in &explanation.reasons {
        let until = reason.until.map(|until| format!(" (until {until})")).unwrap_or_default();
        lines.push(format!("  {}: {}{until}", escape(&reason.code), escape(&reason.text)));
    }
    lines.join("\n")
}

pub(super) fn watch_line(task: &TaskBody) -> String {
    let mut line = format!("{}  attempt {}", task.state.as_str(), task.attempts);
    if let Some(progress) = &task.progress {
        line.push_str(&format!("  {:.0} %", progress.fraction * 100.0));
        line.push_str(
            &progress.note.as_deref().map(|note| format!("  {}", escape(note))).unwrap_or_default(),
        );
    }
    if let Some(at) = task.next_retry_at {
        line.push_str(&format!("  next attempt {at}"));
    }
    line
}

fn content(payload: Option<Payload>) -> String {
    match payload {
        Some(Payload::Json(text)) => shortened(&String::from_utf8_lossy(&text), PAYLOAD_CHARS_MAX),
        Some(Payload::Binary(bytes)) => format!("{} bytes", bytes.len()),
        None => String::new(),
    }
}

fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
