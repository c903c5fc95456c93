//! Why a verb did not do what was asked.

use windlass_core::flow::Full;
use windlass_core::{Name, Record, Refusal, StateName, TaskId};
use windlass_store as store;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// What does not exist: "task", "queue", "worker", "schedule", "operation", "limit" or "workflow".
    #[error("there is no such {0}")]
    NotFound(&'static str),
    #[error("the id is taken by a task with other content")]
    TaskExists,
    /// Held by this task.
    #[error("the unique key is held by task {0}")]
    UniqueConflict(TaskId),
    #[error("the task is already {}", .0.as_str())]
    Terminal(StateName),
    #[error("not possible while the task is {}", .0.as_str())]
    WrongState(StateName),
    #[error("the lease is no longer valid: it ran out, was given back, or the task was cancelled")]
    LeaseLost,
    /// It depends on this task, which is not there.
    #[error("dependencies: there is no task {0}")]
    DependencyMissing(TaskId),
    #[error("the task depends on {0}, which was cancelled")]
    DependencyCancelled(TaskId),
    #[error("the queue is full")]
    QueueFull,
    /// As many wait as a limit allows.
    #[error("the {} {} is full: {} tasks wait there, as many as its limit allows", .0.scope.as_str(), .0.name, .0.max)]
    LimitFull(Box<Full>),
    /// The store cannot count it together with others that a limit counts.
    #[error("{0}")]
    LimitApart(Box<store::Apart>),
    #[error("nothing was added because another task of the batch could not be")]
    Aborted,
    #[error("too many different pairs of queue and type have tasks")]
    TooManyLanes,
    #[error("the id is taken by a workflow with other content")]
    WorkflowExists,
    /// Of the node whose task cannot have its id.
    #[error("the id of the task {0} of the workflow is taken by another task")]
    NodeExists(Name),
    #[error("there is a schedule of this id already")]
    ScheduleExists,
    #[error("there are {} schedules already, as many as there can be", windlass_core::limits::SCHEDULES_MAX)]
    TooManySchedules,
    #[error("the operation has ended")]
    OperationEnded,
    #[error("{} operations are under way already", windlass_core::limits::OPERATIONS_RUNNING_MAX)]
    TooManyOperations,
    #[error("there are {} limits already, as many as there can be", windlass_core::limits::LIMITS_MAX)]
    TooManyLimits,
    #[error("as many listen to events as may")]
    TooManyListeners,
    #[error("the disk is full")]
    NoSpace,
    #[error("too much is under way")]
    Busy,
    /// The store cannot do it at all; another one can.
    #[error("the {store} store does not have {feature}")]
    Unsupported { store: &'static str, feature: store::Feature },
    /// The store has no online backup; `instead` says what to use.
    #[error("the {store} store has no online backup: {instead}")]
    NoBackup { store: &'static str, instead: &'static str },
    #[error("a backup is being taken already")]
    BackupRunning,
    #[error("the broker is stopping")]
    Stopping,
    #[error("{0}")]
    Store(store::Error),
    #[error("{field}: {message}")]
    Invalid { field: &'static str, message: String },
}

impl Error {
    /// The word that clients branch on; it never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NotFound(_) => "not_found",
            Error::TaskExists => "task_exists",
            Error::UniqueConflict(_) => "unique_conflict",
            Error::Terminal(_) => "task_terminal",
            Error::WrongState(_) => "wrong_state",
            Error::LeaseLost => "lease_lost",
            Error::DependencyMissing(_) => "dependency_missing",
            Error::DependencyCancelled(_) => "dependency_cancelled",
            Error::QueueFull | Error::LimitFull(_) => "queue_full",
            Error::Aborted => "aborted",
            Error::TooManyLanes => "too_many_types",
            Error::WorkflowExists => "workflow_exists",
            Error::NodeExists(_) => "task_exists",
            Error::ScheduleExists => "schedule_exists",
            Error::TooManySchedules => "too_many_schedules",
            Error::OperationEnded => "operation_ended",
            Error::TooManyOperations => "too_many_operations",
            Error::TooManyLimits => "too_many_limits",
            Error::TooManyListeners => "too_many_listeners",
            Error::NoSpace => "disk_full",
            Error::Busy => "overloaded",
            Error::Unsupported { .. } | Error::LimitApart(_) | Error::NoBackup { .. } => {
                "unsupported_by_store"
            }
            Error::BackupRunning => "backup_running",
            Error::Stopping => "stopping",
            Error::Store(store::Error::Unconfirmed { .. }) => "not_replicated",
            Error::Store(_) => "store_failed",
            Error::Invalid { .. } => "invalid",
        }
    }

    /// What core refused, in the words of the API.
    pub(crate) fn refused(refusal: Refusal, record: &Record) -> Error {
        match refusal {
            Refusal::LeaseLost => Error::LeaseLost,
            Refusal::Terminal(state) => Error::Terminal(state),
            Refusal::WrongState(state) => Error::WrongState(state),
            Refusal::NotDue | Refusal::Expired | Refusal::DependencyCancelled => {
                Error::WrongState(record.state_name())
            }
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NoSpace => Error::NoSpace,
            store::Error::Busy => Error::Busy,
            store::Error::TooManyLanes => Error::TooManyLanes,
            store::Error::Unsupported { store, feature } => Error::Unsupported { store, feature },
            store::Error::LimitApart(apart) => Error::LimitApart(apart),
            store::Error::NoBackup { store, instead } => Error::NoBackup { store, instead },
            store::Error::BackupRunning => Error::BackupRunning,
            store::Error::Closed => Error::Stopping,
            other => Error::Store(other),
        }
    }
}
