//! Clients that make the broker hold memory: half-sent bodies, answers that are not read, slow readers, idle connections. Whoever is cut off
//! comes back at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::{LARGE, PAYLOAD_BYTES, text};
use crate::proof::Trouble;
use crate::server::Server;

const HALF_SENT: usize = 300;
const UNREAD: usize = 300;
const SLOW_READERS: usize = 500;
const IDLE: usize = 5_000;
/// Between two tries of a client that was cut off or turned away, as `Retry-After` says.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long a client that reads nothing stays, if it is not cut.
const UNREAD_FOR: Duration = Duration::from_secs(20);

/// The clients, until it is dropped.
#[derive(Debug)]
pub(super) struct Attack {
    clients: JoinSet<()>,
    tries: Arc<AtomicU64>,
}

impl Attack {
    pub(super) fn start(server: &Server) -> Result<Attack, Trouble> {
        let http = server.address();
        let frames = server.frames().ok_or_else(|| Trouble::failed("the broker has no frames"))?;
        let mut attack = Attack { clients: JoinSet::new(), tries: Arc::default() };
        let body = text(&json!({"type": "half", "payload": "x".repeat(PAYLOAD_BYTES)}));
        let head = format!(
            "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let over_http: Arc<[u8]> = [head.as_bytes(), &body].concat().into();
        let length = u32::try_from(body.len() + 1).map_err(io::Error::other)?;
        let over_frames: Arc<[u8]> = [&length.to_be_bytes()[..], &[1], &body].concat().into();
        for number in 0..HALF_SENT {
            let (address, bytes) = match number % 3 {
                0 => (frames, over_frames.clone()),
                _ => (http, over_http.clone()),
            };
            attack.repeat(move || half_sent(address, bytes.clone()));
        }
        let get: Arc<[u8]> =
            format!("GET /api/v1/tasks/{LARGE} HTTP/1.1\r\nhost: t\r\n\r\n").into_bytes().into();
        let status = format!("{{\"id\":\"{LARGE}\"}}");
        let status = [&(status.len() as u32 + 1).to_be_bytes()[..], &[7], status.as_bytes()].concat();
        let statuses: Arc<[u8]> = status.repeat(8).into();
        for number in 0..UNREAD {
            let (address, bytes) = match number % 3 {
                0 => (frames, statuses.clone()),
                _ => (http, get.clone()),
            };
            attack.repeat(move || unread(address, bytes.clone()));
        }
        let events: Arc<[u8]> = Arc::from(&b"GET /api/v1/events HTTP/1.1\r\nhost: t\r\n\r\n"[..]);
        for number in 0..SLOW_READERS {
            let bytes = if number % 2 == 0 { events.clone() } else { get.clone() };
            attack.repeat(move || slow(http, bytes.clone()));
        }
        for number in 0..IDLE {
            let address = if number % 2 == 0 { frames } else { http };
            attack.repeat(move || idle(address));
        }
        Ok(attack)
    }

    /// Keeps a client at it.
    fn repeat<F>(&mut self, client: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let tries = self.tries.clone();
        self.clients.spawn(async move {
            loop {
                tries.fetch_add(1, Ordering::Relaxed);
                // Whatever becomes of it, it is what an attacker has to live with.
                let _ = client().await;
                // sleep: a client that is turned away does not burn a core.
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
    }

    pub(super) fn finish(self) -> String {
        format!("{} connections of attackers", self.tries.load(Ordering::Relaxed))
    }
}

/// Sends all but the last byte, and waits until it is answered or cut.
async fn half_sent(address: SocketAddr, bytes: Arc<[u8]>) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let sent = stream.write_all(&bytes[..bytes.len() - 1]).await;
    let mut answer = [0; 1024];
    while stream.read(&mut answer).await? > 0 {}
    sent
}

/// Asks for large answers and reads none of them.
async fn unread(address: SocketAddr, bytes: Arc<[u8]>) -> io::Result<()> {
    let mut stream = narrow(address).await?;
    stream.write_all(&bytes).await?;
    // sleep: it is there, and that is all it does.
    tokio::time::sleep(UNREAD_FOR).await;
    Ok(())
}

/// Reads a little now and then.
async fn slow(address: SocketAddr, bytes: Arc<[u8]>) -> io::Result<()> {
    let mut stream = narrow(address).await?;
    stream.write_all(&bytes).await?;
    let mut some = [0; 512];
    while stream.read(&mut some).await? > 0 {
        // sleep: that is how slow it is.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

async fn idle(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.read(&mut [0; 64]).await.map(drop)
}

/// With a buffer that takes next to nothing.
async fn narrow(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.connect(address).await
}
