//! The text that a person sees when the server is up: its addresses, and commands to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use tidewire_deliver::{Options, Trust};

use super::Mode;

/// The address that needs no `--url`.
const DEFAULT_URL: &str = "http://127.0.0.1:4437";

/// Where a server is, for those who are on its machine.
#[derive(Debug)]
pub(crate) struct LocalAddress {
    pub(crate) url: String,
    /// What is given to clients as the certificate of an authority: the server's own, where that is in there.
    pub(crate) ca: Option<PathBuf>,
}

impl LocalAddress {
    /// By which name and with which certificate a server that listens at an address is to be asked.
    pub(crate) fn at(address: SocketAddr, options: &Options) -> LocalAddress {
        let Some(tls) = &options.tls else {
            return LocalAddress { url: url("http", address), ca: None };
        };
        let by_address = url("https", address);
        let is_here = from_here(address).ip().is_loopback();
        let url = match &options.public_url {
            _ if tls.is_for(&from_here(address).ip().to_string()) => by_address,
            _ if is_here && tls.is_for("localhost") => {
                format!("https://localhost:{}", address.port())
            }
            Some(public) => public.trim_end_matches('/').to_owned(),
            None => by_address,
        };
        let ca = (tls.trust() == Trust::InFile).then(|| std::path::absolute(&tls.certificate));
        LocalAddress { url, ca: ca.and_then(Result::ok) }
    }
}

/// The lines of the banner. Every command in it works when pasted as it is, so `program` is the
/// name by which we were called.
pub(crate) fn text(
    mode: Mode,
    program: &str,
    reached: &LocalAddress,
    backend: &str,
    place: &str,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let url = &reached.url;
    let server = if url == DEFAULT_URL { String::new() } else { format!(" --url {url}") };
    let with_ca = |flag: &str| match &reached.ca {
        Some(file) => format!(" {flag} {}", in_shell(&file.to_string_lossy())),
        None => String::new(),
    };
    let (server, cacert) = (format!("{server}{}", with_ca("--ca")), with_ca("--cacert"));
    let (kind, curl, client) = match mode {
        Mode::Dev => {
            ("development server, open to this machine only", format!("curl{cacert}"), server)
        }
        Mode::Serve => (
            "server, open to those who have a key or a token",
            format!("curl{cacert} -H \"authorization: Bearer $TIDEWIRE_ADMIN_KEY\""),
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
    in_shell(&name)
}

/// A word as a shell understands it.
fn in_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// An address to reach the server at from this machine, also where it listens on all of them.
fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{}", from_here(address))
}

fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_development_banner() {
        let reached = LocalAddress { url: url("http", address("127.0.0.1:4437")), ca: None };
        let text = text(Mode::Dev, "tidewire", &reached, "SQLite", "in ./tidewire-data");
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn the_serving_banner_names_the_key_without_showing_it() {
        let text = text(
            Mode::Serve,
            "target/debug/tidewire",
            &LocalAddress { url: url("http", address("0.0.0.0:80")), ca: None },
            "PostgreSQL",
            "at postgres://h/d",
        );
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "0.0.0"));
    }

    #[test]
    fn clients_are_given_the_certificate_that_they_are_to_trust() {
        let reached = LocalAddress {
            url: "https://localhost:4437".to_owned(),
            ca: Some("/etc/a b/certificate.pem".into()),
        };
        let text = text(Mode::Dev, "tidewire", &reached, "SQLite", "in ./tidewire-data");
        for part in [
            "console   https://localhost:4437/\n",
            "curl --cacert '/etc/a b/certificate.pem' -X PUT https://localhost:4437/v1/stream/hello",
            "curl --cacert '/etc/a b/certificate.pem' -N 'https://localhost:4437/v1/",
            "tail --stream hello --url https://localhost:4437 --ca '/etc/a b/certificate.pem'\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn an_address_of_all_interfaces_is_reached_by_loopback() {
        assert_eq!(url("http", address("0.0.0.0:80")), "http://127.0.0.1:80");
        assert_eq!(url("https", address("[::]:80")), "https://[::1]:80");
        assert_eq!(url("http", address("10.0.0.1:80")), "http://10.0.0.1:80");
    }
}
