//! One connection to a broker's TCP frames, which submits one task at a time. Like [`crate::http::Http`] it repeats nothing.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::{Answer, NoAnswer};

const PATIENCE: Duration = Duration::from_secs(20);
const SUBMIT: u8 = 1;
const ACK: u8 = 5;

#[derive(Debug)]
pub(crate) struct Frames {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Frames {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    pub(crate) async fn submit(&mut self, body: &Value) -> Result<Answer, NoAnswer> {
        // Taken out, and put back only after a whole answer.
        let stream = self.stream.take();
        let whole = tokio::time::timeout(PATIENCE, exchange(self.address, stream, body)).await;
        let whole = whole.map_err(|_| NoAnswer("the wait was over".to_owned()))?;
        let (answer, stream) = whole.map_err(|error| NoAnswer(error.to_string()))?;
        self.stream = Some(stream);
        Ok(answer)
    }
}

async fn exchange(
    address: SocketAddr,
    stream: Option<TcpStream>,
    body: &Value,
) -> io::Result<(Answer, TcpStream)> {
    let mut stream = match stream {
        Some(stream) => stream,
        None => TcpStream::connect(address).await?,
    };
    let body = body.to_string();
    let length = u32::try_from(body.len() + 1).map_err(io::Error::other)?;
    let frame = [&length.to_be_bytes()[..], &[SUBMIT], body.as_bytes()].concat();
    stream.write_all(&frame).await?;
    let length = stream.read_u32().await? as usize;
    let kind = stream.read_u8().await?;
    let mut body = vec![0; length.saturating_sub(1)];
    stream.read_exact(&mut body).await?;
    let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
    let refused =
        || body["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default();
    let status = if kind == ACK { 200 } else { refused() };
    Ok((Answer { status, body }, stream))
}
