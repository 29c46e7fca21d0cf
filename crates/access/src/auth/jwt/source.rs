//! Where a key set is read: a file or a URL, within limits.

use std::error::Error as _;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use reqwest::{Client, StatusCode, Url, header, redirect};

use super::refresh::WAIT;
use crate::options::JwksSource;

/// Bytes of a key set: room for a hundred keys with certificates.
pub(super) const JWKS_BYTES_MAX: usize = 256 << 10;

/// Where a key set is read.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Url { client: Client, url: Url },
}

impl Source {
    pub(super) fn new(source: &JwksSource) -> Result<Source, String> {
        let url = match source {
            JwksSource::File(path) => return Ok(Source::File(path.clone())),
            JwksSource::Url(url) => check_url(url)?,
        };
        // A redirect could lead where the URL may not, and a proxy could answer in its place.
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .timeout(WAIT)
            .no_proxy()
            .user_agent(concat!("tidewire/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("the key set cannot be fetched: {error}"))?;
        Ok(Source::Url { client, url })
    }

    /// Reads the set as it is, or says why it cannot be read.
    pub(super) async fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Source::File(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read_file(&path))
                    .await
                    .map_err(|_| "reading it was broken off".to_owned())?
            }
            Source::Url { client, url } => fetch(client, url.clone()).await,
        }
    }
}

fn check_url(text: &str) -> Result<Url, String> {
    let refused = |why: &str| {
        format!("the URL of the key set {why}: give an https URL, or http on localhost")
    };
    let url = Url::parse(text).map_err(|_| refused("is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("must not carry a user or password"));
    }
    let host = url.host_str().ok_or_else(|| refused("has no host"))?;
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if loopback => Ok(url),
        // Whoever is on the way could put in keys of their own.
        "http" => Err(refused("is not encrypted")),
        _ => Err(refused("has another scheme")),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let file = std::fs::File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    file.take(JWKS_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() > JWKS_BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

async fn fetch(client: &Client, url: Url) -> Result<Vec<u8>, String> {
    let accepted = "application/jwk-set+json, application/json";
    let request = client.get(url).header(header::ACCEPT, accepted);
    let mut answer = request.send().await.map_err(explain)?;
    if answer.status() != StatusCode::OK {
        return Err(format!("its server answered {}", answer.status()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(explain)? {
        if text.len() + chunk.len() > JWKS_BYTES_MAX {
            return Err(too_large());
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

fn too_large() -> String {
    format!("it is larger than {JWKS_BYTES_MAX} bytes")
}

/// The error with its causes: the outermost alone says only that sending failed.
fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_encrypted_or_from_this_machine() {
        for url in [
            "https://issuer.example.com/.well-known/jwks.json",
            "http://localhost:8080/jwks",
            "http://127.0.0.1/jwks",
            "http://[::1]:8080/jwks",
        ] {
            assert!(check_url(url).is_ok(), "{url}");
        }
        for url in [
            "http://issuer.example.com/jwks",
            "http://localhost.example.com/jwks",
            "http://10.0.0.1/jwks",
            "http://0.0.0.0/jwks",
            "file:///etc/jwks.json",
            "ftp://localhost/jwks",
            "https://user:password@issuer.example.com/jwks",
            "issuer.example.com",
            "",
        ] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_folder_or_a_large_file_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |path: &Path| read_file(path).map(|text| text.len());
        assert_eq!(read(folder.path()), Err("it is not a file".to_owned()));
        let path = folder.path().join("jwks.json");
        std::fs::write(&path, vec![b' '; JWKS_BYTES_MAX]).expect("written");
        assert_eq!(read(&path), Ok(JWKS_BYTES_MAX));
        std::fs::write(&path, vec![b' '; JWKS_BYTES_MAX + 1]).expect("written");
        assert_eq!(read(&path), Err(too_large()));
    }
}
