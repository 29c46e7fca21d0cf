//! An issuer of end users' tokens: makes keys, publishes them, and signs whatever it is told to,
//! also what no decent issuer would.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key that signs, with its name.
#[derive(Debug)]
pub struct Issuer {
    kid: String,
    signer: Signer,
}

#[derive(Debug)]
enum Signer {
    Hmac(Vec<u8>),
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Issuer {
    /// One that shares a secret with the server.
    pub fn hs256(secret: impl AsRef<[u8]>) -> Issuer {
        Issuer::named("secret", Signer::Hmac(secret.as_ref().to_vec()))
    }

    pub fn rs256(kid: &str) -> Issuer {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("an RSA pair");
        Issuer::named(kid, Signer::Rsa(Box::new(pair)))
    }

    pub fn es256(kid: &str) -> Issuer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a P-256 pair");
        Issuer::named(kid, Signer::P256(pair))
    }

    pub fn eddsa(kid: &str) -> Issuer {
        Issuer::named(kid, Signer::Ed25519(Ed25519KeyPair::generate().expect("an Ed25519 pair")))
    }

    fn named(kid: &str, signer: Signer) -> Issuer {
        Issuer { kid: kid.to_owned(), signer }
    }

    /// A token with these claims that is good for an hour, unless they say otherwise.
    pub fn token(&self, claims: &Value) -> String {
        let mut claims = claims.clone();
        if claims.get("exp").is_none() {
            claims["exp"] = in_seconds(3_600);
        }
        self.token_of(&self.header(), &claims)
    }

    /// A token with these very parts, truly signed.
    pub fn token_of(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| encode(part.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        format!("{message}.{}", encode(&self.sign(message.as_bytes())))
    }

    /// What its tokens begin with.
    pub fn header(&self) -> Value {
        let alg = match &self.signer {
            Signer::Hmac(_) => "HS256",
            Signer::Rsa(_) => "RS256",
            Signer::P256(_) => "ES256",
            Signer::Ed25519(_) => "EdDSA",
        };
        json!({ "alg": alg, "typ": "JWT", "kid": self.kid })
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.signer {
            Signer::Hmac(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.expect("a signature");
                signature
            }
            Signer::P256(pair) => {
                pair.sign(&random, message).expect("a signature").as_ref().to_vec()
            }
            Signer::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// The public key, as it is published.
    pub fn jwk(&self) -> Value {
        let kid = &self.kid;
        match &self.signer {
            Signer::Hmac(_) => panic!("a secret is not published"),
            Signer::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "kid": kid, "n": encode(&public.n), "e": encode(&public.e) })
            }
            Signer::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y })
            }
            Signer::Ed25519(pair) => {
                let x = encode(pair.public_key().as_ref());
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x })
            }
        }
    }

    /// The public key's bytes, in the forms that a confused server might take for a secret.
    pub fn public_bytes(&self) -> Vec<Vec<u8>> {
        let jwk = self.jwk();
        let raw = match &self.signer {
            Signer::Hmac(_) => panic!("a secret is not published"),
            Signer::Rsa(pair) => pair.public_key().as_ref(),
            Signer::P256(pair) => pair.public_key().as_ref(),
            Signer::Ed25519(pair) => pair.public_key().as_ref(),
        };
        vec![raw.to_vec(), jwk.to_string().into_bytes(), encode(raw).into_bytes()]
    }
}

/// A token that nobody signed.
pub fn unsigned(claims: &Value) -> String {
    let [header, claims] = [&json!({ "alg": "none", "typ": "JWT" }), claims]
        .map(|part| encode(part.to_string().as_bytes()));
    format!("{header}.{claims}.")
}

/// The text of a key set.
pub fn key_set<'a>(issuers: impl IntoIterator<Item = &'a Issuer>) -> String {
    let keys: Vec<Value> = issuers.into_iter().map(Issuer::jwk).collect();
    json!({ "keys": keys }).to_string()
}

/// A time claim: so many seconds from now.
pub fn in_seconds(seconds: i64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    json!(i64::try_from(now.as_secs()).expect("a time that fits") + seconds)
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
