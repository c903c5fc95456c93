//! The limit of a unary call: tonic as anybody would start it, and a SubmitTask that keeps nothing.

use std::net::SocketAddr;
use std::pin::Pin;

use anyhow::{Context, Result};
use futures_util::Stream;
use tonic::{Request, Response, Status, Streaming, async_trait};
use windlass_proto::grpc::v1::task_service_server::{TaskService, TaskServiceServer};
use windlass_proto::grpc::v1::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, ListTasksResponse, RetryTaskRequest,
    SubmitBatchRequest, SubmitBatchResponse, SubmitTaskRequest, SubmitTaskResponse, SubmitTasksResponse,
    Task, TaskState, WatchTasksRequest, WatchTasksResponse,
};

/// Serves until the process ends.
pub(crate) async fn serve(addr: SocketAddr) -> Result<()> {
    let server =
        tonic::transport::Server::builder().tcp_nodelay(true).add_service(TaskServiceServer::new(Echo));
    server.serve(addr).await.context("serve gRPC")
}

#[derive(Debug)]
struct Echo;

type Answer<T> = Result<Response<T>, Status>;

fn refuse<T>() -> Answer<T> {
    Err(Status::unimplemented("this server only answers SubmitTask"))
}

#[async_trait]
impl TaskService for Echo {
    type WatchTasksStream = Pin<Box<dyn Stream<Item = Result<WatchTasksResponse, Status>> + Send>>;

    /// An answer as long as that of the broker.
    async fn submit_task(&self, request: Request<SubmitTaskRequest>) -> Answer<SubmitTaskResponse> {
        let task = request.into_inner().task.ok_or_else(|| Status::invalid_argument("no task"))?;
        let id = "00000000-0000-7000-8000-000000000000".to_owned();
        let state = if task.r#type.is_empty() { TaskState::Unspecified } else { TaskState::Pending };
        Ok(Response::new(SubmitTaskResponse { id, state: state.into(), existed: false, task: None }))
    }

    async fn submit_batch(&self, _: Request<SubmitBatchRequest>) -> Answer<SubmitBatchResponse> {
        refuse()
    }

    async fn submit_tasks(&self, _: Request<Streaming<SubmitBatchRequest>>) -> Answer<SubmitTasksResponse> {
        refuse()
    }

    async fn get_task(&self, _: Request<GetTaskRequest>) -> Answer<Task> {
        refuse()
    }

    async fn list_tasks(&self, _: Request<ListTasksRequest>) -> Answer<ListTasksResponse> {
        refuse()
    }

    async fn cancel_task(&self, _: Request<CancelTaskRequest>) -> Answer<Task> {
        refuse()
    }

    async fn retry_task(&self, _: Request<RetryTaskRequest>) -> Answer<Task> {
        refuse()
    }

    async fn watch_tasks(&self, _: Request<WatchTasksRequest>) -> Answer<Self::WatchTasksStream> {
        refuse()
    }
}
