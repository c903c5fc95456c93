//! The store on a cluster of three nodes, which all cases of this process share.

use std::sync::OnceLock;

use windlass_store::SystemClock;
use windlass_store::conformance::Harness;
use windlass_store::redis::Options;

use super::{Server, ask, free_port, fresh_prefix, harness, wait_until};

pub(crate) struct Cluster {
    pub(crate) ports: Vec<u16>,
    pub(crate) replicas: Vec<u16>,
    _nodes: Vec<Server>,
}

impl Cluster {
    /// Three primaries that share the slots. A busy machine is no reason to take a node for dead.
    pub(crate) fn start() -> Cluster {
        Cluster::of("60000", &[])
    }

    /// Each with a replica, which takes its place when it does not answer for so long. The first one has two of them, so that
    /// there is one left when it is gone.
    pub(crate) fn with_replicas(patience_ms: u64) -> Cluster {
        let more = ["--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0"];
        let mut cluster = Cluster::of(&patience_ms.to_string(), &more);
        for primary in [cluster.ports[0], cluster.ports[0], cluster.ports[1], cluster.ports[2]] {
            let port = free_port();
            cluster._nodes.push(node(port, &patience_ms.to_string(), &more));
            ask(port, &["CLUSTER", "MEET", "127.0.0.1", &primary.to_string()]);
            let id = ask(primary, &["CLUSTER", "MYID"]).trim().to_owned();
            wait_until(port, &["CLUSTER", "NODES"], |nodes| nodes.contains(&id));
            wait_until(port, &["CLUSTER", "REPLICATE", &id], |said| said.starts_with("OK"));
            wait_until(primary, &["INFO", "replication"], |info| info.contains("state=online"));
            cluster.replicas.push(port);
        }
        for port in cluster.ports.iter().chain(&cluster.replicas) {
            wait_until(*port, &["CLUSTER", "NODES"], |nodes| nodes.matches("slave ").count() == 4);
            wait_until(*port, &["CLUSTER", "INFO"], |info| info.contains("cluster_state:ok"));
        }
        cluster
    }

    /// As by a power cut: kill -9.
    pub(crate) fn kill(&self, port: u16) {
        let info = ask(port, &["INFO", "server"]);
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).expect("a process");
        let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status().expect("kill");
        assert!(killed.success());
    }

    fn of(patience_ms: &str, more: &[&str]) -> Cluster {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let nodes = ports.iter().map(|port| node(*port, patience_ms, more)).collect();
        for (i, port) in ports.iter().enumerate() {
            let slots = [i * 16384 / 3, (i + 1) * 16384 / 3 - 1].map(|slot| slot.to_string());
            ask(*port, &["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]);
            ask(*port, &["CLUSTER", "ADDSLOTSRANGE", &slots[0], &slots[1]]);
            ask(*port, &["CLUSTER", "MEET", "127.0.0.1", &ports[0].to_string()]);
        }
        for port in &ports {
            wait_until(*port, &["CLUSTER", "INFO"], |info| {
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            });
        }
        Cluster { ports, replicas: Vec::new(), _nodes: nodes }
    }

    /// Two of the nodes are enough to find the third.
    pub(crate) fn url(&self, prefix: &str, more: &str) -> String {
        let [first, second, ..] = self.ports[..] else { panic!("three nodes") };
        format!("redis+cluster://127.0.0.1:{first},127.0.0.1:{second}?prefix={prefix}{more}")
    }
}

fn node(port: u16, patience_ms: &str, more: &[&str]) -> Server {
    let port = port.to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", patience_ms, "--port", &port];
    Server::start(&[&options[..], more].concat())
}

pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

/// The URL of a store of its own.
pub(crate) fn fresh_url(more: &str) -> String {
    cluster().url(&fresh_prefix(), more)
}

async fn fresh() -> Harness {
    harness(fresh_url("&shards=1")).await
}

windlass_store::conformance_suite!(fresh);

#[tokio::test]
async fn a_node_of_a_cluster_is_no_server_and_a_server_no_cluster() {
    let refused = async |url: &str| {
        let opened =
            windlass_store::redis::open(Options::parse(url).expect("a URL"), SystemClock::shared()).await;
        opened.map(drop).expect_err("refused").to_string()
    };
    let node = refused(&format!("redis://127.0.0.1:{}", cluster().ports[0])).await;
    assert!(node.contains("redis+cluster://"), "{node}");
    let alone = Server::start(&["--port", &free_port().to_string()]);
    let port = ask_port(&alone);
    refused(&format!("redis+cluster://127.0.0.1:{port}")).await;
}

fn ask_port(server: &Server) -> String {
    let answer = std::process::Command::new("redis-cli")
        .arg("-s")
        .arg(&server.socket)
        .args(["CONFIG", "GET", "port"])
        .output()
        .expect("redis-cli");
    String::from_utf8_lossy(&answer.stdout).lines().nth(1).expect("a port").to_owned()
}
