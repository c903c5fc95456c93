//! Workers: the stream, and the same one call at a time.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};
use windlass_broker::{Failed, Finish, Verdict};
use windlass_core::Record;
use windlass_proto::grpc::v1::worker_service_server::WorkerService;
use windlass_proto::grpc::v1::{
    ClaimRequest, ClaimResponse, CompleteRequest, ExtendRequest, ExtendResponse, FailRequest,
    HeartbeatRequest, HeartbeatResponse, LeasedTask, OutcomeResponse, ReleaseRequest, WorkRequest,
};
use windlass_proto::grpc::{Report, Reported, timestamp};

use super::refusal::answer;
use super::{State, work};
use crate::api::problem::Refused;
use crate::api::{claim, outcomes, workers};
use crate::server::budget::Account;

#[derive(Debug)]
pub(super) struct Workers(pub(super) Arc<State>);

#[tonic::async_trait]
impl WorkerService for Workers {
    type WorkStream = work::Outbound;

    async fn work(
        &self,
        request: Request<Streaming<WorkRequest>>,
    ) -> Result<Response<work::Outbound>, Status> {
        let account = request.extensions().get::<Arc<Account>>().cloned();
        Ok(Response::new(work::begin(self.0.clone(), account, request.into_inner())))
    }

    async fn claim(&self, request: Request<ClaimRequest>) -> Result<Response<ClaimResponse>, Status> {
        answer(self.take(request.into_inner()).await)
    }

    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<OutcomeResponse>, Status> {
        let reported = request.into_inner().check(self.0.api.settings.payload_bytes_max)?;
        answer(self.finish(reported).await)
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<OutcomeResponse>, Status> {
        answer(self.finish(request.into_inner().check()?).await)
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<OutcomeResponse>, Status> {
        answer(self.finish(request.into_inner().check()?).await)
    }

    async fn extend(&self, request: Request<ExtendRequest>) -> Result<Response<ExtendResponse>, Status> {
        answer(self.keep(request.into_inner()).await)
    }

    async fn heartbeat(
        &self,
        request: Request<HeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        answer(self.beat(request.into_inner()).await)
    }
}

impl Workers {
    async fn take(&self, request: ClaimRequest) -> Result<ClaimResponse, Refused> {
        let tasks = self.0.api.broker.claim(claim::request(request.check()?)).await?;
        Ok(ClaimResponse { tasks: tasks.into_iter().map(LeasedTask::from).collect() })
    }

    async fn finish(&self, reported: Reported) -> Result<OutcomeResponse, Refused> {
        let Finish { id, token, verdict } = finish(reported)?;
        let broker = &self.0.api.broker;
        let record: Record = match verdict {
            Verdict::Completed { result } => broker.complete(&id, token, result).await?,
            Verdict::Failed(failed) => broker.fail(&id, token, failed).await?,
            Verdict::Released { delay_ms } => broker.release(&id, token, delay_ms).await?,
        };
        Ok(OutcomeResponse::from(&record))
    }

    async fn keep(&self, request: ExtendRequest) -> Result<ExtendResponse, Refused> {
        let lease = request.lease.clone();
        let (id, extending) = request.check()?;
        let extension = outcomes::keep(&self.0.api, &id, outcomes::token(&lease)?, extending).await?;
        Ok(ExtendResponse {
            lease_expires_at: extension.lease_expires_at.map(timestamp),
            cancel_requested: extension.cancel_requested,
        })
    }

    async fn beat(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, Refused> {
        let (worker, body) = request.check()?;
        let pulse = workers::beat(&self.0.api, worker, body).await?;
        let texts = |ids: Vec<windlass_core::TaskId>| ids.iter().map(|id| id.as_str().to_owned()).collect();
        Ok(HeartbeatResponse {
            extended: texts(pulse.extended),
            lost: texts(pulse.lost),
            cancel: texts(pulse.cancel),
            unsaved: texts(pulse.unsaved),
            paused: pulse.paused,
        })
    }
}

/// A report in the broker's words. A lease that cannot be read was never given out.
pub(super) fn finish(reported: Reported) -> Result<Finish, Refused> {
    let verdict = match reported.report {
        Report::Completed { result } => Verdict::Completed { result },
        Report::Failed(failing) => Verdict::Failed(Failed {
            error: failing.error,
            retryable: failing.retryable,
            retry_after_ms: failing.retry_after_ms,
        }),
        Report::Released { delay_ms } => Verdict::Released { delay_ms },
    };
    Ok(Finish { id: reported.id, token: outcomes::token(&reported.lease)?, verdict })
}
