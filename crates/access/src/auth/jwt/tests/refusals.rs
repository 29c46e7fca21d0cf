//! Every reason to refuse a token, and what is accepted.

use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::issuer::{
    Issuer, NOW_S, SECRET, all_four, claims, decide, decide_by, encode, key_set, message,
};
use crate::auth::jwt::check::{Keys, Published, TOKEN_BYTES_MAX, check};
use crate::auth::jwt::keys::{Key, KeySet};
use crate::auth::jwt::{Claims, Refusal};
use crate::options::JwtOptions;

/// The usual claims with one changed, or removed if the value is null.
fn claims_with(claim: &str, value: Value) -> Value {
    let mut all = claims();
    let members = all.as_object_mut().expect("an object");
    if value.is_null() {
        members.remove(claim);
    } else {
        members.insert(claim.to_owned(), value);
    }
    all
}

/// What becomes of truly signed claims.
fn outcome(claims: &Value) -> Result<Claims, Refusal> {
    outcome_by(&JwtOptions::default(), claims)
}

fn outcome_by(options: &JwtOptions, claims: &Value) -> Result<Claims, Refusal> {
    decide_by(options, &Issuer::hs256(SECRET.as_bytes()).token(claims), &KeySet::default())
}

#[test]
fn tokens_of_all_four_algorithms_are_accepted() {
    for issuer in all_four() {
        let set = match issuer.alg {
            "HS256" => KeySet::default(),
            _ => key_set([issuer.jwk()]),
        };
        let accepted = decide(&issuer.token(&claims()), &set).expect(issuer.alg);
        assert_eq!(accepted.user, "ada");
        assert_eq!(accepted.host.as_deref(), Some("h1"));
        assert_eq!(accepted.scopes, Some(json!({"read": ["orders/*"]})));
        assert_eq!(accepted.expires_at_ms, (NOW_S + 60 + 30) * 1000);
        assert_eq!(Value::Object(accepted.all), claims());
    }
}

#[test]
fn tokens_that_a_library_makes_are_accepted() {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(), &key);
    let accepted = decide(&token.expect("a token"), &KeySet::default());
    assert_eq!(accepted.map(|claims| claims.user), Ok("ada".to_owned()));
}

#[test]
fn what_is_no_token_is_malformed() {
    let issuer = Issuer::hs256(SECRET.as_bytes());
    let good = issuer.token(&claims());
    let parts: Vec<&str> = good.split('.').collect();
    let signed = |header: &str, payload: &str| {
        let message = format!("{}.{}", encode(header.as_bytes()), encode(payload.as_bytes()));
        format!("{message}.{}", encode(&issuer.sign(message.as_bytes())))
    };
    let hs256 = r#"{"alg":"HS256"}"#;
    for malformed in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "ada".to_owned(),
        parts[..2].join("."),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}=="),
        format!("{good} "),
        format!("{good}.{}.{}", parts[0], parts[1]),
        good.replace('.', "\u{2024}"),
        signed("", "{}"),
        signed("[]", "{}"),
        signed("{}", "{}"),
        signed(r#"{"alg":null}"#, "{}"),
        signed(r#"{"alg":["HS256"]}"#, "{}"),
        signed(r#"{"alg":"HS256","alg":"HS256"}"#, &claims().to_string()),
        signed(r#"{"alg":"HS256","kid":7}"#, &claims().to_string()),
        signed(hs256, ""),
        signed(hs256, "[]"),
        signed(hs256, "\"ada\""),
        signed(hs256, &format!("{} {{}}", claims())),
        signed(hs256, &"[".repeat(5_000)),
    ] {
        let refused = decide(&malformed, &KeySet::default());
        assert_eq!(refused, Err(Refusal::Malformed), "{malformed}");
    }
}

#[test]
fn critical_headers_are_not_understood() {
    let issuer = Issuer::hs256(SECRET.as_bytes());
    for crit in [json!(["exp"]), json!(["b64"]), json!([]), Value::Null] {
        let header = json!({"alg": "HS256", "crit": crit, "b64": false});
        let refused = decide(&issuer.token_of(&header, &claims()), &KeySet::default());
        assert_eq!(refused, Err(Refusal::Malformed));
    }
}

#[test]
fn a_token_is_at_most_8_kib_long() {
    let token_of = |padding: usize| {
        let claims = claims_with("padding", json!("p".repeat(padding)));
        Issuer::hs256(SECRET.as_bytes()).token(&claims)
    };
    let spare = (TOKEN_BYTES_MAX - token_of(1).len()) / 4 * 3;
    let longest = token_of(spare);
    assert!((TOKEN_BYTES_MAX - 4..=TOKEN_BYTES_MAX).contains(&longest.len()));
    assert!(decide(&longest, &KeySet::default()).is_ok());
    let refused = decide(&token_of(spare + 6), &KeySet::default());
    assert_eq!(refused, Err(Refusal::TooLong));
}

#[test]
fn another_secret_makes_another_signature() {
    let token = Issuer::hs256(b"another secret of more than thirty-two bytes").token(&claims());
    assert_eq!(decide(&token, &KeySet::default()), Err(Refusal::BadSignature));
    let mine = Issuer::es256("e");
    let theirs = Issuer::es256("e");
    assert_eq!(
        decide(&theirs.token(&claims()), &key_set([mine.jwk()])),
        Err(Refusal::BadSignature)
    );
}

#[test]
fn a_signature_of_other_claims_does_not_hold() {
    for issuer in all_four() {
        let set = match issuer.alg {
            "HS256" => KeySet::default(),
            _ => key_set([issuer.jwk()]),
        };
        let token = issuer.token(&claims());
        let (_, signature) = token.rsplit_once('.').expect("a signature");
        let forged = message(&issuer.header(), &claims_with("sub", json!("eve")));
        let refused = decide(&format!("{forged}.{signature}"), &set);
        assert_eq!(refused, Err(Refusal::BadSignature), "{}", issuer.alg);
        let unsigned = format!("{}.", message(&issuer.header(), &claims()));
        assert_eq!(decide(&unsigned, &set), Err(Refusal::BadSignature), "{}", issuer.alg);
    }
}

#[test]
fn expired_tokens_are_refused_once_the_skew_is_over() {
    let ends = |exp: Value| outcome(&claims_with("exp", exp)).map(|claims| claims.expires_at_ms);
    assert_eq!(ends(json!(NOW_S - 29)), Ok((NOW_S + 1) * 1000));
    assert_eq!(ends(json!(1_799_999_970.5)), Ok(NOW_S * 1000 + 500));
    assert_eq!(ends(json!(NOW_S - 30)), Err(Refusal::Expired));
    assert_eq!(ends(json!(0)), Err(Refusal::Expired));
    let strict = JwtOptions { skew: Duration::ZERO, ..JwtOptions::default() };
    let refused = outcome_by(&strict, &claims_with("exp", json!(NOW_S)));
    assert_eq!(refused, Err(Refusal::Expired));
}

#[test]
fn a_token_without_a_sensible_end_is_refused() {
    let in_ms = (NOW_S + 60) * 1000;
    let refused = Err(Refusal::ClaimRefused("exp"));
    assert_eq!(outcome(&claims_with("exp", Value::Null)), refused);
    for exp in [json!("1800000060"), json!(in_ms), json!(-1), json!(1e300), json!([1]), json!(true)]
    {
        assert_eq!(outcome(&claims_with("exp", exp.clone())), refused, "{exp}");
    }
    // The claim is there, and says null.
    let mut claims = claims();
    claims["exp"] = Value::Null;
    assert_eq!(outcome(&claims), refused);
}

#[test]
fn tokens_of_the_future_are_refused() {
    for claim in ["nbf", "iat"] {
        assert!(outcome(&claims_with(claim, json!(NOW_S + 30))).is_ok(), "{claim}");
        let refused = outcome(&claims_with(claim, json!(NOW_S + 31)));
        assert_eq!(refused, Err(Refusal::NotYetValid), "{claim}");
    }
    assert_eq!(outcome(&claims_with("nbf", json!("0"))), Err(Refusal::ClaimRefused("nbf")));
    assert_eq!(outcome(&claims_with("iat", json!({}))), Err(Refusal::ClaimRefused("iat")));
}

#[test]
fn only_the_configured_issuer_is_believed() {
    let issuer = Some("https://issuer.example.com".to_owned());
    let options = JwtOptions { issuer, ..JwtOptions::default() };
    let of = |iss: Value| outcome_by(&options, &claims_with("iss", iss)).map(|claims| claims.user);
    assert_eq!(of(json!("https://issuer.example.com")), Ok("ada".to_owned()));
    for other in [
        Value::Null,
        json!("https://issuer.example.com/"),
        json!("https://ISSUER.example.com"),
        json!(["https://issuer.example.com"]),
        json!(""),
        json!(7),
    ] {
        assert_eq!(of(other.clone()), Err(Refusal::WrongIssuer), "{other}");
    }
}

#[test]
fn one_of_the_configured_audiences_must_be_named() {
    let audience = vec!["tidewire".to_owned(), "live".to_owned()];
    let options = JwtOptions { audience, ..JwtOptions::default() };
    let of = |aud: Value| outcome_by(&options, &claims_with("aud", aud)).map(|claims| claims.user);
    for mine in [json!("live"), json!(["other", "tidewire"])] {
        assert_eq!(of(mine.clone()), Ok("ada".to_owned()), "{mine}");
    }
    for other in [
        Value::Null,
        json!("other"),
        json!([]),
        json!(["other"]),
        json!([["live"]]),
        json!({"live": 1}),
    ] {
        assert_eq!(of(other.clone()), Err(Refusal::WrongAudience), "{other}");
    }
}

#[test]
fn users_and_hosts_have_names_within_bounds() {
    let wrong = [
        json!(""),
        json!("a".repeat(257)),
        json!("ada\nadmin"),
        json!("ada\u{0}"),
        json!("ada\u{7f}"),
        json!("ada\u{85}"),
        json!(7),
        json!(["ada"]),
        json!(false),
    ];
    for name in &wrong {
        let refused = outcome(&claims_with("sub", name.clone()));
        assert_eq!(refused, Err(Refusal::ClaimRefused("sub")), "{name}");
        let refused = outcome(&claims_with("host_id", name.clone()));
        assert_eq!(refused, Err(Refusal::ClaimRefused("host")), "{name}");
    }
    assert_eq!(outcome(&claims_with("sub", Value::Null)), Err(Refusal::ClaimRefused("sub")));
    let longest = "a".repeat(256);
    let accepted = outcome(&claims_with("sub", json!(longest))).expect("accepted");
    assert_eq!(accepted.user, longest);
    let hostless = outcome(&claims_with("host_id", Value::Null)).expect("accepted");
    assert_eq!(hostless.host, None);
}

#[test]
fn the_claims_of_hosts_and_scopes_have_configured_names() {
    let options = JwtOptions {
        host_claim: "https://example.com/host".to_owned(),
        scopes_claim: "scope".to_owned(),
        ..JwtOptions::default()
    };
    let mut claims = claims_with("scope", json!("read write"));
    claims["https://example.com/host"] = json!("h2");
    let accepted = outcome_by(&options, &claims).expect("accepted");
    assert_eq!(accepted.host.as_deref(), Some("h2"));
    assert_eq!(accepted.scopes, Some(json!("read write")));
    let scopeless = outcome_by(&options, &claims_with("scope", Value::Null)).expect("accepted");
    assert_eq!(scopeless.scopes, None);
}

#[test]
fn algorithms_need_their_keys_configured() {
    let secret = Key::shared(SECRET);
    let options = JwtOptions::default();
    for issuer in all_four() {
        let token = issuer.token(&claims());
        let nothing = Keys { secret: None, published: Published::Nowhere };
        let refused = check(&token, &nothing, &options, NOW_S);
        assert_eq!(refused, Err(Refusal::AlgorithmRefused), "{}", issuer.alg);
        let awaited = Keys { secret: Some(&secret), published: Published::Awaited };
        let decided = check(&token, &awaited, &options, NOW_S).map(|claims| claims.user);
        let expected = match issuer.alg {
            "HS256" => Ok("ada".to_owned()),
            _ => Err(Refusal::KeysUnavailable),
        };
        assert_eq!(decided, expected, "{}", issuer.alg);
    }
}

#[test]
fn refusals_have_codes_of_their_own_and_tell_nothing_of_the_token() {
    let all = [
        Refusal::Malformed,
        Refusal::TooLong,
        Refusal::AlgorithmRefused,
        Refusal::UnknownKey,
        Refusal::BadSignature,
        Refusal::Expired,
        Refusal::NotYetValid,
        Refusal::WrongIssuer,
        Refusal::WrongAudience,
        Refusal::ClaimRefused("sub"),
        Refusal::KeysUnavailable,
    ];
    let codes: std::collections::BTreeSet<&str> = all.iter().map(Refusal::code).collect();
    assert_eq!(codes.len(), all.len());
    assert!(codes.iter().all(|code| code.starts_with("token_")));
    let temporary: Vec<&Refusal> = all.iter().filter(|refusal| refusal.is_temporary()).collect();
    assert_eq!(temporary, [&Refusal::KeysUnavailable]);
    let refused = outcome(&claims_with("sub", json!("ada\u{1}"))).expect_err("refused");
    assert!(!refused.to_string().contains("ada"));
}
