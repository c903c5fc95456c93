//! One keep-alive connection to a broker. It repeats nothing and hides nothing: whether an answer came is what the proofs
//! are about.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::request::Builder;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Http {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
    patience: Duration,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// JSON, or else a text.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The stable word of a refusal.
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

/// No answer came: whether the request had an effect is unknown.
#[derive(Debug)]
pub(crate) struct NoAnswer(pub(crate) String);

impl From<NoAnswer> for crate::proof::Trouble {
    fn from(error: NoAnswer) -> Self {
        crate::proof::Trouble::failed(format!(
            "unknown, because a broker that nobody hurt gave no answer: {}",
            error.0
        ))
    }
}

impl Http {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: None, patience: PATIENCE }
    }

    /// Waits this long for an answer.
    pub(crate) fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer, NoAnswer> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<Answer, NoAnswer> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// With an `Idempotency-Key`.
    pub(crate) async fn post_under(
        &mut self,
        key: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, NoAnswer> {
        self.send(self.request(Method::POST, path).header("idempotency-key", key), Some(body)).await
    }

    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, NoAnswer> {
        self.send(self.request(method, path), body).await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
    }

    async fn send(&mut self, request: Builder, body: Option<&Value>) -> Result<Answer, NoAnswer> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(text))).map_err(no_answer)?;
        // Taken out, and put back only after a whole answer.
        let sender = self.sender.take().filter(|sender| !sender.is_closed());
        let whole = tokio::time::timeout(self.patience, exchange(self.address, sender, request)).await;
        let (answer, sender) = whole.map_err(|_| NoAnswer("the wait was over".to_owned()))??;
        self.sender = Some(sender);
        Ok(answer)
    }
}

async fn exchange(
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
    request: Request<Full<Bytes>>,
) -> Result<(Answer, SendRequest<Full<Bytes>>), NoAnswer> {
    let mut sender = match sender {
        Some(sender) => sender,
        None => connect(address).await?,
    };
    sender.ready().await.map_err(no_answer)?;
    let response = sender.send_request(request).await.map_err(no_answer)?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(no_answer)?.to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    Ok((Answer { status, body }, sender))
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, NoAnswer> {
    let stream = TcpStream::connect(address).await.map_err(no_answer)?;
    stream.set_nodelay(true).map_err(no_answer)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
    // It ends with the sender, or with the broker.
    tokio::spawn(connection);
    Ok(sender)
}

fn no_answer(error: impl std::fmt::Display) -> NoAnswer {
    NoAnswer(error.to_string())
}
