//! The OpenAPI document, made from the handlers, and a page to read it that needs no network.

mod complete;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa_swagger_ui::Config;
use windlass_proto::rest::schema;

use super::State;
use super::problem::Refused;

const DOCUMENT: &str = "/api/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Windlass",
        description = "A durable task queue. Whole numbers are written without a point, times as in RFC 3339, and lengths of text are \
            counted in bytes of UTF-8.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(openapi)
)]
struct Description;

/// This document
#[utoipa::path(get, path = "/api/openapi.json", operation_id = "get_openapi", tag = "system",
    responses((status = 200, description = "OpenAPI 3.1", body = utoipa::openapi::Object)))]
#[expect(dead_code, reason = "the route answers with the text of the finished document")]
fn openapi() {}

pub(super) fn describe() -> utoipa::openapi::OpenApi {
    let mut document = Description::openapi();
    document.components.get_or_insert_default().schemas.extend(schema::components());
    document
}

pub(super) fn routes(document: &utoipa::openapi::OpenApi) -> Router<Arc<State>> {
    let text = Bytes::from(complete::complete(document).to_string());
    let json = move || {
        let text = text.clone();
        async move { ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text) }
    };
    Router::new()
        .route(DOCUMENT, get(json))
        // The page names its parts by relative links, so it must be in a folder.
        .route("/api/docs", get(|| async { Redirect::permanent("/api/docs/") }))
        .route("/api/docs/", get(|| async { page("index.html") }))
        .route("/api/docs/{*file}", get(|Path(file): Path<String>| async move { page(&file) }))
}

fn page(file: &str) -> Result<Response, Refused> {
    let config = Arc::new(Config::from(DOCUMENT).try_it_out_enabled(true));
    match utoipa_swagger_ui::serve(file, config) {
        Ok(Some(found)) => {
            let kind = HeaderValue::from_str(&found.content_type)
                .unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, HeaderValue::from_static("max-age=3600"))];
            Ok((StatusCode::OK, headers, Body::from(found.bytes.into_owned())).into_response())
        }
        Ok(None) => Err(Refused::no_such_route()),
        Err(error) => {
            tracing::error!(%error, file, "a page of the documentation cannot be made");
            Err(Refused::internal())
        }
    }
}
