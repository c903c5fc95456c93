//! The programs that are needed, and what they say about themselves.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::system::System;

/// Debian's own wrapper would change the user.
pub(super) const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const RABBITMQ_LIB: &str = "/usr/lib/rabbitmq/lib";

#[derive(Debug, Clone)]
pub(crate) struct Tools {
    pub(crate) windlass: PathBuf,
    /// The folder of this program's sources, with the scripts and what was installed for them.
    pub(crate) home: PathBuf,
    /// Where the servers keep their files: the disk that is measured.
    pub(crate) scratch: PathBuf,
}

impl Tools {
    /// This program again, as a server.
    pub(super) fn own(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments);
        command
    }

    /// The broker, with no settings of the user's own.
    pub(super) fn windlass(&self, arguments: &[&str], dir: &Path) -> Command {
        let mut command = Command::new(&self.windlass);
        // No `windlass.toml` of the working directory.
        command.args(arguments).current_dir(dir);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("WINDLASS_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// The one from PyPI if it is there: Debian's may be too old to sync always.
    pub(super) fn nats(&self) -> PathBuf {
        let own = self.venv("nats-server");
        if own.exists() { own } else { PathBuf::from("nats-server") }
    }

    /// A program of the Python environment.
    pub(crate) fn venv(&self, program: &str) -> PathBuf {
        self.home.join("venv/bin").join(program)
    }

    /// What is measured, in its own words, or why it cannot be.
    pub(crate) async fn version(&self, system: System) -> Result<String> {
        match system {
            System::EchoTcp => Ok("tokio".to_owned()),
            System::EchoGrpc => Ok("tonic".to_owned()),
            System::EchoHttp | System::Windlass { .. } => {
                said(Command::new(&self.windlass).arg("--version"), "windlass").await
            }
            System::Beanstalkd(_) => said(Command::new("beanstalkd").arg("-v"), "beanstalkd").await,
            System::RedisLists(_) | System::RedisStreams(_) | System::RedisPlain(_) => redis().await,
            System::Library(_) => Ok(format!("{}, Redis {}", env!("CARGO_PKG_VERSION"), redis().await?)),
            System::Nats { always } => {
                let version = said(Command::new(self.nats()).arg("--version"), "nats-server:").await?;
                if always && version.trim_start_matches('v').starts_with("2.9") {
                    bail!("nats-server {version} cannot sync always");
                }
                Ok(version)
            }
            System::RabbitMq(_) => rabbitmq(),
            System::BullMq(_) => {
                let package = self.home.join("bullmq/node_modules/bullmq/package.json");
                let text = std::fs::read(&package).context("bullmq is not installed")?;
                let package: serde_json::Value = serde_json::from_slice(&text)?;
                let version = package["version"].as_str().unwrap_or("?").to_owned();
                let node = said(Command::new("node").arg("--version"), "node").await?;
                Ok(format!("{version} on Node.js {node}, Redis {}", redis().await?))
            }
            System::Celery(_) => self.python("celery").await,
            System::Rq(_) => self.python("rq").await,
        }
    }

    async fn python(&self, package: &str) -> Result<String> {
        let code = format!(
            "import platform, importlib.metadata as m; print(m.version('{package}'), 'on Python', platform.python_version())"
        );
        let version = said(Command::new(self.venv("python")).args(["-c", &code]), "").await?;
        Ok(format!("{version}, Redis {}", redis().await?))
    }
}

async fn redis() -> Result<String> {
    let line = said(Command::new("redis-server").arg("--version"), "Redis server").await?;
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version.map(str::to_owned).with_context(|| format!("redis-server says `{line}`"))
}

/// Asking RabbitMQ itself takes seconds; its folder carries its version.
fn rabbitmq() -> Result<String> {
    let entries = std::fs::read_dir(RABBITMQ_LIB).context("rabbitmq-server is not installed")?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let version = names.into_iter().find_map(|name| name.strip_prefix("rabbitmq_server-").map(str::to_owned));
    version.context("rabbitmq-server has no version")
}

/// The first line of what a program prints, without its name.
async fn said(command: &mut Command, name: &str) -> Result<String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().await;
    let output = output.with_context(|| format!("{program} is not installed"))?;
    if !output.status.success() {
        bail!("{program} does not run: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    Ok(line.strip_prefix(name).unwrap_or(line).trim().to_owned())
}
