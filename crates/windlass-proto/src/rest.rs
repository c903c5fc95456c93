//! The JSON bodies of the REST interface, shared by the server that reads them and the clients that write them.
//!
//! A request goes through two gates. [`decode`] turns bytes into a body and refuses what is not understood (400, naming the
//! field). The body's `check` turns it into values of the domain and refuses what is understood but out of range (422).
//! Payloads and results pass through as the text that came: they are checked to be JSON and never built up in memory.

mod claim;
mod dead_groups;
mod decode;
mod event;
mod invalid;
mod json;
mod limit;
mod object;
mod operation;
mod outcome;
mod priority;
mod problem;
mod queues;
mod range;
mod retry;
pub(crate) mod schedule;
#[cfg(feature = "openapi")]
pub mod schema;
mod stats;
pub(crate) mod submission;
mod submit;
mod task;
pub(crate) mod text;
mod time;
mod workers;
pub(crate) mod workflow;

pub use claim::{ClaimBody, ClaimQueues, Claimed, Claiming};
pub use dead_groups::{DeadGroupBody, DeadGroupsBody};
pub(crate) use decode::decode_any;
pub use decode::{decode, decode_item};
pub use event::{
    ClosedBody, EventBody, GapBody, PositionBody, QueueDepthBody, QueueDepthsBody, QueueEventBody,
    SystemMetricsBody, TaskEventBody, WorkerEventBody,
};
pub use invalid::{Fault, Invalid};
#[cfg(feature = "grpc")]
pub(crate) use json::keep;
pub use json::{Base64, Json};
pub use limit::{AgeingBody, LimitBody, LimitInput, LimitPage, RateBody, read_scope};
pub use operation::{OperationBody, OperationInput, OperationPage, PreviewBody, SampleBody};
pub use outcome::{
    CompleteBody, ExtendBody, Extended, Extending, FailBody, Failing, OutcomeBody, ProgressBody, ReleaseBody,
    checkpoint, result_payload,
};
pub use priority::PriorityInput;
pub use problem::{FieldError, Problem};
pub use queues::{Affected, DeadSelection, QueueBody, QueuesBody, Rates, StateCounts};
pub use range::{Figure, RangeBody};
pub use retry::RetryBody;
pub use schedule::{
    FireBody, FiresBody, ScheduleBody, ScheduleCheck, ScheduleInput, SchedulePage, SlotBody, SlotsBody,
    TemplateBody,
};
pub use stats::{ClassCounts, HealthBody, LedgerBody, LoopBody, StatsBody};
pub use submission::{Start, Submission};
pub use submit::{BatchBody, BatchItem, BatchItemError, BatchResults, SubmitBody};
pub use task::{AttemptBody, AttemptsBody, ExplanationBody, Metadata, ReasonBody, Shown, TaskBody, TaskPage};
pub use time::{Seconds, Time};
pub use workers::{BeatBody, LeaseRef, PulseBody, WorkerBody, WorkersBody};
pub use workflow::{
    DependenciesBody, DependencyBody, NodeBody, NodeSubmission, NodesInput, WorkflowBody, WorkflowInput,
    WorkflowPage, WorkflowSubmission,
};
