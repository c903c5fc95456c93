//! The store on Redis passes the suite, on a real server that these tests start and that ends with them.

mod cut;
mod flow;
mod full;
mod honest;
mod replicas;
mod shared;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_store::clock::ManualClock;
use windlass_store::conformance::{Harness, Open};
use windlass_store::redis::{Options, RedisStore};
use windlass_store::store::Store;

/// A server behind a socket that nobody else knows. A shell waits for the end of these tests, which closes its input, and
/// stops the server then, however they ended.
pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    _dir: tempfile::TempDir,
    _shell: Child,
}

const RUN: &str = r#"socket=$1; shift
redis-server --port 0 --unixsocket "$socket" --save "" --loglevel warning "$@" & cat
kill $!; wait"#;

impl Server {
    pub(crate) fn start(options: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
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
        Server { socket, _dir: dir, _shell: shell }
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
    static STORES: AtomicU64 = AtomicU64::new(0);
    let number = STORES.fetch_add(1, Ordering::SeqCst);
    format!("redis+unix://{}?prefix=case-{number}", server().socket.display())
}

pub(crate) async fn open(url: &str, clock: Arc<ManualClock>) -> Arc<dyn Store> {
    RedisStore::open(Options::parse(url).expect("a URL"), clock).await.expect("open")
}

async fn fresh() -> Harness {
    let clock = ManualClock::shared();
    let (url, opening) = (fresh_url(), clock.clone());
    let reopen: Open = Box::new(move || {
        let (url, clock) = (url.clone(), opening.clone());
        Box::pin(async move { open(&url, clock).await })
    });
    Harness::persistent(clock, reopen).await
}

windlass_store::conformance_suite!(fresh);
