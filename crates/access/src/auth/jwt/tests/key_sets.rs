//! Keys of a set that are left out, and sets that are not read at all.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::issuer::{Issuer, claims, decide, encode, jwks, key_set};
use crate::auth::jwt::Refusal;
use crate::auth::jwt::keys::{KEYS_MAX, KeySet};

/// A set of this key is in trouble, and the tokens of its issuer are not accepted.
fn assert_left_out(issuer: &Issuer, jwk: Value, reason: &str) {
    let set = key_set([jwk]);
    let trouble = set.trouble().expect("trouble");
    assert!(trouble.contains(reason), "{trouble}");
    assert_eq!(decide(&issuer.token(&claims()), &set), Err(Refusal::UnknownKey), "{reason}");
}

#[test]
fn secrets_in_a_set_are_left_out() {
    let secret = Issuer::hs256(b"the secret that everyone can read in the set");
    let jwk = json!({
        "kty": "oct", "kid": "h", "alg": "HS256",
        "k": encode(b"the secret that everyone can read in the set"),
    });
    let set = key_set([jwk]);
    assert!(set.trouble().expect("trouble").contains("kty oct"));
    assert_eq!(decide(&secret.token(&claims()), &set), Err(Refusal::BadSignature));
}

#[test]
fn keys_for_something_else_are_left_out() {
    for issuer in [Issuer::rs256(), Issuer::es256("e"), Issuer::eddsa("d")] {
        for alg in ["RS256", "ES256", "EdDSA", "HS256", "RS512", "PS256", "RSA-OAEP", "other"] {
            if alg != issuer.alg {
                assert_left_out(&issuer, issuer.jwk_with("alg", json!(alg)), "alg");
            }
        }
        assert_left_out(&issuer, issuer.jwk_with("use", json!("enc")), "use");
        assert_left_out(&issuer, issuer.jwk_with("use", json!("SIG")), "use");
        assert_left_out(&issuer, issuer.jwk_with("key_ops", json!(["sign"])), "key_ops");
        assert_left_out(&issuer, issuer.jwk_with("key_ops", json!([])), "key_ops");
        for kty in ["RSA", "EC", "OKP", "oct", "rsa", "other"] {
            if issuer.jwk()["kty"] != kty {
                let set = key_set([issuer.jwk_with("kty", json!(kty))]);
                assert!(set.trouble().is_some(), "{} as {kty}", issuer.alg);
                assert_eq!(decide(&issuer.token(&claims()), &set), Err(Refusal::UnknownKey));
            }
        }
    }
}

#[test]
fn keys_that_say_no_more_than_they_must_are_used() {
    for issuer in [Issuer::rs256(), Issuer::es256("e"), Issuer::eddsa("d")] {
        for jwk in [
            issuer.jwk_with("alg", Value::Null),
            issuer.jwk_with("use", Value::Null),
            issuer.jwk_with("key_ops", json!(["verify"])),
            issuer.jwk_with("x-more", json!({"of": "the issuer's own"})),
        ] {
            let set = key_set([jwk]);
            assert_eq!(set.trouble(), None);
            assert!(decide(&issuer.token(&claims()), &set).is_ok(), "{}", issuer.alg);
        }
    }
}

#[test]
fn keys_of_other_curves_are_left_out() {
    let (ec, ed) = (Issuer::es256("e"), Issuer::eddsa("d"));
    for crv in ["P-384", "P-521", "secp256k1", "Ed25519", "p-256"] {
        assert_left_out(&ec, ec.jwk_with("crv", json!(crv)), "curve");
    }
    for crv in ["Ed448", "X25519", "P-256", "ed25519"] {
        assert_left_out(&ed, ed.jwk_with("crv", json!(crv)), "curve");
    }
}

#[test]
fn keys_that_are_broken_are_left_out() {
    let (rsa, ec, ed) = (Issuer::rs256(), Issuer::es256("e"), Issuer::eddsa("d"));
    let x = ec.jwk()["x"].as_str().expect("a coordinate").to_owned();
    assert_left_out(&ec, ec.jwk_with("y", json!(x)), "not a point");
    assert_left_out(&ec, ec.jwk_with("y", json!(encode(&[1; 31]))), "not a point");
    assert_left_out(&ec, ec.jwk_with("y", json!(encode(&[1; 33]))), "not a point");
    assert_left_out(&ec, ec.jwk_with("y", json!(format!("{x}=="))), "not a point");
    assert_left_out(&ec, ec.jwk_with("x", json!("")), "not a point");
    assert_left_out(&ed, ed.jwk_with("x", json!(encode(&[1; 31]))), "not an Ed25519");
    assert_left_out(&ed, ed.jwk_with("x", json!(encode(&[1; 57]))), "not an Ed25519");
    for e in [&[] as &[u8], &[0], &[1], &[2], &[4], &[3; 5], &[1; 300]] {
        assert_left_out(&rsa, rsa.jwk_with("e", json!(encode(e))), "not a valid RSA");
    }
    assert_left_out(&rsa, rsa.jwk_with("n", json!("!")), "not a valid RSA");
    for (issuer, member) in [(&rsa, "n"), (&rsa, "e"), (&ec, "x"), (&ec, "y"), (&ed, "x")] {
        assert_left_out(issuer, issuer.jwk_with(member, Value::Null), "not supported");
        assert_left_out(issuer, issuer.jwk_with(member, json!(7)), "not supported");
    }
    for jwk in [json!({}), json!([]), json!(7), json!("key")] {
        assert!(key_set([jwk]).trouble().is_some());
    }
}

#[test]
fn rsa_keys_have_2048_bits_or_more() {
    let rsa = Issuer::rs256();
    let of_bits = |bits: usize| {
        // The highest and the lowest bit are set.
        let mut n = vec![0x55; bits.div_ceil(8)];
        n[0] = match bits % 8 {
            0 => 0x80,
            rest => 1 << (rest - 1),
        };
        *n.last_mut().expect("a byte") |= 1;
        rsa.jwk_with("n", json!(encode(&n)))
    };
    for bits in [512, 1024, 2040, 2047] {
        assert_left_out(&rsa, of_bits(bits), "less than 2048 bits");
    }
    for bits in [8193, 16384] {
        assert_left_out(&rsa, of_bits(bits), "more than 8192 bits");
    }
    for bits in [2048, 3072, 8192] {
        assert_eq!(key_set([of_bits(bits)]).trouble(), None, "{bits}");
    }
    // Zeros in front make a key no longer, and do not spoil one that is long enough.
    let padded = |jwk: &Value| {
        let n = jwk["n"].as_str().expect("a modulus");
        // Four characters are three bytes.
        rsa.jwk_with("n", json!(format!("AAAA{n}")))
    };
    assert_left_out(&rsa, padded(&of_bits(2040)), "less than 2048 bits");
    assert!(decide(&rsa.token(&claims()), &key_set([padded(&rsa.jwk())])).is_ok());
}

#[test]
fn a_good_key_beside_bad_ones_is_used() {
    let good = Issuer::es256("good");
    let set = key_set([json!({"kty": "oct", "k": "AAAA"}), json!(7), good.jwk()]);
    let trouble = set.trouble().expect("trouble");
    assert!(trouble.contains("some of its keys"), "{trouble}");
    assert!(trouble.contains("key 1: a shared secret"), "{trouble}");
    assert!(decide(&good.token(&claims()), &set).is_ok());
}

#[test]
fn of_two_keys_with_one_name_the_first_counts() {
    let (first, second) = (Issuer::es256("same"), Issuer::es256("same"));
    let set = key_set([first.jwk(), second.jwk()]);
    assert!(set.trouble().expect("trouble").contains("key 2: its kid is there already"));
    assert!(decide(&first.token(&claims()), &set).is_ok());
    assert_eq!(decide(&second.token(&claims()), &set), Err(Refusal::BadSignature));
    // Keys of different algorithms may share a name: the token says which it means.
    let other = Issuer::eddsa("same");
    let set = key_set([first.jwk(), other.jwk()]);
    assert_eq!(set.trouble(), None);
    assert!(decide(&first.token(&claims()), &set).is_ok());
    assert!(decide(&other.token(&claims()), &set).is_ok());
}

#[test]
fn a_set_has_at_most_100_keys() {
    let keys = |count: usize| jwks((0..count).map(|i| Issuer::eddsa(&i.to_string()).jwk()));
    assert_eq!(KeySet::parse(keys(KEYS_MAX).as_bytes()).expect("a set").trouble(), None);
    let refused = KeySet::parse(keys(KEYS_MAX + 1).as_bytes()).expect_err("refused");
    assert!(refused.contains("101 keys"), "{refused}");
}

#[test]
fn what_is_no_set_is_not_read() {
    for text in ["", "null", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[}"#, "<html>"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    let empty = KeySet::parse(br#"{"keys":[]}"#).expect("a set");
    assert!(empty.trouble().expect("trouble").contains("empty"));
}

proptest! {
    #[test]
    fn no_set_makes_the_parser_panic(bytes: Vec<u8>, member in "kty|crv|alg|use|n|e|x|y|kid", value in ".{0,40}") {
        let _ = KeySet::parse(&bytes);
        for issuer in [Issuer::es256("e"), Issuer::eddsa("d")] {
            let set = key_set([issuer.jwk_with(&member, json!(value))]);
            let _ = decide(&issuer.token(&claims()), &set);
        }
    }
}
