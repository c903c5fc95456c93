//! Which tasks are meant: the one language for lists, acts on many tasks and people.
//!
//! A filter is words with spaces between them, and a task must pass all of them. `field:value` looks at one field,
//! `field:a,b` takes either, a `-` in front takes all others, and a word without a field is looked for in the id, the type
//! and the error. Quotes keep spaces, commas and colons together. `docs/operations.md` lists the fields.
//!
//! Times that count back (`since:2h`) are fixed when the filter is read, so a parsed filter means the same for ever;
//! its [`Display`](std::fmt::Display) is a text that is read as the same filter at any time. Reading never guesses: a field
//! or a value that is not known is refused, with the word that is at fault and the nearest one that is known.

mod moment;
mod parse;
mod show;
#[cfg(test)]
mod tests;
mod words;

use std::cell::OnceCell;

use crate::fingerprint::Fingerprint;
use crate::ids::{Name, TaskId};
use crate::state::{State, StateName};
use crate::task::Record;

pub use parse::Invalid;

/// What a text was read as. The default lets every task pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    negated: bool,
    test: Test,
}

/// One word. Of several values any will do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    State(Vec<StateName>),
    Queue(Vec<Pattern>),
    Kind(Vec<Pattern>),
    /// Who holds the task, or held it last.
    Worker(Vec<Pattern>),
    Id(Vec<Pattern>),
    /// Whose share and limit it counts towards.
    Key(Vec<Pattern>),
    /// The unique key, held or not.
    Unique(Vec<Pattern>),
    Error(Vec<Box<str>>),
    /// What the error is like, see [`crate::fingerprint`].
    Fingerprint(Vec<Fingerprint>),
    Priority(Vec<(u8, u8)>),
    /// When the task was submitted.
    Created(Span),
    /// When the task last changed.
    Changed(Span),
    /// Part of the id, the type or the error.
    Text(Box<str>),
}

/// A name, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    text: Box<str>,
    begins: bool,
}

/// From `from` on, and before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    from: Option<u64>,
    to: Option<u64>,
}

impl Filter {
    /// Whether every task passes.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn matches(&self, record: &Record) -> bool {
        let error = Error::new(record);
        self.terms.iter().all(|term| term.test.holds(record, &error) != term.negated)
    }

    /// The states that a matching task can be in, unless it can be in all of them.
    pub fn states(&self) -> Option<Vec<StateName>> {
        let possible = |state: &StateName| {
            self.terms.iter().all(|term| match &term.test {
                Test::State(states) => states.contains(state) != term.negated,
                _ => true,
            })
        };
        let states: Vec<StateName> = StateName::ALL.into_iter().filter(possible).collect();
        (states.len() < StateName::ALL.len()).then_some(states)
    }

    /// The queue that every matching task is in, if there is only one.
    pub fn queue(&self) -> Option<Name> {
        self.terms.iter().find_map(|term| match &term.test {
            Test::Queue(patterns) if !term.negated => match patterns.as_slice() {
                [Pattern { text, begins: false }] => Name::new(text).ok(),
                _ => None,
            },
            _ => None,
        })
    }

    /// The only ids that can match, if the filter names them.
    pub fn ids(&self) -> Option<Vec<TaskId>> {
        self.terms.iter().find_map(|term| match &term.test {
            Test::Id(patterns) if !term.negated => {
                let exact = |pattern: &Pattern| match pattern.begins {
                    true => None,
                    false => TaskId::new(&pattern.text).ok(),
                };
                patterns.iter().map(exact).collect()
            }
            _ => None,
        })
    }

    /// Whether all tasks of a queue and state pass, or none. `None` if that depends on more.
    pub fn passes_all(&self, queue: &Name, state: StateName) -> Option<bool> {
        let mut all = true;
        for term in &self.terms {
            let holds = match &term.test {
                Test::State(states) => states.contains(&state),
                Test::Queue(patterns) => one_fits(patterns, queue.as_str()),
                _ => return None,
            };
            all &= holds != term.negated;
        }
        Some(all)
    }
}

/// The error of a record, whose fingerprint is found once, however many terms ask for it.
struct Error<'a> {
    text: Option<&'a str>,
    fingerprint: OnceCell<Fingerprint>,
}

impl<'a> Error<'a> {
    fn new(record: &'a Record) -> Self {
        Self { text: record.error.as_deref(), fingerprint: OnceCell::new() }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.text.map(|text| *self.fingerprint.get_or_init(|| Fingerprint::of(text)))
    }
}

impl Test {
    fn holds(&self, record: &Record, error: &Error<'_>) -> bool {
        match self {
            Test::State(states) => states.contains(&record.state_name()),
            Test::Queue(patterns) => one_fits(patterns, record.queue.as_str()),
            Test::Kind(patterns) => one_fits(patterns, record.kind.as_str()),
            Test::Worker(patterns) => worker(record).is_some_and(|name| one_fits(patterns, name.as_str())),
            Test::Id(patterns) => one_fits(patterns, record.id.as_str()),
            Test::Key(patterns) => record.key.as_ref().is_some_and(|key| one_fits(patterns, key.as_str())),
            Test::Unique(patterns) => {
                record.unique.as_ref().is_some_and(|hold| one_fits(patterns, hold.key.as_str()))
            }
            Test::Error(parts) => {
                record.error.as_deref().is_some_and(|error| parts.iter().any(|part| contains(error, part)))
            }
            Test::Fingerprint(wanted) => {
                error.fingerprint().is_some_and(|fingerprint| wanted.contains(&fingerprint))
            }
            Test::Priority(ranges) => {
                ranges.iter().any(|(least, most)| (*least..=*most).contains(&record.priority.0))
            }
            Test::Created(span) => span.contains(record.created_at),
            Test::Changed(span) => span.contains(record.updated_at),
            Test::Text(part) => mentions(record, part),
        }
    }
}

impl Span {
    fn contains(&self, at: u64) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }
}

/// Whether the id, the type or the error contains `part`, in any case.
pub fn mentions(record: &Record, part: &str) -> bool {
    contains(record.id.as_str(), part)
        || contains(record.kind.as_str(), part)
        || record.error.as_deref().is_some_and(|error| contains(error, part))
}

fn worker(record: &Record) -> Option<&Name> {
    match &record.state {
        State::Running(lease) => Some(&lease.worker),
        _ => record.history.last().map(|attempt| &attempt.worker),
    }
}

fn one_fits(patterns: &[Pattern], text: &str) -> bool {
    let fits = |pattern: &Pattern| match pattern.begins {
        true => text.starts_with(&*pattern.text),
        false => text == &*pattern.text,
    };
    patterns.iter().any(fits)
}

/// Capital letters of ASCII count as small ones, in both.
fn contains(text: &str, part: &str) -> bool {
    /// Trying every place is fast for a few letters; for many it would take their product, which somebody may have chosen.
    const TRIED_BYTES_MAX: usize = 32;
    if part.len() > TRIED_BYTES_MAX {
        return text.len() >= part.len() && text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
    }
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let Some(first) = part.first() else { return true };
    let begins = |window: &[u8]| window[0].eq_ignore_ascii_case(first) && window.eq_ignore_ascii_case(part);
    text.windows(part.len()).any(begins)
}
