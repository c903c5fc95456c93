//! Calls about queues, workers, dead letters and the broker itself.

use windlass_core::{Name, TaskId};
use windlass_proto::grpc::v1::{
    self, DeadLettersRequest, GetClusterRequest, GetQueueRequest, GetStatsRequest, GetWorkerRequest,
    ListDeadLetterGroupsRequest, ListQueuesRequest, ListWorkersRequest, PauseQueueRequest,
    PauseWorkerRequest, PurgeQueueRequest, ResumeQueueRequest, ResumeWorkerRequest,
};
use windlass_proto::rest::{
    Affected, ClassCounts, DeadGroupBody, DeadGroupsBody, DeadSelection, HealthBody, Invalid, LedgerBody,
    LoopBody, QueueBody, QueuesBody, Rates, Seconds, StateCounts, StatsBody, WorkerBody, WorkersBody,
};

use super::read::{all, optional, parsed, part, since, time};
use super::tasks::rows;
use super::{Grpc, said, soon};
use crate::error::Error;
use crate::rest::Filter;

impl Grpc {
    pub(crate) async fn queues(&self, limit: usize, cursor: Option<&str>) -> Result<QueuesBody, Error> {
        let request = ListQueuesRequest { limit: Some(rows(limit)), cursor: cursor.map(str::to_owned) };
        let answer = said(self.admin.clone().list_queues(soon(request)).await)?;
        let items = answer.queues.into_iter().map(queue).collect::<Result<_, _>>()?;
        Ok(QueuesBody { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn queue(&self, name: &Name) -> Result<QueueBody, Error> {
        let request = soon(GetQueueRequest { name: name.to_string() });
        queue(said(self.admin.clone().get_queue(request).await)?)
    }

    pub(crate) async fn pause_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        let request = soon(PauseQueueRequest { name: name.to_string() });
        queue(said(self.admin.clone().pause_queue(request).await)?)
    }

    pub(crate) async fn resume_queue(&self, name: &Name) -> Result<QueueBody, Error> {
        let request = soon(ResumeQueueRequest { name: name.to_string() });
        queue(said(self.admin.clone().resume_queue(request).await)?)
    }

    pub(crate) async fn purge_queue(&self, name: &Name) -> Result<Affected, Error> {
        let request = soon(PurgeQueueRequest { name: name.to_string(), dry_run: false });
        said(self.admin.clone().purge_queue(request).await).map(affected)
    }

    pub(crate) async fn dead_groups(&self, filter: &Filter) -> Result<DeadGroupsBody, Error> {
        filter.check_groups()?;
        let request = soon(ListDeadLetterGroupsRequest {
            queue: filter.queue.as_ref().map(Name::to_string),
            r#type: filter.kind.as_ref().map(Name::to_string),
            filter: filter.filter.clone(),
            limit: filter.limit.map(rows),
        });
        let answer = said(self.admin.clone().list_dead_letter_groups(request).await)?;
        let items = answer.groups.into_iter().map(group).collect::<Result<_, _>>()?;
        Ok(DeadGroupsBody { items, scanned: answer.scanned, complete: answer.complete })
    }

    pub(crate) async fn retry_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        said(self.admin.clone().retry_dead_letters(soon(selection(which)?)).await).map(affected)
    }

    pub(crate) async fn clear_dead(&self, which: &DeadSelection) -> Result<Affected, Error> {
        said(self.admin.clone().delete_dead_letters(soon(selection(which)?)).await).map(affected)
    }

    pub(crate) async fn workers(&self, limit: usize, cursor: Option<&str>) -> Result<WorkersBody, Error> {
        let request = ListWorkersRequest { limit: Some(rows(limit)), cursor: cursor.map(str::to_owned) };
        let answer = said(self.admin.clone().list_workers(soon(request)).await)?;
        let items = answer.workers.into_iter().map(worker).collect::<Result<_, _>>()?;
        Ok(WorkersBody { items, next_cursor: answer.next_cursor })
    }

    pub(crate) async fn worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        let request = soon(GetWorkerRequest { id: id.to_string() });
        worker(said(self.admin.clone().get_worker(request).await)?)
    }

    pub(crate) async fn pause_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        let request = soon(PauseWorkerRequest { id: id.to_string() });
        worker(said(self.admin.clone().pause_worker(request).await)?)
    }

    pub(crate) async fn resume_worker(&self, id: &Name) -> Result<WorkerBody, Error> {
        let request = soon(ResumeWorkerRequest { id: id.to_string() });
        worker(said(self.admin.clone().resume_worker(request).await)?)
    }

    pub(crate) async fn stats(&self) -> Result<StatsBody, Error> {
        let stats = said(self.admin.clone().get_stats(soon(GetStatsRequest {})).await)?;
        let ledger = part("ledger", stats.ledger)?;
        Ok(StatsBody {
            tasks: states(part("tasks", stats.tasks)?),
            pending_by_priority: classes(part("pending_by_priority", stats.pending_by_priority)?),
            ledger: LedgerBody {
                submitted: ledger.submitted,
                completed: ledger.completed,
                failed: ledger.failed,
                crashed: ledger.crashed,
                dead_lettered: ledger.dead_lettered,
                cancelled: ledger.cancelled,
                expired: ledger.expired,
                removed: ledger.removed,
            },
            rates: rates(part("rates", stats.rates)?),
            mean_duration_ms: stats.mean_duration_ms,
            queues: stats.queues,
            oldest_pending_age_seconds: stats.oldest_pending_age_seconds.map(Seconds),
            active_workers: stats.active_workers,
            uptime_seconds: Seconds(stats.uptime_seconds),
        })
    }

    pub(crate) async fn health(&self) -> Result<HealthBody, Error> {
        let health = said(self.admin.clone().get_cluster(soon(GetClusterRequest {})).await)?;
        let one = |this: v1::BackgroundLoop| LoopBody {
            name: this.name,
            last_ok_at: time(this.last_ok_at),
            failures_in_a_row: this.failures_in_a_row,
        };
        Ok(HealthBody {
            status: health.status,
            problem: health.problem,
            version: health.version,
            store: health.store,
            durability: health.durability,
            sync_interval_ms: health.sync_interval_ms,
            replicas: health.replicas,
            persistent: health.persistent,
            leader: health.leader,
            quorum: health.quorum,
            active_workers: health.active_workers,
            oldest_pending_age_seconds: health.oldest_pending_age_seconds.map(Seconds),
            last_commit_age_seconds: health.last_commit_age_seconds.map(Seconds),
            uptime_seconds: Seconds(health.uptime_seconds),
            loops: health.loops.into_iter().map(one).collect(),
        })
    }
}

/// An empty list of ids is none at all in a message, so what the broker would refuse is refused here.
fn selection(which: &DeadSelection) -> Result<DeadLettersRequest, Invalid> {
    if which.ids.is_some() && which.all {
        return Err(Invalid::malformed("ids", "is given besides all or a filter"));
    }
    let ids = which.ids.iter().flatten().map(TaskId::to_string).collect();
    Ok(DeadLettersRequest {
        ids,
        all: which.all,
        queue: which.queue.as_ref().map(Name::to_string),
        r#type: which.kind.as_ref().map(Name::to_string),
        q: which.q.clone(),
        filter: which.filter.clone(),
        dry_run: which.dry_run,
    })
}

fn group(group: v1::DeadLetterGroup) -> Result<DeadGroupBody, Error> {
    Ok(DeadGroupBody {
        fingerprint: parsed("fingerprint", &group.fingerprint)?,
        count: group.count,
        sample_error: group.sample_error,
        kind: optional("type", group.r#type)?,
        queue: optional("queue", group.queue)?,
        first_at: since(group.first_at),
        last_at: since(group.last_at),
        sample_task_id: parsed("sample_task_id", &group.sample_task_id)?,
    })
}

fn affected(answer: v1::Affected) -> Affected {
    Affected { affected: answer.affected }
}

fn queue(queue: v1::QueueInfo) -> Result<QueueBody, Error> {
    Ok(QueueBody {
        name: parsed("name", &queue.name)?,
        paused: queue.paused,
        tasks: states(part("tasks", queue.tasks)?),
        pending_by_priority: classes(part("pending_by_priority", queue.pending_by_priority)?),
        oldest_pending_age_seconds: queue.oldest_pending_age_seconds.map(Seconds),
        rates: rates(part("rates", queue.rates)?),
        ageing: queue.ageing.map(super::limits::aged),
    })
}

fn worker(worker: v1::WorkerInfo) -> Result<WorkerBody, Error> {
    Ok(WorkerBody {
        id: parsed("id", &worker.id)?,
        incarnation: worker.incarnation,
        paused: worker.paused,
        active: worker.active,
        processes: worker.processes,
        host: worker.host,
        pid: worker.pid,
        version: worker.version,
        queues: all("queues", &worker.queues)?,
        types: Some(all("types", &worker.types)?).filter(|types| !types.is_empty()),
        slots: worker.slots,
        cpu: worker.cpu,
        memory_bytes: worker.memory_bytes,
        tasks: all("tasks", &worker.tasks)?,
        first_seen_at: since(worker.first_seen_at),
        last_heartbeat_at: since(worker.last_heartbeat_at),
    })
}

fn states(counts: v1::StateCounts) -> StateCounts {
    StateCounts {
        scheduled: counts.scheduled,
        blocked: counts.blocked,
        pending: counts.pending,
        running: counts.running,
        retrying: counts.retrying,
        completed: counts.completed,
        dead_letter: counts.dead_letter,
        cancelled: counts.cancelled,
    }
}

fn classes(counts: v1::ClassCounts) -> ClassCounts {
    ClassCounts { critical: counts.critical, high: counts.high, normal: counts.normal, low: counts.low }
}

fn rates(rates: v1::Rates) -> Rates {
    Rates {
        submitted_per_second: rates.submitted_per_second,
        completed_per_second: rates.completed_per_second,
        failed_per_second: rates.failed_per_second,
    }
}
