//! The server on a broker in memory, over real connections, with limits that a test can wait for.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_broker::Broker;
use windlass_store::SystemClock;
use windlass_store::memory::MemoryStore;

use super::*;
use crate::api;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

async fn start(head_timeout: Duration, request_timeout: Duration) -> SocketAddr {
    start_with(Limits { head_timeout, ..Limits::default() }, request_timeout).await
}

async fn start_with(limits: Limits, request_timeout: Duration) -> SocketAddr {
    start_state(limits, request_timeout).await.0
}

async fn start_state(limits: Limits, request_timeout: Duration) -> (SocketAddr, Arc<api::State>) {
    let (address, state, ..) = start_until(limits, request_timeout, CancellationToken::new()).await;
    (address, state)
}

async fn start_until(
    limits: Limits,
    request_timeout: Duration,
    shutdown: CancellationToken,
) -> (SocketAddr, Arc<api::State>, tokio::task::JoinHandle<io::Result<()>>) {
    let clock = SystemClock::shared();
    let store = MemoryStore::new(clock.clone());
    let broker = Broker::start(store, clock, windlass_broker::Settings::default());
    let settings = api::Settings { request_timeout, ..api::Settings::default() };
    let state = Arc::new(api::State::new(broker, settings));
    let app = api::serve(state.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve(listener, app, limits, shutdown));
    (address, state, serving)
}

fn request(path: &str, body: &str) -> String {
    let head = "host: t\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Reads one answer, of which the head has a length.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        text.push(stream.read_u8().await.expect("an answer comes"));
        let Some(end) = text.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if text.len() == end + 4 + length.unwrap_or(0) {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

#[tokio::test]
async fn heads_that_do_not_come_to_an_end_and_connections_that_idle_are_closed() {
    let address = start(SHORT, LONG).await;
    let mut rest = Vec::new();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nhost:").await.unwrap();
    half.read_to_end(&mut rest).await.unwrap();

    let mut idle = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        idle.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        assert!(answer(&mut idle).await.ends_with("ok\n"));
    }
    assert_eq!(idle.read_to_end(&mut rest).await.unwrap(), 0, "closed without a word");
}

/// All of its limits are longer than anybody would wait here, so only hearing of it lets a connection end.
#[tokio::test]
async fn every_connection_hears_of_the_end() {
    let shutdown = CancellationToken::new();
    let limits = Limits { head_timeout: LONG, drain_timeout: LONG, ..Limits::default() };
    let (address, _, serving) = start_until(limits, LONG, shutdown.clone()).await;
    let mut served = TcpStream::connect(address).await.unwrap();
    served.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    answer(&mut served).await;
    let mut busy = TcpStream::connect(address).await.unwrap();
    let claim = request("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":0.3}"#);
    busy.write_all(claim.as_bytes()).await.unwrap();
    // Both are there, and one of them has begun: it answers later than the other though it came second.
    let mut fresh = TcpStream::connect(address).await.unwrap();
    fresh.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    answer(&mut fresh).await;
    shutdown.cancel();
    let ends = async {
        let mut rest = Vec::new();
        assert_eq!(served.read_to_end(&mut rest).await.unwrap(), 0);
        assert_eq!(fresh.read_to_end(&mut rest).await.unwrap(), 0);
        assert!(answer(&mut busy).await.contains("200 OK"), "what has begun is answered");
        assert_eq!(busy.read_to_end(&mut rest).await.unwrap(), 0);
        serving.await.unwrap().unwrap();
    };
    tokio::time::timeout(LONG / 2, ends).await.expect("nobody waits for a limit");
}

#[tokio::test]
async fn a_request_may_take_longer_than_a_head() {
    let address = start(SHORT, LONG).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        // It waits for a task that never comes, for twice the time that a head may take.
        let claim = request("/api/v1/claim", r#"{"worker_id":"w","wait_seconds":0.6}"#);
        client.write_all(claim.as_bytes()).await.unwrap();
        let claimed = answer(&mut client).await;
        assert!(claimed.starts_with("HTTP/1.1 200") && claimed.ends_with(r#"{"tasks":[]}"#), "{claimed}");
    }
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered() {
    let address = start(LONG, SHORT).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(request("/api/v1/tasks", r#"{"type":"t"}"#).as_bytes()).await.unwrap();
    assert!(answer(&mut client).await.starts_with("HTTP/1.1 201"), "one that is quick is not");
    let slow = request("/api/v1/tasks", r#"{"type":"t"}"#);
    client.write_all(&slow.as_bytes()[..slow.len() - 3]).await.unwrap();
    let refused = answer(&mut client).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains(r#""code":"timeout""#), "{refused}");
}

/// An upgrade takes the connection away from its server, but not from the count.
#[tokio::test]
async fn a_websocket_takes_a_place_until_it_ends() {
    const PLAIN: &[u8] = b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n";
    let address = start_with(Limits { connections: 1, ..Limits::default() }, LONG).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let upgrade = "GET /ws HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(upgrade.as_bytes()).await.unwrap();
    assert!(answer(&mut socket).await.starts_with("HTTP/1.1 101"));
    for _ in 0..3 {
        let mut other = TcpStream::connect(address).await.unwrap();
        assert!(answer(&mut other).await.starts_with("HTTP/1.1 503"), "there is no place left");
    }
    drop(socket);
    loop {
        let mut other = TcpStream::connect(address).await.unwrap();
        let _ = other.write_all(PLAIN).await;
        if answer(&mut other).await.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

/// What is written to listeners is written in their room, and nothing else is.
#[tokio::test]
async fn a_connection_that_listens_moves_into_the_room_and_no_other() {
    let (address, state) = start_state(Limits::default(), LONG).await;
    let in_the_room = async |wanted: usize| {
        let waited = async {
            while state.room.len() != wanted {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(LONG, waited).await;
        waited.unwrap_or_else(|_| panic!("{} are in the room, not {wanted}", state.room.len()));
    };
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /api/v1/events?type=nonsense HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    assert!(answer(&mut client).await.starts_with("HTTP/1.1 400"));
    client.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    assert!(answer(&mut client).await.ends_with("ok\n"));
    assert_eq!(state.room.len(), 0, "who is refused, and asks for something else");

    client.write_all(b"GET /api/v1/events?type=task.* HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
    let head = until(&mut client, "retry: ").await.to_ascii_lowercase();
    assert!(head.contains("text/event-stream") && head.contains("connection: close"), "{head}");
    // What it hears is made there, and written there.
    in_the_room(2).await;
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(request("/api/v1/tasks", r#"{"id":"heard","type":"t"}"#).as_bytes()).await.unwrap();
    assert!(answer(&mut other).await.starts_with("HTTP/1.1 201"));
    until(&mut client, r#""task_id":"heard""#).await;
    assert_eq!(state.room.len(), 2, "who submits stays outside");
    drop(client);
    in_the_room(0).await;
}

/// What comes up to these words.
async fn until(stream: &mut TcpStream, words: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).ends_with(words) {
        text.push(stream.read_u8().await.expect("it goes on"));
    }
    String::from_utf8_lossy(&text).into_owned()
}
