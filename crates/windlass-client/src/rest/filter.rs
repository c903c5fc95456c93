use windlass_core::{Name, StateName, TaskId};
use windlass_proto::rest::{DeadSelection, Invalid, Time};

/// Which tasks a list shows.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// A state, or one of the words that other queues use for it.
    pub state: Option<String>,
    pub queue: Option<Name>,
    pub kind: Option<Name>,
    /// Whose share and limit it counts towards.
    pub key: Option<Name>,
    pub worker: Option<Name>,
    /// Part of the id, the type or the error.
    pub text: Option<String>,
    /// All of it in one line, as `state:dead_letter type:email.* error:timeout since:2h`.
    pub filter: Option<String>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

impl Filter {
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        let mut add = |key, value: Option<String>| query.extend(value.map(|value| (key, value)));
        add("state", self.state.clone());
        add("queue", self.queue.as_ref().map(Name::to_string));
        add("type", self.kind.as_ref().map(Name::to_string));
        add("key", self.key.as_ref().map(Name::to_string));
        add("worker_id", self.worker.as_ref().map(Name::to_string));
        add("q", self.text.clone());
        add("filter", self.filter.clone());
        add("created_after", self.created_after.map(|time| time.to_string()));
        add("created_before", self.created_before.map(|time| time.to_string()));
        add("limit", self.limit.map(|limit| limit.to_string()));
        add("cursor", self.cursor.clone());
        query
    }

    /// The states that it names.
    pub(crate) fn states(&self) -> Result<Vec<StateName>, Invalid> {
        let mut states = Vec::new();
        let words = self.state.as_deref().unwrap_or_default().split(',').filter(|word| !word.is_empty());
        for word in words {
            let known = StateName::parse_filter(word)
                .ok_or_else(|| Invalid::malformed("state", format!("there is no state {word}")))?;
            states.extend(known);
        }
        Ok(states)
    }

    /// Refuses what groups of dead letters cannot be narrowed by.
    pub(crate) fn check_groups(&self) -> Result<(), Invalid> {
        let given = [
            ("state", self.state.is_some()),
            ("key", self.key.is_some()),
            ("worker_id", self.worker.is_some()),
            ("q", self.text.is_some()),
            ("created_after", self.created_after.is_some()),
            ("created_before", self.created_before.is_some()),
            ("cursor", self.cursor.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(Invalid::malformed(field, "is not possible for groups")),
            None => Ok(()),
        }
    }

    /// The same tasks for an act on dead letters; with `ids`, exactly those.
    pub fn dead(&self, ids: Vec<TaskId>, dry_run: bool) -> DeadSelection {
        if !ids.is_empty() {
            return DeadSelection { ids: Some(ids), dry_run, ..DeadSelection::default() };
        }
        DeadSelection {
            ids: None,
            all: true,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            q: self.text.clone(),
            filter: self.filter.clone(),
            dry_run,
        }
    }
}
