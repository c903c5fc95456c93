//! Limits on queues, types and keys.

use windlass_core::Name;
use windlass_core::flow::{Limit, Scope, Status};
use windlass_store::{LimitWritten, ListLimits, SetLimit};

use crate::broker::Broker;
use crate::error::Error;

impl Broker {
    /// Sets or changes a limit; says whether it is new. It holds from the next claim on.
    pub async fn set_limit(&self, scope: Scope, name: Name, limit: Limit) -> Result<(Status, bool), Error> {
        let set = SetLimit { scope, name: name.clone(), limit: Some(limit) };
        match self.progressed(self.inner.store.set_limit(set).await, self.now())? {
            LimitWritten::Done { existed } => Ok((self.limit(scope, &name).await?, !existed)),
            LimitWritten::TooMany => Err(Error::TooManyLimits),
        }
    }

    pub async fn remove_limit(&self, scope: Scope, name: Name) -> Result<(), Error> {
        let set = SetLimit { scope, name, limit: None };
        match self.progressed(self.inner.store.set_limit(set).await, self.now())? {
            LimitWritten::Done { existed: true } => Ok(()),
            _ => Err(Error::NotFound("limit")),
        }
    }

    pub async fn limit(&self, scope: Scope, name: &Name) -> Result<Status, Error> {
        self.inner.store.limit(scope, name).await?.ok_or(Error::NotFound("limit"))
    }

    /// In order of scope and name.
    pub async fn limits(&self, list: ListLimits) -> Result<Vec<Status>, Error> {
        Ok(self.inner.store.limits(list).await?)
    }
}
