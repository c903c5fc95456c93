//! The standard health service: whether calls should come here.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{Request, Response};
use tonic::body::Body;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower::Service;

use super::State;
use super::intake::Intake;

const SERVICES: [&str; 4] =
    ["", "windlass.v1.TaskService", "windlass.v1.WorkerService", "windlass.v1.AdminService"];

pub(super) fn service(
    state: &Arc<State>,
) -> impl Service<Request<Intake>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static {
    let (reporter, service) = tonic_health::server::health_reporter();
    tokio::spawn(keep(state.clone(), reporter));
    service
}

/// Says yes until the broker drains or its store is gone.
async fn keep(state: Arc<State>, mut reporter: HealthReporter) {
    for service in SERVICES {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    let broker = &state.api.broker;
    tokio::select! {
        () = broker.drained() => {}
        _ = broker.store().failed() => {}
    }
    for service in SERVICES {
        reporter.set_service_status(service, ServingStatus::NotServing).await;
    }
    // Watchers have heard it; a watch that went on would hold up the end.
    state.closing.cancelled().await;
    for service in SERVICES {
        reporter.clear_service_status(service).await;
    }
}
