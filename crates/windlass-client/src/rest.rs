//! The REST interface as async Rust, call by call: what a [`crate::Client`] over REST and the command line use. Programs use
//! [`crate::Client`], which has the same calls over every line.
//!
//! Calls that can be repeated without harm are repeated a few times when the connection breaks: reads, and submits, since a
//! submit always carries an id of its own and the broker answers the second one with the task of the first.

mod backup;
mod calls;
mod events;
mod filter;
mod limits;
mod operations;
mod schedules;
mod workflows;

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use backup::Backup;
pub use events::{Events, Listen, Said};
pub use filter::Filter;

use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For an answer that waits for nothing.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// A handle on one broker; clones share its connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// `base` is the address of the broker, as `http://127.0.0.1:8080`.
    pub fn new(base: &str) -> Result<Self, Error> {
        let invalid = |detail: String| Error::Address { address: base.to_owned(), detail };
        let url = Url::parse(base).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(invalid("must begin with http:// or https://".into()));
        }
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")));
        // Reading the certificates of the system takes longer than most commands; without TLS they are not needed.
        let builder = if url.scheme() == "https" { tls(builder) } else { tls_without_roots(builder) };
        let http = builder.build().map_err(|error| invalid(error.to_string()))?;
        Ok(Self { http, base: url })
    }

    pub fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Error> {
        let mut url = self.base.clone();
        if let Some(dots) = path.iter().find(|part| matches!(**part, "." | "..")) {
            // Valid as a name, but every library on the way reads it as a directory.
            let detail = format!("{dots:?} cannot be part of an address");
            return Err(Error::Address { address: self.base.to_string(), detail });
        }
        url.path_segments_mut().expect("checked when the client was made").pop_if_empty().extend(path);
        Ok(self.http.request(method, url).timeout(ANSWER_TIMEOUT))
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, String)]) -> Result<T, Error> {
        read(repeat(self.request(Method::GET, path)?.query(query)).await?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, Error> {
        read(send(json(self.request(Method::POST, path)?, body)?).await?).await
    }

    async fn act<T: DeserializeOwned>(&self, method: Method, path: &[&str]) -> Result<T, Error> {
        read(send(self.request(method, path)?).await?).await
    }
}

fn json(request: RequestBuilder, body: &impl Serialize) -> Result<RequestBuilder, Error> {
    let text = serde_json::to_vec(body)
        .map_err(|error| Error::Answer(format!("cannot write the request: {error}")))?;
    Ok(request.header(reqwest::header::CONTENT_TYPE, "application/json").body(text))
}

/// Sends once. Any answer that is no success is an error.
async fn send(request: RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(Error::from_transport)?;
    if response.status().is_success() { Ok(response) } else { Err(Error::from_response(response).await) }
}

/// Sends until there is an answer; only for what may be done twice.
async fn repeat(request: RequestBuilder) -> Result<Response, Error> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        let Some(copy) = request.try_clone() else { break };
        match send(copy).await {
            Err(Error::Unreachable { .. }) => {
                tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await
            }
            answered => return answered,
        }
        pause *= 2;
    }
    send(request).await
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Error> {
    let body = match response.status() {
        StatusCode::NO_CONTENT => Bytes::from_static(b"null"),
        _ => response.bytes().await.map_err(Error::from_transport)?,
    };
    serde_json::from_slice(&body)
        .map_err(|error| Error::Answer(format!("the answer is not understood: {error}")))
}

/// For other calls of a program that has this client: the same TLS, and the name of Windlass.
pub fn http_client(https: bool) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")));
    if https { tls(builder) } else { tls_without_roots(builder) }
}

/// TLS with the certificates that the system trusts.
pub(crate) fn tls(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    // Only the first call of a process has an effect; a provider that the program chose itself stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder.tls_backend_rustls()
}

/// TLS that trusts nobody: every https address fails, and nothing is read from the system.
pub(crate) fn tls_without_roots(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    builder.tls_backend_preconfigured(config)
}
