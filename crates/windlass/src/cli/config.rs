//! `windlass config …`.

use std::path::PathBuf;

use serde_json::json;

use super::error::Failure;
use super::output::{Output, table};
use crate::config::keys;
use crate::config::{Resolved, Settings, Sources};

#[derive(Debug, clap::Subcommand)]
#[command(before_help = "Examples:
  windlass config show
  windlass config check --config /etc/windlass.toml")]
pub(crate) enum Command {
    /// Show every setting and where it comes from
    Show(Args),
    /// Check the settings and say what is wrong
    Check(Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to read, TOML or YAML, instead of ./windlass.toml
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) fn run(command: Command, output: &Output) -> Result<(), Failure> {
    let (Command::Show(args) | Command::Check(args)) = &command;
    let resolved = Resolved::load(Sources::from_process(args.config.clone())).map_err(Failure::from)?;
    let settings = Settings::read(&resolved).map_err(Failure::from);
    match command {
        Command::Check(_) => {
            settings?;
            output.value(&json!({ "ok": true }), || "the settings are fine".into());
        }
        Command::Show(_) => {
            show(&resolved, output);
            settings?;
        }
    }
    Ok(())
}

fn show(resolved: &Resolved, output: &Output) {
    let entry = |(key, value): (&'static keys::Key, &crate::config::Value)| {
        json!({ "key": key.name, "value": crate::config::without_secrets(&value.text), "origin": value.origin.to_string(),
            "env": keys::env_name(key.name), "about": key.about })
    };
    let all: Vec<_> = resolved.entries().map(entry).collect();
    output.value(&all, || {
        let rows = resolved.entries();
        let row = |(key, value): (&'static keys::Key, &crate::config::Value)| {
            vec![key.name.into(), crate::config::without_secrets(&value.text), value.origin.to_string()]
        };
        table(&["KEY", "VALUE", "FROM"], rows.map(row).collect())
    });
}

impl From<crate::config::Mistakes> for Failure {
    fn from(mistakes: crate::config::Mistakes) -> Self {
        Failure::usage(mistakes.to_string())
    }
}
