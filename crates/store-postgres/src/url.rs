//! Reading the database's URL. Whatever is wrong with it is told without the password in it.

use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::text;
use super::tls::{self, TlsCheck};
use tidewire_store::error::StoreError;

/// Reads the URL. `sslmode` and `sslrootcert` are ours: the driver knows only some of the former's
/// values, and not the latter.
pub(crate) fn parse(url: &str) -> Result<(Config, MakeRustlsConnect, Protection), StoreError> {
    let (mut mode, mut check, mut root_file) = (None, TlsCheck::Nothing, None);
    let after_credentials = url.find('@').unwrap_or(0);
    let (address, parameters) = match url[after_credentials..].find('?') {
        Some(at) => (&url[..after_credentials + at], &url[after_credentials + at + 1..]),
        None => (url, ""),
    };
    let mut rest = Vec::new();
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => (mode, check) = ssl_mode(value)?,
            Some(("sslrootcert", file)) => root_file = Some(file),
            _ => rest.push(parameter),
        }
    }
    let url =
        if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    let mut config: Config = url.parse().map_err(|error| malformed(&url, &error))?;
    if let Some(mode) = mode {
        config.ssl_mode(mode);
    }
    let tls = tls::connector(check, root_file)?;
    Ok((config, tls, Protection { check, root_file: root_file.map(ToOwned::to_owned) }))
}

/// What the URL says of TLS beyond what the driver's configuration holds.
#[derive(Debug, Clone)]
pub struct Protection {
    pub check: TlsCheck,
    pub root_file: Option<String>,
}

fn ssl_mode(value: &str) -> Result<(Option<SslMode>, TlsCheck), StoreError> {
    let (mode, check) = match value {
        "disable" => (SslMode::Disable, TlsCheck::Nothing),
        "prefer" | "allow" => (SslMode::Prefer, TlsCheck::Nothing),
        "require" => (SslMode::Require, TlsCheck::Nothing),
        "verify-ca" => (SslMode::Require, TlsCheck::Issuer),
        "verify-full" => (SslMode::Require, TlsCheck::IssuerAndHost),
        other => {
            return Err(StoreError::Refused(format!(
                "sslmode={other} in the database URL is not known; it is one of disable, prefer, \
                 require, verify-ca and verify-full"
            )));
        }
    };
    Ok((Some(mode), check))
}

/// Says what is wrong with the URL, but not if part of a password could be in the saying.
fn malformed(url: &str, error: &Error) -> StoreError {
    let reason =
        if url.matches('@').count() > 1 { String::new() } else { format!(" ({})", text(error)) };
    StoreError::Refused(format!(
        "the database URL cannot be read{reason}; it looks like \
         postgres://user:password@host:5432/database?sslmode=require, with any of @ / : ? in the \
         password percent-encoded"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sslmode_has_the_meaning_that_libpq_gives_it() {
        for (value, mode, check) in [
            ("disable", SslMode::Disable, TlsCheck::Nothing),
            ("prefer", SslMode::Prefer, TlsCheck::Nothing),
            ("require", SslMode::Require, TlsCheck::Nothing),
            ("verify-ca", SslMode::Require, TlsCheck::Issuer),
            ("verify-full", SslMode::Require, TlsCheck::IssuerAndHost),
        ] {
            assert_eq!(ssl_mode(value).expect(value), (Some(mode), check));
        }
    }

    #[test]
    fn parameters_that_are_not_ours_are_left_to_the_driver() {
        let url = "postgres://u:p%40@h:1/d?sslmode=require&connect_timeout=3&keepalives=0";
        let (config, ..) = parse(url).expect("a good URL");
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        assert_eq!(config.get_password(), Some(b"p@".as_slice()));
        assert_eq!(config.get_dbname(), Some("d"));
        assert!(!config.get_keepalives());
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        for url in [
            "postgres://user:secret@hidden@127.0.0.1:1x/database",
            "postgres://user:secret@127.0.0.1/database?sslmode=perhaps",
            "postgres://user:secret@127.0.0.1/database?unknown=option",
            "user:secret@127.0.0.1",
        ] {
            let Err(StoreError::Refused(told)) = parse(url) else { panic!("{url} was accepted") };
            assert!(!told.contains("secret") && !told.contains("hidden"), "{told}");
        }
    }
}
