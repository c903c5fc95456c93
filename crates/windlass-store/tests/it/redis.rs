//! The store on Redis passes the suite, on a real server that these tests start and that ends with them.

mod access;
mod again;
mod apart;
pub(crate) mod cluster;
mod contest;
mod cut;
mod failover;
mod flow;
mod full;
mod held;
mod honest;
mod lapsed;
mod lost;
mod notices;
mod replicas;
mod runs;
pub(crate) mod sentinel;
mod shared;
mod slices;
mod spread;
mod together;
mod torn;
mod waits;

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_store::clock::ManualClock;
use windlass_store::conformance::{Harness, Open};
use windlass_store::redis::Options;
use windlass_store::store::Store;

/// A server behind a socket that nobody else knows. A shell waits for the end of these tests, which closes its input, and
/// stops the server then, however they ended.
pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    dir: tempfile::TempDir,
    _shell: Child,
}

const RUN: &str = r#"socket=$1; shift
redis-server --port 0 --unixsocket "$socket" --save "" --loglevel warning "$@" & cat
kill $! 2>/dev/null; wait"#;

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().expect("a directory"), options)
    }

    fn start_in(dir: tempfile::TempDir, options: &[&str]) -> Server {
        let socket = dir.path().join("redis.sock");
        let shell = Command::new("sh")
            .args(["-c", RUN, "sh"])
            .arg(&socket)
            .arg("--dir")
            .arg(dir.path())
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not start; `cargo xtask test` installs it");
            // sleep: a server that starts says so only by its socket.
            std::thread::sleep(Duration::from_millis(10));
        }
        Server { socket, dir, _shell: shell }
    }

    /// Ends it as a crash does, and starts it again with what its last snapshot has.
    fn crash(self, options: &[&str]) -> Server {
        self.say(&["SHUTDOWN", "NOSAVE"]);
        assert!(UnixStream::connect(&self.socket).is_err(), "it is still there");
        Server::start_in(self.dir, options)
    }

    /// A command, by the client of Redis.
    fn say(&self, words: &[&str]) {
        let said = Command::new("redis-cli").arg("-s").arg(&self.socket).args(words).output();
        assert!(said.expect("redis-cli").status.success(), "{words:?}");
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

/// A plain command, whose second word (or third, for a command of two words) is a key of the store.
async fn raw(url: &str, words: &[&str]) {
    let (_, prefix) = url.split_once("prefix=").expect("a prefix");
    let client = redis::Client::open(url.split_once('?').expect("a query").0).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let mut command = redis::cmd(words[0]);
    match words {
        ["SCRIPT", rest @ ..] => drop(command.arg(rest)),
        [_, key, rest @ ..] => drop(command.arg(format!("{{{prefix}}}:{key}")).arg(rest)),
        _ => {}
    }
    command.query_async::<redis::Value>(&mut connection).await.expect("an answer");
}

/// The URL of a store of its own.
pub(crate) fn fresh_url() -> String {
    format!("redis+unix://{}?prefix={}", server().socket.display(), fresh_prefix())
}

fn fresh_prefix() -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);
    format!("case-{}", STORES.fetch_add(1, Ordering::SeqCst))
}

/// A port that nobody uses, and neither the one that a node of a cluster talks to others on.
fn free_port() -> u16 {
    for _ in 0..1000 {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// Asks a server until it says so.
fn wait_until(port: u16, words: &[&str], said: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask(port, words);
        if said(&answer) {
            return;
        }
        assert!(Instant::now() < deadline, "{words:?} on {port}: {answer}");
        // sleep: servers tell of what they agree on only when they are asked.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command to one server, by its own client.
fn ask(port: u16, words: &[&str]) -> String {
    let answer = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output();
    String::from_utf8_lossy(&answer.expect("redis-cli").stdout).into_owned()
}

pub(crate) async fn open(url: &str, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    windlass_store::redis::open(Options::parse(url).expect("a URL"), clock).await.expect("open")
}

/// A harness around the store at this URL.
async fn harness(url: String) -> Harness {
    let clock = ManualClock::shared();
    let opening = clock.clone();
    let reopen: Open = Box::new(move || {
        let (url, clock) = (url.clone(), opening.clone());
        Box::pin(async move { open(&url, clock).await })
    });
    Harness::persistent(clock, reopen).await
}

async fn fresh() -> Harness {
    harness(fresh_url()).await
}

windlass_store::conformance_suite!(fresh);
