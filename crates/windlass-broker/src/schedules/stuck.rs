//! Schedules that are due and cannot fire, because the store refuses their tasks.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use windlass_core::Name;
use windlass_store as store;

use crate::error::Error;

/// The most schedules that health names.
const NAMED_MAX: usize = 5;

/// The schedules that could not fire at the last look, each with the reason. Known to the process that fires schedules.
#[derive(Debug, Default)]
pub(crate) struct Stuck(Mutex<BTreeMap<Name, String>>);

/// Whether an error is about the tasks of one schedule, so that others can fire all the same.
pub(crate) fn is_refusal(error: &Error) -> bool {
    let about_tasks = matches!(
        error,
        Error::TooManyLanes | Error::NoSpace | Error::Unsupported { .. } | Error::LimitApart(_)
    );
    about_tasks || matches!(error, Error::Store(store::Error::TooLarge))
}

impl Stuck {
    /// Replaces what is known with what was found by a look at all schedules that are due, or adds to it if the look was at some of them.
    pub(crate) fn looked(&self, refused: Vec<(Name, Error)>, all: bool) {
        let mut stuck = self.0.lock();
        let before = if all { std::mem::take(&mut *stuck) } else { BTreeMap::new() };
        for (id, error) in refused {
            let reason = error.to_string();
            let known = before.get(&id).or_else(|| stuck.get(&id));
            if known != Some(&reason) {
                tracing::warn!(schedule = %id, %error, "a schedule cannot fire");
            }
            stuck.insert(id, reason);
        }
    }

    /// The schedule has another definition, fired, or is gone.
    pub(crate) fn forget(&self, id: &Name) {
        self.0.lock().remove(id);
    }

    pub(crate) fn reason(&self, id: &Name) -> Option<String> {
        self.0.lock().get(id).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let stuck = self.0.lock();
        let (_, reason) = stuck.first_key_value()?;
        let mut names: Vec<&str> = stuck.keys().take(NAMED_MAX).map(Name::as_str).collect();
        if stuck.len() > names.len() {
            names.push("…");
        }
        Some(format!("schedules that cannot fire: {} ({}): {reason}", stuck.len(), names.join(", ")))
    }
}
