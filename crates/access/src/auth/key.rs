//! API keys: `tw_` and 256 random bits, shown once and stored as their SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{digest, hex};
use crate::secret;

/// Marks a key for people, and for tools that look for leaked secrets.
const PREFIX: &str = "tw_";
const KEY_BYTES: usize = 32;

/// A key that was just made. It is not shown in logs.
#[expect(missing_debug_implementations, reason = "it holds a secret")]
pub struct NewApiKey {
    /// For its holder, and for nobody else.
    pub key: String,
    /// For the store.
    pub hash: String,
}

/// Makes a key. `None` if the system has no randomness.
pub fn generate() -> Option<NewApiKey> {
    let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret::random::<KEY_BYTES>()?));
    let hash = hash_of(&key);
    Some(NewApiKey { key, hash })
}

/// What the store knows a key by.
pub(crate) fn hash_of(key: &str) -> String {
    hex(&digest(key.as_bytes()))
}

/// Whether a token could be a key: one that could not is not looked up.
pub(crate) fn is_key(token: &str) -> bool {
    let random = token.strip_prefix(PREFIX).map(|text| URL_SAFE_NO_PAD.decode(text));
    matches!(random, Some(Ok(bytes)) if bytes.len() == KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_key_is_one_and_its_hash_is_not() {
        let NewApiKey { key, hash } = generate().expect("randomness");
        assert!(is_key(&key) && key.len() == 46);
        assert_eq!(hash, hash_of(&key));
        assert!(!is_key(&hash) && hash.len() == 64);
        assert_ne!(generate().expect("randomness").key, key);
    }

    proptest::proptest! {
        #[test]
        fn what_is_not_a_key_is_not_taken_for_one(text in "\\PC{0,80}") {
            proptest::prop_assume!(!text.starts_with(PREFIX));
            proptest::prop_assert!(!is_key(&text));
        }

        #[test]
        fn a_changed_key_has_another_hash(at in 3usize..46, to in "[A-Za-z0-9_-]") {
            let NewApiKey { key, hash } = generate().expect("randomness");
            let mut changed = key.clone();
            changed.replace_range(at..=at, &to);
            proptest::prop_assert_eq!(hash_of(&changed) == hash, changed == key);
        }
    }
}
