//! A workflow as people see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_core::{Name, Payload, StateName, Task, TaskId, Workflow};

use crate::rest::json::{Base64, Json};
use crate::rest::queues::StateCounts;
#[cfg(feature = "openapi")]
use crate::rest::schema;
use crate::rest::task::split;
use crate::rest::text;
use crate::rest::time::Time;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub id: Name,
    /// `running`, `failed` (nothing can go on before a dead letter is retried), `cancelled` or `completed`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::WorkflowState))]
    pub state: String,
    pub created_at: Time,
    /// How many tasks it was made of.
    pub size: u32,
    /// Those that are not forgotten, by state.
    pub tasks_by_state: StateCounts,
    /// The ids of its tasks by name; in the answer to a submit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, String>,
    /// How many tasks were cancelled or retried; in the answer to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affected: Option<u64>,
    /// Its tasks, each behind those that it depends on; in the answer to a look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeBody>>,
    /// Give it back as `cursor` for more nodes; `null` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl From<Workflow> for WorkflowBody {
    fn from(workflow: Workflow) -> Self {
        Self {
            state: workflow.phase().as_str().to_owned(),
            created_at: Time::from_ms(workflow.created_at),
            size: workflow.size,
            tasks_by_state: workflow.by_state.into(),
            id: workflow.id,
            tasks: BTreeMap::new(),
            affected: None,
            nodes: None,
            next_cursor: None,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeBody {
    pub name: String,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    #[serde(rename = "type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub kind: Name,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
    pub state: StateName,
    /// Names of those that it depends on; tasks outside of the workflow by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl NodeBody {
    pub fn new(name: String, after: Vec<String>, task: Task) -> Self {
        let record = task.record;
        Self {
            name,
            after,
            state: record.state_name(),
            started_at: record.started_at.map(Time::from_ms),
            completed_at: record.ended_at().map(Time::from_ms),
            error: record.error.map(String::from),
            id: record.id,
            kind: record.kind,
            queue: record.queue,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowPage {
    pub items: Vec<WorkflowBody>,
    /// Give it back as `cursor` to continue; `null` at the end.
    pub next_cursor: Option<String>,
}

/// What a task depends on.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DependenciesBody {
    /// In the order of the submit.
    pub items: Vec<DependencyBody>,
    /// All that it has.
    pub total: usize,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DependencyBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    /// Its name in the workflow that both belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `null` if it is forgotten.
    #[serde(default, with = "text::option_state")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::State>))]
    pub state: Option<StateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
}

impl DependencyBody {
    pub fn new(id: TaskId, name: Option<String>, state: Option<StateName>, result: Option<Payload>) -> Self {
        let (result, result_base64) = split(result);
        Self { id, name, state, result, result_base64 }
    }

    pub fn payload(&self) -> Option<Payload> {
        match (&self.result, &self.result_base64) {
            (Some(json), _) => Some(Payload::Json(json.0.clone())),
            (None, Some(bytes)) => Some(Payload::Binary(bytes.0.clone())),
            (None, None) => None,
        }
    }
}
