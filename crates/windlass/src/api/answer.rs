//! Answers that succeed.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use windlass_core::Task;
use windlass_proto::rest::Shown;

use super::problem::Refused;

pub(super) type Answer = Result<Response, Refused>;

pub(super) fn ok<T: Serialize>(body: &T) -> Answer {
    json(StatusCode::OK, body, 256)
}

pub(super) fn task(status: StatusCode, task: &Task) -> Answer {
    let shown = Shown::new(task);
    let mut text = Vec::with_capacity(shown.room());
    shown.write(&mut text).map_err(Refused::unwritable)?;
    Ok(written(status, text))
}

pub(super) fn json<T: Serialize>(status: StatusCode, body: &T, room: usize) -> Answer {
    let mut text = Vec::with_capacity(room);
    serde_json::to_writer(&mut text, body).map_err(Refused::unwritable)?;
    Ok(written(status, text))
}

pub(super) fn written(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn nothing() -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
