//! A submit as the broker gets it, and the checks that every door shares.

use std::collections::HashSet;

use windlass_core::limits::{
    BATCH_TASKS_MAX, DEPENDENCIES_MAX, HORIZON_MS, METADATA_BYTES_MAX, METADATA_ENTRIES_MAX, RETRIES_MAX,
};
use windlass_core::{Links, Name, OnConflict, Payload, Priority, TaskId, Unique, UniqueKey, retry};

use super::invalid::{Fault, Invalid};
use super::task::Metadata;
use super::time::{Seconds, Time};

/// A submit that passed every check that needs no broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub id: Option<TaskId>,
    pub queue: Name,
    pub kind: Name,
    pub key: Option<Name>,
    pub payload: Payload,
    pub priority: Priority,
    pub start: Start,
    pub expires_at: Option<u64>,
    pub retry: retry::Policy,
    pub max_retries: u32,
    pub max_crashes: u32,
    pub timeout_ms: u64,
    /// `None` for the broker's own default.
    pub retention_ms: Option<u64>,
    pub metadata: Vec<(String, String)>,
    pub unique: Option<Box<Unique>>,
    pub links: Option<Box<Links>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Now,
    At(u64),
    AfterMs(u64),
}

pub(crate) fn default_queue() -> Name {
    Name::new("default").expect("the default queue has a valid name")
}

pub(crate) fn start(at: Option<Time>, delay: Option<Seconds>, now: u64) -> Result<Start, Invalid> {
    match (at, delay) {
        (None, None) => Ok(Start::Now),
        (Some(at), None) => Ok(Start::At(at.check("scheduled_at", now)?)),
        (None, Some(delay)) => match delay.check("delay_seconds", 0..=HORIZON_MS)? {
            0 => Ok(Start::Now),
            ms => Ok(Start::AfterMs(ms)),
        },
        (Some(_), Some(_)) => Err(Invalid::malformed("delay_seconds", "is given besides scheduled_at")),
    }
}

pub(crate) fn count(
    field: &'static str,
    given: Option<u64>,
    default: u32,
    least: u32,
) -> Result<u32, Invalid> {
    let Some(given) = given else { return Ok(default) };
    match u32::try_from(given) {
        Ok(number) if (least..=RETRIES_MAX).contains(&number) => Ok(number),
        _ => Err(Invalid::out_of_range(field, format!("must be between {least} and {RETRIES_MAX}"))),
    }
}

pub(crate) fn span(
    field: &'static str,
    given: Option<Seconds>,
    default: u64,
    range_ms: std::ops::RangeInclusive<u64>,
) -> Result<u64, Invalid> {
    given.map_or(Ok(default), |span| span.check(field, range_ms))
}

pub(crate) fn checked_metadata(metadata: Metadata) -> Result<Vec<(String, String)>, Invalid> {
    let entries = metadata.0;
    if entries.len() > METADATA_ENTRIES_MAX {
        let message = format!("has {} entries, {METADATA_ENTRIES_MAX} are allowed", entries.len());
        return Err(Invalid::out_of_range("metadata", message));
    }
    let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        let message = format!("has {bytes} bytes, {METADATA_BYTES_MAX} are allowed");
        return Err(Invalid::out_of_range("metadata", message));
    }
    Ok(entries)
}

pub(crate) fn unique(
    key: Option<&str>,
    length: Option<Seconds>,
    on_conflict: Option<&str>,
) -> Result<Option<Box<Unique>>, Invalid> {
    let Some(key) = key else {
        return match (length, on_conflict) {
            (Some(_), _) => Err(Invalid::malformed("unique_for_seconds", "needs a unique_key")),
            (None, Some(_)) => Err(Invalid::malformed("on_conflict", "needs a unique_key")),
            (None, None) => Ok(None),
        };
    };
    let rule = |word| {
        OnConflict::parse(word)
            .ok_or_else(|| Invalid::out_of_range("on_conflict", "must be return, reject or replace"))
    };
    Ok(Some(Box::new(Unique {
        key: UniqueKey::new(key).map_err(|error| Invalid::out_of_range("unique_key", error.to_string()))?,
        for_ms: length.map(|length| length.check("unique_for_seconds", 1..=HORIZON_MS)).transpose()?,
        on_conflict: on_conflict.map_or(Ok(OnConflict::default()), rule)?,
    })))
}

/// Each id once, in the order given.
pub(crate) fn checked_dependencies(mut ids: Vec<TaskId>) -> Result<Option<Box<Links>>, Invalid> {
    if ids.is_empty() {
        return Ok(None);
    }
    if ids.len() > DEPENDENCIES_MAX {
        let message = format!("has {} ids, {DEPENDENCIES_MAX} are allowed", ids.len());
        return Err(Invalid::out_of_range("dependencies", message));
    }
    let mut seen = HashSet::with_capacity(ids.len());
    ids.retain(|id| seen.insert(id.clone()));
    Ok(Some(Box::new(Links { dependencies: ids, workflow: None })))
}

pub(crate) fn batch_size(tasks: usize) -> Result<(), Invalid> {
    match tasks {
        0 => Err(Invalid::malformed("tasks", "must not be empty")),
        1..=BATCH_TASKS_MAX => Ok(()),
        _ => {
            let message = format!("has {tasks} tasks, {BATCH_TASKS_MAX} are allowed");
            Err(Invalid::new(Fault::TooLarge, "tasks", message))
        }
    }
}
