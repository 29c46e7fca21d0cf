//! Keys and algorithms that do not belong together, as attackers put them together.

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA512, RSA_PSS_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::issuer::{
    Issuer, NOW_S, SECRET, Signer, all_four, claims, decide, encode, key_set, message,
};
use crate::auth::jwt::Refusal;
use crate::auth::jwt::check::{Keys, Published, check};
use crate::auth::jwt::keys::KeySet;
use crate::options::JwtOptions;

#[test]
fn unsigned_tokens_are_refused() {
    let set = key_set([Issuer::rs256().jwk()]);
    for none in ["none", "None", "NONE", "nOnE", "", "null"] {
        for kid in [json!(null), json!("r")] {
            let message = message(&json!({"alg": none, "kid": kid}), &claims());
            for signature in ["", "AAAA"] {
                let refused = decide(&format!("{message}.{signature}"), &set);
                assert_eq!(refused, Err(Refusal::AlgorithmRefused), "{none}");
            }
        }
    }
}

#[test]
fn other_algorithms_are_refused_even_with_a_true_key() {
    let rsa = Issuer::rs256();
    let set = key_set([rsa.jwk(), rsa.jwk_with("alg", Value::Null)]);
    for (alg, encoding) in [
        ("PS256", &RSA_PSS_SHA256 as &'static dyn aws_lc_rs::signature::RsaEncoding),
        ("RS512", &RSA_PKCS1_SHA512),
    ] {
        let message = message(&json!({"alg": alg, "kid": "r"}), &claims());
        let signature = encode(&rsa.sign_rsa(encoding, message.as_bytes()));
        let refused = decide(&format!("{message}.{signature}"), &set);
        assert_eq!(refused, Err(Refusal::AlgorithmRefused), "{alg}");
        // The same signature under an accepted name is not one of that algorithm.
        let (_, payload) = message.split_once('.').expect("a payload");
        let renamed = encode(rsa.header().to_string().as_bytes());
        let refused = decide(&format!("{renamed}.{payload}.{signature}"), &set);
        assert_eq!(refused, Err(Refusal::BadSignature), "{alg}");
    }
    let secret = Issuer::hs256(SECRET.as_bytes());
    for alg in ["HS384", "HS512", "hs256", "HS256 ", "ES384", "ES256K", "Ed25519", "A128KW", "dir"]
    {
        let token = secret.token_of(&json!({"alg": alg}), &claims());
        assert_eq!(decide(&token, &set), Err(Refusal::AlgorithmRefused), "{alg}");
    }
}

/// Everything that an attacker may take for the bytes of a published RSA key.
fn spellings(rsa: &Issuer) -> Vec<Vec<u8>> {
    let Signer::Rsa(pair) = &rsa.signer else { panic!("not an RSA issuer") };
    let pkcs1 = pair.public_key().as_ref().to_vec();
    let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("SPKI");
    let pem = |label: &str, der: &[u8]| {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|line| str::from_utf8(line).expect("ASCII")).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    };
    let jwk = rsa.jwk();
    let text = |member: &str| jwk[member].as_str().expect("a string").to_owned();
    vec![
        pem("PUBLIC KEY", spki.as_ref()).into_bytes(),
        pem("PUBLIC KEY", spki.as_ref()).trim().as_bytes().to_vec(),
        pem("RSA PUBLIC KEY", &pkcs1).into_bytes(),
        spki.as_ref().to_vec(),
        pkcs1,
        text("n").into_bytes(),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text("n")).expect("base64"),
        jwk.to_string().into_bytes(),
        Vec::new(),
    ]
}

#[test]
fn a_public_key_does_not_sign_as_a_secret() {
    let rsa = Issuer::rs256();
    let set = key_set([rsa.jwk()]);
    for public in spellings(&rsa) {
        let attacker = Issuer::hs256(&public);
        for alg in ["HS256", "RS256"] {
            let token = attacker.token_of(&json!({"alg": alg, "kid": "r"}), &claims());
            assert_eq!(decide(&token, &set), Err(Refusal::BadSignature));
            // Without a secret of its own, the server has no use for HS256 at all.
            let keys = Keys { secret: None, published: Published::Known(&set) };
            let refused = check(&token, &keys, &JwtOptions::default(), NOW_S);
            let expected =
                if alg == "HS256" { Refusal::AlgorithmRefused } else { Refusal::BadSignature };
            assert_eq!(refused, Err(expected));
        }
    }
}

#[test]
fn a_true_token_under_another_algorithm_is_refused() {
    let issuers = all_four();
    let set = key_set(issuers[1..].iter().map(Issuer::jwk));
    for issuer in &issuers {
        for other in &issuers {
            if issuer.alg == other.alg {
                continue;
            }
            for kid in [&issuer.kid, &other.kid] {
                let token = issuer.token_of(&json!({"alg": other.alg, "kid": kid}), &claims());
                let expected = match other.alg {
                    "HS256" => Refusal::BadSignature,
                    // The key that is named is of another algorithm, or is the secret's.
                    _ if kid == &issuer.kid && issuer.alg == "HS256" => Refusal::UnknownKey,
                    _ if kid == &issuer.kid => Refusal::AlgorithmRefused,
                    _ => Refusal::BadSignature,
                };
                let refused = decide(&token, &set);
                assert_eq!(refused, Err(expected), "{} as {} by {kid}", issuer.alg, other.alg);
            }
        }
    }
}

#[test]
fn keys_that_a_token_brings_along_are_not_looked_at() {
    let mine = Issuer::es256("e");
    let theirs = Issuer::es256("e");
    let set = key_set([mine.jwk()]);
    let brought = |kid: &str| {
        json!({
            "alg": "ES256",
            "kid": kid,
            "jwk": theirs.jwk(),
            "jku": "https://attacker.example.com/jwks.json",
            "x5u": "https://attacker.example.com/cert.pem",
            "x5c": ["MIIB", 7],
            "x5t": "thumbprint",
        })
    };
    let refused = decide(&theirs.token_of(&brought("e"), &claims()), &set);
    assert_eq!(refused, Err(Refusal::BadSignature));
    let refused = decide(&theirs.token_of(&brought("other"), &claims()), &set);
    assert_eq!(refused, Err(Refusal::UnknownKey));
    // They do no harm to a token that holds without them.
    assert!(decide(&mine.token_of(&brought("e"), &claims()), &set).is_ok());
}

#[test]
fn a_token_without_kid_is_tried_only_with_the_one_key_that_fits() {
    let (one, other, rsa) = (Issuer::es256("1"), Issuer::es256("2"), Issuer::rs256());
    let token = one.token_of(&json!({"alg": "ES256"}), &claims());
    assert!(decide(&token, &key_set([one.jwk(), rsa.jwk()])).is_ok());
    assert!(decide(&token, &key_set([one.jwk_with("kid", Value::Null)])).is_ok());
    let several = key_set([one.jwk(), other.jwk()]);
    assert_eq!(decide(&token, &several), Err(Refusal::UnknownKey));
    assert_eq!(decide(&token, &key_set([rsa.jwk()])), Err(Refusal::UnknownKey));
    assert_eq!(decide(&token, &KeySet::default()), Err(Refusal::UnknownKey));
}

#[test]
fn a_kid_is_the_whole_name_of_a_key() {
    let issuer = Issuer::es256("key-1");
    let set = key_set([issuer.jwk()]);
    for kid in ["", "key", "KEY-1", "key-1 ", "../key-1", "key-1\u{0}", "' OR 1=1 --"] {
        let token = issuer.token_of(&json!({"alg": "ES256", "kid": kid}), &claims());
        assert_eq!(decide(&token, &set), Err(Refusal::UnknownKey), "{kid}");
    }
    // A token that names a key is not tried with one that has no name.
    let nameless = key_set([issuer.jwk_with("kid", Value::Null)]);
    assert_eq!(decide(&issuer.token(&claims()), &nameless), Err(Refusal::UnknownKey));
}
