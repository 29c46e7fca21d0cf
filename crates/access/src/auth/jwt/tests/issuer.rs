//! An issuer of tokens for tests: makes keys, publishes them, and signs whatever it is told to,
//! also what no decent issuer would.

use std::sync::OnceLock;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::encoding::Pkcs8V1Der;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::auth::jwt::check::{Keys, Published, check};
use crate::auth::jwt::keys::{Key, KeySet};
use crate::auth::jwt::{Claims, Refusal};
use crate::options::JwtOptions;

/// The time at which the tests take place.
pub(super) const NOW_S: i64 = 1_800_000_000;
pub(super) const SECRET: &str = "a secret of HS256 with more than thirty-two bytes";

pub(super) enum Signer {
    Hmac(Vec<u8>),
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A key pair with its name.
pub(super) struct Issuer {
    pub(super) alg: &'static str,
    pub(super) kid: String,
    pub(super) signer: Signer,
}

impl Issuer {
    pub(super) fn hs256(secret: &[u8]) -> Issuer {
        Issuer { alg: "HS256", kid: "h".to_owned(), signer: Signer::Hmac(secret.to_vec()) }
    }

    /// Of one pair for all tests, because making one takes long.
    pub(super) fn rs256() -> Issuer {
        static PAIR: OnceLock<Vec<u8>> = OnceLock::new();
        let der = PAIR.get_or_init(|| {
            let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("an RSA pair");
            let der: Pkcs8V1Der<'_> = pair.as_der().expect("PKCS #8");
            der.as_ref().to_vec()
        });
        let pair = RsaKeyPair::from_pkcs8(der).expect("an RSA pair");
        Issuer { alg: "RS256", kid: "r".to_owned(), signer: Signer::Rsa(pair) }
    }

    pub(super) fn es256(kid: &str) -> Issuer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a P-256 pair");
        Issuer { alg: "ES256", kid: kid.to_owned(), signer: Signer::P256(pair) }
    }

    pub(super) fn eddsa(kid: &str) -> Issuer {
        let pair = Ed25519KeyPair::generate().expect("an Ed25519 pair");
        Issuer { alg: "EdDSA", kid: kid.to_owned(), signer: Signer::Ed25519(pair) }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.signer {
            Signer::Hmac(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Signer::Rsa(_) => self.sign_rsa(&RSA_PKCS1_SHA256, message),
            Signer::P256(pair) => {
                pair.sign(&random, message).expect("a signature").as_ref().to_vec()
            }
            Signer::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// Signs with another padding or digest of RSA.
    pub(super) fn sign_rsa(&self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
        let Signer::Rsa(pair) = &self.signer else { panic!("not an RSA issuer") };
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), message, &mut signature).expect("a signature");
        signature
    }

    /// A token with these parts, truly signed.
    pub(super) fn token_of(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encode(&signature))
    }

    /// A token with these claims.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.token_of(&self.header(), claims)
    }

    pub(super) fn header(&self) -> Value {
        json!({"alg": self.alg, "typ": "JWT", "kid": self.kid})
    }

    /// The public key. Nothing is published of HS256.
    pub(super) fn jwk(&self) -> Value {
        match &self.signer {
            Signer::Hmac(_) => panic!("a secret is not published"),
            Signer::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({
                    "kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.kid,
                    "n": encode(&public.n), "e": encode(&public.e),
                })
            }
            Signer::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({
                    "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.kid,
                    "x": encode(&point[1..33]), "y": encode(&point[33..]),
                })
            }
            Signer::Ed25519(pair) => json!({
                "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.kid,
                "x": encode(pair.public_key().as_ref()),
            }),
        }
    }

    /// The public key with one member changed, or removed if the value is null.
    pub(super) fn jwk_with(&self, member: &str, value: Value) -> Value {
        let mut jwk = self.jwk();
        let members = jwk.as_object_mut().expect("an object");
        if value.is_null() {
            members.remove(member);
        } else {
            members.insert(member.to_owned(), value);
        }
        jwk
    }
}

/// One issuer for each algorithm.
pub(super) fn all_four() -> [Issuer; 4] {
    [Issuer::hs256(SECRET.as_bytes()), Issuer::rs256(), Issuer::es256("e"), Issuer::eddsa("d")]
}

pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What is signed.
pub(super) fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

/// Claims that are accepted.
pub(super) fn claims() -> Value {
    json!({"sub": "ada", "exp": NOW_S + 60, "host_id": "h1", "tidewire": {"read": ["orders/*"]}})
}

/// The text of a key set.
pub(super) fn jwks(keys: impl IntoIterator<Item = Value>) -> String {
    json!({"keys": keys.into_iter().collect::<Vec<_>>()}).to_string()
}

/// A key set, with whatever is left out of it left out.
pub(super) fn key_set(keys: impl IntoIterator<Item = Value>) -> KeySet {
    KeySet::parse(jwks(keys).as_bytes()).expect("a key set")
}

/// Decides with [`SECRET`] and these keys, by the usual options.
pub(super) fn decide(token: &str, set: &KeySet) -> Result<Claims, Refusal> {
    decide_by(&JwtOptions::default(), token, set)
}

/// Decides by these options.
pub(super) fn decide_by(
    options: &JwtOptions,
    token: &str,
    set: &KeySet,
) -> Result<Claims, Refusal> {
    let secret = Key::shared(SECRET);
    let keys = Keys { secret: Some(&secret), published: Published::Known(set) };
    check(token, &keys, options, NOW_S)
}
