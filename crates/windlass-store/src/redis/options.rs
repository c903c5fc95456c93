//! Where the store is, as a URL. `s` behind `redis` means TLS:
//! - `redis[s]://[user[:password]@]host[:port][/database]` and `redis+unix:///path[?db=n]`: one server,
//! - `redis[s]+sentinel://[user[:password]@]sentinel[:port][,…]/service[/database]`: the primary that sentinels name,
//! - `redis[s]+cluster://[user[:password]@]node[:port][,…]`: a cluster, of which some nodes are named.
//!
//! Options follow behind a question mark: see [`Words`].

use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ClientTlsConfig, ConnectionInfo, IntoConnectionInfo, TlsCertificates, TlsMode};

use super::link::ANSWER_WAIT;
use super::replicas::{REPLICAS_MAX, WAIT_MS_DEFAULT, WAIT_MS_MAX, Wanted};
use super::spread::SHARDS_MAX;
use super::target::Target;
use crate::store::Error;

/// What keys begin with unless the URL says otherwise.
pub const PREFIX_DEFAULT: &str = "windlass";
const PREFIX_BYTES_MAX: usize = 64;
/// The usual port of a sentinel.
const SENTINEL_PORT: u16 = 26379;
/// How often the client of a cluster follows a slot that moved before the caller decides what to do.
const REDIRECTS_MAX: u32 = 4;

#[derive(Debug, Clone)]
pub struct Options {
    pub(super) target: Target,
    pub(super) prefix: String,
    /// Replicas that answers wait for.
    pub(super) wanted: Option<Wanted>,
    /// Over how many slots of a cluster it is spread; `None` for as many as it was made with.
    pub(super) shards: Option<usize>,
    /// How long what a name was put down for may be on its way, in a store that is spread; for tests.
    pub(super) fence: Option<std::time::Duration>,
    /// How often names that were forgotten are looked for, in a store that is spread; for tests.
    pub(super) swept: Option<std::time::Duration>,
    /// How often those who wait look without a hint, on one server; for tests.
    pub(super) looks: Option<std::time::Duration>,
    /// Whether to open also the destination of a migration that did not finish.
    pub(super) unfinished: bool,
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
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let words = Words::read(query)?;
        let prefix = words.prefix.clone().unwrap_or(PREFIX_DEFAULT.to_owned());
        let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || !prefix.bytes().all(letters) {
            return Err(wrong(format!("prefix must be 1 to {PREFIX_BYTES_MAX} of A-Z a-z 0-9 . _ : -")));
        }
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        if scheme.starts_with("rediss") {
            // The library would look for a default that nobody has chosen.
            let _ = rustls::crypto::ring::default_provider().install_default();
        } else if words.tls().is_some() {
            return Err(wrong("ca, cert and key need rediss".into()));
        }
        let (target, place) = match scheme {
            "redis+sentinel" | "rediss+sentinel" => words.sentinel(scheme, rest)?,
            "redis+cluster" | "rediss+cluster" => words.cluster(scheme, rest)?,
            _ => words.server(address)?,
        };
        let shards = words.shards()?;
        if shards.is_some() && !target.is_cluster() {
            return Err(wrong("shards is for redis+cluster".into()));
        }
        let wanted = wanted(words.wait_replicas.as_deref(), words.wait_ms.as_deref()).map_err(wrong)?;
        Ok(Options {
            target,
            prefix,
            wanted,
            shards,
            fence: None,
            swept: None,
            looks: None,
            unfinished: false,
            place,
        })
    }

    /// A store that is spread refuses what comes this long after its name was put down. Tests do not wait as long as others do.
    #[doc(hidden)]
    pub fn fenced(mut self, fence: std::time::Duration) -> Options {
        self.fence = Some(fence);
        self
    }

    /// A store that is spread looks for names that were forgotten this often. Tests do not wait as long as others do.
    #[doc(hidden)]
    pub fn swept_every(mut self, every: std::time::Duration) -> Options {
        self.swept = Some(every);
        self
    }

    /// Who waits looks this often although nobody told it to. Tests see by it that they are told.
    #[doc(hidden)]
    pub fn looking_every(mut self, every: std::time::Duration) -> Options {
        self.looks = Some(every);
        self
    }

    /// Allows opening the destination of a migration that did not finish, to finish it.
    pub fn also_unfinished(mut self) -> Options {
        self.unfinished = true;
        self
    }

    /// What every key begins with: a hash tag, so that all of them are in one slot of a cluster. One that is spread has others
    /// for its parts.
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

fn wrong(why: String) -> Error {
    Error::Io { context: "the URL of the store".into(), error: why }
}

fn refused(error: redis::RedisError) -> Error {
    wrong(error.to_string())
}

/// What stands behind the question mark.
#[derive(Debug, Default)]
struct Words {
    prefix: Option<String>,
    /// What the library reads itself: `db`, `user`, `pass`, `protocol`.
    kept: Vec<String>,
    /// Files in PEM: who signed the certificate of the server; the certificate and the key to show to it.
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    /// What the sentinels themselves ask for.
    sentinel_user: Option<String>,
    sentinel_pass: Option<String>,
    shards: Option<String>,
    wait_replicas: Option<String>,
    wait_ms: Option<String>,
}

impl Words {
    fn read(query: &str) -> Result<Words, Error> {
        let mut words = Words::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = Some(value.to_owned());
            match name {
                "prefix" => words.prefix = value,
                "ca" => words.ca = value,
                "cert" => words.cert = value,
                "key" => words.key = value,
                "sentinel_user" => words.sentinel_user = value,
                "sentinel_pass" => words.sentinel_pass = value,
                "shards" => words.shards = value,
                "wait_replicas" => words.wait_replicas = value,
                "wait_ms" => words.wait_ms = value,
                "db" | "user" | "pass" | "protocol" => words.kept.push(pair.to_owned()),
                _ => {
                    let known = "prefix, wait_replicas, wait_ms, shards, ca, cert, key, sentinel_user, sentinel_pass, db, user, pass, protocol";
                    return Err(wrong(format!("{name:?} is not an option; known are {known}")));
                }
            }
        }
        Ok(words)
    }

    fn shards(&self) -> Result<Option<usize>, Error> {
        let Some(text) = &self.shards else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (1..=SHARDS_MAX).contains(number));
        number.map(Some).ok_or_else(|| wrong(format!("shards must be a number from 1 to {SHARDS_MAX}")))
    }

    fn tls(&self) -> Option<()> {
        (self.ca.is_some() || self.cert.is_some() || self.key.is_some()).then_some(())
    }

    /// The certificates, if any are named.
    fn certificates(&self) -> Result<Option<TlsCertificates>, Error> {
        let read = |path: &String| {
            std::fs::read(path).map_err(|error| wrong(format!("cannot read {path}: {error}")))
        };
        if self.tls().is_none() {
            return Ok(None);
        }
        let client_tls = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
            }
            (None, None) => None,
            _ => return Err(wrong("cert and key belong together".into())),
        };
        Ok(Some(TlsCertificates { client_tls, root_cert: self.ca.as_ref().map(read).transpose()? }))
    }

    fn server(&self, address: &str) -> Result<(Target, String), Error> {
        let info = self.info(address)?;
        let place = info.addr().to_string();
        Ok((Target::Server(Box::new(self.client(info)?)), place))
    }

    fn cluster(&self, scheme: &str, rest: &str) -> Result<(Target, String), Error> {
        let (hosts, nodes) = self.hosts(scheme, rest.trim_end_matches('/'), 6379)?;
        let mut builder = ClusterClient::builder(nodes.clone())
            .retries(REDIRECTS_MAX)
            .connection_timeout(ANSWER_WAIT)
            .response_timeout(ANSWER_WAIT);
        if let Some(certificates) = self.certificates()? {
            builder = builder.certs(certificates);
        }
        let cluster = builder.build().map_err(refused)?;
        let nodes = nodes.into_iter().map(|node| self.client(node)).collect::<Result<_, _>>()?;
        Ok((Target::Cluster(Box::new(cluster), nodes), hosts))
    }

    fn sentinel(&self, scheme: &str, rest: &str) -> Result<(Target, String), Error> {
        let (hosts, service) = rest.split_once('/').unwrap_or((rest, ""));
        let (service, database) = service.split_once('/').unwrap_or((service, ""));
        if service.is_empty() {
            return Err(wrong("the name of the service that the sentinels watch is missing".into()));
        }
        let (place, infos) = self.hosts(scheme, hosts, SENTINEL_PORT)?;
        let first = infos[0].clone();
        let addresses = infos.into_iter().map(|info| info.addr().clone());
        let mut builder =
            SentinelClientBuilder::new(addresses, service, SentinelServerType::Master).map_err(refused)?;
        let settings = first.redis_settings();
        let database = match database {
            "" => settings.db(),
            text => text.parse().map_err(|_| wrong(format!("{text:?} is not the number of a database")))?,
        };
        builder = builder.set_client_to_redis_db(database);
        if let Some(user) = settings.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(user) = &self.sentinel_user {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = &self.sentinel_pass {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if scheme.starts_with("rediss") {
            builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
            builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
        }
        if let Some(certificates) = self.certificates()? {
            builder = builder.set_client_to_redis_certificates(certificates.clone());
            builder = builder.set_client_to_sentinel_certificates(certificates);
        }
        Ok((Target::sentinel(builder.build().map_err(refused)?), format!("{place}/{service}")))
    }

    /// Several hosts with one user, as text without secrets and one by one.
    fn hosts(&self, scheme: &str, rest: &str, port: u16) -> Result<(String, Vec<ConnectionInfo>), Error> {
        let scheme = scheme.split('+').next().unwrap_or_default();
        let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
        let at = if user.is_empty() { "" } else { "@" };
        let mut infos = Vec::new();
        for host in hosts.split(',') {
            // What follows the last bracket, so that an address of version 6 keeps its colons.
            let named = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
            let port = if named { String::new() } else { format!(":{port}") };
            infos.push(self.info(&format!("{scheme}://{user}{at}{host}{port}"))?);
        }
        Ok((hosts.to_owned(), infos))
    }

    fn info(&self, address: &str) -> Result<ConnectionInfo, Error> {
        let url = match &self.kept[..] {
            [] => address.to_owned(),
            kept => format!("{address}?{}", kept.join("&")),
        };
        url.as_str().into_connection_info().map_err(refused)
    }

    fn client(&self, info: ConnectionInfo) -> Result<Client, Error> {
        match self.certificates()? {
            Some(certificates) => Client::build_with_tls(info, certificates).map_err(refused),
            None => Client::open(info).map_err(refused),
        }
    }
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
    fn several_hosts_are_named() {
        let cluster = Options::parse("rediss+cluster://me:secret@a:1,[::1]:2,b?prefix=x").unwrap();
        assert_eq!(cluster.place, "a:1,[::1]:2,b", "without secrets");
        assert!(cluster.target.is_cluster());
        let watched = Options::parse("redis+sentinel://:secret@a,b:2/shop/3?sentinel_pass=other").unwrap();
        assert_eq!(watched.place, "a,b:2/shop");
        assert!(matches!(watched.target, Target::Sentinel(_)));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let urls = ["http://localhost", "redis://localhost?prefix=", "redis://localhost?prefix=a{b}"];
        let more = ["redis://localhost?cluster=yes", "redis://localhost/x", "redis+sentinel://a,b"];
        let tls = ["redis://localhost?ca=/x", "rediss://localhost?ca=/no/such", "rediss://localhost?cert=/x"];
        for url in
            urls.into_iter().chain(more).chain(tls).chain(["redis+cluster://", "redis+sentinel://a/b/x"])
        {
            assert!(Options::parse(url).is_err(), "{url}");
        }
    }
}
