//! Calls about acts on many tasks.

use reqwest::Method;
use windlass_core::Name;
use windlass_proto::rest::{OperationBody, OperationInput, OperationPage, PreviewBody};

use super::Client;
use crate::error::Error;

const OPERATIONS: [&str; 3] = ["api", "v1", "operations"];

impl Client {
    /// Begins an operation. It goes on by itself; [`Client::operation`] says how far it is.
    pub async fn start_operation(&self, body: &OperationInput) -> Result<OperationBody, Error> {
        self.post(&OPERATIONS, &OperationInput { dry_run: false, ..body.clone() }).await
    }

    /// What it would find, without doing it.
    pub async fn preview_operation(&self, body: &OperationInput) -> Result<PreviewBody, Error> {
        self.post(&OPERATIONS, &OperationInput { dry_run: true, ..body.clone() }).await
    }

    pub async fn operation(&self, id: &Name) -> Result<OperationBody, Error> {
        self.get(&of(id, None), &[]).await
    }

    /// Newest first.
    pub async fn operations(&self, limit: usize, cursor: Option<&str>) -> Result<OperationPage, Error> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        self.get(&OPERATIONS, &query).await
    }

    /// Ends it where it is; what it changed stays changed.
    pub async fn cancel_operation(&self, id: &Name) -> Result<OperationBody, Error> {
        self.act(Method::POST, &of(id, Some("cancel"))).await
    }
}

fn of<'a>(id: &'a Name, act: Option<&'a str>) -> Vec<&'a str> {
    OPERATIONS.into_iter().chain([id.as_str()]).chain(act).collect()
}
