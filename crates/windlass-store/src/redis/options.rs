//! Where the store is, as a URL:
//! `redis[s]://[user[:password]@]host[:port][/database][?prefix=word]`, or `redis+unix:///path[?db=n&prefix=word]`.

use redis::{Client, IntoConnectionInfo};

use super::replicas::{REPLICAS_MAX, WAIT_MS_DEFAULT, WAIT_MS_MAX, Wanted};
use crate::store::Error;

/// What keys begin with unless the URL says otherwise.
pub const PREFIX_DEFAULT: &str = "windlass";
const PREFIX_BYTES_MAX: usize = 64;
/// What the URL may say of the connection itself.
const KNOWN: [&str; 4] = ["db", "user", "pass", "protocol"];

#[derive(Debug, Clone)]
pub struct Options {
    pub(super) client: Client,
    pub(super) prefix: String,
    /// Replicas that answers wait for.
    pub(super) wanted: Option<Wanted>,
    /// Host and port or path, without secrets.
    pub(super) place: String,
}

/// Without secrets.
impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "redis at {}, prefix {}", self.place, self.prefix)
    }
}

impl Options {
    pub fn parse(url: &str) -> Result<Options, Error> {
        let wrong = |why: String| Error::Io { context: "the URL of the store".into(), error: why };
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let mut prefix = PREFIX_DEFAULT.to_owned();
        let mut kept = Vec::new();
        let (mut wait_replicas, mut wait_ms) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("prefix", word)) => prefix = word.to_owned(),
                Some(("wait_replicas", count)) => wait_replicas = Some(count),
                Some(("wait_ms", ms)) => wait_ms = Some(ms),
                Some((name, _)) if KNOWN.contains(&name) => kept.push(pair),
                _ => {
                    return Err(wrong(format!(
                        "{pair:?} is not an option; known are prefix, wait_replicas, wait_ms, {}",
                        KNOWN.join(", ")
                    )));
                }
            }
        }
        let wanted = wanted(wait_replicas, wait_ms).map_err(wrong)?;
        let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !prefix.bytes().all(letters) {
            return Err(wrong(format!("prefix must be 1 to {PREFIX_BYTES_MAX} of A-Z a-z 0-9 . _ : -")));
        }
        let url = if kept.is_empty() { address.to_owned() } else { format!("{address}?{}", kept.join("&")) };
        let info = url.as_str().into_connection_info().map_err(|error| wrong(error.to_string()))?;
        let place = info.addr().to_string();
        let client = Client::open(info).map_err(|error| wrong(error.to_string()))?;
        Ok(Options { client, prefix, wanted, place })
    }

    /// What every key begins with: a hash tag, so that all of them are in one slot of a cluster.
    pub(super) fn base(&self) -> String {
        format!("{{{}}}:", self.prefix)
    }
}

fn wanted(replicas: Option<&str>, wait_ms: Option<&str>) -> Result<Option<Wanted>, String> {
    let within = |name: &str, text: &str, most: u64| {
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("{name} must be 1 to {most}"))
    };
    let wait_ms = wait_ms.map(|text| within("wait_ms", text, WAIT_MS_MAX)).transpose()?;
    let Some(replicas) = replicas else {
        return if wait_ms.is_some() { Err("wait_ms needs wait_replicas".into()) } else { Ok(None) };
    };
    let replicas = within("wait_replicas", replicas, u64::from(REPLICAS_MAX))? as u32;
    Ok(Some(Wanted { replicas, wait_ms: wait_ms.unwrap_or(WAIT_MS_DEFAULT) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_place_and_prefix() {
        let options = Options::parse("redis://me:secret@localhost:7000/3?prefix=shop.eu").unwrap();
        assert_eq!(options.base(), "{shop.eu}:");
        assert_eq!(options.place, "localhost:7000");
        assert_eq!(Options::parse("redis://localhost").unwrap().base(), "{windlass}:");
        assert_eq!(Options::parse("rediss://localhost").unwrap().place, "localhost:6379");
        assert_eq!(Options::parse("redis+unix:///run/r.sock?db=2&prefix=x").unwrap().place, "/run/r.sock");
    }

    #[test]
    fn a_url_says_how_many_replicas_must_have_it() {
        let wanted = |query: &str| Options::parse(&format!("redis://localhost?{query}")).map(|it| it.wanted);
        assert_eq!(wanted("").unwrap(), None);
        assert_eq!(wanted("wait_replicas=2").unwrap(), Some(Wanted { replicas: 2, wait_ms: 1000 }));
        let both = wanted("wait_ms=50&wait_replicas=1").unwrap();
        assert_eq!(both, Some(Wanted { replicas: 1, wait_ms: 50 }));
        let wrong = ["wait_replicas=0", "wait_replicas=x", "wait_replicas=17", "wait_ms=9"];
        for query in wrong.into_iter().chain(["wait_replicas=1&wait_ms=5000"]) {
            assert!(wanted(query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let urls = ["http://localhost", "redis://localhost?prefix=", "redis://localhost?prefix=a{b}"];
        for url in urls.into_iter().chain(["redis://localhost?cluster=yes", "redis://localhost/x"]) {
            assert!(Options::parse(url).is_err(), "{url}");
        }
    }
}
