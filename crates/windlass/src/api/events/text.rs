//! Events as text. Each is written once, however many hear it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use windlass_broker::{Event, EventData, Gap, GapReason, Heard, QueueDepth, SystemFigures, TaskFacts};
use windlass_proto::rest::{
    ClosedBody, EventBody, GapBody, PositionBody, ProgressBody, QueueDepthBody, QueueDepthsBody,
    QueueEventBody, Seconds, SystemMetricsBody, TaskEventBody, Time, WorkerEventBody,
};

/// The id and the message.
pub(super) fn heard(heard: &Heard) -> (u64, Bytes) {
    match heard {
        Heard::Event(event) => (event.id, event.text(write).clone()),
        Heard::Gap(gap) => (gap.id, self::gap(gap)),
    }
}

/// The last message. Its id is the last that was sent, so that whoever comes back with it misses nothing.
pub(super) fn closed(id: u64, reason: &'static str) -> Bytes {
    message(id, "closed", crate::api::now_ms(), ClosedBody { reason: Cow::Borrowed(reason) })
}

/// Where a listener is that heard nothing for a while: whoever comes back with this id misses nothing.
pub(super) fn position(id: u64) -> Bytes {
    message(id, "position", crate::api::now_ms(), PositionBody {})
}

fn gap(gap: &Gap) -> Bytes {
    let data = GapBody { missed: gap.missed, reason: Cow::Borrowed(gap.reason.as_str()) };
    message(gap.id, "gap", gap.at, data)
}

fn write(event: &Event) -> Bytes {
    let kind = event.kind.as_str();
    match &event.data {
        EventData::Task(facts) => message(event.id, kind, event.at, task(facts)),
        EventData::Worker(name) => {
            message(event.id, kind, event.at, WorkerEventBody { worker_id: name.clone() })
        }
        EventData::Queue(name) => message(event.id, kind, event.at, QueueEventBody { queue: name.clone() }),
        EventData::Depths(queues) => {
            let queues = queues.iter().map(depth).collect();
            message(event.id, kind, event.at, QueueDepthsBody { queues })
        }
        EventData::Figures(figures) => message(event.id, kind, event.at, metrics(figures)),
        EventData::Missed(missed) => {
            let reason = Cow::Borrowed(GapReason::Unheard.as_str());
            message(event.id, kind, event.at, GapBody { missed: *missed, reason })
        }
    }
}

fn message<D: Serialize>(id: u64, kind: &'static str, at: u64, data: D) -> Bytes {
    let body = EventBody { id, kind: Cow::Borrowed(kind), timestamp: Time::from_ms(at), data };
    let mut text = Vec::with_capacity(384);
    serde_json::to_writer(&mut text, &body).expect("events are made of names and numbers");
    text.into()
}

fn task(facts: &TaskFacts) -> TaskEventBody {
    TaskEventBody {
        task_id: facts.id.clone(),
        kind: facts.kind.clone(),
        queue: facts.queue.clone(),
        state: facts.state,
        revision: facts.revision,
        priority: facts.priority.0,
        attempts: facts.attempts,
        worker_id: facts.worker.clone(),
        error: facts.error.clone(),
        progress: facts.progress.clone().map(ProgressBody::from),
        duration_ms: facts.duration_ms,
        next_at: facts.next_at.map(Time::from_ms),
        reason: facts.reason.map(|reason| Cow::Borrowed(reason.as_str())),
    }
}

fn depth(depth: &QueueDepth) -> QueueDepthBody {
    QueueDepthBody {
        queue: depth.queue.clone(),
        depths: depth.by_state.into(),
        oldest_pending_seconds: depth.oldest_pending_ms.map(Seconds::from_ms),
        paused: depth.paused,
    }
}

fn metrics(figures: &SystemFigures) -> SystemMetricsBody {
    SystemMetricsBody {
        submitted_total: figures.submitted,
        started_total: figures.started,
        completed_total: figures.completed,
        failed_total: figures.failed,
        retried_total: figures.retried,
        dead_lettered_total: figures.dead_lettered,
        cancelled_total: figures.cancelled,
        workers: figures.workers as u64,
        running: figures.running,
        pending: figures.pending,
        memory_bytes: figures.memory_bytes,
        cpu_percent: figures.cpu_percent.map(|percent| (percent * 10.0).round() / 10.0),
    }
}
