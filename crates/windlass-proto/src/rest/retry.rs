//! The retry policy of a task.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use windlass_core::limits::HORIZON_MS;
use windlass_core::retry::{Kind, Policy};

use super::invalid::Invalid;
#[cfg(feature = "openapi")]
use super::schema;

/// What is not given comes from the default policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryBody {
    /// `exponential`, `polynomial` or `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RetryPolicy>))]
    pub policy: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RetryDelayMs>))]
    pub initial_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub factor: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::RetryDelayMs>))]
    pub max_ms: Option<u64>,
    /// The random part of a delay, 0–1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub jitter: Option<f64>,
}

impl RetryBody {
    pub(crate) fn check(self) -> Result<Policy, Invalid> {
        let base = Policy::default();
        let kind = match self.policy {
            Some(word) => Kind::parse(&word).ok_or_else(|| {
                Invalid::out_of_range("retry.policy", "must be exponential, polynomial or fixed")
            })?,
            None => base.kind,
        };
        let policy = Policy {
            kind,
            initial_ms: self.initial_ms.unwrap_or(base.initial_ms),
            factor: self.factor.unwrap_or(base.factor),
            max_ms: self.max_ms.unwrap_or(base.max_ms),
            jitter: self.jitter.unwrap_or(base.jitter),
        };
        let delay = |field, ms: u64| match ms {
            0..=HORIZON_MS => Ok(()),
            _ => Err(Invalid::out_of_range(field, "must be at most ten years")),
        };
        delay("retry.initial_ms", policy.initial_ms)?;
        delay("retry.max_ms", policy.max_ms)?;
        if !(0.0..=100.0).contains(&policy.factor) {
            return Err(Invalid::out_of_range("retry.factor", "must be between 0 and 100"));
        }
        if !(0.0..=1.0).contains(&policy.jitter) {
            return Err(Invalid::out_of_range("retry.jitter", "must be between 0 and 1"));
        }
        Ok(policy)
    }
}

impl From<Policy> for RetryBody {
    fn from(policy: Policy) -> Self {
        Self {
            policy: Some(Cow::Borrowed(policy.kind.as_str())),
            initial_ms: Some(policy.initial_ms),
            factor: Some(policy.factor),
            max_ms: Some(policy.max_ms),
            jitter: Some(policy.jitter),
        }
    }
}
