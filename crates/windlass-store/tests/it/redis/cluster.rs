//! The store on a cluster of three nodes, which all cases of this process share.

use std::sync::OnceLock;

use windlass_store::SystemClock;
use windlass_store::conformance::Harness;
use windlass_store::redis::Options;

use super::{Server, ask, free_port, fresh_prefix, harness, wait_until};

pub(crate) struct Cluster {
    pub(crate) ports: Vec<u16>,
    _nodes: Vec<Server>,
}

impl Cluster {
    /// Three primaries that share the slots.
    pub(crate) fn start() -> Cluster {
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let node = |port: &u16| {
            let port = port.to_string();
            // A busy machine is no reason to take a node for dead.
            let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--port", &port];
            Server::start(&options)
        };
        let nodes = ports.iter().map(node).collect();
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
        Cluster { ports, _nodes: nodes }
    }

    /// Two of the nodes are enough to find the third.
    pub(crate) fn url(&self, prefix: &str, more: &str) -> String {
        let [first, second, ..] = self.ports[..] else { panic!("three nodes") };
        format!("redis+cluster://127.0.0.1:{first},127.0.0.1:{second}?prefix={prefix}{more}")
    }
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
