//! Where a task stands in a distributed trace.
//!
//! A producer that traces sends `traceparent` (W3C Trace Context) along, and the task keeps it in its metadata. From there on
//! nothing about traces is stored: every span of a task has an id that follows from the task itself, so that a span
//! that ends after a restart, or on another broker, still has the parent and the links that it would have had.
//!
//! ```text
//! producer's span ─ submit ─┬─ wait 1 ── attempt 1 ── what the handler does
//!                           └─ wait 2 ── attempt 2     (linked to attempt 1)
//! ```
//!
//! A task without a `traceparent` begins a trace. Its id is that of the task if that is a UUID.

use std::fmt;

use crate::fingerprint::Fnv;
use crate::ids::{Name, TaskId};
use crate::limits::{METADATA_BYTES_MAX, METADATA_ENTRIES_MAX};
use crate::state::State;
use crate::task::{Attempt, Body, Record};

/// The key in the metadata of a task, and the name of the header.
pub const TRACEPARENT: &str = "traceparent";
const SAMPLED: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// One span of one trace, as the next one is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whether whoever began the trace wants it recorded.
    pub sampled: bool,
}

/// The trace of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub trace: TraceId,
    /// The span of the producer.
    pub parent: Option<SpanId>,
    pub sampled: bool,
}

/// One attempt among those of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub number: u32,
    pub started_at: u64,
}

impl Context {
    /// Reads a `traceparent`; `None` for anything that the specification calls invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let version: [u8; 1] = hex(text.get(..2)?)?;
        let dashes = [2, 35, 52].iter().all(|at| text.get(*at) == Some(&b'-'));
        // Later versions may have more behind another dash.
        let ends = match text.len() {
            55 => true,
            56.. => version[0] > 0 && text[55] == b'-',
            _ => false,
        };
        if !dashes || !ends || version[0] == 0xff {
            return None;
        }
        let (trace, span): ([u8; 16], [u8; 8]) = (hex(&text[3..35])?, hex(&text[36..52])?);
        let [flags]: [u8; 1] = hex(&text[53..55])?;
        let zero = trace == [0; 16] || span == [0; 8];
        (!zero).then_some(Self { trace: TraceId(trace), span: SpanId(span), sampled: flags & SAMPLED != 0 })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled) * SAMPLED)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Origin {
    pub fn of(id: &TaskId, metadata: &[(String, String)]) -> Self {
        let given = metadata.iter().find(|(key, _)| key == TRACEPARENT);
        match given.and_then(|(_, text)| Context::parse(text)) {
            Some(Context { trace, span, sampled }) => Self { trace, parent: Some(span), sampled },
            None => Self { trace: trace_of(id), parent: None, sampled: true },
        }
    }

    pub fn context(&self, span: SpanId) -> Context {
        Context { trace: self.trace, span, sampled: self.sampled }
    }
}

/// Taking the task in.
pub fn submit_span(id: &TaskId) -> SpanId {
    span(&["submit", id.as_str()], &[])
}

/// From when it could have started until it did.
pub fn wait_span(id: &TaskId, run: Run) -> SpanId {
    span(&["wait", id.as_str()], &[u64::from(run.number), run.started_at])
}

pub fn attempt_span(id: &TaskId, run: Run) -> SpanId {
    span(&["attempt", id.as_str()], &[u64::from(run.number), run.started_at])
}

/// What a schedule did to add this task. All fires of a schedule are in one trace, that of the schedule.
pub fn fire_context(schedule: &Name, task: &TaskId) -> Context {
    let trace = TraceId(wide(&["schedule", schedule.as_str()]));
    Context { trace, span: span(&["fire", task.as_str()], &[]), sampled: true }
}

impl From<&Attempt> for Run {
    fn from(attempt: &Attempt) -> Self {
        Self { number: attempt.number, started_at: attempt.started_at }
    }
}

/// What a producer sent beside the task becomes part of it, unless the task names a trace itself or its metadata is full.
pub fn adopt(metadata: &mut Vec<(String, String)>, given: Context) {
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    let text = given.to_string();
    let full =
        metadata.len() >= METADATA_ENTRIES_MAX || bytes + TRACEPARENT.len() + text.len() > METADATA_BYTES_MAX;
    if !full && !metadata.iter().any(|(key, _)| key == TRACEPARENT) {
        metadata.push((TRACEPARENT.to_owned(), text));
    }
}

/// Has the worker that was given a task go on from its attempt. The task as it is stored is left alone.
pub fn hand_over(record: &Record, body: &mut Body) {
    let State::Running(lease) = &record.state else { return };
    let run = Run { number: record.attempts, started_at: lease.started_at };
    let context = Origin::of(&record.id, &body.metadata).context(attempt_span(&record.id, run));
    body.metadata.retain(|(key, _)| key != TRACEPARENT);
    body.metadata.push((TRACEPARENT.to_owned(), context.to_string()));
}

fn trace_of(id: &TaskId) -> TraceId {
    let digits: Vec<u8> = id.as_str().bytes().filter(|b| *b != b'-').collect();
    let uuid = (id.as_str().len() == 36).then(|| hex(&digits)).flatten();
    TraceId(uuid.filter(|bytes| *bytes != [0; 16]).unwrap_or_else(|| wide(&["task", id.as_str()])))
}

fn span(words: &[&str], numbers: &[u64]) -> SpanId {
    SpanId(digest(0, words, numbers).to_be_bytes())
}

fn wide(words: &[&str]) -> [u8; 16] {
    let (high, low) = (digest(1, words, &[]), digest(2, words, &[]));
    ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
}

/// Never 0, which would mean that there is none.
fn digest(seed: u64, words: &[&str], numbers: &[u64]) -> u64 {
    let mut hash = Fnv::default();
    hash.add(&seed.to_be_bytes());
    for word in words {
        hash.add(word.as_bytes());
        hash.add(&[0]);
    }
    for number in numbers {
        hash.add(&number.to_be_bytes());
    }
    // Neighbouring inputs give neighbouring sums; ids should look drawn at random.
    crate::choice::Draws::new(hash.sum()).next_u64().max(1)
}

/// Small letters only, as the specification has it.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn id(text: &str) -> TaskId {
        TaskId::new(text).unwrap()
    }

    fn metadata(text: &str) -> Vec<(String, String)> {
        vec![("a".to_owned(), "b".to_owned()), (TRACEPARENT.to_owned(), text.to_owned())]
    }

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context = Context::parse(GIVEN).unwrap();
        assert_eq!((context.to_string().as_str(), context.sampled), (GIVEN, true));
        let unsampled = Context::parse(&GIVEN.replace("-01", "-02")).unwrap();
        assert!(!unsampled.sampled);
        assert!(unsampled.to_string().ends_with("-00"));
        let later = Context::parse(&format!("cc{}-what-comes", &GIVEN[2..])).unwrap();
        assert_eq!(later, context);
    }

    #[test]
    fn what_is_invalid_is_no_traceparent() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for text in [
            "",
            "garbage",
            &GIVEN[..54],
            &format!("{GIVEN}-more"),
            &format!("cc{}more", &GIVEN[2..]),
            &format!("ff{}", &GIVEN[2..]),
            &GIVEN.to_uppercase(),
            &GIVEN.replace('-', "_"),
            &GIVEN.replace("4bf", "4bg"),
            &zero_trace,
            &zero_span,
            "ü0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_task_goes_on_with_its_trace_or_begins_one() {
        let given = Context::parse(GIVEN).unwrap();
        let origin = Origin::of(&id("t"), &metadata(GIVEN));
        assert_eq!((origin.trace, origin.parent, origin.sampled), (given.trace, Some(given.span), true));
        let own = Origin::of(&id("0191f3c8-7c1e-7d1a-9a57-0e4c6c1f2a3b"), &metadata("garbage"));
        assert_eq!((own.trace.to_string().as_str(), own.parent), ("0191f3c87c1e7d1a9a570e4c6c1f2a3b", None));
        assert_ne!(Origin::of(&id("a"), &[]).trace, Origin::of(&id("b"), &[]).trace);
    }

    #[test]
    fn spans_have_ids_of_their_own_that_stay() {
        let mut seen = HashSet::new();
        for task in ["a", "b", "a:1"] {
            assert!(seen.insert(submit_span(&id(task))));
            for number in 1..4 {
                for started_at in [1, 2, 1_790_000_000_000] {
                    let run = Run { number, started_at };
                    assert!(
                        seen.insert(wait_span(&id(task), run)) && seen.insert(attempt_span(&id(task), run))
                    );
                    assert_eq!(wait_span(&id(task), run), wait_span(&id(task), run));
                }
            }
        }
        let schedule = Name::new("nightly").unwrap();
        let (one, other) = (fire_context(&schedule, &id("n:1")), fire_context(&schedule, &id("n:2")));
        assert!(one.trace == other.trace && one.span != other.span);
    }

    #[test]
    fn what_came_beside_the_task_yields_to_its_own() {
        let given = Context::parse(GIVEN).unwrap();
        let mut none = Vec::new();
        adopt(&mut none, given);
        assert_eq!(none, [(TRACEPARENT.to_owned(), GIVEN.to_owned())]);
        let mut own = metadata("its own");
        adopt(&mut own, given);
        assert_eq!(own, metadata("its own"));
        let mut full = vec![(String::new(), String::new()); METADATA_ENTRIES_MAX];
        adopt(&mut full, given);
        let mut large = vec![("a".to_owned(), "b".repeat(METADATA_BYTES_MAX - 10))];
        adopt(&mut large, given);
        assert_eq!((full.len(), large.len()), (METADATA_ENTRIES_MAX, 1));
    }
}
