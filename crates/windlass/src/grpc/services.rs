//! Which service a call is for. Requests come straight from the connection: between it and a handler lie one comparison of
//! the path and one timer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tower::Service;
use tower::util::BoxCloneSyncService;
use windlass_core::limits::WAIT_MS_MAX;
use windlass_proto::grpc::DESCRIPTORS;
use windlass_proto::grpc::v1::admin_service_server::AdminServiceServer;
use windlass_proto::grpc::v1::task_service_server::TaskServiceServer;
use windlass_proto::grpc::v1::worker_service_server::WorkerServiceServer;

use super::admin::Admin;
use super::connection::Limits;
use super::intake::Intake;
use super::tasks::Tasks;
use super::unread::{Kind, Unread};
use super::worker::Workers;
use super::{State, deadline, health, refusal};
use crate::server::budget::{Account, Held};

/// A worker's stream, which counts the tasks that it has yet to send.
const WORK_PATH: &str = "/windlass.v1.WorkerService/Work";

type Calling = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Other = BoxCloneSyncService<Request<Intake>, Response<Body>, Infallible>;

#[derive(Debug, Clone)]
pub(super) struct Services {
    inner: Arc<Inner>,
    unread: Arc<Unread>,
}

#[derive(Debug)]
struct Inner {
    tasks: TaskServiceServer<Tasks>,
    workers: WorkerServiceServer<Workers>,
    admin: AdminServiceServer<Admin>,
    health: Other,
    reflection: Other,
    reflection_alpha: Other,
    /// Calls that wait for their answer to begin, over all connections; streams that go on are bounded by those.
    calls: Arc<AtomicUsize>,
    calls_max: usize,
    /// For calls that are answered once.
    call_timeout: Duration,
    unread_bytes_max: usize,
}

impl Services {
    pub(super) fn new(state: &Arc<State>, limits: &Limits) -> Result<Self, tonic_reflection::server::Error> {
        let bytes_max = state.api.settings.body_bytes_max();
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let inner = Inner {
            tasks: TaskServiceServer::new(Tasks(state.clone())).max_decoding_message_size(bytes_max),
            workers: WorkerServiceServer::new(Workers(state.clone())).max_decoding_message_size(bytes_max),
            admin: AdminServiceServer::new(Admin(state.clone())),
            health: Other::new(health::service(state)),
            reflection: Other::new(described().build_v1()?),
            reflection_alpha: Other::new(described().build_v1alpha()?),
            calls: Arc::default(),
            calls_max: limits.calls,
            call_timeout: state.api.settings.request_timeout + Duration::from_millis(WAIT_MS_MAX),
            unread_bytes_max: limits.unread_bytes,
        };
        let account = state.api.budget.without_connection();
        Ok(Self { unread: Unread::new(inner.unread_bytes_max, account), inner: Arc::new(inner) })
    }

    /// What a connection does not read is its own affair.
    pub(super) fn for_connection(&self, account: &Arc<Account>) -> Self {
        let unread = Unread::new(self.inner.unread_bytes_max, Arc::clone(account));
        Self { inner: self.inner.clone(), unread }
    }

    fn route(&self, request: Request<Intake>) -> Option<Calling> {
        let inner = &self.inner;
        let (service, _) = request.uri().path().strip_prefix('/')?.split_once('/')?;
        Some(match service {
            "windlass.v1.TaskService" => inner.tasks.clone().call(request),
            "windlass.v1.WorkerService" => inner.workers.clone().call(request),
            "windlass.v1.AdminService" => inner.admin.clone().call(request),
            "grpc.health.v1.Health" => inner.health.clone().call(request),
            "grpc.reflection.v1.ServerReflection" => inner.reflection.clone().call(request),
            "grpc.reflection.v1alpha.ServerReflection" => inner.reflection_alpha.clone().call(request),
            _ => return None,
        })
    }
}

/// A call that is counted until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl hyper::service::Service<Request<Incoming>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Calling;

    fn call(&self, request: Request<Incoming>) -> Calling {
        let inner = &self.inner;
        let counted = Counted(inner.calls.clone());
        if inner.calls.fetch_add(1, Ordering::Relaxed) >= inner.calls_max {
            return refuse(refusal::overloaded());
        }
        let spoken = request
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !spoken {
            return Box::pin(async { Ok(not_grpc()) });
        }
        let kind = Kind::of(request.uri().path());
        if matches!(kind, Kind::Look | Kind::Act) && self.unread.is_full() {
            return refuse(refusal::unread());
        }
        let asked = deadline::asked(request.headers());
        let limit = match streams(request.uri().path()) {
            true => asked,
            false => Some(asked.map_or(inner.call_timeout, |asked| asked.min(inner.call_timeout))),
        };
        let account = self.unread.account();
        let mut request = request.map(|body| Intake::new(body, account));
        if request.uri().path() == WORK_PATH {
            request.extensions_mut().insert(Arc::clone(account));
        }
        let Some(calling) = self.route(request) else { return refuse(refusal::no_such_route()) };
        let unread = self.unread.clone();
        Box::pin(async move {
            let _counted = counted;
            let room = match kind {
                Kind::Look => unread.account().room_for_look().await,
                _ => Some(Held::default()),
            };
            let Some(mut room) = room else { return Ok(refusal::overloaded().into_http()) };
            let answered = match limit {
                Some(limit) => tokio::time::timeout(limit, room.while_quick(calling)).await,
                None => Ok(calling.await),
            };
            let Ok(Ok(mut response)) = answered else { return Ok(refusal::too_late().into_http()) };
            refusal::dress(response.headers_mut());
            Ok(unread.count(kind, response, room).await)
        })
    }
}

/// Whether a call may go on for as long as its client likes.
fn streams(path: &str) -> bool {
    matches!(
        path,
        WORK_PATH
            | "/windlass.v1.TaskService/SubmitTasks"
            | "/windlass.v1.TaskService/WatchTasks"
            | "/grpc.health.v1.Health/Watch"
            | "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    )
}

fn refuse(status: Status) -> Calling {
    Box::pin(async move { Ok(status.into_http()) })
}

/// For those who mistake the port.
fn not_grpc() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}
