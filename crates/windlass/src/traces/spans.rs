//! From facts to spans.

use windlass_broker::{Ended, Fact, What};
use windlass_core::limits::TRACE_ERROR_BYTES_MAX;
use windlass_core::trace::{
    Context, Origin, Run, SpanId, TraceId, attempt_span, fire_context, submit_span, wait_span,
};
use windlass_core::{Attempt, Name, Outcome};

use super::otlp::{KeyValue, Kind, Link, Span, Status, StatusCode, number, text};

/// What is remembered of a task between two facts.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) origin: Origin,
    /// When it could start, as far as that was heard.
    pub(super) ready_at: Option<u64>,
    /// The schedule that added it.
    pub(super) schedule: Option<Name>,
}

impl Known {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, ready_at: None, schedule: None }
    }

    /// The span that a fact completes, if it completes one that is wanted.
    pub(super) fn hear(&mut self, fact: &Fact) -> Option<Span> {
        let span = match &fact.what {
            What::Fired { schedule } => {
                self.schedule = Some(schedule.clone());
                Some(fired(schedule, fact))
            }
            What::Submitted => Some(self.submitted(fact)),
            What::Ready => {
                self.ready_at = Some(fact.at);
                None
            }
            What::Started { run, worker, before } => Some(self.waited(fact, *run, worker, *before)),
            What::Ended { attempt, before } => {
                // What comes next begins to wait now, unless something is heard of it.
                self.ready_at = None;
                Some(self.ran(fact, attempt, *before))
            }
        };
        span.filter(|_| self.origin.sampled)
    }

    fn submitted(&self, fact: &Fact) -> Span {
        let links = self.schedule.iter().map(|schedule| {
            link(fire_context(schedule, &fact.id), text("windlass.schedule", schedule.as_str()))
        });
        Span {
            links: links.collect(),
            ..span(
                fact,
                Place {
                    trace: self.origin.trace,
                    id: submit_span(&fact.id),
                    parent: self.origin.parent,
                    name: "submit",
                    kind: Kind::Producer,
                    from: fact.created_at,
                    to: fact.at,
                },
            )
        }
    }

    fn waited(&self, fact: &Fact, run: Run, worker: &Name, before: Option<Ended>) -> Span {
        let since = before.map_or(fact.scheduled_at.unwrap_or(0).max(fact.created_at), |before| before.at);
        let mut span = span(
            fact,
            Place {
                trace: self.origin.trace,
                id: wait_span(&fact.id, run),
                parent: Some(submit_span(&fact.id)),
                name: "wait",
                kind: Kind::Internal,
                from: self.ready_at.unwrap_or(since),
                to: run.started_at,
            },
        );
        span.attributes.extend(of_run(run, worker));
        span
    }

    fn ran(&self, fact: &Fact, attempt: &Attempt, before: Option<Ended>) -> Span {
        let run = Run::from(attempt);
        let before = before.map(|before| {
            let context = self.origin.context(attempt_span(&fact.id, before.run));
            link(context, text("windlass.link", "attempt before"))
        });
        let mut span = Span {
            links: before.into_iter().collect(),
            status: Some(status(attempt)),
            ..span(
                fact,
                Place {
                    trace: self.origin.trace,
                    id: attempt_span(&fact.id, run),
                    parent: Some(wait_span(&fact.id, run)),
                    name: "run",
                    kind: Kind::Consumer,
                    from: attempt.started_at,
                    to: attempt.ended_at,
                },
            )
        };
        span.attributes.extend(of_run(run, &attempt.worker));
        span.attributes.push(text("windlass.outcome", attempt.outcome.as_str()));
        span
    }
}

/// In the trace of the schedule, which all of its fires are in.
fn fired(schedule: &Name, fact: &Fact) -> Span {
    let Context { trace, span: id, .. } = fire_context(schedule, &fact.id);
    let place = Place {
        trace,
        id,
        parent: None,
        name: "fire",
        kind: Kind::Internal,
        from: fact.created_at,
        to: fact.at,
    };
    let mut span = span(fact, place);
    span.name = format!("fire {schedule}");
    span.attributes.push(text("windlass.schedule", schedule.as_str()));
    span
}

fn status(attempt: &Attempt) -> Status {
    let error = attempt.error.as_deref().unwrap_or_default();
    match attempt.outcome {
        Outcome::Completed => Status { message: String::new(), code: StatusCode::Ok.into() },
        Outcome::Failed | Outcome::Crashed => Status {
            message: error[..error.floor_char_boundary(TRACE_ERROR_BYTES_MAX)].to_owned(),
            code: StatusCode::Error.into(),
        },
        Outcome::Released | Outcome::Cancelled => {
            Status { message: String::new(), code: StatusCode::Unset.into() }
        }
    }
}

fn of_run(run: Run, worker: &Name) -> [KeyValue; 2] {
    [number("windlass.attempt", i64::from(run.number)), text("windlass.worker", worker.as_str())]
}

fn link(context: Context, why: KeyValue) -> Link {
    Link { trace_id: context.trace.0.to_vec(), span_id: context.span.0.to_vec(), attributes: vec![why] }
}

/// Where a span stands, and when.
struct Place {
    trace: TraceId,
    id: SpanId,
    parent: Option<SpanId>,
    name: &'static str,
    kind: Kind,
    from: u64,
    to: u64,
}

fn span(fact: &Fact, place: Place) -> Span {
    let nanos = |ms: u64| ms.saturating_mul(1_000_000);
    Span {
        trace_id: place.trace.0.to_vec(),
        span_id: place.id.0.to_vec(),
        parent_span_id: place.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        name: format!("{} {}", place.name, fact.kind),
        kind: place.kind.into(),
        start_time_unix_nano: nanos(place.from.min(place.to)),
        end_time_unix_nano: nanos(place.to),
        attributes: vec![
            text("messaging.system", "windlass"),
            text("messaging.destination.name", fact.queue.as_str()),
            text("messaging.message.id", fact.id.as_str()),
            text("windlass.type", fact.kind.as_str()),
        ],
        links: Vec::new(),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::TaskId;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn fact(at: u64, what: What) -> Fact {
        Fact {
            id: TaskId::new("t").unwrap(),
            kind: name("mail"),
            queue: name("q"),
            created_at: 10,
            scheduled_at: Some(30),
            at,
            what,
        }
    }

    fn started(number: u32, started_at: u64, before: Option<Ended>) -> What {
        What::Started { run: Run { number, started_at }, worker: name("w"), before }
    }

    fn known() -> Known {
        Known::new(Origin::of(&TaskId::new("t").unwrap(), &[]))
    }

    fn milliseconds(span: &Span) -> (u64, u64) {
        (span.start_time_unix_nano / 1_000_000, span.end_time_unix_nano / 1_000_000)
    }

    #[test]
    fn waiting_begins_when_the_task_could_start() {
        let mut task = known();
        assert_eq!(milliseconds(&task.hear(&fact(12, What::Submitted)).unwrap()), (10, 12));
        let first = task.hear(&fact(40, started(1, 40, None))).unwrap();
        assert_eq!(milliseconds(&first), (30, 40), "not before its time");
        let before = Some(Ended { run: Run { number: 1, started_at: 40 }, at: 50 });
        let second = task.hear(&fact(90, started(2, 90, before))).unwrap();
        assert_eq!(milliseconds(&second), (50, 90), "from the end of the attempt before");
        assert!(task.hear(&fact(120, What::Ready)).is_none());
        let third = task.hear(&fact(130, started(3, 130, before))).unwrap();
        assert_eq!(milliseconds(&third), (120, 130), "or from when that was heard");
    }

    #[test]
    fn nothing_is_told_of_a_trace_that_nobody_wants() {
        let mut task = known();
        task.origin.sampled = false;
        assert!(task.hear(&fact(12, What::Submitted)).is_none());
        assert!(task.hear(&fact(40, started(1, 40, None))).is_none());
    }
}
