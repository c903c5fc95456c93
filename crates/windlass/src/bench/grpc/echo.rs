//! The peer of the broker: a tonic server that answers a submit with the message it got, on tonic's own transport, as anybody
//! would run it. Only the code that is usually generated is written out: no service of ours echoes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use axum::http;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;
use windlass_proto::grpc::v1::SubmitTaskRequest;

use crate::bench::Error;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long)]
    addr: SocketAddr,
}

pub(in crate::bench) async fn run(args: Args) -> Result<(), Error> {
    let served = tonic::transport::Server::builder().tcp_nodelay(true).add_service(Echo).serve(args.addr);
    served.await.map_err(|error| Error::Io { action: "serve", source: std::io::Error::other(error) })
}

#[derive(Debug, Clone, Copy)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "windlass.v1.TaskService";
}

impl UnaryService<SubmitTaskRequest> for Echo {
    type Response = SubmitTaskRequest;
    type Future = BoxFuture<Response<SubmitTaskRequest>, Status>;

    fn call(&mut self, request: Request<SubmitTaskRequest>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let codec = ProstCodec::<SubmitTaskRequest, SubmitTaskRequest>::default();
            Ok(Grpc::new(codec).unary(Echo, request).await)
        })
    }
}
