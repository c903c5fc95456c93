//! Starting each server on free ports, with files of its own, and the settings that are compared. Everything else is as the
//! server has it by default.

mod broker;
mod tools;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::process::{Process, Usage};
use crate::system::{Aof, Fsync, System};

pub(crate) use tools::Tools;

/// How long a server may take to answer for the first time.
const READY: Duration = Duration::from_secs(90);

/// A server that answers, until it is stopped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    /// The server first; then what it needs beside it.
    processes: Vec<Process>,
    data: PathBuf,
}

/// Where a server keeps its files, over restarts.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn make(tools: &Tools) -> Result<Place> {
        let dir = tempfile::Builder::new().prefix("peers-").tempdir_in(&tools.scratch);
        Ok(Place { dir: dir.context("make a directory for a server")? })
    }

    fn data(&self) -> Result<PathBuf> {
        let data = self.dir.path().join("data");
        fs::create_dir_all(&data).context("make a data directory")?;
        Ok(data)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }
}

impl Server {
    pub(crate) async fn start(system: System, tools: &Tools, place: &Place) -> Result<Server> {
        let data = place.data()?;
        let addr = free_addr()?;
        let mut processes = Vec::new();
        let command = match system {
            System::EchoTcp => tools.own(&["echo", &addr.to_string()]),
            System::EchoGrpc => tools.own(&["echo-grpc", &addr.to_string()]),
            System::EchoHttp => tools.windlass(&["bench", "echo", "--addr", &addr.to_string()], place.path()),
            System::Windlass { over, durability } => {
                broker::windlass(tools, over, durability, addr, place.path(), &data)?
            }
            System::Beanstalkd(fsync) => beanstalkd(fsync, addr, &data),
            System::RedisLists(aof)
            | System::RedisStreams(aof)
            | System::RedisPlain(aof)
            | System::Library(aof)
            | System::BullMq(aof)
            | System::Celery(aof)
            | System::Rq(aof) => redis(aof, addr, &data),
            System::Nats { always } => broker::nats(tools, always, addr, place.path(), &data)?,
            System::RabbitMq(_) => {
                let epmd = free_addr()?.port();
                let mut names = Command::new("epmd");
                names.args(["-port", &epmd.to_string(), "-address", "127.0.0.1"]);
                processes.push(Process::start("epmd", names, &place.path().join("epmd.log"))?);
                broker::rabbitmq(addr, epmd, place.path(), &data)?
            }
        };
        processes.insert(0, Process::start(system.name(), command, &place.log())?);
        let mut server = Server { addr, processes, data };
        match server.ready().await {
            Ok(()) => Ok(server),
            Err(error) => {
                let said = last_lines(&fs::read_to_string(place.log()).unwrap_or_default(), 12);
                server.stop().await.ok();
                Err(error.context(format!("{system} did not start:\n{said}")))
            }
        }
    }

    /// Waits until the port is open.
    async fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + READY;
        while TcpStream::connect(self.addr).await.is_err() {
            self.processes.iter_mut().try_for_each(Process::check)?;
            if Instant::now() > until {
                bail!("nothing listens at {} after {READY:?}", self.addr);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// What the server itself uses; what it needs beside it does next to nothing.
    pub(crate) fn usage(&self) -> Usage {
        self.processes.first().map_or_else(Usage::default, Process::usage)
    }

    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        crate::process::disk_bytes(&self.data)
    }

    pub(crate) async fn stop(self) -> Result<()> {
        for process in self.processes {
            process.stop().await?;
        }
        Ok(())
    }
}

fn beanstalkd(fsync: Fsync, addr: SocketAddr, data: &Path) -> Command {
    let mut command = Command::new("beanstalkd");
    command.args(["-l", &addr.ip().to_string(), "-p", &addr.port().to_string()]);
    match fsync {
        Fsync::Each => command.arg("-b").arg(data).arg("-f0"),
        Fsync::Every50Ms => command.arg("-b").arg(data).arg("-f50"),
        Fsync::NoLog => &mut command,
    };
    command
}

fn redis(aof: Aof, addr: SocketAddr, data: &Path) -> Command {
    let fsync = match aof {
        Aof::Always => "always",
        Aof::EverySecond => "everysec",
    };
    let mut command = Command::new("redis-server");
    command.args(["--bind", &addr.ip().to_string(), "--port", &addr.port().to_string()]);
    command.args(["--appendonly", "yes", "--appendfsync", fsync, "--save", ""]);
    command.arg("--dir").arg(data);
    command
}

/// A port that was free a moment ago.
fn free_addr() -> Result<SocketAddr> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.context("find a free port")
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_short() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }
}
