use windlass_core::{Name, TaskId};
use windlass_proto::rest::{DeadSelection, Time};

/// Which tasks a list shows.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// A state, or one of the words that other queues use for it.
    pub state: Option<String>,
    pub queue: Option<Name>,
    pub kind: Option<Name>,
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
        add("worker_id", self.worker.as_ref().map(Name::to_string));
        add("q", self.text.clone());
        add("filter", self.filter.clone());
        add("created_after", self.created_after.map(|time| time.to_string()));
        add("created_before", self.created_before.map(|time| time.to_string()));
        add("limit", self.limit.map(|limit| limit.to_string()));
        add("cursor", self.cursor.clone());
        query
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
