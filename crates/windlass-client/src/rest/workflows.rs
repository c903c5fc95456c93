//! Calls about workflows, and what a task depends on.

use reqwest::Method;
use serde_json::value::RawValue;
use windlass_core::{Name, TaskId};
use windlass_proto::rest::{DependenciesBody, WorkflowBody, WorkflowPage};

use super::Client;
use crate::client::NewWorkflow;
use crate::error::Error;

const WORKFLOWS: [&str; 3] = ["api", "v1", "workflows"];

impl Client {
    /// Submits a graph of tasks, all or none.
    pub async fn submit_workflow(&self, graph: &NewWorkflow) -> Result<WorkflowBody, Error> {
        self.submit_workflow_text(&graph.json()?).await
    }

    /// The same with the text of a workflow as `POST /api/v1/workflows` takes it.
    pub async fn submit_workflow_text(&self, graph: &RawValue) -> Result<WorkflowBody, Error> {
        self.post(&WORKFLOWS, &graph).await
    }

    /// Its progress and some of its nodes, from where `cursor` says.
    pub async fn workflow(
        &self,
        id: &Name,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<WorkflowBody, Error> {
        self.get(&of(id, None), &page(limit, cursor)).await
    }

    /// Newest first.
    pub async fn workflows(&self, limit: usize, cursor: Option<&str>) -> Result<WorkflowPage, Error> {
        self.get(&WORKFLOWS, &page(limit, cursor)).await
    }

    pub async fn cancel_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        self.act(Method::POST, &of(id, Some("cancel"))).await
    }

    /// Runs it again from where it failed.
    pub async fn retry_workflow(&self, id: &Name) -> Result<WorkflowBody, Error> {
        self.act(Method::POST, &of(id, Some("retry"))).await
    }

    /// What a task depends on, with states and results.
    pub async fn dependencies(
        &self,
        id: &TaskId,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<DependenciesBody, Error> {
        self.get(&["api", "v1", "tasks", id.as_str(), "dependencies"], &page(limit, cursor)).await
    }
}

fn page(limit: usize, cursor: Option<&str>) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", limit.to_string())];
    query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
    query
}

fn of<'a>(id: &'a Name, act: Option<&'a str>) -> Vec<&'a str> {
    WORKFLOWS.into_iter().chain([id.as_str()]).chain(act).collect()
}
