//! For operators.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_broker::{ListWorkers, QueueView};
use windlass_client::show;
use windlass_core::{Name, StateName};
use windlass_proto::grpc::parsed;
use windlass_proto::grpc::v1::admin_service_server::AdminService;
use windlass_proto::grpc::v1::{
    Affected, CancelOperationRequest, Cluster, CreateScheduleRequest, DeadLettersRequest, GetClusterRequest,
    GetLimitRequest, GetOperationRequest, GetQueueRequest, GetScheduleRequest, GetStatsRequest,
    GetWorkerRequest, Limit, ListDeadLetterGroupsRequest, ListDeadLetterGroupsResponse, ListFiresRequest,
    ListFiresResponse, ListLimitsRequest, ListLimitsResponse, ListNextSlotsRequest, ListNextSlotsResponse,
    ListOperationsRequest, ListOperationsResponse, ListQueuesRequest, ListQueuesResponse,
    ListSchedulesRequest, ListSchedulesResponse, ListTasksRequest, ListTasksResponse, ListWorkersRequest,
    ListWorkersResponse, Operation, OperationPreview, PauseQueueRequest, PauseScheduleRequest,
    PauseWorkerRequest, PurgeQueueRequest, PutScheduleRequest, QueueInfo, RemoveLimitRequest,
    RemoveLimitResponse, RemoveScheduleRequest, RemoveScheduleResponse, ResumeQueueRequest,
    ResumeScheduleRequest, ResumeWorkerRequest, RunScheduleRequest, Schedule, SetLimitRequest,
    StartOperationRequest, Stats, Task, WorkerInfo,
};
use windlass_proto::rest::{LimitBody, read_scope};
use windlass_store::{ListLimits, ListQueues};

use super::refusal::answer;
use super::{State, lists, operations, schedules};
use crate::api::problem::Refused;
use crate::api::{dlq, health, limits, now_ms, queues, stats, workers};

#[derive(Debug)]
pub(super) struct Admin(pub(super) Arc<State>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_queues(&self, request: Request<ListQueuesRequest>) -> Answer<ListQueuesResponse> {
        let request = request.into_inner();
        let (after, limit) = lists::names(request.limit, request.cursor.as_deref())?;
        let page = queues::page(&self.0.api, ListQueues { after, limit }).await;
        let page = page.map(|page| ListQueuesResponse {
            queues: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next_cursor,
        });
        answer(page.map_err(Refused::from))
    }

    async fn get_queue(&self, request: Request<GetQueueRequest>) -> Answer<QueueInfo> {
        let name: Name = parsed("name", &request.into_inner().name)?;
        answer(self.0.api.broker.queue(&name).await.map(queue).map_err(Refused::from))
    }

    async fn pause_queue(&self, request: Request<PauseQueueRequest>) -> Answer<QueueInfo> {
        let name: Name = parsed("name", &request.into_inner().name)?;
        answer(self.0.api.broker.pause_queue(&name).await.map(queue).map_err(Refused::from))
    }

    async fn resume_queue(&self, request: Request<ResumeQueueRequest>) -> Answer<QueueInfo> {
        let name: Name = parsed("name", &request.into_inner().name)?;
        answer(self.0.api.broker.resume_queue(&name).await.map(queue).map_err(Refused::from))
    }

    async fn purge_queue(&self, request: Request<PurgeQueueRequest>) -> Answer<Affected> {
        let request = request.into_inner();
        let name: Name = parsed("name", &request.name)?;
        let broker = &self.0.api.broker;
        let affected = match request.dry_run {
            true => broker.queue(&name).await.map(|view| view.counts.by_state[StateName::Pending.index()]),
            false => broker.purge_queue(&name).await,
        };
        answer(affected.map(|affected| Affected { affected }).map_err(Refused::from))
    }

    async fn list_workers(&self, request: Request<ListWorkersRequest>) -> Answer<ListWorkersResponse> {
        let request = request.into_inner();
        let (after, limit) = lists::names(request.limit, request.cursor.as_deref())?;
        let page = workers::page(&self.0.api, ListWorkers { after, limit }).await;
        Ok(Response::new(ListWorkersResponse {
            workers: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next_cursor,
        }))
    }

    async fn get_worker(&self, request: Request<GetWorkerRequest>) -> Answer<WorkerInfo> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        let worker = self.0.api.broker.worker(&id).await;
        answer(worker.map(|view| show::worker(view).into()).map_err(Refused::from))
    }

    async fn pause_worker(&self, request: Request<PauseWorkerRequest>) -> Answer<WorkerInfo> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        let worker = self.0.api.broker.pause_worker(&id).await;
        answer(worker.map(|view| show::worker(view).into()).map_err(Refused::from))
    }

    async fn resume_worker(&self, request: Request<ResumeWorkerRequest>) -> Answer<WorkerInfo> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        let worker = self.0.api.broker.resume_worker(&id).await;
        answer(worker.map(|view| show::worker(view).into()).map_err(Refused::from))
    }

    async fn list_dead_letters(&self, request: Request<ListTasksRequest>) -> Answer<ListTasksResponse> {
        let list = dlq::only_dead(lists::read(request.into_inner())?, "states")?;
        answer(lists::page(&self.0.api, list).await)
    }

    async fn list_dead_letter_groups(
        &self,
        request: Request<ListDeadLetterGroupsRequest>,
    ) -> Answer<ListDeadLetterGroupsResponse> {
        let list = lists::read_groups(request.into_inner())?;
        answer(dlq::look(&self.0.api, list).await.map(Into::into))
    }

    async fn retry_dead_letters(&self, request: Request<DeadLettersRequest>) -> Answer<Affected> {
        answer(self.dead_letters(request.into_inner(), true).await)
    }

    async fn delete_dead_letters(&self, request: Request<DeadLettersRequest>) -> Answer<Affected> {
        answer(self.dead_letters(request.into_inner(), false).await)
    }

    async fn start_operation(&self, request: Request<StartOperationRequest>) -> Answer<Operation> {
        answer(operations::start(&self.0.api, request.into_inner()).await)
    }

    async fn preview_operation(&self, request: Request<StartOperationRequest>) -> Answer<OperationPreview> {
        answer(operations::preview(&self.0.api, request.into_inner()).await)
    }

    async fn get_operation(&self, request: Request<GetOperationRequest>) -> Answer<Operation> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.operation(&id).await.map(operations::shown).map_err(Refused::from))
    }

    async fn list_operations(
        &self,
        request: Request<ListOperationsRequest>,
    ) -> Answer<ListOperationsResponse> {
        answer(operations::list(&self.0.api, request.into_inner()).await)
    }

    async fn cancel_operation(&self, request: Request<CancelOperationRequest>) -> Answer<Operation> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.cancel_operation(&id).await.map(operations::shown).map_err(Refused::from))
    }

    async fn set_limit(&self, request: Request<SetLimitRequest>) -> Answer<Limit> {
        let (scope, name, limit) = request.into_inner().check()?;
        let set = self.0.api.broker.set_limit(scope, name, limit).await;
        answer(set.map(|(status, _)| LimitBody::new(status, now_ms()).into()).map_err(Refused::from))
    }

    async fn get_limit(&self, request: Request<GetLimitRequest>) -> Answer<Limit> {
        let request = request.into_inner();
        let (scope, name) = (read_scope(&request.scope)?, parsed("name", &request.name)?);
        let found = self.0.api.broker.limit(scope, &name).await;
        answer(found.map(|status| LimitBody::new(status, now_ms()).into()).map_err(Refused::from))
    }

    async fn list_limits(&self, request: Request<ListLimitsRequest>) -> Answer<ListLimitsResponse> {
        let request = request.into_inner();
        let after = request.cursor.as_deref().filter(|text| !text.is_empty());
        let list = ListLimits {
            scope: request.scope.as_deref().map(read_scope).transpose()?,
            after: after.map(limits::read_cursor).transpose()?,
            limit: lists::limit(request.limit)?,
        };
        let page = limits::page(&self.0.api, list).await.map(|page| ListLimitsResponse {
            limits: page.items.into_iter().map(Into::into).collect(),
            next_cursor: page.next_cursor,
        });
        answer(page.map_err(Refused::from))
    }

    async fn remove_limit(&self, request: Request<RemoveLimitRequest>) -> Answer<RemoveLimitResponse> {
        let request = request.into_inner();
        let (scope, name) = (read_scope(&request.scope)?, parsed("name", &request.name)?);
        let removed = self.0.api.broker.remove_limit(scope, name).await;
        answer(removed.map(|()| RemoveLimitResponse {}).map_err(Refused::from))
    }

    async fn create_schedule(&self, request: Request<CreateScheduleRequest>) -> Answer<Schedule> {
        answer(schedules::create(&self.0.api, request.into_inner().schedule).await)
    }

    async fn put_schedule(&self, request: Request<PutScheduleRequest>) -> Answer<Schedule> {
        answer(schedules::put(&self.0.api, request.into_inner().schedule).await)
    }

    async fn get_schedule(&self, request: Request<GetScheduleRequest>) -> Answer<Schedule> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.schedule(&id).await.map(schedules::shown).map_err(Refused::from))
    }

    async fn list_schedules(&self, request: Request<ListSchedulesRequest>) -> Answer<ListSchedulesResponse> {
        answer(schedules::list(&self.0.api, request.into_inner()).await)
    }

    async fn remove_schedule(
        &self,
        request: Request<RemoveScheduleRequest>,
    ) -> Answer<RemoveScheduleResponse> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        let removed = self.0.api.broker.remove_schedule(&id).await;
        answer(removed.map(|()| RemoveScheduleResponse {}).map_err(Refused::from))
    }

    async fn run_schedule(&self, request: Request<RunScheduleRequest>) -> Answer<Task> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.run_schedule(&id).await.map(Task::from).map_err(Refused::from))
    }

    async fn pause_schedule(&self, request: Request<PauseScheduleRequest>) -> Answer<Schedule> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.pause_schedule(&id).await.map(schedules::shown).map_err(Refused::from))
    }

    async fn resume_schedule(&self, request: Request<ResumeScheduleRequest>) -> Answer<Schedule> {
        let id: Name = parsed("id", &request.into_inner().id)?;
        answer(self.0.api.broker.resume_schedule(&id).await.map(schedules::shown).map_err(Refused::from))
    }

    async fn list_next_slots(&self, request: Request<ListNextSlotsRequest>) -> Answer<ListNextSlotsResponse> {
        answer(schedules::slots(&self.0.api, request.into_inner()).await)
    }

    async fn list_fires(&self, request: Request<ListFiresRequest>) -> Answer<ListFiresResponse> {
        answer(schedules::fires(&self.0.api, request.into_inner()).await)
    }

    async fn get_stats(&self, _: Request<GetStatsRequest>) -> Answer<Stats> {
        answer(stats::look(&self.0.api).await.map(Into::into))
    }

    async fn get_cluster(&self, _: Request<GetClusterRequest>) -> Answer<Cluster> {
        let (_, body) = health::look(&self.0.api).await;
        Ok(Response::new(body.into()))
    }
}

impl Admin {
    async fn dead_letters(&self, request: DeadLettersRequest, retry: bool) -> Result<Affected, Refused> {
        let broker = &self.0.api.broker;
        let dry_run = request.dry_run;
        let selection = dlq::selection(request.check()?)?;
        let affected = match (dry_run, retry) {
            (true, _) => broker.count_dead(&selection).await?,
            (false, true) => broker.retry_dead(selection).await?,
            (false, false) => broker.clear_dead(selection).await?,
        };
        Ok(Affected { affected })
    }
}

fn queue(view: QueueView) -> QueueInfo {
    show::queue(view, now_ms()).into()
}
