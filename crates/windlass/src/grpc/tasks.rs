//! Tasks: submit, look, list, cancel, retry, watch.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};
use windlass_core::TaskId;
use windlass_core::limits::WAIT_MS_MAX;
use windlass_proto::grpc::parsed;
use windlass_proto::grpc::v1::task_service_server::TaskService;
use windlass_proto::grpc::v1::{
    CancelTaskRequest, CancelWorkflowRequest, ExplainTaskRequest, Explanation, ForgetTaskRequest,
    ForgetTaskResponse, GetTaskRequest, GetWorkflowRequest, ListAttemptsRequest, ListAttemptsResponse,
    ListDependenciesRequest, ListDependenciesResponse, ListTasksRequest, ListTasksResponse,
    ListWorkflowsRequest, ListWorkflowsResponse, RetryTaskRequest, RetryWorkflowRequest, SubmitBatchRequest,
    SubmitBatchResponse, SubmitTaskRequest, SubmitTaskResponse, SubmitTasksResponse, SubmitWorkflowRequest,
    Task, WatchTasksRequest, Workflow,
};
use windlass_proto::rest::{AttemptsBody, Seconds};

use super::refusal::{answer, status};
use super::{State, lists, submits, watch, workflows};
use crate::api::{self, problem::Refused, traceparent::Trace};

#[derive(Debug)]
pub(super) struct Tasks(pub(super) Arc<State>);

#[tonic::async_trait]
impl TaskService for Tasks {
    type WatchTasksStream = watch::Updates;

    async fn submit_task(
        &self,
        request: Request<SubmitTaskRequest>,
    ) -> Result<Response<SubmitTaskResponse>, Status> {
        let trace = Trace::of(&self.0.api, request.metadata().as_ref());
        answer(submits::one(&self.0.api, trace, request.into_inner()).await)
    }

    async fn submit_batch(
        &self,
        request: Request<SubmitBatchRequest>,
    ) -> Result<Response<SubmitBatchResponse>, Status> {
        let trace = Trace::of(&self.0.api, request.metadata().as_ref());
        let results = submits::batch(&self.0.api, trace, request.into_inner()).await;
        answer(results.map(|results| SubmitBatchResponse { results }))
    }

    async fn submit_tasks(
        &self,
        request: Request<Streaming<SubmitBatchRequest>>,
    ) -> Result<Response<SubmitTasksResponse>, Status> {
        let trace = Trace::of(&self.0.api, request.metadata().as_ref());
        let results =
            submits::stream(self.0.api.clone(), trace, request.into_inner(), self.0.silence).await?;
        Ok(Response::new(SubmitTasksResponse { results }))
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<Task>, Status> {
        answer(self.get(request.into_inner()).await)
    }

    async fn list_tasks(
        &self,
        request: Request<ListTasksRequest>,
    ) -> Result<Response<ListTasksResponse>, Status> {
        answer(lists::page(&self.0.api, lists::read(request.into_inner()).map_err(status)?).await)
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        let id: TaskId = parsed("id", &request.into_inner().id)?;
        let task = self.0.api.broker.cancel(&id).await.map_err(status)?;
        Ok(Response::new(task.into()))
    }

    async fn retry_task(&self, request: Request<RetryTaskRequest>) -> Result<Response<Task>, Status> {
        let id: TaskId = parsed("id", &request.into_inner().id)?;
        let task = self.0.api.broker.retry(&id).await.map_err(status)?;
        Ok(Response::new(task.into()))
    }

    async fn forget_task(
        &self,
        request: Request<ForgetTaskRequest>,
    ) -> Result<Response<ForgetTaskResponse>, Status> {
        let id: TaskId = parsed("id", &request.into_inner().id)?;
        let forgotten = self.0.api.broker.remove(&id).await;
        answer(forgotten.map(|()| ForgetTaskResponse {}).map_err(Refused::from))
    }

    async fn list_attempts(
        &self,
        request: Request<ListAttemptsRequest>,
    ) -> Result<Response<ListAttemptsResponse>, Status> {
        let id: TaskId = parsed("id", &request.into_inner().id)?;
        let task = self.0.api.broker.get(&id).await;
        answer(task.map(|task| AttemptsBody::of(&task).into()).map_err(Refused::from))
    }

    async fn explain_task(
        &self,
        request: Request<ExplainTaskRequest>,
    ) -> Result<Response<Explanation>, Status> {
        let id: TaskId = parsed("id", &request.into_inner().id)?;
        answer(api::tasks::explanation(&self.0.api, id).await.map(Into::into))
    }

    async fn list_dependencies(
        &self,
        request: Request<ListDependenciesRequest>,
    ) -> Result<Response<ListDependenciesResponse>, Status> {
        answer(workflows::dependencies(&self.0.api, request.into_inner()).await)
    }

    async fn submit_workflow(
        &self,
        request: Request<SubmitWorkflowRequest>,
    ) -> Result<Response<Workflow>, Status> {
        answer(workflows::submit(&self.0.api, request.into_inner()).await)
    }

    async fn get_workflow(&self, request: Request<GetWorkflowRequest>) -> Result<Response<Workflow>, Status> {
        answer(workflows::get(&self.0.api, request.into_inner()).await)
    }

    async fn list_workflows(
        &self,
        request: Request<ListWorkflowsRequest>,
    ) -> Result<Response<ListWorkflowsResponse>, Status> {
        answer(workflows::list(&self.0.api, request.into_inner()).await)
    }

    async fn cancel_workflow(
        &self,
        request: Request<CancelWorkflowRequest>,
    ) -> Result<Response<Workflow>, Status> {
        answer(workflows::cancel(&self.0.api, request.into_inner()).await)
    }

    async fn retry_workflow(
        &self,
        request: Request<RetryWorkflowRequest>,
    ) -> Result<Response<Workflow>, Status> {
        answer(workflows::retry(&self.0.api, request.into_inner()).await)
    }

    async fn watch_tasks(
        &self,
        request: Request<WatchTasksRequest>,
    ) -> Result<Response<watch::Updates>, Status> {
        Ok(Response::new(watch::updates(&self.0, request.into_inner())?))
    }
}

impl Tasks {
    async fn get(&self, request: GetTaskRequest) -> Result<Task, Refused> {
        let id: TaskId = parsed("id", &request.id)?;
        let broker = &self.0.api.broker;
        // As with a claim: a wait that is longer than allowed ends earlier.
        let wait_ms = Seconds(request.wait_seconds).check("wait_seconds", 0..=u64::MAX)?.min(WAIT_MS_MAX);
        let task = if wait_ms > 0 { broker.wait(&id, wait_ms).await? } else { broker.get(&id).await? };
        Ok(task.into())
    }
}
