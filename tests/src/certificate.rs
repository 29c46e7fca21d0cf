//! An authority of the story's own, what it issues, and the files that a server reads it from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Someone whom the story's clients trust. Cheap to clone.
#[derive(Clone)]
pub struct Authority(Arc<Inner>);

struct Inner {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate for this machine's loopback names, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    certificate_pem: String,
    key_pem: String,
    /// As it comes over the wire.
    pub der: CertificateDer<'static>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// One that nobody else knows.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Authority {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "the story's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority(Arc::new(Inner { issuer: Issuer::new(params, key), certificate }))
    }

    /// Its own certificate, as clients are given it.
    pub fn pem(&self) -> String {
        self.0.certificate.pem()
    }

    /// Issues a certificate, each time another.
    pub fn issue(&self) -> Issued {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0.issuer).expect("a certificate");
        Issued {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    /// Speaks TLS over a socket, of these versions, and offers these protocols of the application.
    pub async fn secure(
        &self,
        socket: TcpStream,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.certificate.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions that the provider has")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}

/// Where a server finds its certificate and key.
#[derive(Debug)]
pub struct Files {
    folder: TempDir,
}

impl Files {
    /// Files with this content.
    pub fn new(issued: &Issued) -> Files {
        let files = Files { folder: tempfile::tempdir().expect("a folder") };
        files.replace(issued);
        files
    }

    /// The certificate's.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// The key's.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Replaces both, one after the other, as programs that renew certificates do.
    pub fn replace(&self, issued: &Issued) {
        self.replace_certificate(&issued.certificate_pem);
        put(&self.key(), &issued.key_pem);
    }

    /// Replaces the certificate's file alone.
    pub fn replace_certificate(&self, pem: &str) {
        put(&self.certificate(), pem);
    }
}

impl Issued {
    /// What the certificate's file holds.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }
}

/// Never seen in part.
fn put(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text).expect("a file that can be written");
    std::fs::rename(draft, path).expect("a file that can be replaced");
}
