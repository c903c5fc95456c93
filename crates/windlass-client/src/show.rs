//! What a broker says, as the bodies that clients get: for the server, and for a client in the same process.

use windlass_broker::{DeadGroup, Health, QueueView, Reason, ScheduleView, Stats, WorkerView};
use windlass_proto::rest::{
    DeadGroupBody, HealthBody, LedgerBody, LoopBody, QueueBody, Rates, ReasonBody, ScheduleBody, Seconds,
    StatsBody, Time, WorkerBody,
};
use windlass_store::Durability;

pub fn reason(reason: Reason) -> ReasonBody {
    let Reason { code, text, until } = reason;
    ReasonBody { code: code.to_owned(), text, until: until.map(Time::from_ms) }
}

pub fn schedule(view: ScheduleView) -> ScheduleBody {
    ScheduleBody::new(view.schedule, reason(view.standing))
}

pub fn queue(view: QueueView, now: u64) -> QueueBody {
    let counts = view.counts;
    let age = |at| Seconds::from_ms(now.saturating_sub(at));
    QueueBody {
        name: counts.name,
        paused: counts.paused,
        tasks: counts.by_state.into(),
        pending_by_priority: counts.pending_by_class.into(),
        oldest_pending_age_seconds: counts.oldest_pending_at.map(age),
        rates: Rates {
            submitted_per_second: view.submitted_per_second,
            completed_per_second: view.completed_per_second,
            failed_per_second: view.failed_per_second,
        },
        ageing: view.ageing.map(Into::into),
    }
}

pub fn group(group: DeadGroup) -> DeadGroupBody {
    DeadGroupBody {
        fingerprint: group.fingerprint,
        count: group.count,
        sample_error: group.sample_error.into(),
        kind: group.kind,
        queue: group.queue,
        first_at: Time::from_ms(group.first_at),
        last_at: Time::from_ms(group.last_at),
        sample_task_id: group.sample,
    }
}

pub fn worker(view: WorkerView) -> WorkerBody {
    WorkerBody {
        id: view.name,
        incarnation: view.incarnation,
        paused: view.paused,
        active: view.active,
        processes: view.processes as u64,
        host: view.host,
        pid: view.pid,
        version: view.version,
        queues: view.queues,
        types: view.types,
        slots: view.slots,
        cpu: view.cpu,
        memory_bytes: view.memory_bytes,
        tasks: view.running,
        first_seen_at: Time::from_ms(view.first_seen_at),
        last_heartbeat_at: Time::from_ms(view.last_seen_at),
    }
}

pub fn stats(stats: Stats, now: u64) -> StatsBody {
    let ledger = stats.ledger;
    let age = |at| Seconds::from_ms(now.saturating_sub(at));
    StatsBody {
        tasks: stats.by_state.into(),
        pending_by_priority: stats.pending_by_class.into(),
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
        rates: Rates {
            submitted_per_second: stats.submitted_per_second,
            completed_per_second: stats.completed_per_second,
            failed_per_second: stats.failed_per_second,
        },
        mean_duration_ms: stats.mean_duration_ms,
        queues: stats.queues as u64,
        oldest_pending_age_seconds: stats.oldest_pending_at.map(age),
        active_workers: stats.workers_active as u64,
        uptime_seconds: Seconds::from_ms(stats.uptime_ms),
    }
}

pub fn health(health: Health) -> HealthBody {
    let (durability, sync_interval_ms) = match health.durability {
        Durability::Sync => ("sync", None),
        Durability::IntervalMs(ms) => ("interval", Some(ms)),
        Durability::Os => ("os", None),
        Durability::Snapshots => ("snapshots", None),
        Durability::None => ("none", None),
    };
    let status = match (health.ok, health.draining) {
        (false, _) => "unavailable",
        (true, true) => "stopping",
        (true, false) => "ok",
    };
    let loops = health.loops.into_iter().map(|this| LoopBody {
        name: this.name.to_owned(),
        last_ok_at: this.ok_at.map(Time::from_ms),
        failures_in_a_row: this.failures,
    });
    HealthBody {
        status: status.to_owned(),
        problem: health.problem,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: health.store.to_owned(),
        durability: durability.to_owned(),
        sync_interval_ms,
        replicas: Some(health.replicas).filter(|count| *count > 0),
        persistent: health.persistent,
        leader: "self".to_owned(),
        quorum: health.ok,
        active_workers: health.workers_active as u64,
        oldest_pending_age_seconds: health.oldest_pending_age_ms.map(Seconds::from_ms),
        last_commit_age_seconds: health.last_commit_age_ms.map(Seconds::from_ms),
        uptime_seconds: Seconds::from_ms(health.uptime_ms),
        loops: loops.collect(),
    }
}
