//! What comes in the path and the query.

use std::fmt;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use windlass_core::flow::Scope;
use windlass_core::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use windlass_core::{Filter, Name, StateName, TaskId};
use windlass_proto::rest::{Fault, Invalid, Time, read_scope, schema};
use windlass_store::List;

use super::cursor;
use super::problem::Refused;

/// The task in the path.
#[derive(Debug)]
pub(super) struct PathId(pub(super) TaskId);

/// The queue or worker in the path.
#[derive(Debug)]
pub(super) struct PathName(pub(super) Name);

/// The schedule in the path.
#[derive(Debug)]
pub(super) struct PathSchedule(pub(super) Name);

/// What a limit in the path is attached to.
#[derive(Debug)]
pub(super) struct PathLimit(pub(super) Scope, pub(super) Name);

impl<S: Send + Sync> FromRequestParts<S> for PathLimit {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let Path((scope, name)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Invalid::malformed("name", rejection.body_text()))?;
        let name = name.parse::<Name>().map_err(|error| Invalid::malformed("name", error.to_string()))?;
        Ok(Self(read_scope(&scope)?, name))
    }
}

/// The workflow in the path.
#[derive(Debug)]
pub(super) struct PathWorkflow(pub(super) Name);

impl<S: Send + Sync> FromRequestParts<S> for PathWorkflow {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        segment(parts, state, "id").await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathSchedule {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        segment(parts, state, "id").await.map(Self)
    }
}

/// The operation in the path.
#[derive(Debug)]
pub(super) struct PathOperation(pub(super) Name);

impl<S: Send + Sync> FromRequestParts<S> for PathOperation {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        segment(parts, state, "id").await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        segment(parts, state, "id").await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        segment(parts, state, "name").await.map(Self)
    }
}

async fn segment<S: Send + Sync, T>(parts: &mut Parts, state: &S, field: &'static str) -> Result<T, Refused>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let Path(text) = Path::<String>::from_request_parts(parts, state)
        .await
        .map_err(|rejection| Invalid::malformed(field, rejection.body_text()))?;
    Ok(text.parse().map_err(|error: T::Err| Invalid::malformed(field, error.to_string()))?)
}

/// The query; an unknown parameter is a mistake.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Refused> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(Invalid::body(Fault::Malformed, rejection.body_text()).into()),
        }
    }
}

/// A list without filters.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// At most this many, up to 1,000.
    #[serde(default, deserialize_with = "number_or_text")]
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

impl PageParams {
    /// Where to go on, and how many.
    pub(crate) fn check(self) -> Result<(Option<u64>, usize), Invalid> {
        let from = self.cursor.as_deref().filter(|text| !text.is_empty()).map(cursor::read).transpose()?;
        Ok((from, limit(self.limit)?))
    }
}

/// A list in order of name, which most people want whole.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NamesParams {
    /// At most this many, up to 1,000, which is also the default.
    #[serde(default, deserialize_with = "number_or_text")]
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

impl NamesParams {
    /// Behind which name to go on, and how many.
    pub(super) fn check(self) -> Result<(Option<Name>, usize), Invalid> {
        let after = self.cursor.as_deref().filter(|text| !text.is_empty());
        let rows = if self.limit.is_none() { PAGE_ROWS_MAX } else { limit(self.limit)? };
        Ok((after.map(cursor::read_name).transpose()?, rows))
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// One or more states, with commas.
    #[param(value_type = Option<schema::StatesQuery>)]
    state: Option<String>,
    #[param(value_type = Option<schema::NameQuery>)]
    queue: Option<String>,
    #[serde(rename = "type")]
    #[param(value_type = Option<schema::NameQuery>)]
    kind: Option<String>,
    /// Whose share and limit it counts towards.
    #[param(value_type = Option<schema::NameQuery>)]
    key: Option<String>,
    #[param(value_type = Option<schema::NameQuery>)]
    worker_id: Option<String>,
    /// Part of the id, the type or the error.
    q: Option<String>,
    #[param(value_type = Option<schema::TimeQuery>)]
    created_after: Option<String>,
    #[param(value_type = Option<schema::TimeQuery>)]
    created_before: Option<String>,
    /// All of this in one line, as `state:dead_letter type:email.* error:timeout since:2h`; see `docs/operations.md`.
    #[param(value_type = Option<schema::FilterQuery>)]
    filter: Option<String>,
    /// At most this many, up to 1,000.
    #[serde(default, deserialize_with = "number_or_text")]
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
    /// From the page before.
    #[param(value_type = Option<schema::Cursor>)]
    cursor: Option<String>,
}

impl ListParams {
    pub(crate) fn check(self) -> Result<List, Invalid> {
        let mut words = self.filter.unwrap_or_default();
        if let Some(key) = parsed::<Name>("key", self.key)? {
            // Nothing that a name may contain means something to a filter.
            words = format!("{words} key:{key}");
        }
        let list = List {
            states: self.state.as_deref().map_or(Ok(Vec::new()), states)?,
            queue: parsed("queue", self.queue)?,
            kind: parsed("type", self.kind)?,
            worker: parsed("worker_id", self.worker_id)?,
            text: self.q.filter(|text| !text.is_empty()),
            created_after: parsed::<Time>("created_after", self.created_after)?.map(Time::as_ms),
            created_before: parsed::<Time>("created_before", self.created_before)?.map(Time::as_ms),
            filter: None,
            before: self.cursor.as_deref().filter(|text| !text.is_empty()).map(cursor::read).transpose()?,
            limit: limit(self.limit)?,
        };
        Ok(list.narrowed(filter(&words)?))
    }
}

/// A filter as people write it, read now.
pub(crate) fn filter(text: &str) -> Result<Filter, Invalid> {
    Filter::parse(text, super::now_ms()).map_err(|error| Invalid::malformed("filter", error.to_string()))
}

/// The same for an act on tasks: whoever wants all of them says so, and not by leaving out a word.
pub(crate) fn filter_given(text: &str) -> Result<Filter, Invalid> {
    let filter = filter(text)?;
    match filter.is_empty() {
        true => Err(Invalid::malformed(
            "filter",
            "is empty; say which tasks, or leave it out where all can be meant",
        )),
        false => Ok(filter),
    }
}

/// A query has only text; the same filters as JSON may have a number.
pub(super) fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Input;
    impl Visitor<'_> for Input {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_u64<E>(self, number: u64) -> Result<Option<String>, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
            Ok(Some(text.to_owned()))
        }
    }
    deserializer.deserialize_any(Input)
}

/// A parameter that is empty counts as not given, as forms send it.
pub(super) fn parsed<T>(field: &'static str, text: Option<String>) -> Result<Option<T>, Invalid>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    match text.filter(|text| !text.is_empty()) {
        Some(text) => {
            text.parse().map(Some).map_err(|error: T::Err| Invalid::malformed(field, error.to_string()))
        }
        None => Ok(None),
    }
}

fn states(text: &str) -> Result<Vec<StateName>, Invalid> {
    let mut states = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let known = StateName::parse_filter(word).ok_or_else(|| {
            let names: Vec<_> = StateName::ALL.iter().map(|state| state.as_str()).collect();
            Invalid::malformed("state", format!("must be one of {}", names.join(", ")))
        })?;
        for state in known {
            if !states.contains(state) {
                states.push(*state);
            }
        }
    }
    Ok(states)
}

/// Too many is as many as possible.
pub(super) fn limit(text: Option<String>) -> Result<usize, Invalid> {
    let Some(text) = text else { return Ok(PAGE_ROWS_DEFAULT) };
    count("limit", &text, PAGE_ROWS_MAX)
}

/// A whole number from 1 on. Too many is as many as possible.
pub(super) fn count(field: &'static str, text: &str, most: usize) -> Result<usize, Invalid> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Invalid::malformed(field, "must be a whole number from 1 on"));
    }
    match text.parse().unwrap_or(usize::MAX) {
        0 => Err(Invalid::out_of_range(field, "must be at least 1")),
        number => Ok(number.min(most)),
    }
}

/// The digits that every number of 64 bits has room for.
const SPAN_DIGITS_MAX: usize = 19;

/// A span like `30s`, `500ms`, `2m` or `1h`; a bare number is in seconds.
pub(super) fn span_ms(field: &'static str, text: &str) -> Result<u64, Invalid> {
    let refused = || Invalid::malformed(field, "must be a span like 30s, 500ms or 2m");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > SPAN_DIGITS_MAX {
        return Err(refused());
    }
    let number: u64 = text[..digits].parse().map_err(|_| refused())?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(refused()),
    };
    Ok(number.saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        let read = |text: &str| span_ms("wait", text).ok();
        assert_eq!(
            ["30s", "500ms", "2m", "1h", "7", "0"].map(read),
            [Some(30_000), Some(500), Some(120_000), Some(3_600_000), Some(7000), Some(0)]
        );
        for noise in ["", "s", "-1s", "1.5s", "1 s", "30sec", "99999999999999999999s"] {
            assert_eq!(read(noise), None, "{noise}");
        }
    }

    #[test]
    fn states_come_as_aliases_and_lists() {
        assert_eq!(
            states("queued,failed,dead").unwrap(),
            [StateName::Pending, StateName::Retrying, StateName::DeadLetter]
        );
        assert!(states("pending,nonsense").is_err());
    }

    #[test]
    fn a_limit_is_clamped() {
        let read = |text: &str| limit(Some(text.to_owned())).ok();
        assert_eq!(read("1000000000"), Some(PAGE_ROWS_MAX));
        assert_eq!(read("5"), Some(5));
        assert_eq!(read(&"9".repeat(50)), Some(PAGE_ROWS_MAX));
        assert_eq!(["", "0", "-1", "+1", "x", "1.5"].map(read), [None; 6]);
    }
}
