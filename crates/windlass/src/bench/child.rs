//! A server under test, as a process of its own.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::http::connection::Connection;
use super::http::request;
use super::machine::Usage;
use super::{Error, io};

/// How long a server may take to answer for the first time.
const READY: Duration = Duration::from_secs(30);

/// Ends with this handle.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) addr: SocketAddr,
    /// Where a broker takes frames; otherwise the same.
    pub(super) tcp_addr: SocketAddr,
    pid: u32,
    /// Killed when dropped.
    _process: tokio::process::Child,
}

impl Child {
    /// `windlass serve` with the usual settings, on a free port and its own data.
    pub(super) async fn broker(dir: &Path, durability: &str) -> Result<Child, Error> {
        Child::broker_with(dir, durability, "none").await
    }

    /// The same with gRPC at this address.
    pub(super) async fn broker_with(dir: &Path, durability: &str, grpc_addr: &str) -> Result<Child, Error> {
        let (addr, tcp_addr) = (free_addr()?, free_addr()?);
        let mut command = command(dir)?;
        command
            .arg("serve")
            .env("WINDLASS_SERVER__TCP_ADDR", tcp_addr.to_string())
            .env("WINDLASS_SERVER__HTTP_ADDR", addr.to_string())
            .env("WINDLASS_SERVER__GRPC_ADDR", grpc_addr)
            .env("WINDLASS_STORE__DATA_DIR", dir.join("data"))
            .env("WINDLASS_STORE__DURABILITY", durability)
            .env("WINDLASS_LOG", "warn");
        let ready = async || answers(addr, &request::get("/readyz")).await;
        let child = Child::start("windlass serve", command, addr, dir.join("serve.err"), ready).await?;
        Ok(Child { tcp_addr, ..child })
    }

    pub(super) async fn echo(dir: &Path) -> Result<Child, Error> {
        let addr = free_addr()?;
        let mut command = command(dir)?;
        command.args(["bench", "echo", "--addr", &addr.to_string()]);
        let ready = async || answers(addr, &request::post("/", b"{}")).await;
        Child::start("windlass bench echo", command, addr, dir.join("echo.err"), ready).await
    }

    /// The echo of `bench grpc`.
    pub(super) async fn grpc_echo(dir: &Path) -> Result<Child, Error> {
        let addr = free_addr()?;
        let mut command = command(dir)?;
        command.args(["bench", "grpc-echo", "--addr", &addr.to_string()]);
        let connects = async || tokio::net::TcpStream::connect(addr).await.is_ok();
        Child::start("windlass bench grpc-echo", command, addr, dir.join("echo.err"), connects).await
    }

    pub(super) async fn tcp_echo(dir: &Path) -> Result<Child, Error> {
        let addr = free_addr()?;
        let mut command = command(dir)?;
        command.args(["bench", "tcp-echo", "--addr", &addr.to_string()]);
        let ready = async || tokio::net::TcpStream::connect(addr).await.is_ok();
        Child::start("windlass bench tcp-echo", command, addr, dir.join("tcp-echo.err"), ready).await
    }

    async fn start(
        name: &'static str,
        mut command: Command,
        addr: SocketAddr,
        errors: PathBuf,
        is_ready: impl AsyncFn() -> bool,
    ) -> Result<Child, Error> {
        let file = File::create(&errors).map_err(io("make a file for the messages of a server"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).kill_on_drop(true);
        let mut process = command.spawn().map_err(io("start a server"))?;
        let pid = process.id().unwrap_or_default();
        let ready = async {
            loop {
                if matches!(process.try_wait(), Ok(Some(_))) {
                    return false;
                }
                if is_ready().await {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(READY, ready).await == Ok(true) {
            return Ok(Child { addr, tcp_addr: addr, pid, _process: process });
        }
        let output = std::fs::read_to_string(&errors).unwrap_or_default().trim().to_owned();
        Err(Error::NotReady { name, output })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage::of(self.pid)
    }
}

async fn answers(addr: SocketAddr, first: &[u8]) -> bool {
    let Ok(mut connection) = Connection::open(addr).await else { return false };
    connection.call(first).await.is_ok_and(|answer| answer.status == 200)
}

/// This binary, with no settings of the user's own.
fn command(dir: &Path) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe().map_err(io("find this program"))?);
    // No `windlass.toml` of the working directory.
    command.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WINDLASS_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// A port that was free a moment ago: the server must be told one, so that it need not be asked for it.
pub(super) fn free_addr() -> Result<SocketAddr, Error> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map_err(io("find a free port"))
}
