//! Limits, which are those of REST.

use windlass_core::Name;
use windlass_core::flow::{Limit as Set, Scope};

use super::names::parsed;
use super::time::timestamp;
use super::v1::{Limit, LimitAgeing, LimitBlocked, LimitRate, SetLimitRequest};
use crate::rest::{AgeingBody, Invalid, LimitBody, LimitInput, RateBody, Seconds, read_scope};

impl SetLimitRequest {
    pub fn check(self) -> Result<(Scope, Name, Set), Invalid> {
        let scope = read_scope(&self.scope)?;
        let name = parsed("name", &self.name)?;
        let input = LimitInput {
            max_concurrency: self.max_concurrency,
            rate: self
                .rate
                .map(|rate| RateBody { count: rate.count, per_seconds: Seconds(rate.per_seconds) }),
            weight: self.weight,
            max_depth: self.max_depth,
            paused: self.paused,
            ageing: self.ageing.map(|ageing| AgeingBody { every_seconds: Seconds(ageing.every_seconds) }),
        };
        Ok((scope, name, input.check(scope)?))
    }
}

impl From<AgeingBody> for LimitAgeing {
    fn from(ageing: AgeingBody) -> Self {
        Self { every_seconds: ageing.every_seconds.0 }
    }
}

impl From<LimitBody> for Limit {
    fn from(limit: LimitBody) -> Self {
        Self {
            scope: limit.scope,
            name: limit.name.as_str().to_owned(),
            max_concurrency: limit.max_concurrency.map(u64::from),
            rate: limit.rate.map(|rate| LimitRate { count: rate.count, per_seconds: rate.per_seconds.0 }),
            weight: limit.weight.map(u64::from),
            max_depth: limit.max_depth,
            paused: limit.paused,
            ageing: limit.ageing.map(Into::into),
            waiting: limit.waiting,
            running: limit.running,
            blocked: limit.blocked.map(|reason| LimitBlocked {
                code: reason.code,
                text: reason.text,
                until: reason.until.map(|at| timestamp(at.as_ms())),
            }),
        }
    }
}
