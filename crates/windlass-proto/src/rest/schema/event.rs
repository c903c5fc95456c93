//! The schema of an event: its type says what its data is.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{reference, text, whole};
use crate::rest::event::{
    ClosedBody, GapBody, PositionBody, QueueDepthsBody, QueueEventBody, SystemMetricsBody, TaskEventBody,
    WorkerEventBody,
};
use crate::rest::time::Time;

/// The envelope of every event.
#[derive(Debug)]
pub struct Event;

impl PartialSchema for Event {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(one(r"^task\.[a-z_]+$", reference::<TaskEventBody>()))
            .item(one(r"^worker\.[a-z_]+$", reference::<WorkerEventBody>()))
            .item(one(r"^queue\.(paused|resumed)$", reference::<QueueEventBody>()))
            .item(one(r"^queue\.depth$", reference::<QueueDepthsBody>()))
            .item(one(r"^system\.metrics$", reference::<SystemMetricsBody>()))
            .item(one("^gap$", reference::<GapBody>()))
            .item(one("^position$", reference::<PositionBody>()))
            .item(one("^closed$", reference::<ClosedBody>()))
            .description(Some("An event. Its `type` says what `data` is."))
            .into()
    }
}

impl ToSchema for Event {
    fn name() -> std::borrow::Cow<'static, str> {
        "EventBody".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        fn add<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            schemas.push((T::name().into_owned(), T::schema()));
            T::schemas(schemas);
        }
        add::<TaskEventBody>(schemas);
        add::<WorkerEventBody>(schemas);
        add::<QueueEventBody>(schemas);
        add::<QueueDepthsBody>(schemas);
        add::<SystemMetricsBody>(schemas);
        add::<GapBody>(schemas);
        add::<PositionBody>(schemas);
        add::<ClosedBody>(schemas);
    }
}

fn one(kind: &str, data: RefOr<Schema>) -> ObjectBuilder {
    let id = whole(0, u64::MAX)
        .description(Some("Grows with every event. A client that comes back names the last one."));
    ObjectBuilder::new()
        .property("id", id)
        .property("type", ObjectBuilder::from(text()).pattern(Some(kind)))
        .property("timestamp", reference::<Time>())
        .property("data", data)
        .required("id")
        .required("type")
        .required("timestamp")
        .required("data")
}
