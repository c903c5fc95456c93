//! Which addresses a webhook may reach.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::worker::Failure;

#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) allow_private: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| allow_private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Private { host }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// A name that leads only into the worker's own network.
#[derive(Debug)]
struct Private {
    host: String,
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {} is a private, loopback or link-local address", self.host)
    }
}

impl Error for Private {}

/// An address written in the URL is never looked up, so it is checked here.
pub(super) fn check_literal(url: &Url) -> Result<(), Failure> {
    let host = url.host_str().ok_or_else(|| Failure::fatal("url: has no host"))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) if !is_public(ip) => Err(Failure::fatal(Private { host: host.to_owned() })),
        _ => Ok(()),
    }
}

/// A refused address is final; everything else about a connection may be better next time.
pub(super) fn failure(error: &reqwest::Error) -> Failure {
    let mut text = error.to_string();
    let mut source: Option<&(dyn Error + 'static)> = error.source();
    while let Some(cause) = source {
        if let Some(private) = cause.downcast_ref::<Private>() {
            return Failure::fatal(private);
        }
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Failure::Retry { error: text }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        // Carrier-grade NAT, benchmarking, protocol assignments.
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    // The ways in which a v6 address can carry a v4 one: mapped, compatible, NAT64, 6to4.
    if let Some(v4) = ip.to_ipv4() {
        return is_public_v4(v4);
    }
    let s = ip.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Only 2000::/3 is given out; of that, documentation and Teredo lead nowhere good.
        [0x2001, 0 | 0xdb8, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_addresses_are_told_from_public_ones() {
        let inner = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "ff02::1",
            "2001:db8::1",
        ];
        for text in inner {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn an_address_in_the_url_is_checked_in_every_spelling() {
        let inner =
            ["http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::1]:80/", "http://0/"];
        for text in inner {
            let url = Url::parse(text).unwrap();
            assert!(matches!(check_literal(&url), Err(Failure::Fatal { .. })), "{text}");
        }
        assert_eq!(check_literal(&Url::parse("http://1.1.1.1/").unwrap()), Ok(()));
    }
}
