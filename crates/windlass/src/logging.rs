//! Logs go to standard error: for people on a terminal, JSON lines otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::value::LogFormat;

pub(crate) fn start(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let terminal = std::io::stderr().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let base = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let pretty = match format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    // A second start (in tests) keeps the first logger, which is fine.
    let _ = if pretty {
        base.with_ansi(terminal && !plain).with_target(false).try_init()
    } else {
        base.json().flatten_event(true).try_init()
    };
}
