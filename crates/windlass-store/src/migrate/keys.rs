//! Whether unique keys are held by those who say so.
//!
//! No verb tells who holds a key, but a submit that asks for one that is held is refused and named the holder. So the keys are asked for
//! by a batch that is added whole or not at all, and whose last task depends on one that is not there: nothing is ever added.

use windlass_core::unique::{Contest, contend};
use windlass_core::{
    Body, Links, NewTask, OnConflict, Payload, Priority, Record, TaskId, Unique, UniqueKey, retry,
};

use super::Job;
use crate::store::{Error, Insert, Inserted};

/// Whether a task keeps others from having its key at the moment of the job.
pub(super) fn holds(job: &Job<'_>, record: &Record) -> bool {
    matches!(contend(OnConflict::Reject, Some(record), job.at), Contest::Reject)
}

/// Who holds the keys of these tasks at the destination.
pub(super) async fn holders(job: &Job<'_>, of: &[Record]) -> Result<Vec<Option<TaskId>>, Error> {
    let Some(any) = of.first() else { return Ok(Vec::new()) };
    let ask = |record: &Record| NewTask {
        unique: record.unique.as_ref().map(|hold| asked(&hold.key)),
        ..nobody(job, record)
    };
    let mut refused = nobody(job, any);
    refused.body.links = Some(Box::new(Links { dependencies: vec![fresh()], workflow: None }));
    let tasks: Vec<_> = of.iter().map(ask).chain([refused]).collect();
    let answers = job.to.insert(Insert { tasks: tasks.into(), atomic: true, max_depth: None }).await?;
    let holder = |answer| match answer {
        Inserted::KeyHeld(holder) => Some(holder),
        _ => None,
    };
    Ok(answers.into_iter().take(of.len()).map(holder).collect())
}

fn asked(key: &UniqueKey) -> Box<Unique> {
    Box::new(Unique { key: key.clone(), for_ms: None, on_conflict: OnConflict::Reject })
}

/// An id that was just made.
fn fresh() -> TaskId {
    TaskId::new(&uuid::Uuid::now_v7().to_string()).expect("a UUID is an id")
}

/// A task in the queue of another one, which is there already.
fn nobody(job: &Job<'_>, like: &Record) -> NewTask {
    NewTask {
        id: fresh(),
        queue: like.queue.clone(),
        kind: like.kind.clone(),
        priority: Priority::default(),
        created_at: job.at,
        scheduled_at: None,
        expires_at: None,
        retention_ms: 0,
        counted: windlass_core::Counted::default(),
        unique: None,
        key: None,
        body: Body {
            payload: Payload::Json(bytes::Bytes::from_static(b"null")),
            metadata: Vec::new(),
            timeout_ms: 0,
            max_retries: 0,
            max_crashes: 0,
            retry: retry::Policy::default(),
            fingerprint: None,
            links: None,
        },
    }
}
