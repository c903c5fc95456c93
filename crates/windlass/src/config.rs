//! Settings: flags over environment over file over defaults, each value with the place it came from.
//!
//! Every setting is a line of [`keys::KEYS`]. All layers speak text, so a value means the same wherever it is written, and a
//! mistake is reported with its place. Nothing is guessed: an unknown key is an error that names the nearest known one.

pub(crate) mod keys;
mod layers;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_store::Durability;
use windlass_store::embedded::reserve_bytes_min;

use crate::api::{Origins, body_bytes_max};
use value::FromText;

/// What the settings are made of before they are typed.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The file named by a flag; otherwise `windlass.toml` or `windlass.yaml` in the working directory, if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) env: Vec<(String, String)>,
    /// Key, value, and the flag that said so.
    pub(crate) flags: Vec<(&'static str, String, &'static str)>,
    /// A command's own defaults, over those of the table.
    pub(crate) defaults: Vec<(&'static str, String)>,
}

impl Sources {
    pub(crate) fn from_process(file: Option<PathBuf>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        let env = std::env::vars_os().filter_map(text).collect();
        Self { file, env, ..Self::default() }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Env(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Every key with its value, in the order of the table.
#[derive(Debug)]
pub(crate) struct Resolved {
    values: BTreeMap<&'static str, Value>,
}

/// All mistakes at once, each a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mistakes(pub(crate) Vec<String>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Resolved {
    pub(crate) fn load(sources: Sources) -> Result<Resolved, Mistakes> {
        layers::merge(sources).map(|values| Resolved { values })
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static keys::Key, &Value)> {
        keys::KEYS.iter().map(|key| (key, &self.values[key.name]))
    }

    /// Whether nobody said anything about this key.
    pub(crate) fn is_default(&self, name: &str) -> bool {
        self.values[name].origin == Origin::Default
    }

    fn take<T: FromText>(&self, name: &str, mistakes: &mut Mistakes) -> Option<T> {
        let Value { text, .. } = &self.values[name];
        match T::from_text(text) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.refuse(name, &expected, mistakes);
                None
            }
        }
    }

    fn refuse(&self, name: &str, expected: &str, mistakes: &mut Mistakes) {
        let Value { text, origin } = &self.values[name];
        let text = crate::cli::output::escape(&without_secrets(text));
        mistakes.0.push(format!("{origin}: {name} = \"{text}\": {expected}"));
    }

    /// Refuses a reserve that is too small for a checkpoint, because running out of room in one stops the broker.
    fn check_reserve(&self, reserve: Option<u64>, segment: Option<u64>, mistakes: &mut Mistakes) {
        let (Some(reserve), Some(segment)) = (reserve, segment) else { return };
        let least = reserve_bytes_min(segment);
        if reserve < least {
            let why = "two files of the log (store.segment_bytes) and 8MiB, which a checkpoint needs";
            // Rounded up, so that the named value is accepted.
            let mib = least.div_ceil(1 << 20);
            self.refuse("store.disk_reserve_bytes", &format!("expected at least {mib}MiB: {why}"), mistakes);
        }
    }

    /// Refuses a budget that has no room for the largest body: connections may take one half of it, and an eighth is kept for small
    /// bodies.
    fn memory_budget(
        &self,
        budget: Option<value::MemoryBudget>,
        payload: Option<&value::PayloadBytes>,
        mistakes: &mut Mistakes,
    ) -> Option<u64> {
        let (budget, payload) = (budget?, payload?);
        let least = 3 * body_bytes_max(payload.0 as usize) as u64;
        match budget {
            value::MemoryBudget::Auto => Some(budget.bytes().max(least)),
            value::MemoryBudget::Bytes(bytes) if bytes >= least => Some(bytes),
            value::MemoryBudget::Bytes(_) => {
                let why = "three times the largest body, which server.max_payload_bytes bounds";
                let mib = least.div_ceil(1 << 20);
                let expected = format!("expected at least {mib}MiB: {why}");
                self.refuse("server.memory_budget_bytes", &expected, mistakes);
                None
            }
        }
    }
}

/// A URL as it may be shown: what stands before the host is not for everybody's eyes.
pub(crate) fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let address = address.rsplit_once('@').map_or(address.to_owned(), |(_, host)| format!("***@{host}"));
    let hidden = |pair: &str| match pair.split_once('=') {
        Some((name @ ("pass" | "sentinel_pass"), _)) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(hidden).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{scheme}://{address}{query}")
}

/// The settings as the program uses them.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) http_addr: SocketAddr,
    pub(crate) grpc_addr: Option<SocketAddr>,
    pub(crate) tcp_addr: Option<SocketAddr>,
    pub(crate) max_payload_bytes: u64,
    pub(crate) connections_max: u64,
    pub(crate) memory_budget_bytes: u64,
    pub(crate) listeners_max: u64,
    pub(crate) listener_stall: Duration,
    pub(crate) allowed_origins: Origins,
    pub(crate) drain: Duration,
    pub(crate) store: value::StoreKind,
    pub(crate) data_dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) disk_reserve_bytes: u64,
    pub(crate) dead_letters_max: Option<u64>,
    pub(crate) max_depth: Option<u64>,
    pub(crate) lease: Duration,
    pub(crate) dead_after: Duration,
    pub(crate) traces: Option<crate::traces::Settings>,
    pub(crate) log_level: String,
    pub(crate) log_format: value::LogFormat,
}

impl Settings {
    pub(crate) fn read(resolved: &Resolved) -> Result<Settings, Mistakes> {
        let mut wrong = Mistakes::default();
        let settings = Self::take_all(resolved, &mut wrong);
        match settings {
            Some(settings) if wrong.0.is_empty() => Ok(settings),
            _ => Err(wrong),
        }
    }

    /// An address to listen on that others can reach, if there is one.
    pub(crate) fn open_address(&self) -> Option<SocketAddr> {
        [Some(self.http_addr), self.grpc_addr, self.tcp_addr]
            .into_iter()
            .flatten()
            .find(|address| !address.ip().is_loopback())
    }

    fn take_all(from: &Resolved, wrong: &mut Mistakes) -> Option<Settings> {
        // Every key is read before the first `?`, so that all mistakes are told at once.
        let http_addr = from.take("server.http_addr", wrong);
        let grpc_addr = from.take::<value::OrNone<SocketAddr>>("server.grpc_addr", wrong);
        let tcp_addr = from.take::<value::OrNone<SocketAddr>>("server.tcp_addr", wrong);
        let max_payload_bytes = from.take::<value::PayloadBytes>("server.max_payload_bytes", wrong);
        let connections_max = from.take::<value::Count>("server.connections_max", wrong);
        let memory_budget = from.take::<value::MemoryBudget>("server.memory_budget_bytes", wrong);
        let memory_budget_bytes = from.memory_budget(memory_budget, max_payload_bytes.as_ref(), wrong);
        let listeners_max = from.take::<value::Count>("server.listeners_max", wrong);
        let listener_stall = from.take::<value::Stall>("server.listener_stall", wrong);
        let allowed_origins = from.take::<value::OrNone<Origins>>("server.allowed_origins", wrong);
        let drain = from.take("server.drain", wrong);
        let store = from.take("store.url", wrong);
        let data_dir = from.take("store.data_dir", wrong);
        let durability = from.take("store.durability", wrong);
        let segment_bytes = from.take::<value::SegmentBytes>("store.segment_bytes", wrong);
        let disk_reserve_bytes = from.take::<value::Bytes>("store.disk_reserve_bytes", wrong);
        let (reserve, segment) = (disk_reserve_bytes.as_ref(), segment_bytes.as_ref());
        if store == Some(value::StoreKind::Embedded) {
            from.check_reserve(reserve.map(|it| it.0), segment.map(|it| it.0), wrong);
        }
        let dead_letters_max = from.take::<value::OrNone<value::Count>>("store.dead_letters_max", wrong);
        let max_depth = from.take::<value::OrNone<value::Count>>("queue.max_depth", wrong);
        let lease = from.take::<value::Lease>("queue.lease", wrong);
        let dead_after = from.take("worker.dead_after", wrong);
        let trace_endpoint = from.take::<value::OrNone<value::Endpoint>>("traces.endpoint", wrong);
        let trace_service = from.take::<value::Word>("traces.service_name", wrong);
        let log_level = from.take::<value::Level>("log.level", wrong);
        let log_format = from.take("log.format", wrong);
        Some(Settings {
            http_addr: http_addr?,
            grpc_addr: grpc_addr?.0,
            tcp_addr: tcp_addr?.0,
            max_payload_bytes: max_payload_bytes?.0,
            connections_max: connections_max?.0,
            memory_budget_bytes: memory_budget_bytes?,
            listeners_max: listeners_max?.0,
            listener_stall: listener_stall?.0,
            allowed_origins: allowed_origins?.0.unwrap_or_default(),
            drain: drain?,
            store: store?,
            data_dir: data_dir?,
            durability: durability?,
            segment_bytes: segment_bytes?.0,
            disk_reserve_bytes: disk_reserve_bytes?.0,
            dead_letters_max: dead_letters_max?.0.map(|count| count.0),
            max_depth: max_depth?.0.map(|count| count.0),
            lease: lease?.0,
            dead_after: dead_after?,
            traces: traces(trace_endpoint?.0, trace_service?.0),
            log_level: log_level?.0,
            log_format: log_format?,
        })
    }
}

fn traces(endpoint: Option<value::Endpoint>, service: String) -> Option<crate::traces::Settings> {
    endpoint.map(|endpoint| crate::traces::Settings { endpoint, service })
}
