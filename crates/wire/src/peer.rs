//! Who is at the other end of a connection, and whom they speak for.
//!
//! A proxy in front of the server is the peer of every connection; whose requests it passes on, it says
//! in `X-Forwarded-For`, and whether they came over TLS in `X-Forwarded-Proto`. Anyone can write these
//! headers, so only proxies that the configuration names are believed, and of addresses that they pass on
//! only those that they or others of them have added.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use axum::http::{Extensions, HeaderMap};
use ipnet::IpNet;

/// Every request carries it as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The client's address, as far as that can be known.
    pub address: IpAddr,
    /// Whether the client speaks TLS, to the server or to a proxy in front of it.
    pub is_secure: bool,
}

/// An address, or all addresses with a common beginning: `10.0.0.1`, `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// Neither an IP address nor a network in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither an IP address nor a network such as 10.0.0.0/8")]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Network, NoNetwork> {
        let single = || text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        text.parse().or_else(|_| single()).map(Network).map_err(|_| NoNetwork)
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

/// Whether an address is of one of these networks.
pub fn is_among(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// What one holder of an address has: with IPv6 a whole network of them, of 64 bits.
pub fn holder(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

impl Peer {
    /// Whose a request is, by its extensions.
    pub fn address(of_request: &Extensions) -> Option<IpAddr> {
        of_request.get::<Peer>().map(|peer| peer.address)
    }

    /// Whose request it is that `connected` sent, over TLS or not.
    pub fn of(
        connected: IpAddr,
        is_secure: bool,
        proxies: &[Network],
        headers: &HeaderMap,
    ) -> Peer {
        let direct = Peer { address: connected, is_secure };
        if !is_among(proxies, connected) {
            return direct;
        }
        Peer {
            address: forwarded_for(proxies, headers).unwrap_or(connected),
            is_secure: forwarded_proto(headers).unwrap_or(is_secure),
        }
    }
}

/// Whether a client of a proxy spoke TLS to it. Of several proxies the first knows.
fn forwarded_proto(headers: &HeaderMap) -> Option<bool> {
    let value = headers.get("x-forwarded-proto")?.to_str().ok()?;
    let first = value.split(',').next().unwrap_or_default().trim();
    if first.eq_ignore_ascii_case("https") || first.eq_ignore_ascii_case("wss") {
        Some(true)
    } else if first.eq_ignore_ascii_case("http") || first.eq_ignore_ascii_case("ws") {
        Some(false)
    } else {
        None
    }
}

/// The last address of `X-Forwarded-For` that is no proxy's, or the first if all of them are. What a
/// client wrote into the header itself stands before that. None where there is nothing to believe.
fn forwarded_for(proxies: &[Network], headers: &HeaderMap) -> Option<IpAddr> {
    let mut furthest = None;
    for value in headers.get_all("x-forwarded-for").iter().rev() {
        for hop in value.to_str().ok()?.rsplit(',') {
            let address = address_of(hop.trim())?;
            if !is_among(proxies, address) {
                return Some(address);
            }
            furthest = Some(address);
        }
    }
    furthest
}

/// Some proxies add the port.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    let address = bare.parse().ok().or_else(|| {
        let with_port = hop.parse::<std::net::SocketAddr>().ok()?;
        Some(with_port.ip())
    });
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().expect("a network")).collect()
    }

    fn client_of(connected: &str, values: &[&[u8]]) -> String {
        let proxies = networks(&["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"]);
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a header's value");
            headers.append("x-forwarded-for", value);
        }
        let connected = connected.parse().expect("an address");
        Peer::of(connected, false, &proxies, &headers).address.to_string()
    }

    #[test]
    fn a_proxy_says_whether_its_client_speaks_tls() {
        let proxies = networks(&["10.0.0.0/8"]);
        let is_secure = |connected: &str, is_secure, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_static(value));
            let connected = connected.parse().expect("an address");
            Peer::of(connected, is_secure, &proxies, &headers).is_secure
        };
        for (value, secure) in [("https", true), ("HTTPS, http", true), ("wss", true)] {
            assert_eq!(is_secure("10.1.2.3", false, value), secure, "{value}");
        }
        for value in ["http", "http, https", "ws"] {
            assert!(!is_secure("10.1.2.3", true, value), "{value}");
        }
        for value in ["", "ftp", ","] {
            assert!(is_secure("10.1.2.3", true, value), "as good as none: {value}");
        }
        assert!(!is_secure("203.0.113.9", false, "https"), "nobody else is believed");
    }

    #[test]
    fn the_client_is_the_last_that_is_no_proxy() {
        for (values, client) in [
            (&[b"203.0.113.7".as_slice()] as &[&[u8]], "203.0.113.7"),
            (&[b"198.51.100.1, 203.0.113.7"], "203.0.113.7"),
            (&[b"198.51.100.1, 203.0.113.7, 10.9.9.9,192.0.2.1"], "203.0.113.7"),
            (&[b"198.51.100.1", b"203.0.113.7", b"10.9.9.9"], "203.0.113.7"),
            (&[b"2001:db9::1, 2001:db8::1"], "2001:db9::1"),
            (&[b"203.0.113.7:4711"], "203.0.113.7"),
            (&[b"[2001:db9::1]:4711"], "2001:db9::1"),
            (&[b"[2001:db9::1]"], "2001:db9::1"),
            (&[b"::ffff:203.0.113.7"], "203.0.113.7"),
        ] {
            assert_eq!(client_of("10.1.2.3", values), client);
        }
    }

    #[test]
    fn among_proxies_alone_it_is_the_furthest() {
        assert_eq!(client_of("10.1.2.3", &[b"10.0.0.1, 10.0.0.2"]), "10.0.0.1");
    }

    #[test]
    fn whoever_is_no_proxy_is_believed_nothing() {
        assert_eq!(client_of("203.0.113.9", &[b"198.51.100.1"]), "203.0.113.9");
    }

    #[test]
    fn a_malformed_header_is_as_good_as_none() {
        for value in [
            b"".as_slice(),
            b"unknown",
            b"203.0.113.7, _hidden",
            b"1.2.3",
            b"\xff",
            b",",
            b"1.2.3.4:x",
        ] {
            assert_eq!(client_of("10.1.2.3", &[value]), "10.1.2.3", "{value:?}");
        }
        assert_eq!(client_of("10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn what_stands_before_the_client_may_be_malformed() {
        assert_eq!(client_of("10.1.2.3", &[b"unknown, 203.0.113.7"]), "203.0.113.7");
    }

    #[test]
    fn a_network_is_an_address_or_has_a_length() {
        for text in ["127.0.0.1", "::1", "10.0.0.0/8", "fd00::/8"] {
            assert!(text.parse::<Network>().is_ok(), "{text}");
        }
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.1:80"] {
            assert_eq!(text.parse::<Network>(), Err(NoNetwork), "{text}");
        }
    }
}
