//! Acts on many tasks.

use windlass_core::limits::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use windlass_core::operation;
use windlass_proto::grpc::v1::{
    ListOperationsRequest, ListOperationsResponse, Operation, OperationPreview, StartOperationRequest,
};
use windlass_proto::rest::{Invalid, OperationBody};
use windlass_store::ListOperations;

use crate::api::problem::Refused;
use crate::api::{State, cursor, operations};

pub(super) async fn start(state: &State, request: StartOperationRequest) -> Result<Operation, Refused> {
    let order = operations::order(request.read()?)?;
    Ok(shown(state.broker.start_operation(order).await?))
}

pub(super) async fn preview(
    state: &State,
    request: StartOperationRequest,
) -> Result<OperationPreview, Refused> {
    let order = operations::order(request.read()?)?;
    Ok(operations::shown(state.broker.preview_operation(&order).await?).into())
}

pub(super) async fn list(
    state: &State,
    request: ListOperationsRequest,
) -> Result<ListOperationsResponse, Refused> {
    let limit = match request.limit {
        None => PAGE_ROWS_DEFAULT,
        Some(0) => return Err(Invalid::out_of_range("limit", "must be at least 1").into()),
        Some(limit) => (limit as usize).min(PAGE_ROWS_MAX),
    };
    let before = request.cursor.as_deref().filter(|text| !text.is_empty());
    let before = before.map(cursor::read_name).transpose()?;
    let page = operations::page(state, ListOperations { before, running: request.running, limit }).await?;
    let operations = page.items.into_iter().map(Into::into).collect();
    Ok(ListOperationsResponse { operations, next_cursor: page.next_cursor })
}

pub(super) fn shown(operation: operation::Operation) -> Operation {
    OperationBody::from(operation).into()
}
