//! A broker that can be killed and comes back at the same addresses with the same data.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use windlass_client::{Client, rest};

#[derive(Debug)]
pub(super) struct Broker {
    child: Child,
    data_dir: tempfile::TempDir,
    pub(super) http: String,
    pub(super) grpc: String,
}

impl Broker {
    pub(super) fn start() -> Broker {
        let data_dir = tempfile::tempdir().unwrap();
        let [http, grpc] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        let child = spawn(data_dir.path(), &http, &grpc);
        Broker { child, data_dir, http: format!("http://{http}"), grpc: format!("http://{grpc}") }
    }

    /// Without warning.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn restart(&mut self) {
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        self.child = spawn(self.data_dir.path(), &address(&self.http), &address(&self.grpc));
    }

    pub(super) fn client(&self) -> Client {
        Client::connect(&self.grpc).unwrap()
    }

    pub(super) fn rest(&self) -> rest::Client {
        rest::Client::new(&self.http).unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Free now, and held at once by the broker that is started.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn spawn(data_dir: &std::path::Path, http: &str, grpc: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["serve", "--http-addr", http, "--grpc-addr", grpc, "--data-dir"])
        .arg(data_dir.join("data"))
        .current_dir(data_dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.unwrap().starts_with("listening http "));
    assert!(ready, "the broker says where it listens");
    // The rest is read too, so that a full pipe never stops the broker.
    std::thread::spawn(move || lines.for_each(drop));
    child
}
