//! A webhook as a task: sends one HTTP request and gives back what came.
//!
//! A payload is written by whoever may submit, so it must not become a way into the worker's own network. Names are
//! resolved by a resolver that drops every private address, and the connection goes to exactly the addresses that passed:
//! there is no second look-up that could answer differently. Redirects are answers, not instructions. Proxies from the
//! environment are not used, since they would resolve names by themselves.

mod address;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Response, Url, redirect};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::trace::TRACEPARENT;

use crate::worker::context::cut;
use crate::worker::{Context, Failure, Handler, IntoOutcome, Job, Outcome};

/// What is kept of an answer.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// How much of an unexpected answer is quoted in the error.
const QUOTE_BYTES_MAX: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// A server may ask for patience up to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Let tasks reach loopback, private and link-local addresses.
    pub allow_private: bool,
}

#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    allow_private: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    url: String,
    #[serde(default = "post")]
    method: String,
    #[serde(default)]
    headers: HashMap<String, String>,
    /// Text is sent as it is, anything else as JSON.
    #[serde(default)]
    body: Option<Box<RawValue>>,
    /// Instead of any 2xx.
    #[serde(default)]
    expected_status: Option<u16>,
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

fn post() -> String {
    "POST".into()
}

impl Http {
    pub fn new(options: Options) -> Result<Self, reqwest::Error> {
        let allow_private = options.allow_private;
        let builder = || {
            reqwest::Client::builder()
                .dns_resolver(address::Resolver { allow_private })
                .redirect(redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT_TIMEOUT)
                .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        };
        let client = crate::rest::tls(builder()).build().or_else(|error| {
            // A bare container has no certificates. Plain http works there all the same.
            tracing::warn!(%error, "no certificates are trusted here: tasks of type http cannot use https");
            crate::rest::tls_without_roots(builder()).build()
        })?;
        Ok(Self { client, allow_private })
    }

    async fn send(&self, context: &Context, job: &Job) -> Result<Value, Failure> {
        let input: Input = job.json()?;
        let expected = input.expected_status;
        let request = self.request(context, input)?;
        let response = self.client.execute(request).await.map_err(|error| address::failure(&error))?;
        let status = response.status();
        let wait = retry_after(response.headers());
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
        let body = read(response).await?;
        let good = expected.map_or(status.is_success(), |code| status.as_u16() == code);
        if good {
            return Ok(json!({ "status": status.as_u16(), "content_type": kind, "body": decode(&body) }));
        }
        let text = String::from_utf8_lossy(&body);
        let error = format!("answered {status}: {}", cut(text.trim(), QUOTE_BYTES_MAX));
        Err(match (status.as_u16(), wait) {
            (429 | 503, Some(delay)) => Failure::RetryIn { error, delay },
            (408 | 425 | 429 | 500..=599, _) => Failure::Retry { error },
            _ => Failure::Fatal { error },
        })
    }

    fn request(&self, context: &Context, input: Input) -> Result<reqwest::Request, Failure> {
        let url = Url::parse(&input.url).map_err(|error| Failure::fatal(format!("url: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Failure::fatal("url: only http and https are possible"));
        }
        if !self.allow_private {
            address::check_literal(&url)?;
        }
        let method = Method::from_bytes(input.method.to_ascii_uppercase().as_bytes())
            .map_err(|error| Failure::fatal(format!("method: {error}")))?;
        let timeout = match input.timeout_seconds {
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .map_err(|error| Failure::fatal(format!("timeout_seconds: {error}")))?,
            None => TIMEOUT_DEFAULT,
        };
        let headers = HeaderMap::try_from(&input.headers)
            .map_err(|error| Failure::fatal(format!("headers: {error}")))?;
        let mut request = self
            .client
            .request(method, url)
            .timeout(timeout)
            .header("idempotency-key", context.task_id().as_str())
            .header("x-windlass-attempt", context.attempt());
        if let Some(traceparent) = context.traceparent() {
            request = request.header(TRACEPARENT, traceparent);
        }
        request = match input.body {
            Some(body) => match serde_json::from_str::<String>(body.get()) {
                Ok(text) => request.body(text),
                Err(_) => request.header(CONTENT_TYPE, "application/json").body(body.get().to_owned()),
            },
            None => request,
        };
        // Last, so that the task's own headers replace ours.
        request.headers(headers).build().map_err(Failure::fatal)
    }
}

impl Handler for Http {
    fn run(&self, context: Context, job: Job) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        let http = self.clone();
        Box::pin(async move {
            tokio::select! {
                sent = http.send(&context, &job) => sent.into_outcome(),
                _ = context.cancelled() => Outcome::Release,
            }
        })
    }
}

async fn read(mut response: Response) -> Result<Bytes, Failure> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| address::failure(&error))? {
        if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
            return Err(Failure::fatal(format!("the answer is larger than {RESPONSE_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// JSON if it is, else text; bytes that are no text lose what cannot be shown.
fn decode(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
