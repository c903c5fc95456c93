//! The real binary, started for one test and killed at its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::http::Client;

#[derive(Debug)]
pub(crate) struct BrokerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
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
        let (child, address) = spawn(data_dir.path(), settings);
        Self { child, address, data_dir }
    }

    /// Kills it without warning and starts another one on the same data.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.address) = spawn(self.data_dir.path(), &[]);
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

fn spawn(data_dir: &std::path::Path, settings: &[(&str, &str)]) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["serve", "--http-addr", "127.0.0.1:0", "--data-dir"])
        .arg(data_dir.join("data"))
        .current_dir(data_dir)
        .envs(settings.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .find_map(|line| line.unwrap().strip_prefix("listening http ").map(|text| text.parse().unwrap()))
        .expect("the broker says where it listens");
    // The rest is read too, so that a full pipe never stops the broker.
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(Client::connect(address).get("/readyz").status, 200);
    (child, address)
}
