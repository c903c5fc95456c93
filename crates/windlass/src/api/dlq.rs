//! Dead letters.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{Error, Selection};
use windlass_client::show;
use windlass_core::StateName;
use windlass_core::limits::BATCH_TASKS_MAX;
use windlass_proto::rest::{
    Affected, DeadGroupsBody, DeadSelection, Fault, Invalid, Problem, TaskPage, decode, schema,
};
use windlass_store::List;

use super::Shared;
use super::answer::{self, Answer};
use super::body::JsonBytes;
use super::params::{ListParams, Params, filter, filter_given, limit, number_or_text, parsed};
use super::problem::Refused;
use super::tasks::write_page;

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(list, clear)).routes(routes!(retry)).routes(routes!(groups))
}

/// List dead letters, newest first
#[utoipa::path(get, path = "/api/v1/dlq", operation_id = "list_dead_letters", tag = "dead letters", params(ListParams),
    responses((status = 200, description = "A page of tasks", body = TaskPage)))]
async fn list(State(state): Shared, Params(params): Params<ListParams>) -> Answer {
    let list = only_dead(params.check()?, "state")?;
    let _leave = state.budget.page().await.ok_or(Error::Busy)?;
    write_page(state.broker.list(list).await?)
}

/// `field` is what the door calls the states that a list asks for.
pub(crate) fn only_dead(list: List, field: &'static str) -> Result<List, Invalid> {
    if !list.states.is_empty() && !list.states.contains(&StateName::DeadLetter) {
        return Err(Invalid::out_of_range(field, "all dead letters are in one state"));
    }
    Ok(List { states: vec![StateName::DeadLetter], ..list })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GroupsParams {
    #[param(value_type = Option<schema::NameQuery>)]
    queue: Option<String>,
    #[serde(rename = "type")]
    #[param(value_type = Option<schema::NameQuery>)]
    kind: Option<String>,
    /// As in lists: `type:email.* since:2h`.
    #[param(value_type = Option<schema::FilterQuery>)]
    filter: Option<String>,
    /// At most this many groups, up to 1,000.
    #[serde(default, deserialize_with = "number_or_text")]
    #[param(value_type = Option<schema::PageLimit>)]
    limit: Option<String>,
}

/// Group dead letters by what their errors are like
///
/// Looks at up to 10,000 of those that match, the newest ones, and says whether these were all. The word
/// `fingerprint:` of a filter names a group in lists and operations.
#[utoipa::path(get, path = "/api/v1/dlq/groups", operation_id = "group_dead_letters", tag = "dead letters", params(GroupsParams),
    responses((status = 200, description = "The groups, the largest first", body = DeadGroupsBody),
        (status = 400, description = "`malformed`: a parameter that cannot be read",
            body = Problem, content_type = "application/problem+json")))]
async fn groups(State(state): Shared, Params(params): Params<GroupsParams>) -> Answer {
    let list = List {
        queue: parsed("queue", params.queue)?,
        kind: parsed("type", params.kind)?,
        limit: limit(params.limit)?,
        ..List::default()
    };
    answer::ok(&look(&state, list.narrowed(filter(params.filter.as_deref().unwrap_or_default())?)).await?)
}

pub(crate) async fn look(state: &super::State, list: List) -> Result<DeadGroupsBody, Refused> {
    let found = state.broker.dead_groups(list).await?;
    let items = found.groups.into_iter().map(show::group).collect();
    Ok(DeadGroupsBody { items, scanned: found.scanned, complete: found.complete })
}

/// Send dead letters back to their queues
#[utoipa::path(post, path = "/api/v1/dlq/retry", operation_id = "retry_dead_letters", tag = "dead letters", request_body = DeadSelection,
    responses((status = 200, description = "How many", body = Affected),
        (status = 400, description = "`malformed`: a filter that is empty or cannot be read; the word is named",
            body = Problem, content_type = "application/problem+json")))]
async fn retry(State(state): Shared, JsonBytes(bytes): JsonBytes) -> Answer {
    let body: DeadSelection = decode(&bytes)?;
    let dry_run = body.dry_run;
    let selection = selection(body)?;
    let affected = match dry_run {
        true => state.broker.count_dead(&selection).await?,
        false => state.broker.retry_dead(selection).await?,
    };
    answer::ok(&Affected { affected })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ClearParams {
    /// Only these, with commas.
    #[param(value_type = Option<schema::IdsQuery>)]
    ids: Option<String>,
    #[param(value_type = Option<schema::NameQuery>)]
    queue: Option<String>,
    #[serde(rename = "type")]
    #[param(value_type = Option<schema::NameQuery>)]
    kind: Option<String>,
    /// Part of the id, the type or the error.
    q: Option<String>,
    /// As in lists: `type:email.* error:timeout since:2h`.
    #[param(value_type = Option<schema::FilterGiven>)]
    filter: Option<String>,
    /// Only count.
    #[serde(default)]
    dry_run: bool,
}

/// Forget dead letters: all, or those that match
#[utoipa::path(delete, path = "/api/v1/dlq", operation_id = "delete_dead_letters", tag = "dead letters", params(ClearParams),
    responses((status = 200, description = "How many", body = Affected),
        (status = 400, description = "`malformed`: a filter that is empty or cannot be read; the word is named",
            body = Problem, content_type = "application/problem+json")))]
async fn clear(State(state): Shared, Params(params): Params<ClearParams>) -> Answer {
    let ids = match params.ids {
        Some(text) => {
            let ids: Result<_, _> = text.split(',').map(str::parse).collect();
            Some(ids.map_err(|error| Invalid::malformed("ids", format!("an id {error}")))?)
        }
        None => None,
    };
    let selection = selection(DeadSelection {
        all: ids.is_none(),
        ids,
        queue: parsed("queue", params.queue)?,
        kind: parsed("type", params.kind)?,
        q: params.q,
        filter: params.filter,
        dry_run: params.dry_run,
    })?;
    let affected = match params.dry_run {
        true => state.broker.count_dead(&selection).await?,
        false => state.broker.clear_dead(selection).await?,
    };
    answer::ok(&Affected { affected })
}

pub(crate) fn selection(body: DeadSelection) -> Result<Selection, Invalid> {
    let filtered = body.queue.is_some() || body.kind.is_some() || body.q.is_some() || body.filter.is_some();
    match (body.ids, body.all) {
        (Some(ids), false) if ids.len() > BATCH_TASKS_MAX => {
            let message = format!("has {} ids, {BATCH_TASKS_MAX} are allowed", ids.len());
            Err(Invalid::new(Fault::TooLarge, "ids", message))
        }
        (Some(ids), false) if !filtered => Ok(Selection::Ids(ids)),
        (Some(_), _) => Err(Invalid::malformed("ids", "is given besides all or a filter")),
        (None, true) => {
            let list = List {
                queue: body.queue,
                kind: body.kind,
                text: body.q.filter(|text| !text.is_empty()),
                ..List::default()
            };
            let filter = body.filter.as_deref().map(filter_given).transpose()?;
            Ok(Selection::Filter(list.narrowed(filter.unwrap_or_default())))
        }
        (None, false) => Err(Invalid::malformed("all", "must be true unless ids are given")),
    }
}
