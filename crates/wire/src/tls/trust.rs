//! What clients make of the server's certificate: for the words that a person is greeted with.

use std::path::Path;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{Error, RootCertStore};

/// What a client needs besides the server's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The file of the certificate, as that of an authority: it is in there.
    InFile,
    /// The certificate of the authority that issued it, unless the client's system has it.
    TakenOverBody,
    /// Another certificate: this one is an authority's own, which many clients refuse of a server.
    OfAuthority,
}

/// Whether the certificate in a file is one for a server of this name.
pub(crate) fn is_for(file: &Path, name: &str) -> bool {
    let chain = chain(file);
    let leaf = chain.first().map(ParsedCertificate::try_from);
    let (Some(Ok(leaf)), Ok(name)) = (leaf, ServerName::try_from(name)) else { return false };
    verify_server_name(&leaf, &name).is_ok()
}

/// What a client needs to trust the certificate in a file.
pub(crate) fn trust(file: &Path) -> Trust {
    let chain = chain(file);
    let leaf = chain.first().map(ParsedCertificate::try_from);
    let Some(Ok(leaf)) = leaf else { return Trust::TakenOverBody };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain.iter().cloned());
    let provider = aws_lc_rs::default_provider();
    let verified = verify_server_cert_signed_by_trust_anchor(
        &leaf,
        &roots,
        &chain[1..],
        UnixTime::now(),
        provider.signature_verification_algorithms.all,
    );
    match verified {
        Ok(()) => Trust::InFile,
        // The library has no word of its own for it.
        Err(Error::InvalidCertificate(why)) if format!("{why:?}").contains("CaUsedAs") => {
            Trust::OfAuthority
        }
        Err(_) => Trust::TakenOverBody,
    }
}

/// The certificates; none if the file cannot be read, which is found out elsewhere.
fn chain(file: &Path) -> Vec<CertificateDer<'static>> {
    let Ok(pem) = std::fs::read(file) else { return Vec::new() };
    CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_is_known_for_what_clients_make_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("certificate.pem");
        let params = || CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let (key, own) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let by_itself = params().self_signed(&own).expect("a certificate").pem();
        let mut authority = params();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let of_authority = authority.self_signed(&key).expect("a certificate").pem();
        let issued = params().signed_by(&own, &Issuer::new(authority, key));
        let issued = issued.expect("a certificate").pem();
        for (pem, trust) in [
            (by_itself, Trust::InFile),
            (format!("{issued}{of_authority}"), Trust::InFile),
            (issued, Trust::TakenOverBody),
            (of_authority, Trust::OfAuthority),
        ] {
            std::fs::write(&file, &pem).expect("a file");
            assert_eq!(super::trust(&file), trust, "{pem}");
            assert!(is_for(&file, "localhost") && !is_for(&file, "127.0.0.1"), "{pem}");
        }
        std::fs::write(&file, "").expect("a file");
        assert_eq!(
            (super::trust(&file), is_for(&file, "localhost")),
            (Trust::TakenOverBody, false)
        );
    }
}
