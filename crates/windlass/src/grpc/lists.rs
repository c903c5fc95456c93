//! Lists of tasks.

use windlass_broker::Error;
use windlass_core::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use windlass_core::{Name, StateName};
use windlass_proto::grpc::v1::{
    ListDeadLetterGroupsRequest, ListTasksRequest, ListTasksResponse, Task, TaskState,
};
use windlass_proto::grpc::{given, time};
use windlass_proto::rest::Invalid;
use windlass_store::List;

use crate::api::problem::Refused;
use crate::api::{self, cursor, params};

/// Payloads and results on one page: together with the rest they fit into the 4 MiB that common clients accept. A single
/// task may be larger, and then its reader must accept as much as it submitted.
pub(super) const PAGE_BYTES_MAX: usize = 3 * 1024 * 1024;

pub(super) fn read(request: ListTasksRequest) -> Result<List, Invalid> {
    let moment = |field, at: Option<_>| {
        let time = at.map(|at| time(field, at)).transpose()?;
        Ok::<_, Invalid>(time.map(|time| time.as_ms()))
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let list = List {
        states: states(&request)?,
        queue: given("queue", &text(&request.queue))?,
        kind: given("type", &text(&request.r#type))?,
        worker: given("worker_id", &text(&request.worker_id))?,
        text: request.q.filter(|text| !text.is_empty()),
        created_after: moment("created_after", request.created_after)?,
        created_before: moment("created_before", request.created_before)?,
        filter: None,
        before: request.cursor.as_deref().filter(|text| !text.is_empty()).map(cursor::read).transpose()?,
        limit: limit(request.limit)?,
    };
    let mut words = text(&request.filter);
    if let Some(key) = given::<Name>("key", &text(&request.key))? {
        // Nothing that a name may contain means something to a filter.
        words = format!("{words} key:{key}");
    }
    Ok(list.narrowed(params::filter(&words)?))
}

pub(super) fn read_groups(request: ListDeadLetterGroupsRequest) -> Result<List, Invalid> {
    let list = List {
        queue: given("queue", request.queue.as_deref().unwrap_or_default())?,
        kind: given("type", request.r#type.as_deref().unwrap_or_default())?,
        limit: limit(request.limit)?,
        ..List::default()
    };
    Ok(list.narrowed(params::filter(request.filter.as_deref().unwrap_or_default())?))
}

/// Too many is as many as possible.
pub(super) fn limit(rows: Option<u32>) -> Result<usize, Invalid> {
    match rows {
        None => Ok(PAGE_ROWS_DEFAULT),
        Some(0) => Err(Invalid::out_of_range("limit", "must be at least 1")),
        Some(rows) => Ok((rows as usize).min(PAGE_ROWS_MAX)),
    }
}

/// Of a list in order of name, which most people want whole.
pub(super) fn names(rows: Option<u32>, from: Option<&str>) -> Result<(Option<Name>, usize), Invalid> {
    let after = from.filter(|text| !text.is_empty()).map(cursor::read_name).transpose()?;
    let rows = if rows.is_none() { PAGE_ROWS_MAX } else { limit(rows)? };
    Ok((after, rows))
}

fn states(request: &ListTasksRequest) -> Result<Vec<StateName>, Invalid> {
    let mut states = Vec::new();
    for number in &request.states {
        let state = TaskState::try_from(*number).ok().and_then(TaskState::name);
        let state = state.ok_or_else(|| Invalid::malformed("states", "names a state that there is not"))?;
        if !states.contains(&state) {
            states.push(state);
        }
    }
    Ok(states)
}

pub(super) async fn page(api: &api::State, list: List) -> Result<ListTasksResponse, Refused> {
    let _leave = api.budget.page().await.ok_or(Error::Busy)?;
    let page = api.broker.list(list).await?;
    let mut next = page.next;
    let mut tasks: Vec<Task> = Vec::with_capacity(page.tasks.len());
    let (mut bytes, mut last) = (0, None);
    for task in page.tasks {
        bytes += task.bytes();
        if bytes > PAGE_BYTES_MAX && last.is_some() {
            next = last;
            break;
        }
        last = Some(task.record.seq);
        // A checkpoint is for those who look at one task.
        tasks.push(Task { checkpoint: None, ..task.into() });
    }
    Ok(ListTasksResponse { tasks, next_cursor: next.map(cursor::write) })
}
