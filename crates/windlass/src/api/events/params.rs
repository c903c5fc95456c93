//! Which events a listener wants.

use std::fmt::Display;
use std::hash::Hash;
use std::str::FromStr;

use axum::http::HeaderValue;
use serde::Deserialize;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use windlass_broker::{EventFilter, EventKind, Kinds};
use windlass_core::limits::LISTENER_VALUES_MAX;
use windlass_proto::rest::{Invalid, schema};

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Types of events, with commas, as `task.completed,task.failed` or `task.*`; all if left out.
    #[serde(rename = "type")]
    #[param(schema_with = event_types)]
    kind: Option<String>,
    /// Events about tasks of these queues and about these queues, with commas.
    #[param(value_type = Option<schema::NamesQuery>)]
    queue: Option<String>,
    /// Events about these tasks, by id, with commas.
    #[param(value_type = Option<schema::NamesQuery>)]
    task: Option<String>,
    /// The id of the last event that was seen: what came after it is sent first, as far as it is kept.
    #[param(value_type = Option<schema::Unsigned64>)]
    last_id: Option<String>,
}

/// Every type and every family, as a pattern.
fn event_types() -> Object {
    let family = |kind: EventKind| kind.as_str().split_once('.').map(|(family, _)| format!("{family}.*"));
    let mut words: Vec<String> = vec!["*".to_owned()];
    for kind in EventKind::ALL {
        words.extend(family(kind).filter(|family| !words.contains(family)));
        words.push(kind.as_str().to_owned());
    }
    let one = words.join("|").replace('.', r"\.").replace('*', r"\*");
    ObjectBuilder::from(Object::with_type(Type::String))
        .pattern(Some(format!("^({one})(,({one}))*$")))
        .build()
}

impl EventParams {
    /// The filter, and behind which event to begin. What the header says is newer than what the address says.
    pub(super) fn check(self, header: Option<&HeaderValue>) -> Result<(EventFilter, Option<u64>), Invalid> {
        let mut filter = EventFilter::default();
        if let Some(words) = self.kind {
            filter.kinds = Kinds::NONE;
            for word in values("type", &words)? {
                if !filter.kinds.add(word) {
                    let message = format!("there is no event {word:?}; as in task.completed or task.*");
                    return Err(Invalid::malformed("type", message));
                }
            }
        }
        filter.queues = parsed("queue", self.queue)?;
        filter.tasks = parsed("task", self.task)?;
        let last_id = match header {
            Some(header) => Some(number("last-event-id", header.to_str().unwrap_or_default())?),
            None => self.last_id.map(|text| number("last_id", &text)).transpose()?,
        };
        Ok((filter, last_id))
    }
}

fn values<'a>(field: &'static str, text: &'a str) -> Result<Vec<&'a str>, Invalid> {
    let values: Vec<&str> = text.split(',').take(LISTENER_VALUES_MAX + 1).collect();
    if values.len() > LISTENER_VALUES_MAX {
        return Err(Invalid::out_of_range(field, format!("at most {LISTENER_VALUES_MAX} at once")));
    }
    Ok(values)
}

fn parsed<T, S>(field: &'static str, text: Option<String>) -> Result<S, Invalid>
where
    T: FromStr<Err: Display> + Eq + Hash,
    S: FromIterator<T> + Default,
{
    let Some(text) = text else { return Ok(S::default()) };
    let value = |text: &str| text.parse::<T>().map_err(|error| Invalid::malformed(field, error.to_string()));
    values(field, &text)?.into_iter().map(value).collect()
}

fn number(field: &'static str, text: &str) -> Result<u64, Invalid> {
    text.parse().map_err(|_| Invalid::malformed(field, "must be the id of an event"))
}
