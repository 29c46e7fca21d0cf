//! Reads the PEM files into the certificate that rustls serves with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde::Deserialize;

/// The server's certificate. The files are looked at while the server runs, and swapped in when they
/// change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsOptions {
    /// PEM: the server's certificate, and then those of its issuers.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
}

impl TlsOptions {
    /// Whether the certificate is one for a server of this name.
    pub fn is_for(&self, name: &str) -> bool {
        super::is_for(&self.certificate, name)
    }

    /// What a client needs to trust the certificate.
    pub fn trust(&self) -> super::Trust {
        super::trust(&self.certificate)
    }
}

/// Why the server cannot speak TLS with the files it was given.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {reason}. Correct the path, or the permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file is not PEM, or holds nothing of what it should.
    #[error("{} holds no {wanted} that can be used: {reason}. It must be a PEM file with one", path.display())]
    Useless {
        /// The file.
        path: PathBuf,
        /// A certificate or a private key.
        wanted: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Each is fine by itself.
    #[error(
        "the key in {} is not the key of the first certificate in {}. The server's own certificate \
         comes first, those of its issuers after it",
        key.display(), certificate.display()
    )]
    Strangers {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The cryptographic library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// The content of both files, as it was read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pem {
    /// Reads both files. Blocks, but for short: they are small and local.
    pub(super) fn read(options: &TlsOptions) -> Result<Pem, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|reason| TlsError::Unreadable { path: path.to_owned(), reason })
        };
        Ok(Pem { certificate: read(&options.certificate)?, key: read(&options.key)? })
    }

    /// What rustls serves with. Sessions that were agreed on under another certificate are not
    /// resumed under this one, so whoever connects gets to see it.
    pub(super) fn server_config(&self, files: &TlsOptions) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let certified = self.certified_key(files, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A herd that comes back resumes without a signature each, and is remembered by its tickets
        // instead of by the server's memory.
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(Arc::new(config))
    }

    fn certified_key(
        &self,
        files: &TlsOptions,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, TlsError> {
        let useless = |path: &Path, wanted, reason: String| TlsError::Useless {
            path: path.to_owned(),
            wanted,
            reason,
        };
        let no_chain = |reason: String| useless(&files.certificate, "certificate", reason);
        let no_key = |reason: String| useless(&files.key, "private key", reason);

        let chain: Result<Vec<_>, pem::Error> =
            CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| no_chain(in_words(&error)))?;
        if chain.is_empty() {
            return Err(no_chain(in_words(&pem::Error::NoItemsFound)));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| no_key(in_words(&error)))?;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| no_key(error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key that does not tell its public half is found out by the first client.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(certified)
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Strangers {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
            }),
            Err(error) => Err(no_chain(error.to_string())),
        }
    }
}

/// What is wrong with a file, without repeating any of it: it may be a key.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "there is none in it",
        pem::Error::MissingSectionEnd { .. } => "it ends before its END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is broken",
        pem::Error::Base64Decode(_) => "it is not base64 between its BEGIN and END lines",
        _ => "it is not PEM",
    }
    .to_owned()
}

impl TlsOptions {
    /// Refuses files that the server could not be started with.
    pub fn check(&self) -> Result<(), TlsError> {
        Pem::read(self)?.server_config(self).map(drop)
    }
}
