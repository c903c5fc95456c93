//! What operators see, which is what they see through REST.

use windlass_core::{Name, TaskId};

use super::names::{given, parsed};
use super::time::timestamp;
use super::v1::{
    BackgroundLoop, ClassCounts, Cluster, DeadLetterGroup, DeadLettersRequest, Ledger,
    ListDeadLetterGroupsResponse, QueueInfo, Rates, StateCounts, Stats, WorkerInfo,
};
use crate::rest::{
    self, DeadGroupBody, DeadGroupsBody, DeadSelection, HealthBody, Invalid, LoopBody, QueueBody, StatsBody,
    WorkerBody,
};

impl DeadLettersRequest {
    pub fn check(self) -> Result<DeadSelection, Invalid> {
        let ids = self.ids.iter().map(|id| parsed("ids", id));
        let ids: Vec<TaskId> = ids.collect::<Result<_, _>>()?;
        Ok(DeadSelection {
            ids: Some(ids).filter(|ids| !ids.is_empty()),
            all: self.all,
            queue: given("queue", self.queue.as_deref().unwrap_or_default())?,
            kind: given("type", self.r#type.as_deref().unwrap_or_default())?,
            q: self.q,
            filter: self.filter,
            dry_run: self.dry_run,
        })
    }
}

impl From<DeadGroupsBody> for ListDeadLetterGroupsResponse {
    fn from(body: DeadGroupsBody) -> Self {
        Self {
            groups: body.items.into_iter().map(Into::into).collect(),
            scanned: body.scanned,
            complete: body.complete,
        }
    }
}

impl From<DeadGroupBody> for DeadLetterGroup {
    fn from(group: DeadGroupBody) -> Self {
        Self {
            fingerprint: group.fingerprint.to_string(),
            count: group.count,
            sample_error: group.sample_error,
            r#type: group.kind.map(|name| name.to_string()),
            queue: group.queue.map(|name| name.to_string()),
            first_at: Some(timestamp(group.first_at.as_ms())),
            last_at: Some(timestamp(group.last_at.as_ms())),
            sample_task_id: group.sample_task_id.to_string(),
        }
    }
}

impl From<QueueBody> for QueueInfo {
    fn from(queue: QueueBody) -> Self {
        Self {
            name: queue.name.as_str().to_owned(),
            paused: queue.paused,
            tasks: Some(queue.tasks.into()),
            pending_by_priority: Some(queue.pending_by_priority.into()),
            oldest_pending_age_seconds: queue.oldest_pending_age_seconds.map(|age| age.0),
            rates: Some(queue.rates.into()),
            ageing: queue.ageing.map(Into::into),
        }
    }
}

impl From<WorkerBody> for WorkerInfo {
    fn from(worker: WorkerBody) -> Self {
        let names = |names: Vec<Name>| names.iter().map(|name| name.as_str().to_owned()).collect();
        Self {
            id: worker.id.as_str().to_owned(),
            incarnation: worker.incarnation,
            paused: worker.paused,
            active: worker.active,
            processes: worker.processes,
            host: worker.host,
            pid: worker.pid,
            version: worker.version,
            queues: names(worker.queues),
            types: names(worker.types.unwrap_or_default()),
            slots: worker.slots,
            cpu: worker.cpu,
            memory_bytes: worker.memory_bytes,
            tasks: worker.tasks.iter().map(|id| id.as_str().to_owned()).collect(),
            first_seen_at: Some(timestamp(worker.first_seen_at.as_ms())),
            last_heartbeat_at: Some(timestamp(worker.last_heartbeat_at.as_ms())),
        }
    }
}

impl From<StatsBody> for Stats {
    fn from(stats: StatsBody) -> Self {
        let ledger = stats.ledger;
        Self {
            tasks: Some(stats.tasks.into()),
            pending_by_priority: Some(stats.pending_by_priority.into()),
            ledger: Some(Ledger {
                submitted: ledger.submitted,
                completed: ledger.completed,
                failed: ledger.failed,
                crashed: ledger.crashed,
                dead_lettered: ledger.dead_lettered,
                cancelled: ledger.cancelled,
                expired: ledger.expired,
                removed: ledger.removed,
            }),
            rates: Some(stats.rates.into()),
            mean_duration_ms: stats.mean_duration_ms,
            queues: stats.queues,
            oldest_pending_age_seconds: stats.oldest_pending_age_seconds.map(|age| age.0),
            active_workers: stats.active_workers,
            uptime_seconds: stats.uptime_seconds.0,
        }
    }
}

impl From<HealthBody> for Cluster {
    fn from(health: HealthBody) -> Self {
        Self {
            status: health.status,
            problem: health.problem,
            leader: health.leader,
            quorum: health.quorum,
            version: health.version,
            store: health.store,
            durability: health.durability,
            persistent: health.persistent,
            sync_interval_ms: health.sync_interval_ms,
            replicas: health.replicas,
            active_workers: health.active_workers,
            oldest_pending_age_seconds: health.oldest_pending_age_seconds.map(|age| age.0),
            last_commit_age_seconds: health.last_commit_age_seconds.map(|age| age.0),
            uptime_seconds: health.uptime_seconds.0,
            loops: health.loops.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<LoopBody> for BackgroundLoop {
    fn from(this: LoopBody) -> Self {
        Self {
            name: this.name,
            last_ok_at: this.last_ok_at.map(|at| timestamp(at.as_ms())),
            failures_in_a_row: this.failures_in_a_row,
        }
    }
}

impl From<rest::StateCounts> for StateCounts {
    fn from(counts: rest::StateCounts) -> Self {
        Self {
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
}

impl From<rest::ClassCounts> for ClassCounts {
    fn from(counts: rest::ClassCounts) -> Self {
        Self { critical: counts.critical, high: counts.high, normal: counts.normal, low: counts.low }
    }
}

impl From<rest::Rates> for Rates {
    fn from(rates: rest::Rates) -> Self {
        Self {
            submitted_per_second: rates.submitted_per_second,
            completed_per_second: rates.completed_per_second,
            failed_per_second: rates.failed_per_second,
        }
    }
}
