//! Where a server is, and where its streams are.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::error::ClientError;

/// A server's address.
#[derive(Debug, Clone)]
pub(crate) struct Address(Url);

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address, ClientError> {
        let url = Url::parse(text)
            .ok()
            .filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        url.map(Address).ok_or_else(|| {
            let advice = "give one like http://127.0.0.1:4437";
            ClientError::Unusable(format!("{text} is no server's address; {advice}"))
        })
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Where a stream is. Its name's parts are escaped, its slashes kept.
    pub(crate) fn stream(&self, name: &str) -> Result<Url, ClientError> {
        // An URL cannot carry these: empty parts are ambiguous, and dots are resolved away.
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(ClientError::Unusable(format!(
                "{name:?} is no stream's name; a name has parts like doc/123, none of them empty, \
                 . or .."
            )));
        }
        let parts: Vec<&str> = ["v1", "stream"].into_iter().chain(name.split('/')).collect();
        Ok(self.route(&parts))
    }

    /// Where a route is, part by part.
    pub(crate) fn route(&self, parts: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}

impl fmt::Display for Address {
    /// Without what may be secret in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        self.0.port().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(base: &str, name: &str) -> Result<String, ClientError> {
        Ok(Address::parse(base)?.stream(name)?.to_string())
    }

    #[test]
    fn names_are_escaped_part_by_part() {
        let url = stream("http://127.0.0.1:4437", "doc/a b?#%").expect("a name");
        assert_eq!(url, "http://127.0.0.1:4437/v1/stream/doc/a%20b%3F%23%25");
    }

    #[test]
    fn a_server_may_live_below_a_path() {
        let url = stream("https://example.org/live/", "doc").expect("a name");
        assert_eq!(url, "https://example.org/live/v1/stream/doc");
    }

    #[test]
    fn names_that_an_url_cannot_carry_are_refused() {
        for name in ["", "/a", "a/", "a//b", "a/../b", "."] {
            assert!(stream("http://127.0.0.1", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for text in ["", "127.0.0.1:4437", "ftp://example.org", "unix:/socket"] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for (text, loopback) in [
            ("http://localhost:1", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:1", true),
            ("http://example.org", false),
            ("http://10.0.0.1", false),
        ] {
            let address = Address::parse(text).expect("an address");
            assert_eq!(address.is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let address = Address::parse("https://u:secret@example.org:8443/x").expect("an address");
        assert_eq!(address.to_string(), "https://example.org:8443");
    }
}
