//! The real binary, started for one test and killed at its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::frames::Frames;
use crate::http::Client;

#[derive(Debug)]
pub(crate) struct BrokerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) grpc_address: SocketAddr,
    pub(crate) tcp_address: SocketAddr,
    data_dir: tempfile::TempDir,
}

impl BrokerProcess {
    /// On a new, empty data directory.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// `settings` are environment variables of the process.
    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Self {
        let data_dir = tempfile::tempdir().unwrap();
        let (child, Addresses { http, grpc, tcp }) = spawn(data_dir.path(), settings);
        Self { child, address: http, grpc_address: grpc, tcp_address: tcp, data_dir }
    }

    /// On the data that stands in `data` of a directory.
    pub(crate) fn start_in(data_dir: tempfile::TempDir) -> Self {
        let (child, Addresses { http, grpc, tcp }) = spawn(data_dir.path(), &[]);
        Self { child, address: http, grpc_address: grpc, tcp_address: tcp, data_dir }
    }

    /// Kills it without warning and starts another one on the same data.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let addresses;
        (self.child, addresses) = spawn(self.data_dir.path(), &[]);
        (self.address, self.grpc_address) = (addresses.http, addresses.grpc);
        self.tcp_address = addresses.tcp;
    }

    /// Kills the broker without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        crate::cli::process::terminate(&self.child);
    }

    /// Its exit code, when it has ended.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Where its files are.
    pub(crate) fn data_dir(&self) -> std::path::PathBuf {
        self.data_dir.path().join("data")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn frames(&self) -> Frames {
        Frames::connect(self.tcp_address)
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Addresses {
    http: SocketAddr,
    grpc: SocketAddr,
    tcp: SocketAddr,
}

fn spawn(data_dir: &std::path::Path, settings: &[(&str, &str)]) -> (Child, Addresses) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["serve", "--http-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0", "--data-dir"])
        .arg(data_dir.join("data"))
        .current_dir(data_dir)
        .envs(settings.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut listens = |what: &str| {
        lines
            .find_map(|line| line.unwrap().strip_prefix(what).map(|text| text.parse().unwrap()))
            .expect("the broker says where it listens")
    };
    let (grpc, tcp) = (listens("listening grpc "), listens("listening tcp "));
    let addresses = Addresses { http: listens("listening http "), grpc, tcp };
    // The rest is read too, so that a full pipe never stops the broker.
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(Client::connect(addresses.http).get("/readyz").status, 200);
    (child, addresses)
}
