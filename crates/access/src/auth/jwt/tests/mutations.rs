//! Tokens with any change. Nothing but the very same token is accepted, and nothing panics.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::issuer::{Issuer, all_four, claims, decide, encode, key_set};
use crate::auth::jwt::Refusal;
use crate::auth::jwt::keys::KeySet;
use tidewire_fixtures::mutations::{changed, changed_text, changes};

/// A token of each algorithm, and the keys of their issuers.
fn tokens() -> &'static (Vec<String>, KeySet) {
    static TOKENS: OnceLock<(Vec<String>, KeySet)> = OnceLock::new();
    TOKENS.get_or_init(|| {
        let issuers = all_four();
        let set = key_set(issuers[1..].iter().map(Issuer::jwk));
        (issuers.iter().map(|issuer| issuer.token(&claims())).collect(), set)
    })
}

/// Whether a token is accepted that is not one of those that were made.
fn accepted_though_changed(token: &str) -> bool {
    let (tokens, set) = tokens();
    decide(token, set).is_ok() && !tokens.iter().any(|made| made == token)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_token_whose_text_is_changed_is_refused(
        which in 0usize..4,
        changes in changes(),
    ) {
        prop_assert!(!accepted_though_changed(&changed_text(&tokens().0[which], &changes)));
    }

    #[test]
    fn a_token_whose_content_is_changed_is_refused(
        which in 0usize..4,
        part in 0usize..3,
        changes in changes(),
    ) {
        let mut parts: Vec<Vec<u8>> = tokens().0[which]
            .split('.')
            .map(|part| URL_SAFE_NO_PAD.decode(part).expect("base64"))
            .collect();
        parts[part] = changed(std::mem::take(&mut parts[part]), &changes);
        let changed: Vec<String> = parts.iter().map(|part| encode(part)).collect();
        prop_assert!(!accepted_though_changed(&changed.join(".")));
    }

    #[test]
    fn parts_of_different_tokens_make_no_token(picks in prop::array::uniform3((0usize..4, 0usize..3))) {
        let (tokens, _) = tokens();
        let parts: Vec<&str> = picks
            .iter()
            .map(|(which, part)| tokens[*which].split('.').nth(*part).expect("a part"))
            .collect();
        prop_assert!(!accepted_though_changed(&parts.join(".")));
    }

    #[test]
    fn no_text_is_accepted_or_panics(text in ".{0,200}") {
        prop_assert!(decide(&text, &tokens().1).is_err());
    }

    #[test]
    fn no_three_parts_are_accepted_or_panic(
        header in prop_oneof![
            "\\{\"alg\":\"(HS256|RS256|ES256|EdDSA|none)\"(,\"kid\":\"[rehd]\")?\\}",
            ".{0,60}",
        ],
        payload in ".{0,60}",
        signature: Vec<u8>,
    ) {
        let token = format!(
            "{}.{}.{}",
            encode(header.as_bytes()),
            encode(payload.as_bytes()),
            encode(&signature),
        );
        prop_assert!(decide(&token, &tokens().1).is_err());
    }
}

#[test]
fn no_character_of_a_token_can_be_another() {
    let alphabet: Vec<char> =
        ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("-_.=+/ ".chars()).collect();
    let (tokens, _) = tokens();
    for token in tokens {
        // The last characters of the parts have bits that no byte needs; the others are for the
        // property above.
        let dots: Vec<usize> = token.match_indices('.').map(|(at, _)| at).collect();
        for end in [dots[0], dots[1], token.len()] {
            for other in &alphabet {
                let mut changed = token.clone();
                changed.replace_range(end - 1..end, &other.to_string());
                assert!(!accepted_though_changed(&changed), "{other} at {end}");
            }
        }
    }
}

#[test]
fn stray_bits_in_the_last_character_are_refused() {
    let (tokens, set) = tokens();
    for token in tokens {
        // 32 bytes leave two bits over, 64 and 256 bytes leave four.
        let last = token.chars().next_back().expect("a character");
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let value = alphabet.find(last).expect("of the alphabet");
        let twin = alphabet.chars().nth(value + 1).expect("the next");
        let changed = format!("{}{twin}", &token[..token.len() - 1]);
        assert_eq!(decide(&changed, set), Err(Refusal::Malformed));
    }
}

/// The order of P-256.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

#[test]
fn the_mirror_of_an_es256_signature_is_the_same_token_in_another_spelling() {
    let issuer = Issuer::es256("e");
    let set = key_set([issuer.jwk()]);
    let token = issuer.token(&claims());
    let (message, signature) = token.rsplit_once('.').expect("a signature");
    let mut signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    // s becomes ORDER - s.
    let mut borrow = 0i16;
    for at in (0..32).rev() {
        let difference = i16::from(ORDER[at]) - i16::from(signature[32 + at]) - borrow;
        borrow = i16::from(difference < 0);
        signature[32 + at] = u8::try_from(difference.rem_euclid(256)).expect("a byte");
    }
    let mirrored = format!("{message}.{}", encode(&signature));
    assert_ne!(mirrored, token);
    assert_eq!(decide(&mirrored, &set), decide(&token, &set));
}
