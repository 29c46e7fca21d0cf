//! What a person sees when the server is up: where everything is, and something to paste.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Mode;

/// The address that needs no `--url`.
const DEFAULT_URL: &str = "http://127.0.0.1:4437";

/// The lines of the banner. Every command in it works when pasted as it is, so `program` is the
/// name by which we were called.
pub(crate) fn text(mode: Mode, program: &str, url: &str, backend: &str, place: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let server = if url == DEFAULT_URL { String::new() } else { format!(" --url {url}") };
    let (kind, curl, client) = match mode {
        Mode::Dev => ("development server, open to this machine only", "curl", server),
        Mode::Serve => (
            "server, open to those who have a key or a token",
            "curl -H \"authorization: Bearer $TIDEWIRE_ADMIN_KEY\"",
            format!("{server} --token \"$TIDEWIRE_ADMIN_KEY\""),
        ),
    };
    format!(
        "
  Tidewire {version}: {kind}

    console   {url}/
    store     {backend} {place}

  Make a stream, and watch it:

    {curl} -X PUT {url}/v1/stream/hello -H 'content-type: application/json' -d '[{{\"text\": \"hi\"}}]'
    {curl} -N '{url}/v1/stream/hello?offset=-1&live=sse'

  Append to it from another terminal, or watch it without curl:

    {program} publish hello '{{\"text\": \"hi again\"}}'{client}
    {program} tail --stream hello{client}

  Ctrl-C stops the server.

"
    )
}

/// The name by which this process was called, as a shell understands it.
pub(crate) fn program() -> String {
    let name = std::env::args().next().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "tidewire".to_owned());
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if name.chars().all(plain) { name } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// An address to reach the server at from this machine, also where it listens on all of them.
pub(crate) fn url(scheme: &str, address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_development_banner() {
        let url = url("http", address("127.0.0.1:4437"));
        let text = text(Mode::Dev, "tidewire", &url, "SQLite", "in ./tidewire-data");
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn the_serving_banner_names_the_key_without_showing_it() {
        let text = text(
            Mode::Serve,
            "target/debug/tidewire",
            &url("http", address("0.0.0.0:80")),
            "PostgreSQL",
            "at postgres://h/d",
        );
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn an_address_of_all_interfaces_is_reached_by_loopback() {
        assert_eq!(url("http", address("0.0.0.0:80")), "http://127.0.0.1:80");
        assert_eq!(url("https", address("[::]:80")), "https://[::1]:80");
        assert_eq!(url("http", address("10.0.0.1:80")), "http://10.0.0.1:80");
    }
}
