//! Arguments that several commands share.

use std::time::Duration;

use windlass_client::rest::Client;
use windlass_core::Name;
use windlass_core::limits::PAGE_ROWS_MAX;

use super::error::Failure;

/// Which broker to talk to.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Connect {
    /// Address of the broker
    #[arg(
        long,
        value_name = "URL",
        env = "WINDLASS_SERVER",
        default_value = "http://127.0.0.1:8080",
        hide_env_values = true
    )]
    pub(crate) server: String,
}

/// A list in order of name.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Names {
    /// How many
    #[arg(long, short = 'n', default_value_t = PAGE_ROWS_MAX)]
    pub(crate) limit: usize,
    /// Continue where the last list ended
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

impl Connect {
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Client::new(&self.server).map_err(Failure::from)
    }
}

/// One thing, by its id.
#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[arg(value_parser = name)]
    pub(crate) id: Name,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// A page of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListPage {
    /// How many
    #[arg(long, short = 'n', default_value_t = 50)]
    pub(crate) limit: usize,
    /// Continue where the last list ended
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// Which tasks.
// No short options here: beside words of a filter, `-timeout` would be read as `-t imeout`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Which {
    /// Only those that match, like 'state:dead_letter error:timeout since:2h'
    #[arg(long = "filter", value_name = "FILTER")]
    pub(crate) words: Vec<String>,
    /// Only of this queue
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) queue: Option<Name>,
    /// Only of this type
    #[arg(long = "type", value_name = "NAME", value_parser = name)]
    pub(crate) kind: Option<Name>,
    /// Only with this text in the id, the type or the error
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

impl Which {
    pub(crate) fn filter(self) -> windlass_client::rest::Filter {
        windlass_client::rest::Filter {
            queue: self.queue,
            kind: self.kind,
            text: self.text,
            filter: (!self.words.is_empty()).then(|| self.words.join(" ")),
            ..Default::default()
        }
    }
}

/// How to go about an act on many tasks.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Bulk {
    /// Only say how many tasks it would affect
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

impl Bulk {
    /// Whether to go on. Nobody there to ask and no `--yes` is a mistake of the caller.
    pub(crate) fn agreed(self, output: &super::output::Output, what: &str) -> Result<bool, Failure> {
        if self.dry_run {
            output.note(&format!("would {what}"));
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !output.can_ask() {
            return Err(Failure::usage(format!("would {what}; say --yes to do it")));
        }
        Ok(output.ask(&format!("{what}?")))
    }
}

pub(crate) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

pub(crate) fn task_id(text: &str) -> Result<windlass_core::TaskId, String> {
    windlass_core::TaskId::new(text).map_err(|error| error.to_string())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    crate::config::value::duration(text)
}
