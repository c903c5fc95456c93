//! Calls about tasks.

use windlass_core::limits::PAGE_ROWS_MAX;
use windlass_core::{Name, TaskId};
use windlass_proto::grpc::timestamp;
use windlass_proto::grpc::v1::{
    self, CancelTaskRequest, ExplainTaskRequest, ForgetTaskRequest, ListAttemptsRequest,
    ListDependenciesRequest, ListTasksRequest, ListTasksResponse, RetryTaskRequest, TaskState,
};
use windlass_proto::rest::{
    AttemptBody, AttemptsBody, DependenciesBody, DependencyBody, ExplanationBody, TaskPage,
};

use super::read::{self, parsed, since, time};
use super::{Grpc, said, soon};
use crate::client::Task;
use crate::error::Error;
use crate::rest::Filter;

impl Grpc {
    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Task, Error> {
        let request = soon(CancelTaskRequest { id: id.to_string() });
        read::task(said(self.tasks.clone().cancel_task(request).await)?)
    }

    pub(crate) async fn retry(&self, id: &TaskId) -> Result<Task, Error> {
        let request = soon(RetryTaskRequest { id: id.to_string() });
        read::task(said(self.tasks.clone().retry_task(request).await)?)
    }

    pub(crate) async fn forget(&self, id: &TaskId) -> Result<(), Error> {
        let request = soon(ForgetTaskRequest { id: id.to_string() });
        said(self.tasks.clone().forget_task(request).await).map(drop)
    }

    pub(crate) async fn tasks(&self, filter: &Filter) -> Result<TaskPage, Error> {
        page(said(self.tasks.clone().list_tasks(soon(list(filter)?)).await)?)
    }

    pub(crate) async fn dead(&self, filter: &Filter) -> Result<TaskPage, Error> {
        page(said(self.admin.clone().list_dead_letters(soon(list(filter)?)).await)?)
    }

    pub(crate) async fn attempts(&self, id: &TaskId) -> Result<AttemptsBody, Error> {
        let request = soon(ListAttemptsRequest { id: id.to_string() });
        let answer = said(self.tasks.clone().list_attempts(request).await)?;
        Ok(AttemptsBody { items: answer.attempts.into_iter().map(attempt).collect::<Result<_, _>>()? })
    }

    pub(crate) async fn explain(&self, id: &TaskId) -> Result<ExplanationBody, Error> {
        let request = soon(ExplainTaskRequest { id: id.to_string() });
        let answer = said(self.tasks.clone().explain_task(request).await)?;
        Ok(ExplanationBody {
            id: parsed("id", &answer.id)?,
            state: read::state(answer.state)?,
            runnable: answer.runnable,
            reasons: answer.reasons.into_iter().map(read::reason).collect(),
        })
    }

    pub(crate) async fn dependencies(
        &self,
        id: &TaskId,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<DependenciesBody, Error> {
        let request = soon(ListDependenciesRequest {
            id: id.to_string(),
            limit: Some(rows(limit)),
            cursor: cursor.map(str::to_owned),
        });
        let answer = said(self.tasks.clone().list_dependencies(request).await)?;
        let item = |it: v1::Dependency| {
            let result = it.result.map(Into::into);
            Ok(DependencyBody::new(parsed("id", &it.id)?, it.name, read::state_or_none(it.state), result))
        };
        Ok(DependenciesBody {
            items: answer.dependencies.into_iter().map(item).collect::<Result<_, Error>>()?,
            total: answer.total as usize,
            next_cursor: answer.next_cursor,
        })
    }
}

/// Too many are as many as possible.
pub(super) fn rows(limit: usize) -> u32 {
    limit.min(PAGE_ROWS_MAX) as u32
}

fn list(filter: &Filter) -> Result<ListTasksRequest, Error> {
    let name = |name: &Option<Name>| name.as_ref().map(Name::to_string);
    Ok(ListTasksRequest {
        states: filter.states()?.into_iter().map(|state| TaskState::from(state).into()).collect(),
        queue: name(&filter.queue),
        r#type: name(&filter.kind),
        key: name(&filter.key),
        worker_id: name(&filter.worker),
        q: filter.text.clone(),
        created_after: filter.created_after.map(|at| timestamp(at.as_ms())),
        created_before: filter.created_before.map(|at| timestamp(at.as_ms())),
        limit: filter.limit.map(rows),
        cursor: filter.cursor.clone(),
        filter: filter.filter.clone(),
    })
}

fn page(answer: ListTasksResponse) -> Result<TaskPage, Error> {
    let items = answer.tasks.into_iter().map(read::task).collect::<Result<_, _>>()?;
    Ok(TaskPage { items, next_cursor: answer.next_cursor })
}

fn attempt(attempt: v1::Attempt) -> Result<AttemptBody, Error> {
    Ok(AttemptBody {
        attempt: attempt.attempt,
        worker_id: parsed("worker_id", &attempt.worker_id)?,
        started_at: since(attempt.started_at),
        ended_at: time(attempt.ended_at),
        duration_ms: attempt.duration_ms,
        outcome: attempt.outcome,
        error: attempt.error,
    })
}
