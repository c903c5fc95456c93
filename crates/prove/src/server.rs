//! The program under test as a process: started on a free port, always stopped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::http::Http;
use crate::proof::{Run, Trouble};

/// Far beyond any start or stop on a machine that is merely slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// How brokers of one proof are started.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    binary: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// Where it runs and leaves what it says.
    home: PathBuf,
    settings: Vec<(String, String)>,
    /// A program that runs the broker, with its arguments.
    wrapper: Vec<OsString>,
}

impl Setup {
    /// A broker with small segments, so that short runs also go through rolling and checkpoints.
    pub(crate) fn new(run: &Run, home: &Path) -> Self {
        let setup = Self {
            binary: run.binary.clone(),
            data_dir: home.join("data"),
            home: home.to_owned(),
            settings: Vec::new(),
            wrapper: Vec::new(),
        };
        setup
            .set("store.segment_bytes", "1MiB")
            .set("store.disk_reserve_bytes", "10MiB")
            .set("log.level", "warn")
    }

    /// `key` as in the configuration file.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        let name = format!("WINDLASS_{}", key.replacen('.', "__", 1).to_ascii_uppercase());
        self.settings.retain(|(known, _)| *known != name);
        self.settings.push((name, value.to_owned()));
        self
    }

    pub(crate) fn wrapped(mut self, wrapper: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    pub(crate) async fn start(&self) -> Result<Server, Trouble> {
        let mut server = self.spawn()?;
        match tokio::time::timeout(PATIENCE, server.become_ready()).await {
            Ok(true) => Ok(server),
            Ok(false) => Err(Trouble::failed(format!("the broker did not start: {}", self.last_words()))),
            Err(_) => {
                Err(Trouble::failed(format!("the broker was not ready in time: {}", self.last_words())))
            }
        }
    }

    /// Without waiting until it serves, which it may never do.
    pub(crate) fn spawn(&self) -> Result<Server, Trouble> {
        let says = File::options().create(true).append(true).open(self.home.join("stderr"))?;
        let mut words = self.wrapper.clone();
        words.push(self.binary.clone().into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["serve", "--http-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0", "--data-dir"])
            .arg(&self.data_dir)
            .envs(self.settings.iter().map(|(key, value)| (key, value)))
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(says)
            // Of its own, so that it can be ended with all that it started.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Server { child, group, address: None, grpc: None, frames: None })
    }

    /// The end of what the broker wrote about its troubles.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read_to_string(self.home.join("stderr")).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.reverse();
        lines.join(" | ")
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Option<Pid>,
    address: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    frames: Option<SocketAddr>,
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("a server is handed out when it is ready")
    }

    /// Where its gRPC interface is, if it has one.
    pub(crate) fn grpc(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// Where its TCP frames are, if it has them.
    pub(crate) fn frames(&self) -> Option<SocketAddr> {
        self.frames
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(self.address())
    }

    /// Waits until it serves; `false` if it ended before.
    pub(crate) async fn become_ready(&mut self) -> bool {
        let Some(stdout) = self.child.stdout.take() else { return false };
        let mut lines = BufReader::new(stdout).lines();
        let address = loop {
            match lines.next_line().await {
                Ok(Some(line)) => {
                    let at = |prefix| line.strip_prefix(prefix).and_then(|text| text.trim().parse().ok());
                    self.grpc = self.grpc.or_else(|| at("listening grpc "));
                    self.frames = self.frames.or_else(|| at("listening tcp "));
                    if let Some(address) = at("listening http ") {
                        break address;
                    }
                }
                _ => return false,
            }
        };
        // What it says later must not block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let mut http = Http::new(address);
        loop {
            if matches!(http.get("/readyz").await, Ok(answer) if answer.status == 200) {
                self.address = Some(address);
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            // sleep: readiness is only told when asked for.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// SIGKILL, for real: no handler runs, nothing is flushed.
    pub(crate) async fn kill(mut self) -> Result<ExitStatus, Trouble> {
        self.signal(Signal::KILL)?;
        Ok(self.child.wait().await?)
    }

    /// The same, where another one will take its place.
    pub(crate) async fn kill_now(&mut self) -> Result<(), Trouble> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    pub(crate) async fn terminate(mut self) -> Result<ExitStatus, Trouble> {
        self.signal(Signal::TERM)?;
        self.wait().await
    }

    /// Until it ends by itself.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, Trouble> {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => Err(Trouble::failed(format!("the broker still ran after {} s", PATIENCE.as_secs()))),
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        let group = self.group.ok_or_else(|| Trouble::failed("the broker has no process id"))?;
        Ok(kill_process_group(group, signal).map_err(std::io::Error::from)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that was waited for is gone, and its number may belong to another.
        if self.is_running() {
            let _ = self.signal(Signal::KILL);
        }
    }
}
