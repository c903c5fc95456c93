//! Limits on queues, types and keys.

use serde::{Deserialize, Serialize};
use windlass_core::Name;
use windlass_core::flow::{Ageing, Closed, Limit, Rate, Scope, Status};
use windlass_core::limits::{AGEING_MS_MAX, LIMIT_WEIGHT_MAX, RATE_COUNT_MAX, RATE_MS_MAX};

use super::invalid::{Fault, Invalid};
use super::object;
#[cfg(feature = "openapi")]
use super::schema;
use super::task::ReasonBody;
use super::text;
use super::time::{Seconds, Time};

/// A limit as it is set. What is left out is not limited; the whole replaces what was there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitInput {
    /// Tasks that may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Concurrency>))]
    pub max_concurrency: Option<u64>,
    /// Tasks that may start in any stretch of time.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBody>,
    /// Of a key: its share beside other keys of a queue, 1 unless given, up to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::LimitWeight>))]
    pub weight: Option<u64>,
    /// Tasks that may wait; more are refused with `queue_full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Unsigned64>))]
    pub max_depth: Option<u64>,
    /// Nothing starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Of a queue: its tasks gain priority by waiting, so that none waits for ever.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    pub ageing: Option<AgeingBody>,
}

/// A task gains one step of priority every so often while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgeingBody {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AgeingSeconds))]
    pub every_seconds: Seconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RateBody {
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RateCount))]
    pub count: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RateSeconds))]
    pub per_seconds: Seconds,
}

impl LimitInput {
    pub fn check(self, scope: Scope) -> Result<Limit, Invalid> {
        let number = |field, value: Option<u64>, most: u32| match value {
            None => Ok(None),
            Some(value) => match u32::try_from(value).ok().filter(|value| (1..=most).contains(value)) {
                Some(value) => Ok(Some(value)),
                None => Err(Invalid::out_of_range(field, format!("must be between 1 and {most}"))),
            },
        };
        if self.weight.is_some() && scope != Scope::Key {
            let message = "is of keys: queues are weighted by the claims of workers";
            return Err(Invalid::new(Fault::OutOfRange, "weight", message));
        }
        if self.ageing.is_some() && scope != Scope::Queue {
            let message = "is of queues: priorities are compared within one";
            return Err(Invalid::new(Fault::OutOfRange, "ageing", message));
        }
        let ageing = match self.ageing {
            None => None,
            Some(ageing) => Some(Ageing {
                every_ms: ageing.every_seconds.check("ageing.every_seconds", 1..=AGEING_MS_MAX)?,
            }),
        };
        let rate = match self.rate {
            None => None,
            Some(rate) => Some(Rate {
                count: number("rate.count", Some(rate.count), RATE_COUNT_MAX)?.unwrap_or(1),
                per_ms: rate.per_seconds.check("rate.per_seconds", 1..=RATE_MS_MAX)?,
            }),
        };
        Ok(Limit {
            max_concurrency: number("max_concurrency", self.max_concurrency, u32::MAX)?,
            rate,
            weight: number("weight", self.weight, LIMIT_WEIGHT_MAX)?.unwrap_or(1),
            max_depth: self.max_depth,
            paused: self.paused,
            ageing,
        })
    }
}

/// A limit, and how things stand with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitBody {
    /// `queue`, `type` or `key`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::LimitScope))]
    pub scope: String,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub name: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    pub paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ageing: Option<AgeingBody>,
    /// Tasks that wait, for whatever reason.
    pub waiting: u64,
    pub running: u64,
    /// Why nothing starts now: code `limit_paused`, `limit_full` or `rate_limited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<ReasonBody>,
}

impl LimitBody {
    pub fn new(status: Status, now: u64) -> Self {
        let Status { scope, name, limit, waiting, running, closed } = status;
        let rate =
            |rate: Rate| RateBody { count: rate.count.into(), per_seconds: Seconds::from_ms(rate.per_ms) };
        Self {
            scope: scope.as_str().to_owned(),
            name,
            max_concurrency: limit.max_concurrency,
            rate: limit.rate.map(rate),
            weight: (scope == Scope::Key).then_some(limit.weight),
            max_depth: limit.max_depth,
            paused: limit.paused,
            ageing: limit.ageing.map(Into::into),
            waiting,
            running,
            blocked: closed.and_then(|closed| blocked(closed, now)),
        }
    }
}

impl From<Ageing> for AgeingBody {
    fn from(ageing: Ageing) -> Self {
        Self { every_seconds: Seconds::from_ms(ageing.every_ms) }
    }
}

fn blocked(closed: Closed, now: u64) -> Option<ReasonBody> {
    let (code, text, until) = match closed {
        Closed::Paused => ("limit_paused", "It is paused.".to_owned(), None),
        Closed::Full { running, max } => ("limit_full", format!("{running} of {max} run."), None),
        Closed::NoToken { until } => {
            // A token that has come since is given out with the next claim.
            let left = until.checked_sub(now).filter(|left| *left > 0)?;
            let text = format!("The rate is used up; next token in {:.1} s.", left as f64 / 1000.0);
            ("rate_limited", text, Some(Time::from_ms(until)))
        }
    };
    Some(ReasonBody { code: code.to_owned(), text, until })
}

/// `queue`, `type` or `key`.
pub fn read_scope(word: &str) -> Result<Scope, Invalid> {
    Scope::parse(word).ok_or_else(|| Invalid::malformed("scope", "must be queue, type or key"))
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitPage {
    pub items: Vec<LimitBody>,
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::rest::decode;

    fn check(scope: Scope, text: &str) -> Result<Limit, Invalid> {
        decode::<LimitInput>(&Bytes::copy_from_slice(text.as_bytes()))?.check(scope)
    }

    #[test]
    fn a_limit_is_read_whole() {
        let text = r#"{"max_concurrency":5,"rate":{"count":100,"per_seconds":0.5},"weight":3,"max_depth":0,"paused":true}"#;
        let limit = check(Scope::Key, text).unwrap();
        let rate = Some(Rate { count: 100, per_ms: 500 });
        let want = Limit {
            max_concurrency: Some(5),
            rate,
            weight: 3,
            max_depth: Some(0),
            paused: true,
            ageing: None,
        };
        assert_eq!(limit, want);
        assert_eq!(check(Scope::Queue, "{}").unwrap(), Limit::default());
        let ages = check(Scope::Queue, r#"{"ageing":{"every_seconds":2.5}}"#).unwrap();
        assert_eq!(ages, Limit { ageing: Some(Ageing { every_ms: 2500 }), ..Limit::default() });
    }

    #[test]
    fn every_mistake_names_its_field() {
        let table = [
            (Scope::Key, r#"{"max_concurrency":0}"#, 422, "max_concurrency"),
            (Scope::Key, r#"{"max_concurrency":-1}"#, 400, "max_concurrency"),
            (Scope::Key, r#"{"weight":0}"#, 422, "weight"),
            (Scope::Key, r#"{"weight":1001}"#, 422, "weight"),
            (Scope::Type, r#"{"weight":2}"#, 422, "weight"),
            (Scope::Key, r#"{"rate":{"count":1}}"#, 400, "rate.per_seconds"),
            (Scope::Key, r#"{"rate":{"count":0,"per_seconds":1}}"#, 422, "rate.count"),
            (Scope::Key, r#"{"rate":{"count":1,"per_seconds":0}}"#, 422, "rate.per_seconds"),
            (Scope::Key, r#"{"rate":{"count":1,"per_seconds":1,"burst":2}}"#, 400, "rate.burst"),
            (Scope::Key, r#"{"ageing":{"every_seconds":1}}"#, 422, "ageing"),
            (Scope::Queue, r#"{"ageing":{}}"#, 400, "ageing.every_seconds"),
            (Scope::Queue, r#"{"ageing":{"every_seconds":0}}"#, 422, "ageing.every_seconds"),
            (Scope::Queue, r#"{"ageing":{"every_seconds":-1}}"#, 422, "ageing.every_seconds"),
            (Scope::Queue, r#"{"ageing":{"every_seconds":3000000}}"#, 422, "ageing.every_seconds"),
            (Scope::Queue, r#"{"ageing":{"every_seconds":1,"most":2}}"#, 400, "ageing.most"),
            (Scope::Key, r#"{"depth":1}"#, 400, "depth"),
        ];
        for (scope, text, status, field) in table {
            let invalid = check(scope, text).expect_err(text);
            let told = (invalid.fault.status(), invalid.field.unwrap_or_default().into_owned());
            assert_eq!(told, (status, field.to_owned()), "{text}");
        }
    }
}
