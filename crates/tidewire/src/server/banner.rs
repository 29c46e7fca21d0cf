//! What a person sees when the server is up: where everything is, and something to paste.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Mode;

/// The address that needs no `--url`.
const DEFAULT_PORT: u16 = 4437;

/// The lines of the banner. Every command in it works when pasted as it is.
pub(crate) fn text(mode: Mode, address: SocketAddr, backend: &str, place: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let url = url(address);
    let kind = match mode {
        Mode::Dev => "development server, open to this machine only",
        Mode::Serve => "server, open to those who have the admin key",
    };
    let (curl, token) = match mode {
        Mode::Dev => ("curl", ""),
        Mode::Serve => (
            "curl -H \"authorization: Bearer $TIDEWIRE_ADMIN_KEY\"",
            " --token \"$TIDEWIRE_ADMIN_KEY\"",
        ),
    };
    let by_default = address == SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
    let server = if by_default {
        String::new()
    } else {
        format!(" --url {url}")
    };
    format!(
        "
  Tidewire {version}: {kind}

    console   {url}/
    store     {backend} {place}

  Watch a stream in one terminal, and append to it from another:

    {curl} -X PUT {url}/v1/stream/hello -H 'content-type: application/json'
    tidewire tail --stream hello{server}{token}
    tidewire publish hello '{{\"text\": \"hi\"}}'{server}{token}
    {curl} '{url}/v1/stream/hello?offset=-1'

  Ctrl-C stops the server.

"
    )
}

/// An address to reach the server at from this machine, also where it listens on all of them.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_development_banner() {
        let text = text(
            Mode::Dev,
            address("127.0.0.1:4437"),
            "SQLite",
            "in ./tidewire-data",
        );
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn the_serving_banner_names_the_key_without_showing_it() {
        let text = text(
            Mode::Serve,
            address("0.0.0.0:80"),
            "PostgreSQL",
            "at postgres://h/d",
        );
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn an_address_of_all_interfaces_is_reached_by_loopback() {
        assert_eq!(url(address("0.0.0.0:80")), "http://127.0.0.1:80");
        assert_eq!(url(address("[::]:80")), "http://[::1]:80");
        assert_eq!(url(address("10.0.0.1:80")), "http://10.0.0.1:80");
    }
}
