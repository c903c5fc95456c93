//! The report of a salvage.

use std::fmt;
use std::path::PathBuf;

use windlass_core::TaskId;

/// How much was copied, and how much was not.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The id of the new store.
    pub store: String,
    /// Why the tables could not be used; `None` if they are intact.
    pub tables: Option<String>,
    /// Tasks that were copied exactly: from the tables, and from the log up to its first hole.
    pub exact: u64,
    /// Log entries that were replayed for the exact copy.
    pub replayed: u64,
    /// Tasks that were copied from damaged tables, as of the last checkpoint.
    pub saved: u64,
    /// Tasks that were copied from the log, as they were submitted.
    pub submitted: u64,
    /// Changes in the log that were applied.
    pub changes: u64,
    /// Claims in the log that could not be replayed.
    pub claims: u64,
    /// Running tasks that were released.
    pub released: u64,
    /// The number of losses of each kind.
    pub lost: u64,
    pub older: u64,
    pub cancelled: u64,
    pub others: u64,
    /// Files that were damaged or missing. They are not a loss by themselves: their data may be elsewhere.
    pub files: u64,
    pub(super) next_claim: u64,
}

impl Report {
    pub fn tasks(&self) -> u64 {
        self.exact + self.saved + self.submitted
    }

    /// Whether nothing was lost.
    pub fn is_whole(&self) -> bool {
        self.lost + self.older + self.cancelled + self.others == 0
    }

    pub(super) fn count(&mut self, loss: &Loss) {
        match loss {
            Loss::Task { .. } => self.lost += 1,
            Loss::Older { .. } => self.older += 1,
            Loss::Cancelled { .. } => self.cancelled += 1,
            Loss::Numbers { .. } | Loss::Entries { .. } | Loss::Other { .. } => self.others += 1,
            Loss::File { .. } => self.files += 1,
        }
    }
}

/// Where a lost task was mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the tables, under the number of the task.
    Number(u64),
    /// In an entry of the log.
    Entry(u64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Number(number) => write!(f, "number {number}"),
            Origin::Entry(index) => write!(f, "log entry {index}"),
        }
    }
}

/// Something that is missing in the new store, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// A lost task that the index or the log names.
    Task { id: TaskId, origin: Origin, why: String },
    /// All tasks with these numbers, as far as there were any.
    Numbers { from: u64, to: u64, why: String },
    /// A task that was copied in an earlier state.
    Older { id: TaskId, origin: Origin },
    /// A task that was cancelled because a task that it depends on is lost.
    Cancelled { id: TaskId },
    /// Lost entries of the log. `to` is unknown if the end of the log is lost.
    Entries { from: u64, to: Option<u64> },
    /// A file that could not be used, or only in part.
    File { path: PathBuf, why: String },
    /// Something else: a schedule, a limit, a workflow, an operation or a queue.
    Other { what: String, why: String },
}

impl Loss {
    /// A stable code for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Loss::Task { .. } => "task",
            Loss::Numbers { .. } => "numbers",
            Loss::Older { .. } => "older_state",
            Loss::Cancelled { .. } => "cancelled",
            Loss::Entries { .. } => "log_entries",
            Loss::File { .. } => "file",
            Loss::Other { .. } => "other",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Task { id, origin, why } => write!(f, "task {id} is lost ({origin}): {why}"),
            Loss::Numbers { from, to, why } => write!(f, "tasks with numbers {from}–{to} are lost: {why}"),
            Loss::Older { id, origin } => {
                write!(f, "task {id} is in an earlier state: its change in {origin} cannot be repeated")
            }
            Loss::Cancelled { id } => write!(f, "task {id} is cancelled: a task that it depends on is lost"),
            Loss::Entries { from, to: Some(to) } => write!(f, "log entries {from}–{to} are lost"),
            Loss::Entries { from, to: None } => {
                write!(
                    f,
                    "the log is damaged or torn at entry {from}: entries after it, if there were any, are lost"
                )
            }
            Loss::File { path, why } => write!(f, "{}: {why}", path.display()),
            Loss::Other { what, why } => write!(f, "{what}: {why}"),
        }
    }
}
