//! Refusals as a status: ours with their code, and those that the libraries make by themselves, dressed in the same way.

use axum::http::{HeaderMap, StatusCode};
use tonic::{Code, Response, Status};

use crate::api::problem::Refused;

pub(super) fn status(refused: impl Into<Refused>) -> Status {
    refused.into().into_problem().into()
}

/// The end of a handler.
pub(super) fn answer<T>(outcome: Result<T, Refused>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(status)
}

pub(super) fn no_such_route() -> Status {
    status(Refused::new(StatusCode::NOT_FOUND, "no_such_route", "There is no such service or method"))
}

pub(super) fn too_late() -> Status {
    status(Refused::new(StatusCode::GATEWAY_TIMEOUT, "deadline", "The deadline of the call is over"))
}

pub(super) fn silent() -> Status {
    let title = "No whole message came for too long";
    status(Refused::new(StatusCode::REQUEST_TIMEOUT, "too_slow", title))
}

pub(super) fn unread() -> Status {
    let title = "The client has too many answers that it does not read";
    status(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", title))
}

pub(super) fn overloaded() -> Status {
    status(windlass_broker::Error::Busy)
}

/// A message that could not be read gets the code that it would have got from REST; any other status stays as it is.
pub(super) fn dressed(plain: Status) -> Status {
    if !plain.details().is_empty() {
        return plain;
    }
    let (http, code) = match plain.code() {
        Code::OutOfRange => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        // The codec says "internal" of whatever it cannot decode.
        Code::Internal | Code::InvalidArgument => (StatusCode::BAD_REQUEST, "malformed"),
        Code::Unimplemented => (StatusCode::NOT_FOUND, "no_such_route"),
        _ => return plain,
    };
    let title = "The message was not accepted";
    status(Refused::new(http, code, title).detail(plain.message()))
}

/// The same for the head of an answer that has no body.
pub(super) fn dress(headers: &mut HeaderMap) {
    if !headers.contains_key(Status::GRPC_STATUS) || headers.contains_key("grpc-status-details-bin") {
        return;
    }
    let Some(plain) = Status::from_header_map(headers) else { return };
    if plain.code() == Code::Ok {
        return;
    }
    let dressed = dressed(plain).into_http::<()>();
    headers.extend(dressed.into_parts().0.headers);
}
