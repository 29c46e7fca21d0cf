//! TLS as `sslmode` in the URL asks for it, with libpq's meanings.
//!
//! | `sslmode` | encrypted | the certificate's issuer is known | it is for this host |
//! |---|---|---|---|
//! | `disable` | no | | |
//! | `prefer` (the default) | if the server offers it | not looked at | not looked at |
//! | `require` | yes | not looked at | not looked at |
//! | `verify-ca` | yes | yes | not looked at |
//! | `verify-full` | yes | yes | yes |
//!
//! Known issuers are those of the system, or those in the file named by `sslrootcert`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use tidewire_store::error::StoreError;

/// How much of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsCheck {
    Nothing,
    Issuer,
    IssuerAndHost,
}

/// Makes TLS connections that check as much as asked.
pub(crate) fn connector(
    check: TlsCheck,
    root_file: Option<&str>,
) -> Result<MakeRustlsConnect, StoreError> {
    let refused = |what: String| StoreError::Refused(format!("TLS to PostgreSQL: {what}"));
    // Given explicitly: a process-wide default may be missing, or be another one.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match check {
        TlsCheck::Nothing => Arc::new(Unverified(Arc::clone(&provider))),
        TlsCheck::Issuer | TlsCheck::IssuerAndHost => {
            let roots = Arc::new(roots(root_file)?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
            let known = builder.build().map_err(|error| refused(error.to_string()))?;
            if check == TlsCheck::Issuer { Arc::new(AnyHost(known)) } else { known }
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: Option<&str>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file.filter(|file| *file != "system") else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() {
            Err(StoreError::Refused(
                "the system has no root certificates to check the database's with; install \
                 ca-certificates, or name a file with sslrootcert in the database URL"
                    .to_owned(),
            ))
        } else {
            Ok(roots)
        };
    };
    let cannot = |error: &dyn std::fmt::Display| {
        StoreError::Refused(format!("cannot use the certificates in {file} (sslrootcert): {error}"))
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| cannot(&error))? {
        let certificate = certificate.map_err(|error| cannot(&error))?;
        roots.add(certificate).map_err(|error| cannot(&error))?;
    }
    if roots.is_empty() { Err(cannot(&"there are none in it")) } else { Ok(roots) }
}

/// `prefer` and `require` encrypt, but take any certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// `verify-ca` takes a known issuer's certificate for whatever host it names.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is the last thing that is checked.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
