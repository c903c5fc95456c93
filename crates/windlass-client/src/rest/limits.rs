//! Calls about limits.

use reqwest::Method;
use windlass_core::Name;
use windlass_core::flow::Scope;
use windlass_proto::rest::{LimitBody, LimitInput, LimitPage};

use super::{Client, json, read, repeat, send};
use crate::error::Error;

const LIMITS: [&str; 3] = ["api", "v1", "limits"];

impl Client {
    /// Sets or replaces the limit of a queue, a type or a key.
    pub async fn set_limit(&self, scope: Scope, name: &Name, limit: &LimitInput) -> Result<LimitBody, Error> {
        read(repeat(json(self.request(Method::PUT, &of(scope, name))?, limit)?).await?).await
    }

    pub async fn limit(&self, scope: Scope, name: &Name) -> Result<LimitBody, Error> {
        self.get(&of(scope, name), &[]).await
    }

    /// In order of scope and name.
    pub async fn limits(
        &self,
        scope: Option<Scope>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<LimitPage, Error> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(scope.map(|scope| ("scope", scope.as_str().to_owned())));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        self.get(&LIMITS, &query).await
    }

    pub async fn remove_limit(&self, scope: Scope, name: &Name) -> Result<(), Error> {
        send(self.request(Method::DELETE, &of(scope, name))?).await.map(drop)
    }
}

fn of(scope: Scope, name: &Name) -> Vec<&str> {
    LIMITS.into_iter().chain([scope.as_str(), name.as_str()]).collect()
}
