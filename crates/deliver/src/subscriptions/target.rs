//! Where webhooks may go: never into the server's own network.
//!
//! A URL is checked when a subscription is made, and every address its name resolves to is checked
//! again at each delivery, because a name can be pointed elsewhere in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::StatusCode;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::reply;
use crate::problem::Problem;

/// Why a target is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Rejected(&'static str);

impl Rejected {
    pub(super) fn problem(self) -> Problem {
        reply::error(
            StatusCode::BAD_REQUEST,
            "WEBHOOK_URL_REJECTED",
            self.0,
            "use an https URL of a public host; for development on this machine start the server \
             with webhooks.allow_loopback",
        )
    }
}

/// Checks a URL as it is written.
pub(super) fn check_url(text: &str, allow_loopback: bool) -> Result<Url, Rejected> {
    let url = Url::parse(text).map_err(|_| Rejected("webhook.url is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Rejected("webhook.url must not carry a user or password"));
    }
    let literal = match url.host_str() {
        None => return Err(Rejected("webhook.url has no host")),
        Some(host) => host.trim_matches(['[', ']']).parse::<IpAddr>().ok(),
    };
    let local_name = url.host_str().is_some_and(|host| {
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost")
    });
    let loopback = local_name || literal.is_some_and(|address| address.is_loopback());
    if loopback && allow_loopback {
        return match url.scheme() {
            "http" | "https" => Ok(url),
            _ => Err(Rejected("webhook.url must use https")),
        };
    }
    if url.scheme() != "https" {
        return Err(Rejected("webhook.url must use https"));
    }
    if local_name || literal.is_some_and(|address| !is_public(address)) {
        return Err(Rejected(
            "webhook.url must not lead to a private, loopback or link-local host",
        ));
    }
    Ok(url)
}

/// Whether an address belongs to the public Internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded_v4(v6) {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        // Shared by carriers, protocol assignments, benchmarking, reserved.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        // Unique local, link local, site local, documentation.
        || (first & 0xfe00) == 0xfc00
        || (first & 0xffc0) == 0xfe80
        || (first & 0xffc0) == 0xfec0
        || (first == 0x2001 && address.segments()[1] == 0x0db8))
}

/// The IPv4 address inside a mapped, translated (64:ff9b::/96) or 6to4 (2002::/16) one.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0x2002, high, low, ..] => Some(from(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if address != Ipv6Addr::LOCALHOST => Some(from(high, low)),
        _ => address.to_ipv4_mapped(),
    }
}

/// Resolves names to public addresses only (and loopback, where that is allowed).
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicResolver {
    pub(super) allow_loopback: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_loopback = self.allow_loopback;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found
                .filter(|address| {
                    is_public(address.ip()) || (allow_loopback && address.ip().is_loopback())
                })
                .collect();
            if allowed.is_empty() {
                return Err(Rejected("the webhook's host has no public address").into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_targets_are_refused_however_they_are_written() {
        for url in [
            "http://example.com/hook",
            "http://10.0.0.1/hook",
            "https://10.0.0.1/hook",
            "https://127.0.0.1/hook",
            "https://2130706433/hook",
            "https://0x7f.1/hook",
            "https://169.254.169.254/latest",
            "https://192.168.1.1",
            "https://172.16.0.1",
            "https://100.64.0.1",
            "https://0.0.0.0",
            "https://localhost/hook",
            "https://a.localhost/hook",
            "https://[::1]/hook",
            "https://[::ffff:10.0.0.1]/hook",
            "https://[64:ff9b::a00:1]/hook",
            "https://[2002:a00:1::]/hook",
            "https://[fd00::1]/hook",
            "https://[fe80::1]/hook",
            "https://user:secret@example.com/hook",
            "ftp://example.com/hook",
            "not a url",
        ] {
            assert!(check_url(url, false).is_err(), "{url}");
        }
        for url in
            ["https://example.com/hook", "https://93.184.216.34/x", "https://[2606:2800::1]/"]
        {
            assert!(check_url(url, false).is_ok(), "{url}");
        }
    }

    #[test]
    fn the_development_option_opens_loopback_and_nothing_else() {
        assert!(check_url("http://127.0.0.1:9000/hook", true).is_ok());
        assert!(check_url("http://localhost:9000/hook", true).is_ok());
        assert!(check_url("http://10.0.0.1/hook", true).is_err());
        assert!(check_url("https://192.168.0.1/hook", true).is_err());
    }
}
