//! What people set.

/// What a limit is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Queue,
    Type,
    Key,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Queue, Scope::Type, Scope::Key];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Queue => "queue",
            Scope::Type => "type",
            Scope::Key => "key",
        }
    }

    pub fn parse(text: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// At most `count` starts in any stretch of `per_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub count: u32,
    pub per_ms: u64,
}

/// What waiting is worth: a task that has waited for `every_ms` counts as one step of priority higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ageing {
    pub every_ms: u64,
}

/// The one primitive of flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Tasks that may run at once.
    pub max_concurrency: Option<u32>,
    pub rate: Option<Rate>,
    /// The share of a key beside the other keys of a queue.
    pub weight: u32,
    /// Tasks that may wait; more are refused.
    pub max_depth: Option<u64>,
    /// Nothing starts.
    pub paused: bool,
    /// Of a queue: its tasks gain priority by waiting.
    pub ageing: Option<Ageing>,
}

impl Default for Limit {
    fn default() -> Self {
        Self { max_concurrency: None, rate: None, weight: 1, max_depth: None, paused: false, ageing: None }
    }
}
