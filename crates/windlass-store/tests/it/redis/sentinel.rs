//! The store behind sentinels: a primary, a replica of it, and one who watches them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use windlass_store::conformance::Harness;

use super::{Server, ask, free_port, fresh_prefix, harness, wait_until};

pub(crate) struct Group {
    ports: [u16; 2],
    sentinel: u16,
    _servers: Vec<Server>,
    _watch: Watch,
}

/// The sentinel. A shell ends it with these tests, however they end.
struct Watch {
    _dir: tempfile::TempDir,
    _shell: Child,
}

const WATCH: &str = r#"redis-server "$1" --sentinel --loglevel warning >/dev/null & cat
kill $! 2>/dev/null; wait"#;

impl Group {
    /// A primary that does not answer for so long is taken for dead.
    pub(crate) fn start(patience_ms: u64) -> Group {
        let [primary, replica, sentinel] = std::array::from_fn(|_| free_port());
        let serve = |port: u16, more: &[&str]| {
            let port = port.to_string();
            let options =
                ["--port", &port, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
            Server::start(&[&options[..], more].concat())
        };
        let servers =
            vec![serve(primary, &[]), serve(replica, &["--replicaof", "127.0.0.1", &primary.to_string()])];
        wait_until(primary, &["INFO", "replication"], |info| info.contains("state=online"));
        let dir = tempfile::tempdir().expect("a directory");
        let path: PathBuf = dir.path().join("sentinel.conf");
        let watched = format!(
            "port {sentinel}\ndir {}\nsentinel monitor shop 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds shop {patience_ms}\nsentinel failover-timeout shop 20000\n",
            dir.path().display()
        );
        std::fs::write(&path, watched).expect("a file");
        let shell = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        wait_until(sentinel, &["SENTINEL", "REPLICAS", "shop"], |rows| {
            rows.contains("\nmaster-link-status\nok")
        });
        let group = Group {
            ports: [primary, replica],
            sentinel,
            _servers: servers,
            _watch: Watch { _dir: dir, _shell: shell },
        };
        group.wait_for_replica();
        group
    }

    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("redis+sentinel://127.0.0.1:{}/shop?prefix={prefix}", self.sentinel)
    }

    /// The port of the primary, as the sentinel sees it.
    pub(crate) fn primary(&self) -> u16 {
        let address = ask(self.sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop"]);
        address.lines().nth(1).and_then(|port| port.parse().ok()).expect("a primary")
    }

    /// Whether a replica has all that the primary has at this moment.
    pub(crate) fn is_replicated(&self, port: u16) -> bool {
        // A write of its own, which comes behind all others: only then the server waits.
        let said = Command::new("redis-cli")
            .args(["-p", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .and_then(|mut client| {
                use std::io::Write;
                client.stdin.take().expect("a pipe").write_all(b"SET mark 1\nWAIT 1 500\n")?;
                client.wait_with_output()
            });
        String::from_utf8_lossy(&said.expect("redis-cli").stdout).lines().last() == Some("1")
    }

    /// Makes the replica the primary, and waits until the other one follows it.
    pub(crate) fn fail_over(&self) {
        let before = self.primary();
        // After the last change it may have to fetch everything first.
        let followed = (0..120).any(|_| self.is_replicated(before));
        assert!(followed, "the replica does not follow");
        wait_until(self.sentinel, &["SENTINEL", "FAILOVER", "shop"], |said| said.contains("OK"));
        self.wait_for_another(before);
        self.wait_for_replica();
    }

    pub(crate) fn wait_for_another(&self, before: u16) {
        wait_until(self.sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop"], |address| {
            address.lines().nth(1).is_some_and(|port| port.parse() != Ok(before))
        });
    }

    fn wait_for_replica(&self) {
        let primary = self.primary();
        wait_until(primary, &["INFO", "replication"], |info| {
            info.contains("role:master") && info.contains("state=online")
        });
        wait_until(self.sentinel, &["SENTINEL", "MASTER", "shop"], |row| {
            !row.contains("failover_in_progress")
        });
    }

    /// As by a power cut: kill -9.
    pub(crate) fn kill(&self, port: u16) {
        assert!(self.ports.contains(&port));
        let info = ask(port, &["INFO", "server"]);
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).expect("a process");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status().expect("kill");
        assert!(killed.success());
    }
}

async fn fresh() -> Harness {
    static GROUP: OnceLock<Group> = OnceLock::new();
    let group = GROUP.get_or_init(|| Group::start(60_000));
    harness(group.url(&fresh_prefix())).await
}

windlass_store::conformance_suite!(fresh);
