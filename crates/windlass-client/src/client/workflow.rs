//! A graph of tasks to be submitted.

use serde_json::value::{RawValue, to_raw_value};
use windlass_proto::rest::{NodesInput, SubmitBody, WorkflowInput};

use super::Submit;
use super::submit::name;
use crate::error::Error;

/// Tasks by name, each behind those that it names; all of them are added or none. A task reads the results of those before
/// it with [`Context::dependencies`](crate::worker::Context::dependencies).
#[derive(Debug, Clone)]
pub struct NewWorkflow {
    pub(crate) id: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) then: Option<Submit>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) submit: Submit,
    pub(crate) after: Vec<String>,
}

impl Default for NewWorkflow {
    fn default() -> Self {
        Self::new()
    }
}

impl NewWorkflow {
    pub fn new() -> Self {
        Self { id: uuid::Uuid::now_v7().to_string(), nodes: Vec::new(), then: None }
    }

    /// An id of your own instead of the random one: the same submit from anywhere makes no second workflow.
    pub fn id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// Adds a task that waits for the named ones. Its id is made of the workflow's and its name.
    pub fn task(mut self, name: &str, submit: Submit, after: &[&str]) -> Self {
        let after = after.iter().map(|name| (*name).to_owned()).collect();
        self.nodes.push(Node { name: name.to_owned(), submit, after });
        self
    }

    /// A task of the name `then`, which runs when all others have completed.
    pub fn then(mut self, submit: Submit) -> Self {
        self.then = Some(submit);
        self
    }

    /// As the REST interface wants it.
    pub(crate) fn json(&self) -> Result<Box<RawValue>, Error> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut body = node.submit.template()?;
            body.after = Some(node.after.iter().map(|text| name("after", text)).collect::<Result<_, _>>()?);
            nodes.push((name("tasks", &node.name)?, raw(&body)?));
        }
        let then = self.then.as_ref().map(|submit| raw(&submit.template()?)).transpose()?;
        let input = WorkflowInput {
            id: Some(name("id", &self.id)?),
            tasks: NodesInput(nodes.iter().map(|(name, node)| (name.clone(), &**node)).collect()),
            then: then.as_deref(),
        };
        to_raw_value(&input).map_err(unwritable)
    }
}

fn raw(body: &SubmitBody<'_>) -> Result<Box<RawValue>, Error> {
    to_raw_value(body).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::Answer(format!("cannot write the request: {error}"))
}
