//! Calls about limits.

use windlass_core::Name;
use windlass_core::flow::Scope;
use windlass_proto::grpc::v1::{
    self, GetLimitRequest, LimitRate, ListLimitsRequest, RemoveLimitRequest, SetLimitRequest,
};
use windlass_proto::rest::{AgeingBody, LimitBody, LimitInput, LimitPage, RateBody, ReasonBody, Seconds};

use super::read::{odd, parsed, time};
use super::tasks::rows;
use super::{Grpc, said, soon};
use crate::error::Error;

impl Grpc {
    pub(crate) async fn set_limit(
        &self,
        scope: Scope,
        name: &Name,
        limit: &LimitInput,
    ) -> Result<LimitBody, Error> {
        let rate = |rate: RateBody| LimitRate { count: rate.count, per_seconds: rate.per_seconds.0 };
        let request = SetLimitRequest {
            scope: scope.as_str().to_owned(),
            name: name.to_string(),
            max_concurrency: limit.max_concurrency,
            rate: limit.rate.map(rate),
            weight: limit.weight,
            max_depth: limit.max_depth,
            paused: limit.paused,
            ageing: limit.ageing.map(Into::into),
        };
        shown(said(self.admin.clone().set_limit(soon(request)).await)?)
    }

    pub(crate) async fn limit(&self, scope: Scope, name: &Name) -> Result<LimitBody, Error> {
        let request = GetLimitRequest { scope: scope.as_str().to_owned(), name: name.to_string() };
        shown(said(self.admin.clone().get_limit(soon(request)).await)?)
    }

    pub(crate) async fn limits(
        &self,
        scope: Option<Scope>,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<LimitPage, Error> {
        let request = ListLimitsRequest {
            scope: scope.map(|scope| scope.as_str().to_owned()),
            limit: Some(rows(limit)),
            cursor: cursor.map(str::to_owned),
        };
        let answer = said(self.admin.clone().list_limits(soon(request)).await)?;
        let items = answer.limits.into_iter().map(shown).collect::<Result<_, _>>()?;
        Ok(LimitPage { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn remove_limit(&self, scope: Scope, name: &Name) -> Result<(), Error> {
        let request = RemoveLimitRequest { scope: scope.as_str().to_owned(), name: name.to_string() };
        said(self.admin.clone().remove_limit(soon(request)).await).map(drop)
    }
}

fn shown(limit: v1::Limit) -> Result<LimitBody, Error> {
    let number = |field, number: Option<u64>| {
        number.map(|number| u32::try_from(number).map_err(|_| odd(field))).transpose()
    };
    let rate = |rate: LimitRate| RateBody { count: rate.count, per_seconds: Seconds(rate.per_seconds) };
    let blocked = |blocked: v1::LimitBlocked| ReasonBody {
        code: blocked.code,
        text: blocked.text,
        until: time(blocked.until),
    };
    Ok(LimitBody {
        scope: limit.scope,
        name: parsed("name", &limit.name)?,
        max_concurrency: number("max_concurrency", limit.max_concurrency)?,
        rate: limit.rate.map(rate),
        weight: number("weight", limit.weight)?,
        max_depth: limit.max_depth,
        paused: limit.paused,
        ageing: limit.ageing.map(aged),
        waiting: limit.waiting,
        running: limit.running,
        blocked: limit.blocked.map(blocked),
    })
}

pub(super) fn aged(ageing: v1::LimitAgeing) -> AgeingBody {
    AgeingBody { every_seconds: Seconds(ageing.every_seconds) }
}
