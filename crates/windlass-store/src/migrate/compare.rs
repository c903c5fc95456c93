//! Two tasks, field by field.

use windlass_core::{Body, Record, Task};

/// Names every field of a type, so that a new one cannot be forgotten here, and compares them.
macro_rules! differing {
    ($kind:ident, $left:expr, $right:expr; $($field:ident),+) => {{
        let $kind { $($field: _),+ } = $left;
        [$((stringify!($field), $left.$field == $right.$field)),+]
    }};
}

/// The fields in which they differ.
pub(super) fn tasks(left: &Task, right: &Task) -> Vec<&'static str> {
    let (a, b) = (&left.record, &right.record);
    let record = differing!(Record, a, b; id, queue, kind, seq, revision, order, ready_at, priority, state, ahead, attempts, crashes,
        awaited, member, ended, created_at, updated_at, started_at, scheduled_at, expires_at, retention_ms, key,
        error, result, history, progress, unique, checkpoint);
    let (a, b) = (&left.body, &right.body);
    let body = differing!(Body, a, b; payload, metadata, timeout_ms, max_retries, max_crashes, retry, fingerprint, links);
    record.into_iter().chain(body).filter(|(_, same)| !same).map(|(field, _)| field).collect()
}
