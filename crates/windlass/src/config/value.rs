//! Values as people write them: `30s`, `64MiB`, `interval:50ms`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_core::limits;
use windlass_store::{Durability, redis};

use crate::server::memory;

/// A value read from text; the error says what was expected.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, String>;
}

/// `500ms`, `30s`, `5m`, `2h`, `1d`, with fractions.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration like 500ms, 30s, 5m, 2h or 1d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    let length = number * seconds;
    if length * 1000.0 > limits::HORIZON_MS as f64 {
        return Err("expected at most ten years".into());
    }
    Duration::try_from_secs_f64(length).map_err(|_| expected())
}

impl FromText for Duration {
    fn from_text(text: &str) -> Result<Self, String> {
        duration(text).and_then(|length| {
            if length.is_zero() { Err("expected more than nothing".into()) } else { Ok(length) }
        })
    }
}

/// A lease, within its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease(pub(crate) Duration);

impl FromText for Lease {
    fn from_text(text: &str) -> Result<Self, String> {
        let length = duration(text)?;
        let range = Duration::from_millis(limits::LEASE_MS_MIN)..=Duration::from_millis(limits::LEASE_MS_MAX);
        if range.contains(&length) { Ok(Self(length)) } else { Err("expected between 1s and 1h".into()) }
    }
}

/// Less than the time in which a connection that takes nothing at all ends, so that a listener is told before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stall(pub(crate) Duration);

impl FromText for Stall {
    fn from_text(text: &str) -> Result<Self, String> {
        let length = duration(text)?;
        let range = Duration::from_millis(1)..=Duration::from_millis(limits::LISTENER_STALL_MS_MAX);
        if range.contains(&length) { Ok(Self(length)) } else { Err("expected at most 20s".into()) }
    }
}

/// `4096`, `64MiB`, `10MB`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Self, String> {
        let expected = || "expected a size like 4096, 10MB or 64MiB".to_owned();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim_start() {
            "" | "B" => 1,
            "KB" | "kB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(expected()),
        };
        let number: u64 = number.parse().map_err(|_| expected())?;
        number.checked_mul(factor).map(Self).ok_or_else(expected)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Count(pub(crate) u64);

impl FromText for Count {
    fn from_text(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number @ 1..) => Ok(Self(number)),
            _ => Err("expected a number from 1".into()),
        }
    }
}

/// A value or the word `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

impl<T: FromText> FromText for OrNone<T> {
    fn from_text(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        T::from_text(text).map(|value| Self(Some(value))).map_err(|expected| format!("{expected}, or none"))
    }
}

impl FromText for SocketAddr {
    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse().map_err(|_| "expected an address like 127.0.0.1:8080".into())
    }
}

impl FromText for PathBuf {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path".into()) } else { Ok(text.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Memory,
    Embedded,
    /// By this URL, which may hold a password.
    Redis(String),
}

impl FromText for StoreKind {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            "embedded" => Ok(Self::Embedded),
            _ if text.starts_with("redis") => match redis::Options::parse(text) {
                Ok(_) => Ok(Self::Redis(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            _ if text.contains("://") => {
                Err("this version has the stores embedded, memory and redis only".into())
            }
            _ => Err("expected embedded, memory or a URL like redis://localhost".into()),
        }
    }
}

impl FromText for Durability {
    fn from_text(text: &str) -> Result<Self, String> {
        let expected = || "expected sync, interval:50ms or os".to_owned();
        match text {
            "sync" => Ok(Durability::Sync),
            "os" => Ok(Durability::Os),
            _ => {
                let length = text.strip_prefix("interval:").ok_or_else(expected)?;
                let ms = duration(length)?.as_millis() as u64;
                if ms == 0 {
                    Err("expected an interval of at least 1ms".into())
                } else {
                    Ok(Durability::IntervalMs(ms))
                }
            }
        }
    }
}

/// A filter of the log; checked here so that a mistake is told with its place.
#[derive(Debug, Clone)]
pub(crate) struct Level(pub(crate) String);

impl FromText for Level {
    fn from_text(text: &str) -> Result<Self, String> {
        let expected = "expected error, warn, info, debug, trace or filters like info,windlass=debug";
        let words = ["off", "error", "warn", "info", "debug", "trace"];
        let known = |part: &str| words.contains(&part.rsplit('=').next().unwrap_or_default());
        let valid = text.split(',').all(known) && text.parse::<tracing_subscriber::EnvFilter>().is_ok();
        if valid { Ok(Self(text.into())) } else { Err(expected.into()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Auto,
    Pretty,
    Json,
}

impl FromText for LogFormat {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "pretty" => Ok(Self::Pretty),
            "json" => Ok(Self::Json),
            _ => Err("expected pretty, json or auto".into()),
        }
    }
}

/// The size of a payload, within what the store can take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadBytes(pub(crate) u64);

impl FromText for PayloadBytes {
    fn from_text(text: &str) -> Result<Self, String> {
        let Bytes(bytes) = Bytes::from_text(text)?;
        if (1..=limits::PAYLOAD_BYTES_CAP as u64).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err("expected at most 32MiB".into())
        }
    }
}

/// The memory budget: a size, or a part of what the process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryBudget {
    Auto,
    Bytes(u64),
}

impl MemoryBudget {
    /// A quarter: the store has its caches, and a body is in memory more than once while it is written.
    pub(crate) fn bytes(self) -> u64 {
        /// Where the system does not tell what there is.
        const ASSUMED: u64 = 1 << 30;
        match self {
            MemoryBudget::Auto => memory::limit_bytes().unwrap_or(ASSUMED) / 4,
            MemoryBudget::Bytes(bytes) => bytes,
        }
    }
}

impl FromText for MemoryBudget {
    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => Bytes::from_text(text)
                .map(|Bytes(bytes)| Self::Bytes(bytes))
                .map_err(|expected| format!("{expected}, or auto")),
        }
    }
}

/// The size of a log file. Each change begins a new file if it is too small, which is slow and wears the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentBytes(pub(crate) u64);

impl FromText for SegmentBytes {
    fn from_text(text: &str) -> Result<Self, String> {
        const MIN: u64 = 64 * 1024;
        match Bytes::from_text(text)? {
            Bytes(bytes) if bytes >= MIN => Ok(Self(bytes)),
            _ => Err("expected at least 64KiB".into()),
        }
    }
}

/// Where a collector takes spans: its address, or the whole path of its own for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: reqwest::Url,
}

impl FromText for Endpoint {
    fn from_text(text: &str) -> Result<Self, String> {
        const TRACES: &str = "/v1/traces";
        let expected = || "expected an address like http://127.0.0.1:4318".to_owned();
        let mut url: reqwest::Url = text.parse().map_err(|_| expected())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(expected());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(TRACES) {
            url.set_path(&format!("{path}{TRACES}"));
        }
        Ok(Self { url })
    }
}

/// Any text but none.
#[derive(Debug, Clone)]
pub(crate) struct Word(pub(crate) String);

impl FromText for Word {
    fn from_text(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() { Err("expected a name".into()) } else { Ok(Self(text.into())) }
    }
}
