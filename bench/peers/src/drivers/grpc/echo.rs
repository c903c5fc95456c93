//! The limit of a unary call: tonic as anybody would start it, and a SubmitTask that keeps nothing. Only the code that is
//! usually generated is written out, so that a call added to the service changes nothing here.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use windlass_proto::grpc::v1::{SubmitTaskRequest, SubmitTaskResponse, TaskState};

/// Serves until the process ends.
pub(crate) async fn serve(addr: SocketAddr) -> Result<()> {
    let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(Echo);
    server.serve(addr).await.context("serve gRPC")
}

#[derive(Debug, Clone, Copy)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "windlass.v1.TaskService";
}

impl UnaryService<SubmitTaskRequest> for Echo {
    type Response = SubmitTaskResponse;
    type Future = BoxFuture<Response<SubmitTaskResponse>, Status>;

    /// An answer as long as that of the broker.
    fn call(&mut self, request: Request<SubmitTaskRequest>) -> Self::Future {
        Box::pin(async move {
            let task = request.into_inner().task.ok_or_else(|| Status::invalid_argument("no task"))?;
            let id = "00000000-0000-7000-8000-000000000000".to_owned();
            let state = if task.r#type.is_empty() { TaskState::Unspecified } else { TaskState::Pending };
            Ok(Response::new(SubmitTaskResponse { id, state: state.into(), existed: false, task: None }))
        })
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// Every call is taken for a submit.
    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let codec = ProstCodec::<SubmitTaskResponse, SubmitTaskRequest>::default();
            Ok(Grpc::new(codec).unary(Echo, request).await)
        })
    }
}
