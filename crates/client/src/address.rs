//! The address of a server, and the URLs of its streams.

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
        let Some(url) = url else {
            let advice = meant(text).map_or_else(
                || "give one like http://127.0.0.1:4437".to_owned(),
                |meant| format!("did you mean {meant}?"),
            );
            return Err(ClientError::Unusable(format!(
                "{text} is not the address of a server; {advice}"
            )));
        };
        let address = Address(url);
        // Routes are put behind it, so one that has them already leads nowhere.
        let first = address.0.path_segments().and_then(|mut path| path.next());
        if first == Some("v1") || address.0.query().is_some() || address.0.fragment().is_some() {
            return Err(ClientError::Unusable(format!(
                "the server's address has the path {}; give it without a path: {address}",
                address.beyond_host()
            )));
        }
        Ok(address)
    }

    /// All that comes behind the host.
    fn beyond_host(&self) -> String {
        let mut text = self.0.path().to_owned();
        for (sign, part) in [('?', self.0.query()), ('#', self.0.fragment())] {
            if let Some(part) = part {
                text.push(sign);
                text.push_str(part);
            }
        }
        text
    }

    /// What comes behind the host, if anything does: where a proxy has put the server.
    pub(crate) fn path(&self) -> Option<&str> {
        Some(self.0.path()).filter(|path| *path != "/")
    }

    /// Whether connections to it are encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
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

/// The address that was meant by one without its scheme, or with that of WebSockets.
fn meant(text: &str) -> Option<String> {
    let (scheme, rest) = match text.split_once("://") {
        Some(("ws", rest)) => ("http", rest),
        Some(("wss", rest)) => ("https", rest),
        Some(_) => return None,
        None => ("http", text),
    };
    let meant = format!("{scheme}://{rest}");
    let url = Url::parse(&meant).ok()?;
    // A password is not repeated.
    let plain = url.username().is_empty() && url.password().is_none();
    let host = url.host_str().filter(|host| {
        plain && (host.contains('.') || *host == "localhost" || url.port().is_some())
    });
    host.map(|_| meant)
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
            let refused = stream("http://127.0.0.1", name);
            assert!(matches!(refused, Err(ClientError::Unusable(_))), "{name:?}: {refused:?}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for text in ["", "127.0.0.1:4437", "ftp://example.org", "unix:/socket"] {
            let refused = Address::parse(text);
            assert!(matches!(refused, Err(ClientError::Unusable(_))), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn what_was_meant_is_suggested() {
        for (text, says) in [
            ("127.0.0.1:4437", "did you mean http://127.0.0.1:4437?"),
            ("localhost:4437", "did you mean http://localhost:4437?"),
            ("ws://localhost:4437", "did you mean http://localhost:4437?"),
            ("wss://example.org", "did you mean https://example.org?"),
            ("orders", "give one like"),
            (
                "http://127.0.0.1:4437/v1",
                "has the path /v1; give it without a path: http://127.0.0.1:4437",
            ),
            ("http://127.0.0.1:4437/v1/stream/a", "without a path: http://127.0.0.1:4437"),
            ("https://u:secret@example.org/?a=b", "has the path /?a=b"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
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
