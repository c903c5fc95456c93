//! Limits, and acts on many tasks.

use windlass_core::Name;
use windlass_core::flow::Scope;
use windlass_core::operation::Order;
use windlass_proto::rest::{
    Invalid, LimitBody, LimitInput, LimitPage, OperationBody, OperationInput, OperationPage, PreviewBody,
};
use windlass_store::{ListLimits, ListOperations};

use super::tasks::given;
use super::{Embedded, now, place, rows};
use crate::error::Error;

impl Embedded {
    pub(crate) async fn set_limit(
        &self,
        scope: Scope,
        name: &Name,
        limit: &LimitInput,
    ) -> Result<LimitBody, Error> {
        let limit = limit.clone().check(scope)?;
        let (status, _) = self.0.set_limit(scope, name.clone(), limit).await?;
        Ok(LimitBody::new(status, now()))
    }

    pub(crate) async fn limit(&self, scope: Scope, name: &Name) -> Result<LimitBody, Error> {
        Ok(LimitBody::new(self.0.limit(scope, name).await?, now()))
    }

    pub(crate) async fn limits(
        &self,
        scope: Option<Scope>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<LimitPage, Error> {
        let rows = rows(limit)?;
        let statuses = self.0.limits(ListLimits { scope, after: limit_place(cursor)?, limit: rows }).await?;
        let last = statuses.last().filter(|_| statuses.len() == rows);
        let next_cursor = last.map(|status| format!("{}/{}", status.scope.as_str(), status.name));
        let now = now();
        let items = statuses.into_iter().map(|status| LimitBody::new(status, now)).collect();
        Ok(LimitPage { items, next_cursor })
    }

    pub(crate) async fn remove_limit(&self, scope: Scope, name: &Name) -> Result<(), Error> {
        Ok(self.0.remove_limit(scope, name.clone()).await?)
    }

    pub(crate) async fn start_operation(&self, order: &OperationInput) -> Result<OperationBody, Error> {
        Ok(self.0.start_operation(checked(order)?).await?.into())
    }

    pub(crate) async fn preview_operation(&self, order: &OperationInput) -> Result<PreviewBody, Error> {
        let preview = self.0.preview_operation(&checked(order)?).await?;
        Ok(PreviewBody {
            dry_run: true,
            matched: preview.matched.count,
            matched_at_least: preview.matched.at_least,
            would_change: preview.would_change.count,
            would_change_at_least: preview.would_change.at_least,
            sample: preview.sample.into_iter().map(Into::into).collect(),
        })
    }

    pub(crate) async fn operation(&self, id: &Name) -> Result<OperationBody, Error> {
        Ok(self.0.operation(id).await?.into())
    }

    pub(crate) async fn operations(
        &self,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<OperationPage, Error> {
        let limit = rows(limit)?;
        let list = ListOperations { before: place(cursor)?, running: false, limit };
        let operations = self.0.operations(list).await?;
        let last = operations.last().filter(|_| operations.len() == limit);
        let next_cursor = last.map(|operation| operation.id.to_string());
        Ok(OperationPage { items: operations.into_iter().map(Into::into).collect(), next_cursor })
    }

    pub(crate) async fn cancel_operation(&self, id: &Name) -> Result<OperationBody, Error> {
        Ok(self.0.cancel_operation(id).await?.into())
    }
}

fn checked(order: &OperationInput) -> Result<Order, Invalid> {
    let order = order.clone().check()?;
    given(&order.filter)?;
    Ok(order)
}

fn limit_place(cursor: Option<&str>) -> Result<Option<(Scope, Name)>, Invalid> {
    let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(None) };
    let read = || {
        let (scope, name) = text.split_once('/')?;
        Some((Scope::parse(scope)?, Name::new(name).ok()?))
    };
    read().map(Some).ok_or_else(|| Invalid::malformed("cursor", "is not a cursor of this list"))
}
