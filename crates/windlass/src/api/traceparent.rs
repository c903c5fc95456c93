//! The span that a request comes from.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use windlass_core::trace::{Context, TRACEPARENT};

/// What a client sent as `traceparent`, if this broker makes traces: one that does not has no use for a look at the headers.
/// What the specification calls invalid is as good as nothing.
#[derive(Debug)]
pub(crate) struct Trace(pub(super) Option<Context>);

impl Trace {
    pub(crate) fn of(state: &super::State, headers: &HeaderMap) -> Option<Context> {
        state.broker.settings().tracer.as_ref()?;
        let mut given = headers.get_all(TRACEPARENT).iter();
        // Two of them are none.
        match (given.next(), given.next()) {
            (Some(value), None) => Context::parse(value.to_str().ok()?),
            _ => None,
        }
    }
}

impl FromRequestParts<Arc<super::State>> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<super::State>) -> Result<Self, Infallible> {
        Ok(Self(Self::of(state, &parts.headers)))
    }
}
