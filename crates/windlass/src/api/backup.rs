//! Backups: the whole store as one stream, while the broker serves.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::task::spawn_blocking;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::Error;
use windlass_proto::rest::{Problem, schema};
use windlass_store::backup::Source;

use super::Shared;
use super::problem::Refused;

const KIND: &str = "application/vnd.windlass.backup";

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(backup))
}

/// Everything that the broker has, consistent at one moment
///
/// A stream of chunks with checksums. It is complete only if it ends with its manifest, which `windlass backup verify -` checks.
/// Everything that was acknowledged before the request is in it.
#[utoipa::path(get, path = "/api/v1/backup", operation_id = "get_backup", tag = "system", responses(
    (status = 200, description = "The stream", body = schema::Backup, content_type = "application/vnd.windlass.backup"),
    (status = 429, description = "A backup is being taken already", body = Problem, content_type = "application/problem+json"),
    (status = 501, description = "The store is not embedded; the detail names what to use", body = Problem, content_type = "application/problem+json"),
    (status = 507, description = "The disk has no room for a checkpoint", body = Problem, content_type = "application/problem+json")))]
async fn backup(State(state): Shared) -> Result<Response, Refused> {
    let source = state.broker.backup()?;
    // The first piece waits for the checkpoint. An error until then becomes an error response.
    let (source, first) = next(source).await?;
    let pieces = unfold((source, first), move |(source, piece)| {
        let state = Arc::clone(&state);
        async move {
            let piece = match piece? {
                Ok(piece) => piece,
                // The error aborts the response, so that a client cannot mistake it for a complete one.
                Err(error) => return Some((Err(io::Error::other(error)), (None, None))),
            };
            let after = match source {
                Some(source) => tokio::select! {
                    after = next(source) => after,
                    () = state.closing.cancelled() => Err(Error::Stopping),
                },
                None => Ok((None, None)),
            };
            let (source, after) = after.unwrap_or_else(|error| (None, Some(Err(error.to_string()))));
            Some((Ok::<Bytes, io::Error>(piece), (source, after)))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"windlass.backup\""));
    Ok(response)
}

type Piece = Option<Result<Bytes, String>>;

/// Reads the next piece on a thread that may block. Only one piece is in memory, besides the one that is being sent.
async fn next(mut source: Box<dyn Source>) -> Result<(Option<Box<dyn Source>>, Piece), Error> {
    let read = spawn_blocking(move || {
        let piece = source.next();
        piece.map(|piece| (Some(source), piece.map(Ok)))
    });
    match read.await {
        Ok(read) => read.map_err(Error::from),
        Err(_) => Err(Error::Stopping),
    }
}
