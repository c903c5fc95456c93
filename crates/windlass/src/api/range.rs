//! The figures that the broker records by itself.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_broker::{RangeRequest, Series};
use windlass_core::Name;
use windlass_proto::rest::{Figure, Invalid, Problem, RangeBody, Time, schema};

use super::Shared;
use super::answer::{self, Answer};
use super::params::{Params, parsed, span_ms};

pub(super) fn routes() -> OpenApiRouter<Arc<super::State>> {
    OpenApiRouter::new().routes(routes!(range))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RangeParams {
    /// Names with commas, all if not given; see `docs/metrics.md`.
    #[param(schema_with = series_names)]
    series: Option<String>,
    /// RFC 3339; ten minutes before `to` if not given, and a week ago at most.
    #[param(value_type = Option<schema::TimeQuery>)]
    from: Option<String>,
    /// RFC 3339; now if not given.
    #[param(value_type = Option<schema::TimeQuery>)]
    to: Option<String>,
    /// `10s`, `5m`, or a number of seconds. The answer has this step or a larger one, so that it has at most 1,000 points and
    /// reaches as far back as was asked.
    #[param(value_type = Option<schema::StepQuery>)]
    step: Option<String>,
    /// One queue alone: submitted, completed, failed, pending, running.
    #[param(value_type = Option<schema::NameQuery>)]
    queue: Option<String>,
}

/// Names of series with commas, as a pattern.
fn series_names() -> Object {
    let words = schema::words_or_none(&Series::ALL.map(Series::as_str));
    ObjectBuilder::from(Object::with_type(Type::String)).pattern(Some(format!("^{words}$"))).build()
}

impl RangeParams {
    fn check(self) -> Result<RangeRequest, Invalid> {
        let queue: Option<Name> = parsed("queue", self.queue)?;
        let of_all = if queue.is_some() { &Series::OF_QUEUES[..] } else { &Series::ALL[..] };
        let step = self.step.filter(|text| !text.is_empty());
        Ok(RangeRequest {
            series: match self.series.filter(|text| !text.is_empty()) {
                Some(words) => series(&words)?,
                None => of_all.to_vec(),
            },
            queue,
            from: parsed::<Time>("from", self.from)?.map(Time::as_ms),
            to: parsed::<Time>("to", self.to)?.map(Time::as_ms),
            step_ms: step.map(|text| span_ms("step", &text)).transpose()?,
        })
    }
}

fn series(words: &str) -> Result<Vec<Series>, Invalid> {
    let mut all = Vec::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let series = Series::parse(word).ok_or_else(|| {
            let names = Series::ALL.map(Series::as_str).join(", ");
            Invalid::malformed("series", format!("{word} is none of {names}"))
        })?;
        if !all.contains(&series) {
            all.push(series);
        }
    }
    Ok(all)
}

/// Figures of the last ten minutes, hours or days
#[utoipa::path(get, path = "/api/v1/metrics/range", operation_id = "get_metrics_range", tag = "system", params(RangeParams),
    responses((status = 200, description = "One figure per step", body = RangeBody),
        (status = 404, description = "`not_found`: there is no such queue", body = Problem,
            content_type = "application/problem+json")))]
async fn range(State(state): Shared, Params(params): Params<RangeParams>) -> Answer {
    let request = params.check()?;
    let range = state.broker.range(&request).await?;
    let figures = |figures: Vec<f32>| figures.into_iter().map(Figure::new).collect();
    answer::ok(&RangeBody {
        step_seconds: range.step_ms / 1000,
        from: Time::from_ms(range.from),
        to: Time::from_ms(range.to),
        queue: request.queue.map(|name| name.as_str().to_owned()),
        series: range
            .series
            .into_iter()
            .map(|(series, points)| (series.as_str().to_owned(), figures(points)))
            .collect(),
    })
}
