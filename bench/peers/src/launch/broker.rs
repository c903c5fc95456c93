//! Servers that need more than a few arguments.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::{Tools, free_addr, tools};
use crate::system::{Durability, Transport};

pub(super) fn windlass(
    tools: &Tools,
    over: Transport,
    durability: Durability,
    addr: SocketAddr,
    place: &Path,
    data: &Path,
) -> Result<Command> {
    let mut command = tools.windlass(&["serve"], place);
    let word = match durability {
        Durability::Sync => "sync",
        Durability::Interval => "interval:50ms",
    };
    command.env("WINDLASS_STORE__DATA_DIR", data).env("WINDLASS_STORE__DURABILITY", word);
    command.env("WINDLASS_LOG", "warn");
    match over {
        Transport::Rest => command.env("WINDLASS_SERVER__HTTP_ADDR", addr.to_string()),
        Transport::Grpc => command
            .env("WINDLASS_SERVER__HTTP_ADDR", free_addr()?.to_string())
            .env("WINDLASS_SERVER__GRPC_ADDR", addr.to_string()),
        Transport::Frames => command
            .env("WINDLASS_SERVER__HTTP_ADDR", free_addr()?.to_string())
            .env("WINDLASS_SERVER__TCP_ADDR", addr.to_string()),
    };
    Ok(command)
}

pub(super) fn nats(
    tools: &Tools,
    always: bool,
    addr: SocketAddr,
    place: &Path,
    data: &Path,
) -> Result<Command> {
    let sync = if always { "sync_interval: always" } else { "" };
    let config = format!(
        "listen: \"{addr}\"\nserver_name: bench\njetstream {{\n  store_dir: {:?}\n  {sync}\n}}\n",
        data.display().to_string()
    );
    let file = place.join("nats.conf");
    fs::write(&file, config).context("write the settings of NATS")?;
    let mut command = Command::new(tools.nats());
    command.arg("--config").arg(file);
    Ok(command)
}

/// A node of its own, with its own cookie, name server and files, as the user who runs this.
pub(super) fn rabbitmq(addr: SocketAddr, epmd: u16, place: &Path, data: &Path) -> Result<Command> {
    let config = place.join("rabbitmq.conf");
    let listen = format!("listeners.tcp.1 = {addr}\nlog.console = true\nlog.console.level = warning\n");
    fs::write(&config, listen).context("write the settings of RabbitMQ")?;
    let plugins = place.join("enabled_plugins");
    fs::write(&plugins, "[].\n").context("write the plugins of RabbitMQ")?;
    let mut command = Command::new(tools::RABBITMQ);
    command
        .env("HOME", place)
        .env("ERL_EPMD_PORT", epmd.to_string())
        .env("RABBITMQ_NODENAME", "bench@localhost")
        .env("RABBITMQ_DIST_PORT", free_addr()?.port().to_string())
        .env("RABBITMQ_MNESIA_BASE", data)
        .env("RABBITMQ_LOG_BASE", place.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_CONFIG_FILE", &config)
        .env("RABBITMQ_CONF_ENV_FILE", place.join("none.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", &plugins)
        .env("RABBITMQ_PID_FILE", place.join("rabbitmq.pid"));
    Ok(command)
}
