//! Where webhooks may go: never into the server's own network.
//!
//! A URL is checked when a subscription is made and at each delivery, and so is every address that its
//! name resolves to, because a name can be pointed elsewhere in between.

use std::net::{IpAddr, SocketAddr};

use axum::http::StatusCode;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::reply;
use super::special::is_public;
use tidewire_access::problem::Problem;

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
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host == "localhost" || host.ends_with(".localhost")
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
            "webhook.url must not lead to a private, loopback or link-local host, nor to another \
             address with a special purpose",
        ));
    }
    Ok(url)
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
            let allowed = reachable(found, allow_loopback);
            if allowed.is_empty() {
                return Err(Rejected("the webhook's host has no public address").into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Of the addresses that a name has, those that a webhook may go to.
fn reachable(found: impl Iterator<Item = SocketAddr>, allow_loopback: bool) -> Vec<SocketAddr> {
    let loopback = |address: &IpAddr| allow_loopback && address.is_loopback();
    found.filter(|address| is_public(address.ip()) || loopback(&address.ip())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name resolves to is held to the same as what is written.
    #[test]
    fn of_what_a_name_resolves_to_only_public_addresses_are_used() {
        let found = |allow_loopback| {
            let all = [
                "10.0.0.1",
                "127.0.0.1",
                "::1",
                "::ffff:192.168.0.1",
                "64:ff9b::a00:1",
                "64:ff9b:1::5db8:d822",
                "2002:5db8:d822::1",
                "2001:0:5db8:d822::1",
                "100::1",
                "3fff::1",
                "fd00::1",
                "93.184.216.34",
                "2606:2800::1",
            ];
            let all = all.iter().map(|text| text.parse::<IpAddr>().expect("an address"));
            let left = reachable(all.map(|address| SocketAddr::new(address, 0)), allow_loopback);
            left.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(false), ["93.184.216.34", "2606:2800::1"]);
        assert_eq!(found(true), ["127.0.0.1", "::1", "93.184.216.34", "2606:2800::1"]);
    }

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
            "https://[64:ff9b:1::5db8:d822]/hook",
            "https://[2002:a00:1::]/hook",
            "https://[2002:5db8:d822::]/hook",
            "https://[2001:0:5db8:d822::]/hook",
            "https://[::7f00:1]/hook",
            "https://[100::1]/hook",
            "https://[3fff::1]/hook",
            "https://[5f00::1]/hook",
            "https://[fec0::1]/hook",
            "https://192.88.99.1",
            "https://192.0.0.8",
            "https://localhost./hook",
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
