//! Keys, each for exactly one algorithm; and a JSON Web Key Set, as far as it can be trusted.

use std::fmt::Write as _;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, EllipticCurveKeyParameters, Jwk,
    KeyAlgorithm, KeyOperations, OctetKeyPairParameters, PublicKeyUse, RSAKeyParameters,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refusal;

/// Keys of one set. An issuer has a few: one that signs, and some that come or go.
pub(super) const KEYS_MAX: usize = 100;
/// Shorter RSA keys can be broken (RFC 7518, section 3.3).
const RSA_BITS_MIN: usize = 2048;
/// Longer ones make each token costly to verify, and the cryptography refuses them.
const RSA_BITS_MAX: usize = 8192;
/// Likewise for exponents.
const RSA_EXPONENT_BITS_MAX: usize = 33;
/// Bytes of a coordinate of P-256, and of an Ed25519 key.
const CURVE_BYTES: usize = 32;

/// A key, and the one algorithm that it is for.
#[derive(Debug)]
pub(super) struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    material: DecodingKey,
}

impl Key {
    /// The secret that the issuer and this server share.
    pub(super) fn shared(secret: &str) -> Key {
        let material = DecodingKey::from_secret(secret.as_bytes());
        Key { kid: None, algorithm: Algorithm::HS256, material }
    }

    /// Checks a signature. The provider is named here instead of taken from the crate's features,
    /// which other crates of a build could change.
    pub(super) fn verify(&self, message: &[u8], signature: Vec<u8>) -> Result<(), Refusal> {
        let provider = &aws_lc::DEFAULT_PROVIDER;
        let verifier = (provider.verifier_factory)(&self.algorithm, &self.material)
            .map_err(|_| Refusal::BadSignature)?;
        verifier.verify(message, &signature).map_err(|_| Refusal::BadSignature)
    }

    /// Takes a key from a set, or says why not.
    fn published(jwk: &Value) -> Result<Key, &'static str> {
        let jwk = Jwk::deserialize(jwk).map_err(|_| "not a JSON Web Key")?;
        let (algorithm, material) = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) => (Algorithm::RS256, rsa_key(rsa)?),
            AlgorithmParameters::EllipticCurve(ec) => (Algorithm::ES256, p256_key(ec)?),
            AlgorithmParameters::OctetKeyPair(okp) => (Algorithm::EdDSA, ed25519_key(okp)?),
            // Whoever can read the set could sign with it.
            AlgorithmParameters::OctetKey(_) => return Err("a shared secret (kty oct)"),
            _ => return Err("a key type or curve that is not supported"),
        };
        check_purpose(&jwk.common, algorithm)?;
        Ok(Key { kid: jwk.common.key_id, algorithm, material })
    }
}

/// Checks that what a key says of itself fits the algorithm it would be used with.
fn check_purpose(key: &CommonParameters, algorithm: Algorithm) -> Result<(), &'static str> {
    if key.key_algorithm.is_some_and(|named| named != KeyAlgorithm::from(algorithm)) {
        return Err("an algorithm (alg) other than RS256, ES256 and EdDSA, or not of the key type");
    }
    if key.public_key_use.as_ref().is_some_and(|named| *named != PublicKeyUse::Signature) {
        return Err("not for signatures (use)");
    }
    if key.key_operations.as_ref().is_some_and(|named| !named.contains(&KeyOperations::Verify)) {
        return Err("not for verifying (key_ops)");
    }
    Ok(())
}

fn rsa_key(rsa: &RSAKeyParameters) -> Result<DecodingKey, &'static str> {
    let (n, e) = (integer(&rsa.n)?, integer(&rsa.e)?);
    let is_odd = |bytes: &[u8]| bytes.last().is_some_and(|last| last % 2 == 1);
    match bits(&n) {
        ..RSA_BITS_MIN => return Err("an RSA key of less than 2048 bits"),
        RSA_BITS_MIN..=RSA_BITS_MAX => {}
        _ => return Err("an RSA key of more than 8192 bits"),
    }
    if !is_odd(&n) || !is_odd(&e) || !(2..=RSA_EXPONENT_BITS_MAX).contains(&bits(&e)) {
        return Err("not a valid RSA key");
    }
    Ok(DecodingKey::from_rsa_raw_components(&n, &e))
}

fn p256_key(ec: &EllipticCurveKeyParameters) -> Result<DecodingKey, &'static str> {
    if ec.curve != EllipticCurve::P256 {
        return Err("a curve other than P-256");
    }
    let mut point = vec![0x04];
    for coordinate in [&ec.x, &ec.y] {
        point.extend(bytes(coordinate).filter(|bytes| bytes.len() == CURVE_BYTES).ok_or(NO_POINT)?);
    }
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).map_err(|_| NO_POINT)?;
    Ok(DecodingKey::from_ec_der(&point))
}

const NO_POINT: &str = "not a point of P-256";

fn ed25519_key(okp: &OctetKeyPairParameters) -> Result<DecodingKey, &'static str> {
    if okp.curve != EllipticCurve::Ed25519 {
        return Err("a curve other than Ed25519");
    }
    let x = bytes(&okp.x).filter(|x| x.len() == CURVE_BYTES).ok_or("not an Ed25519 key")?;
    Ok(DecodingKey::from_ed_der(&x))
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// An integer's bytes, without the zeros that some issuers put in front against the standard.
fn integer(text: &str) -> Result<Vec<u8>, &'static str> {
    let bytes = bytes(text).ok_or("not a valid RSA key")?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// The bits of an integer whose first byte is not zero.
fn bits(integer: &[u8]) -> usize {
    integer.first().map_or(0, |first| integer.len() * 8 - first.leading_zeros() as usize)
}

/// The keys of a set that can be used.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<Key>,
    /// Why the others cannot, for the operator.
    left_out: Vec<String>,
}

#[derive(Deserialize)]
struct JwksJson {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set. A key that cannot be used is left out, so that an issuer may publish others
    /// beside those for this server; a set that cannot be read is an error.
    pub(super) fn parse(text: &[u8]) -> Result<KeySet, String> {
        let document: JwksJson = serde_json::from_slice(text)
            .map_err(|_| "it is not a JSON Web Key Set: {\"keys\": [...]}".to_owned())?;
        if document.keys.len() > KEYS_MAX {
            let count = document.keys.len();
            return Err(format!("it has {count} keys, but at most {KEYS_MAX} are read"));
        }
        let mut set = KeySet::default();
        for (index, jwk) in document.keys.iter().enumerate() {
            match Key::published(jwk) {
                Ok(key) if set.keys.iter().any(|other| is_alike(other, &key)) => {
                    set.left_out.push(format!("key {}: its kid is there already", index + 1));
                }
                Ok(key) => set.keys.push(key),
                Err(reason) => set.left_out.push(format!("key {}: {reason}", index + 1)),
            }
        }
        Ok(set)
    }

    /// What the operator should know of the set.
    pub(super) fn trouble(&self) -> Option<String> {
        let mut text = match (self.keys.len(), self.left_out.len()) {
            (0, 0) => "it is empty: no token can be verified with it".to_owned(),
            (_, 0) => return None,
            (0, _) => "none of its keys can be used".to_owned(),
            (_, _) => "some of its keys cannot be used".to_owned(),
        };
        for reason in &self.left_out {
            // Writing to a string cannot fail.
            let _ = write!(text, "; {reason}");
        }
        Some(text)
    }

    /// The key for a token: the one of its `kid`; or, where it names none, the only one that fits
    /// its algorithm.
    pub(super) fn choose(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&Key, Refusal> {
        let named = |key: &&Key| kid.is_none() || key.kid.as_deref() == kid;
        let mut fitting = self.keys.iter().filter(named).filter(|key| key.algorithm == algorithm);
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (None, _) if kid.is_some() && self.keys.iter().any(|key| named(&key)) => {
                Err(Refusal::AlgorithmRefused)
            }
            _ => Err(Refusal::UnknownKey),
        }
    }
}

/// Whether a token could not tell two keys apart by `kid` and algorithm. Keys without `kid` are for
/// tokens without, which want only one anyway.
fn is_alike(one: &Key, other: &Key) -> bool {
    one.kid.is_some() && one.kid == other.kid && one.algorithm == other.algorithm
}
