//! Schemas of the values that bodies and parameters consist of: patterns, ranges and words for the OpenAPI document. They use
//! the limits and domain types that the checks use, so that the document and the checks agree.

mod event;
mod queries;

use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayBuilder, KnownFormat, Object, ObjectBuilder, OneOfBuilder, Schema,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{Number, PartialSchema, ToSchema};
use windlass_core::flow::Scope;
use windlass_core::limits as l;
use windlass_core::operation::Action;
use windlass_core::schedule::{CatchUp, Overlap};
use windlass_core::{CancelReason, Class, OnConflict, Outcome, StateName, retry};

use super::submit::SubmitBody;
use super::workers::LeaseRef;

pub use event::Event;
pub use queries::*;

/// Declares types that stand for a schema. Each of them is a component of the document.
macro_rules! schemas {
    ($($name:ident $description:literal => $schema:expr;)*) => {
        $(
            #[doc = $description]
            #[derive(Debug)]
            pub struct $name;

            impl utoipa::PartialSchema for $name {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    $schema.description(Some($description)).into()
                }
            }

            impl utoipa::ToSchema for $name {}
        )*

        /// Every schema that is declared here, by name.
        pub(super) fn declared() -> Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)> {
            vec![$((
                <$name as utoipa::ToSchema>::name().into_owned(),
                <$name as utoipa::PartialSchema>::schema(),
            )),*]
        }
    };
}
pub(super) use schemas;

/// Every schema of this module by name. Parameters and handwritten schemas refer to them by name alone.
pub fn components() -> Vec<(String, RefOr<Schema>)> {
    let others = vec![
        (Event::name().into_owned(), Event::schema()),
        (LeaseRef::name().into_owned(), LeaseRef::schema()),
    ];
    [declared(), queries::declared(), others].concat()
}

schemas! {
    TaskId "The id of a task: a UUID v7, or what the client chose." => name(l::NAME_BYTES_MAX);
    Name "A queue, a type, a key, a worker or another name." => name(l::NAME_BYTES_MAX);
    ScheduleId "The id of a schedule." => name(l::SCHEDULE_ID_BYTES_MAX);
    WorkflowId "The id of a workflow." => name(l::WORKFLOW_ID_BYTES_MAX);
    Lease "The proof of a claim." => ObjectBuilder::from(text()).pattern(Some("^[0-9a-f]{1,16}-[0-9a-f]{16}$"));
    UniqueKey "At most one live task has this key. The length is counted in bytes."
        => ranged_text(1, l::UNIQUE_KEY_BYTES_MAX);
    FilterGiven "A filter that is not empty, as `state:dead_letter type:email.* error:timeout since:2h`; see `docs/operations.md`."
        => ranged_text(1, l::FILTER_BYTES_MAX);
    CronPattern "Five fields, six with seconds first, `@daily` and its like, or `@every 90s`."
        => ranged_text(1, l::SCHEDULE_CRON_BYTES_MAX).examples(["0 2 * * MON-FRI", "@every 90s"]);
    ProgressNote "The note of a progress report. The length is counted in bytes."
        => ranged_text(0, l::PROGRESS_NOTE_BYTES_MAX);
    OperationBy "Who asks. The length is counted in bytes." => ranged_text(0, l::OPERATION_BY_BYTES_MAX);
    WorkerText "What a worker says about itself. The length is counted in bytes." => ranged_text(0, 256);
    Checkpoint "Up to 64 KiB as standard base64 with padding."
        => base64().max_length(Some(l::CHECKPOINT_BYTES_MAX.div_ceil(3) * 4));

    Backup "Chunks with checksums. The last one is the manifest."
        => ObjectBuilder::from(text()).content_media_type("application/octet-stream");

    State "The state of a task." => words(StateName::ALL.map(StateName::as_str));
    PriorityClass "A class of priorities." => words(Class::ALL.map(Class::as_str));
    RetryPolicy "How the delay between retries grows." => words(retry::Kind::ALL.map(retry::Kind::as_str));
    ConflictRule "When another live task has the unique key: `return` it, `reject` this submit, or `replace` the other."
        => words(OnConflict::ALL.map(OnConflict::as_str));
    CancelCause "Why a task was cancelled." => words(CancelReason::ALL.map(CancelReason::as_str));
    AttemptOutcome "How an attempt ended, or that it runs."
        => words(Outcome::ALL.map(Outcome::as_str).into_iter().chain([StateName::Running.as_str()]));
    OverlapRule "When a schedule fires and the last task is not finished." => words(Overlap::ALL.map(Overlap::as_str));
    CatchUpRule "When slots were missed." => words(CatchUp::ALL.map(CatchUp::as_str));
    OperationAction "What an operation does with the tasks." => words(Action::WORDS);
    OperationState "The state of an operation." => words(["running", "done", "cancelled", "failed"]);
    WorkflowState "The state of a workflow. Nothing of a `failed` one continues before a dead letter is retried."
        => words(["running", "failed", "cancelled", "completed"]);
    LimitScope "What a limit is attached to." => words(Scope::ALL.map(Scope::as_str));
    HealthStatus "Whether the broker can serve." => words(["ok", "stopping", "unavailable"]);
    GapReason "Why events are missing." => words(["restart", "overrun", "expired", "unheard"]);
    ClosedReason "Why a stream of events ends." => words(["too_slow", "stopping"]);
    Durability "When a submit is answered." => words(["sync", "interval", "os", "snapshots", "none"]);

    Priority "Higher first." => whole(0, u8::MAX.into());
    RetryCount "Retries of a task." => whole(0, l::RETRIES_MAX.into());
    CrashCount "Attempts that may end by a lost lease." => whole(1, l::RETRIES_MAX.into());
    RetryDelayMs "Milliseconds, up to ten years." => whole(0, l::HORIZON_MS);
    ClaimCount "Tasks of one claim." => whole(1, l::CLAIM_TASKS_MAX.into());
    ClaimWeight "The weight of a queue." => whole(1, l::CLAIM_WEIGHT_MAX.into());
    Concurrency "Tasks that may run at once." => whole(1, u32::MAX.into());
    RateCount "Tasks that may start in a window." => whole(1, l::RATE_COUNT_MAX.into());
    LimitWeight "The share of a key." => whole(1, l::LIMIT_WEIGHT_MAX.into());
    Unsigned32 "A whole number of 32 bits." => whole(0, u32::MAX.into());
    Unsigned64 "A whole number of 64 bits." => whole(0, u64::MAX);

    WaitSeconds "How long to wait; 60 seconds at most are waited." => ObjectBuilder::from(number()).minimum(Some(0));
    LeaseSeconds "The length of a lease." => seconds(l::LEASE_MS_MIN, l::LEASE_MS_MAX);
    TimeoutSeconds "How long an attempt may take." => seconds(1, l::TIMEOUT_MS_MAX);
    DelaySeconds "A delay of up to ten years." => seconds(0, l::HORIZON_MS);
    RetentionSeconds "How long a finished task is kept." => seconds(0, l::RETENTION_MS_MAX);
    UniqueSeconds "How long a unique key is held." => seconds(1, l::HORIZON_MS);
    JitterSeconds "The random part of a start." => seconds(0, l::SCHEDULE_JITTER_MS_MAX);
    RateSeconds "The window of a rate." => seconds(1, l::RATE_MS_MAX);
    AgeingSeconds "How long a step of priority takes." => seconds(1, l::AGEING_MS_MAX);

    Dependencies "Ids of tasks that must complete first." => list::<TaskId>(0, l::DEPENDENCIES_MAX);
    NodeNames "Names of tasks of the same workflow, each once."
        => list::<NodeName>(0, l::DEPENDENCIES_MAX).unique_items(true);
    BatchTasks "Submit bodies. Each is checked on its own: the result of a refused one is its error."
        => list::<SubmitBody<'static>>(1, l::BATCH_TASKS_MAX);
    BatchIds "Ids of tasks." => list::<TaskId>(0, l::BATCH_TASKS_MAX);
    ClaimTypes "The types that a claim takes." => list::<Name>(1, l::CLAIM_NAMES_MAX);
    ServedNames "Queues or types that a worker serves." => list::<Name>(0, l::CLAIM_NAMES_MAX);
    BeatLeases "Leases to extend." => list::<LeaseRef>(0, l::CLAIM_TASKS_MAX as usize);

    NodeName "The name of a task in a workflow." => ObjectBuilder::from(node_name());
    WorkflowTasks "Tasks by name." => ObjectBuilder::from(map(node_name(), reference::<WorkflowTask>()))
        .min_properties(Some(1)).max_properties(Some(l::WORKFLOW_TASKS_MAX));
    WorkflowTask "A task of a workflow: a submit body without an id and a unique key, with `after`."
        => submit_without(&["id", "unique_key", "unique_for_seconds", "on_conflict"])
        .property("after", OneOfBuilder::new().item(reference::<NodeNames>()).item(Object::with_type(Type::Null)));
    ScheduleTask "A task of a schedule: a submit body without an id, times, dependencies and a unique key."
        => submit_without(&["id", "scheduled_at", "delay_seconds", "expires_at", "dependencies", "unique_key",
            "unique_for_seconds", "on_conflict"]);
    ClaimQueues "Queues as a list, or as a map of names and weights." => OneOfBuilder::new()
        .item(list::<Name>(1, l::CLAIM_NAMES_MAX).unique_items(true))
        .item(ObjectBuilder::from(map(name(l::NAME_BYTES_MAX).build(), reference::<ClaimWeight>()))
            .min_properties(Some(1)).max_properties(Some(l::CLAIM_NAMES_MAX)));
    PriorityInput "A number, higher first, or the name of a class." => OneOfBuilder::new()
        .item(reference::<Priority>()).item(reference::<PriorityClass>());
    Metadata "Strings by name." => ObjectBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Object, Type::Null]))
        .additional_properties(Some(AdditionalProperties::RefOr(text().into())))
        .max_properties(Some(l::METADATA_ENTRIES_MAX));
}

/// What a name begins with and what follows. `.` and `..` are no names: clients remove them from paths.
const START: &str = r"([A-Za-z0-9_:-]|\.[A-Za-z0-9_:-]|\.\.[A-Za-z0-9._:-])";
const REST: &str = "[A-Za-z0-9._:-]";

fn name(bytes_max: usize) -> ObjectBuilder {
    ranged_text(1, bytes_max).pattern(Some(format!("^{START}{REST}*$")))
}

/// A name without a colon, which separates it from the id of the workflow.
fn node_name() -> Object {
    ranged_text(1, l::NODE_NAME_BYTES_MAX)
        .pattern(Some(format!("^{START}{REST}*$").replace(":-", "-")))
        .build()
}

fn text() -> Object {
    Object::with_type(Type::String)
}

fn number() -> Object {
    Object::with_type(Type::Number)
}

fn ranged_text(least: usize, most: usize) -> ObjectBuilder {
    ObjectBuilder::from(text()).min_length(Some(least)).max_length(Some(most))
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    ObjectBuilder::from(text()).enum_values(Some(words))
}

fn whole(least: u64, most: u64) -> ObjectBuilder {
    ObjectBuilder::from(Object::with_type(Type::Integer))
        .minimum(Some(Number::UInt(least as usize)))
        .maximum(Some(Number::UInt(most as usize)))
}

fn seconds(least_ms: u64, most_ms: u64) -> ObjectBuilder {
    ObjectBuilder::from(number())
        .minimum(Some(least_ms as f64 / 1000.0))
        .maximum(Some(most_ms as f64 / 1000.0))
}

/// Standard base64 with padding. The last character before the padding has no bits that are lost.
pub(super) fn base64() -> ObjectBuilder {
    const PATTERN: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
    ObjectBuilder::from(text()).content_encoding("base64").pattern(Some(PATTERN))
}

fn reference<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

fn list<T: ToSchema>(least: usize, most: usize) -> ArrayBuilder {
    let builder: ArrayBuilder = Array::new(reference::<T>()).into();
    builder.min_items((least > 0).then_some(least)).max_items(Some(most))
}

fn map(names: Object, values: RefOr<Schema>) -> Object {
    let builder = ObjectBuilder::new().property_names(Some(Schema::Object(names)));
    builder.additional_properties(Some(AdditionalProperties::RefOr(values))).build()
}

fn submit_without(fields: &[&str]) -> ObjectBuilder {
    let RefOr::T(Schema::Object(mut object)) = SubmitBody::schema() else {
        unreachable!("a submit body is an object")
    };
    object.properties.retain(|name, _| !fields.contains(&name.as_str()));
    object.into()
}

pub(super) fn date_time() -> ObjectBuilder {
    ObjectBuilder::from(text()).format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}
