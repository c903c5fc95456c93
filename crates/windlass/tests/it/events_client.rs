//! A real WebSocket client, and a plain reader of server-sent events.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Nothing here takes this long; a test that waits for something that never comes should end.
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Socket(WebSocketStream<tokio::net::TcpStream>);

impl Socket {
    pub(crate) async fn connect(address: SocketAddr, query: &str) -> Self {
        Self::try_connect(address, query, None, None).await.unwrap()
    }

    /// A small buffer makes a reader that does not read noticed soon.
    pub(crate) async fn try_connect(
        address: SocketAddr,
        query: &str,
        origin: Option<&str>,
        buffer: Option<u32>,
    ) -> Result<Self, Error> {
        let mut request = format!("ws://{address}/ws{query}").into_client_request()?;
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let stream = socket.connect(address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(Self(socket))
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Value {
        match self.heard().await {
            Ok(event) => event,
            Err(close) => panic!("closed: {close:?}"),
        }
    }

    /// The next event, or how it was closed.
    pub(crate) async fn heard(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            let message = self.message().await?;
            if message["type"] != "position" {
                return Ok(message);
            }
        }
    }

    /// The next message, be it only where the listener is.
    pub(crate) async fn message(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            let next = tokio::time::timeout(LONG, self.0.next()).await.expect("something should come");
            match next {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(close))) => return Err(close),
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("the connection broke: {error}"),
                None => return Err(None),
            }
        }
    }

    /// The next events up to one of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|event: &Value| event["type"] != kind) {
            events.push(self.event().await);
        }
        events
    }

    pub(crate) async fn send(&mut self, message: Message) -> Result<(), Error> {
        self.0.send(message).await
    }
}

/// The answer to a request for events, as its lines.
pub(crate) struct Lines(BufReader<TcpStream>);

impl Lines {
    /// `headers` end with CRLF each.
    pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n").unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next line that begins so, without its beginning.
    pub(crate) fn after(&mut self, beginning: &str) -> String {
        loop {
            let line = self.line();
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    /// The id that stands before the next event, and the event.
    pub(crate) fn event(&mut self) -> (u64, Value) {
        let mut id = None;
        loop {
            let line = self.line();
            if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.parse().unwrap());
            } else if let Some(event) = line.strip_prefix("data: ") {
                return (id.expect("an id stands before it"), serde_json::from_str(event).unwrap());
            }
        }
    }
}
