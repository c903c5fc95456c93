//! What the clients of a run did and were told. Written while the run goes on, judged after it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is to become of a task. The payload carries it, so that any worker knows its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Complete,
    /// Waits for its time first.
    Delayed,
    /// Fails once and completes at the second attempt.
    FailOnce,
    /// Fails for good.
    Dead,
    /// Its submitter cancels it right away.
    Cancel,
}

impl Plan {
    pub(crate) const ALL: [Plan; 5] =
        [Plan::Complete, Plan::Delayed, Plan::FailOnce, Plan::Dead, Plan::Cancel];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Plan::Complete => "complete",
            Plan::Delayed => "delayed",
            Plan::FailOnce => "fail_once",
            Plan::Dead => "dead",
            Plan::Cancel => "cancel",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Plan> {
        Plan::ALL.into_iter().find(|plan| plan.as_str() == word)
    }

    /// Deliveries that the plan itself asks for.
    pub(crate) fn deliveries(self) -> usize {
        if self == Plan::FailOnce { 2 } else { 1 }
    }
}

/// What a client knows about a request it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Known {
    /// Not asked, or no answer came.
    #[default]
    Unknown,
    Acknowledged,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) attempt: u64,
    pub(crate) lease: String,
}

/// One task as its clients saw it.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) plan: Plan,
    pub(crate) submit: Known,
    pub(crate) cancel: Known,
    pub(crate) deliveries: Vec<Delivery>,
    /// The deliveries whose completion was accepted.
    pub(crate) completed: Vec<Delivery>,
    /// The deliveries whose failure was accepted.
    pub(crate) failed: Vec<Delivery>,
}

impl Story {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            submit: Known::Unknown,
            cancel: Known::Unknown,
            deliveries: Vec::new(),
            completed: Vec::new(),
            failed: Vec::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct History {
    stories: Mutex<HashMap<String, Story>>,
    /// Answers that no client should get, in words.
    surprises: Mutex<Vec<String>>,
    /// Reports that were first sent to one life of the broker and accepted by a later one.
    survived: AtomicU64,
    /// Requests without an answer.
    unanswered: AtomicU64,
}

impl History {
    pub(crate) fn begin(&self, id: &str, plan: Plan) {
        self.stories().insert(id.to_owned(), Story::new(plan));
    }

    /// Changes a story. A task that nobody submitted gets one too: the judge will wonder about it.
    pub(crate) fn tell<T>(&self, id: &str, change: impl FnOnce(&mut Story) -> T) -> T {
        change(
            self.stories()
                .entry(id.to_owned())
                .or_insert_with(|| Story { submit: Known::Refused, ..Story::new(Plan::Complete) }),
        )
    }

    /// Submits that were answered.
    pub(crate) fn acknowledged(&self) -> usize {
        self.stories().values().filter(|story| story.submit == Known::Acknowledged).count()
    }

    pub(crate) fn surprise(&self, words: String) {
        self.surprises.lock().unwrap_or_else(PoisonError::into_inner).push(words);
    }

    pub(crate) fn survived(&self) {
        self.survived.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn survivors(&self) -> u64 {
        self.survived.load(Ordering::Relaxed)
    }

    pub(crate) fn unanswered_count(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    pub(crate) fn stories(&self) -> MutexGuard<'_, HashMap<String, Story>> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn surprises(&self) -> Vec<String> {
        self.surprises.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
