//! Acts on many tasks: how they are asked for, and how they are shown.

use serde::{Deserialize, Serialize};
use windlass_core::operation::{Action, Expected, Operation, Order, Standing};
use windlass_core::{Name, Record, StateName, TaskId};

use super::invalid::Invalid;
use super::priority::PriorityInput;
#[cfg(feature = "openapi")]
use super::schema;
use super::text;
use super::time::Time;

/// What to do with all tasks that match a filter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationInput {
    /// `retry`, `cancel`, `delete`, `set_priority` or `move`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OperationAction, examples("retry")))]
    pub action: String,
    /// Which tasks; see `docs/operations.md`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::FilterGiven))]
    pub filter: String,
    /// Only say what it would find.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// For `set_priority`: 0–255, or `critical`, `high`, `normal`, `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::PriorityInput>))]
    pub priority: Option<PriorityInput>,
    /// For `move`: where to.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub queue: Option<Name>,
    /// Who asks, for those who look at it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::OperationBy>, examples("anna@ops")))]
    pub by: Option<String>,
}

impl OperationInput {
    pub fn check(self) -> Result<Order, Invalid> {
        let action = match (self.action.as_str(), self.priority, self.queue) {
            ("set_priority", Some(priority), None) => Action::SetPriority(priority.check()?),
            ("set_priority", None, _) => return Err(Invalid::malformed("priority", "is missing")),
            ("move", None, Some(queue)) => Action::Move(queue),
            ("move", _, None) => return Err(Invalid::malformed("queue", "is missing")),
            (word, Some(_), _) if Action::WORDS.contains(&word) => {
                return Err(Invalid::malformed("priority", "belongs to set_priority"));
            }
            (word, _, Some(_)) if Action::WORDS.contains(&word) => {
                return Err(Invalid::malformed("queue", "belongs to move"));
            }
            ("retry", ..) => Action::Retry,
            ("cancel", ..) => Action::Cancel,
            ("delete", ..) => Action::Delete,
            _ => {
                let message = format!("must be one of {}", Action::WORDS.join(", "));
                return Err(Invalid::malformed("action", message));
            }
        };
        let by = self.by.filter(|by| !by.is_empty()).map(String::into_boxed_str);
        Ok(Order { action, filter: self.filter.into_boxed_str(), by })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub id: Name,
    /// `running`, `done`, `cancelled` or `failed`.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OperationState))]
    pub state: String,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::OperationAction))]
    pub action: String,
    pub filter: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Priority>))]
    pub priority: Option<u8>,
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Name>))]
    pub queue: Option<Name>,
    /// Who asked, as they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub created_at: Time,
    pub updated_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tasks that matched when it began.
    pub expected: u64,
    /// There may have been more.
    pub expected_at_least: bool,
    /// Matching tasks that were decided on: changed, skipped or failed.
    pub seen: u64,
    pub changed: u64,
    /// Their state does not allow the act, or it would have changed nothing.
    pub skipped: u64,
    /// They changed too often meanwhile.
    pub failed: u64,
    /// 0–1.
    pub progress: f64,
    /// Matching tasks a second, since it began.
    pub rate_per_second: f64,
}

impl From<Operation> for OperationBody {
    fn from(operation: Operation) -> Self {
        let seconds = operation.updated_at.saturating_sub(operation.created_at).max(1) as f64 / 1000.0;
        let rate = (operation.seen() as f64 / seconds * 10.0).round() / 10.0;
        Self {
            state: operation.standing.as_str().to_owned(),
            action: operation.order.action.as_str().to_owned(),
            filter: operation.order.filter.to_string(),
            priority: match &operation.order.action {
                Action::SetPriority(priority) => Some(priority.0),
                _ => None,
            },
            queue: match &operation.order.action {
                Action::Move(queue) => Some(queue.clone()),
                _ => None,
            },
            by: operation.order.by.as_deref().map(str::to_owned),
            created_at: Time::from_ms(operation.created_at),
            updated_at: Time::from_ms(operation.updated_at),
            ended_at: operation.ended_at().map(Time::from_ms),
            reason: match &operation.standing {
                Standing::Failed { reason, .. } => Some(reason.to_string()),
                _ => None,
            },
            expected: operation.expected.count,
            expected_at_least: operation.expected.at_least,
            seen: operation.seen(),
            changed: operation.changed,
            skipped: operation.skipped,
            failed: operation.failed,
            progress: progress(&operation),
            rate_per_second: rate,
            id: operation.id,
        }
    }
}

/// By the tasks that were expected, or else by how far down the walk is.
fn progress(operation: &Operation) -> f64 {
    let share = |part: u64, whole: u64| (part as f64 / whole.max(1) as f64).min(1.0);
    let Expected { count, at_least } = operation.expected;
    let exact = match operation.standing {
        Standing::Done { .. } => return 1.0,
        _ if !at_least && count > 0 => share(operation.seen(), count),
        _ => share(operation.first - operation.cursor.min(operation.first), operation.first),
    };
    (exact * 1000.0).round() / 1000.0
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperationPage {
    pub items: Vec<OperationBody>,
    pub next_cursor: Option<String>,
}

/// What an operation would find.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewBody {
    pub dry_run: bool,
    pub matched: u64,
    /// There are more: counting ended at its limit.
    pub matched_at_least: bool,
    /// Of the matching tasks that were looked at.
    pub would_change: u64,
    pub would_change_at_least: bool,
    /// A few of those that match, newest first.
    pub sample: Vec<SampleBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleBody {
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::TaskId))]
    pub id: TaskId,
    #[serde(rename = "type", with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub kind: Name,
    #[serde(with = "text")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Name))]
    pub queue: Name,
    #[serde(with = "text::state")]
    #[cfg_attr(feature = "openapi", schema(value_type = schema::State))]
    pub state: StateName,
    #[cfg_attr(feature = "openapi", schema(value_type = schema::Priority))]
    pub priority: u8,
    pub created_at: Time,
    pub updated_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

impl From<Record> for SampleBody {
    fn from(record: Record) -> Self {
        Self {
            state: record.state_name(),
            id: record.id,
            kind: record.kind,
            queue: record.queue,
            priority: record.priority.0,
            created_at: Time::from_ms(record.created_at),
            updated_at: Time::from_ms(record.updated_at),
            error: record.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::decode;
    use bytes::Bytes;

    fn check(text: &str) -> Result<Order, Invalid> {
        decode::<OperationInput>(&Bytes::copy_from_slice(text.as_bytes()))?.check()
    }

    #[test]
    fn actions_have_what_they_need_and_nothing_else() {
        for (text, word) in [
            (r#"{"action":"retry","filter":"a"}"#, "retry"),
            (r#"{"action":"set_priority","filter":"a","priority":"high"}"#, "set_priority"),
            (r#"{"action":"move","filter":"a","queue":"b","by":"me"}"#, "move"),
        ] {
            assert_eq!(check(text).unwrap().action.as_str(), word);
        }
        for (text, field) in [
            (r#"{"filter":"a"}"#, "action"),
            (r#"{"action":"explode","filter":"a"}"#, "action"),
            (r#"{"action":"retry"}"#, "filter"),
            (r#"{"action":"retry","filter":"a","priority":1}"#, "priority"),
            (r#"{"action":"set_priority","filter":"a"}"#, "priority"),
            (r#"{"action":"set_priority","filter":"a","priority":256}"#, "priority"),
            (r#"{"action":"set_priority","filter":"a","priority":1,"queue":"b"}"#, "priority"),
            (r#"{"action":"move","filter":"a"}"#, "queue"),
            (r#"{"action":"delete","filter":"a","queue":"b"}"#, "queue"),
            (r#"{"action":"move","filter":"a","queue":"a b"}"#, "queue"),
            (r#"{"action":"retry","filter":"a","colour":1}"#, "colour"),
        ] {
            assert_eq!(check(text).expect_err(text).field.as_deref(), Some(field), "{text}");
        }
    }
}
