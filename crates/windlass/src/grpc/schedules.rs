//! Schedules.

use windlass_broker::ScheduleView;
use windlass_client::show;
use windlass_core::Name;
use windlass_core::schedule::Definition;
use windlass_proto::grpc::parsed;
use windlass_proto::grpc::v1::{
    ListFiresRequest, ListFiresResponse, ListNextSlotsRequest, ListNextSlotsResponse, ListSchedulesRequest,
    ListSchedulesResponse, NewSchedule, Schedule,
};
use windlass_proto::rest::Invalid;
use windlass_store::ListSchedules;

use super::lists::{self, PAGE_BYTES_MAX};
use crate::api::problem::Refused;
use crate::api::{State, cursor, schedules};

pub(super) async fn create(state: &State, schedule: Option<NewSchedule>) -> Result<Schedule, Refused> {
    let (id, definition) = read(state, schedule)?;
    Ok(shown(state.broker.create_schedule(id, definition).await?))
}

pub(super) async fn put(state: &State, schedule: Option<NewSchedule>) -> Result<Schedule, Refused> {
    let (id, definition) = read(state, schedule)?;
    let (view, _) = state.broker.put_schedule(id, definition).await?;
    Ok(shown(view))
}

fn read(state: &State, schedule: Option<NewSchedule>) -> Result<(Name, Definition), Invalid> {
    let schedule = schedule.ok_or_else(|| Invalid::malformed("schedule", "is missing"))?;
    schedule.check(schedules::given(state, None))
}

/// A page ends early when its payloads are large.
pub(super) async fn list(
    state: &State,
    request: ListSchedulesRequest,
) -> Result<ListSchedulesResponse, Refused> {
    let limit = lists::limit(request.limit)?;
    let after = request.cursor.as_deref().filter(|text| !text.is_empty());
    let after = after.map(cursor::read_name).transpose()?;
    let views = state.broker.schedules(ListSchedules { after, limit }).await?;
    let mut more = views.len() == limit;
    let (mut shown_already, mut bytes, mut last) = (Vec::with_capacity(views.len()), 0, None);
    for view in views {
        bytes += view.schedule.definition.template.body.payload.bytes().len();
        if bytes > PAGE_BYTES_MAX && last.is_some() {
            more = true;
            break;
        }
        last = Some(view.schedule.id.clone());
        shown_already.push(shown(view));
    }
    let next_cursor = last.filter(|_| more).map(|id| cursor::write_name(&id));
    Ok(ListSchedulesResponse { schedules: shown_already, next_cursor })
}

pub(super) async fn slots(
    state: &State,
    request: ListNextSlotsRequest,
) -> Result<ListNextSlotsResponse, Refused> {
    let id: Name = parsed("id", &request.id)?;
    let slots = schedules::slots(state, &id, request.count.map(u64::from)).await?;
    Ok(ListNextSlotsResponse { slots: slots.items.into_iter().map(Into::into).collect() })
}

pub(super) async fn fires(state: &State, request: ListFiresRequest) -> Result<ListFiresResponse, Refused> {
    let id: Name = parsed("id", &request.id)?;
    let fires = schedules::last_fires(state, &id, lists::limit(request.limit)?).await?;
    Ok(ListFiresResponse { fires: fires.items.into_iter().map(Into::into).collect() })
}

pub(super) fn shown(view: ScheduleView) -> Schedule {
    show::schedule(view).into()
}
