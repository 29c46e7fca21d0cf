//! API keys: who may come in with a key, and what each may do.
//!
//! The key itself never reaches the store. It is kept as its SHA-256, which is not salted: a key is
//! 256 random bits, so there is nothing to guess. What a key may do is its *scopes*, a JSON object
//! that has at least the member `tables`; the store keeps it and does not look further into it.
//!
//! # What holds
//!
//! - **A key is valid** while it is active and has not expired. Clocks are the database's: callers
//!   give durations, and a view says how long is left.
//! - **Whoever changes a key, all nodes hear of it.** A message goes through the
//!   [control channel](crate::control) when a key changes or goes, also if a person did it with SQL.
//!   A key that is made is no news, nor is one that was used.
//! - **Ids are not given twice**, so what is remembered of a key is never taken for another's.
//! - **What cannot be kept is refused** before it gets to the database, as
//!   [`StoreError::InvalidKey`], with the reason. The tables check the same once more.

use async_trait::async_trait;
use serde_json::Value;

use crate::error::StoreError;

/// The longest name, in characters.
pub const KEY_NAME_CHARS_MAX: usize = 255;

/// The longest scopes, in bytes: room for a rule for each of hundreds of tables, and little enough
/// to be kept in memory for every key in use.
pub const KEY_SCOPES_BYTES_MAX: usize = 64 << 10;

/// Hexadecimal digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// The longest time from now that is told apart: any longer, and its end would not fit the database's
/// times. Some 35,000 years.
const DURATION_MS_MAX: u64 = 1 << 50;

/// A duration as the databases take it.
pub fn duration(ms: u64) -> i64 {
    i64::try_from(ms.min(DURATION_MS_MAX)).unwrap_or(i64::MAX)
}

/// A key as it is kept, without its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView {
    /// By which it is known to people and in messages.
    pub id: i64,
    /// What people call it. Several may have the same name.
    pub name: String,
    /// What it may do: a JSON object, as text. The stores write the same object differently.
    pub scopes: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it was last used, about.
    pub last_used_at_ms: Option<i64>,
    /// Not revoked.
    pub is_active: bool,
    /// When it expires.
    pub expires_at_ms: Option<i64>,
    /// How long that was from when this was read. Expired if it is not positive.
    pub expires_in_ms: Option<i64>,
}

impl KeyView {
    /// Whether it opened the door at the moment it was read.
    pub fn is_valid(&self) -> bool {
        self.is_active && self.expires_in_ms.is_none_or(|left_ms| left_ms > 0)
    }
}

/// A key to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What people call it: 1 to [`KEY_NAME_CHARS_MAX`] characters.
    pub name: String,
    /// The SHA-256 of the key, in lower-case hexadecimal digits.
    pub hash: String,
    /// What it may do: a JSON object with the member `tables`.
    pub scopes: String,
    /// How long it is valid; for ever if nothing is said.
    pub expires_in_ms: Option<u64>,
}

impl std::fmt::Debug for NewKey {
    /// Leaves out the hash: it is all that stands between a reader of logs and a search for the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .field("expires_in_ms", &self.expires_in_ms)
            .finish_non_exhaustive()
    }
}

impl NewKey {
    /// Checks that it can be kept. The scopes that come back mean the same to every reader: of a
    /// member that was written twice there is only the last.
    pub fn checked(self) -> Result<NewKey, InvalidKey> {
        check_name(&self.name)?;
        check_hash(&self.hash)?;
        check_expiry(self.expires_in_ms)?;
        let scopes = checked_scopes(&self.scopes)?;
        Ok(NewKey { scopes, ..self })
    }
}

/// Why a key cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The name is empty or too long.
    #[error("a key's name has 1 to {KEY_NAME_CHARS_MAX} characters, but this one has {chars}")]
    NameLength {
        /// How many characters it has.
        chars: usize,
    },
    /// The name, or a text in the scopes, has a character that PostgreSQL cannot keep.
    #[error("the {what} of a key cannot hold the character NUL")]
    Nul {
        /// Where it is.
        what: &'static str,
    },
    /// The hash is none.
    #[error("a key's hash is its SHA-256 in {HASH_DIGITS} lower-case hexadecimal digits")]
    Hash,
    /// There is a key with this hash.
    #[error("there is a key with the same hash already; make another key")]
    HashInUse,
    /// The scopes are too long.
    #[error(
        "the scopes of a key take up to {KEY_SCOPES_BYTES_MAX} bytes, but these take {bytes}; \
         name fewer things, or use patterns"
    )]
    ScopesTooLong {
        /// How long they are.
        bytes: usize,
    },
    /// The scopes are not JSON.
    #[error("the scopes of a key are not JSON: {reason}")]
    ScopesNotJson {
        /// Where and why.
        reason: String,
    },
    /// The scopes are not an object with the member `tables`.
    #[error("the scopes of a key are a JSON object with the member \"tables\"")]
    ScopesWithoutTables,
    /// It would never be valid.
    #[error("a key's expiry lies in the future; leave it out for a key that does not expire")]
    ExpiredFromTheStart,
}

fn check_name(name: &str) -> Result<(), InvalidKey> {
    let chars = name.chars().count();
    if !(1..=KEY_NAME_CHARS_MAX).contains(&chars) {
        return Err(InvalidKey::NameLength { chars });
    }
    if name.contains('\0') {
        return Err(InvalidKey::Nul { what: "name" });
    }
    Ok(())
}

/// Checks that a text is the hash of a key.
pub fn check_hash(hash: &str) -> Result<(), InvalidKey> {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if hash.len() == HASH_DIGITS && hash.bytes().all(digit) {
        Ok(())
    } else {
        Err(InvalidKey::Hash)
    }
}

/// Checks that a key would be valid for some time.
pub fn check_expiry(expires_in_ms: Option<u64>) -> Result<(), InvalidKey> {
    if expires_in_ms == Some(0) { Err(InvalidKey::ExpiredFromTheStart) } else { Ok(()) }
}

fn checked_scopes(scopes: &str) -> Result<String, InvalidKey> {
    if scopes.len() > KEY_SCOPES_BYTES_MAX {
        return Err(InvalidKey::ScopesTooLong { bytes: scopes.len() });
    }
    let value: Value = serde_json::from_str(scopes)
        .map_err(|error| InvalidKey::ScopesNotJson { reason: error.to_string() })?;
    if !value.as_object().is_some_and(|members| members.contains_key("tables")) {
        return Err(InvalidKey::ScopesWithoutTables);
    }
    if has_nul(&value) {
        return Err(InvalidKey::Nul { what: "scopes" });
    }
    Ok(value.to_string())
}

/// Whether a text in it has the one character that `jsonb` cannot keep. As deep as JSON may be,
/// which the parser bounds.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The keys of a store. See the [module documentation](self) for what holds.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Makes a key.
    async fn create_key(&self, key: NewKey) -> Result<KeyView, StoreError>;

    /// All keys, in order of id, valid or not.
    async fn keys(&self) -> Result<Vec<KeyView>, StoreError>;

    /// A key by its id, valid or not.
    async fn key(&self, id: i64) -> Result<Option<KeyView>, StoreError>;

    /// A key by its hash, valid or not: the caller says why it does not open the door.
    async fn key_of_hash(&self, hash: &str) -> Result<Option<KeyView>, StoreError>;

    /// A key opens no door from now on. Says whether there is one.
    async fn revoke_key(&self, id: i64) -> Result<bool, StoreError>;

    /// Makes a key with another's name and scopes, and lets that one expire `overlap_ms` from now, or
    /// when it would have by itself if that is sooner: both or neither. `None` if there is no valid
    /// one.
    async fn rotate_key(
        &self,
        id: i64,
        hash: &str,
        overlap_ms: u64,
        expires_in_ms: Option<u64>,
    ) -> Result<Option<KeyView>, StoreError>;

    /// Notes that keys were used just now. A use is not worth waiting for: that of a key which
    /// someone is just changing may go unnoted.
    async fn note_key_uses(&self, ids: &[i64]) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> NewKey {
        NewKey {
            name: "ci".to_owned(),
            hash: "0123456789abcdef".repeat(4),
            scopes: r#"{"tables": ["*"]}"#.to_owned(),
            expires_in_ms: None,
        }
    }

    fn view(is_active: bool, expires_in_ms: Option<i64>) -> KeyView {
        KeyView {
            id: 1,
            name: "ci".to_owned(),
            scopes: "{}".to_owned(),
            created_at_ms: 0,
            last_used_at_ms: None,
            is_active,
            expires_at_ms: None,
            expires_in_ms,
        }
    }

    #[test]
    fn a_key_is_valid_while_it_is_active_and_has_not_expired() {
        for (active, left_ms, valid) in [
            (true, None, true),
            (true, Some(1), true),
            (true, Some(0), false),
            (true, Some(-1), false),
            (false, None, false),
            (false, Some(1), false),
        ] {
            assert_eq!(view(active, left_ms).is_valid(), valid, "{active}, {left_ms:?}");
        }
    }

    #[test]
    fn a_hash_is_not_shown() {
        let shown = format!("{:?}", key());
        assert!(shown.contains("ci") && !shown.contains("0123456789abcdef"), "{shown}");
    }

    #[test]
    fn names_are_counted_in_characters() {
        for (name, refused) in [
            (String::new(), Some(InvalidKey::NameLength { chars: 0 })),
            ("é".to_owned(), None),
            ("é".repeat(KEY_NAME_CHARS_MAX), None),
            ("é".repeat(300), Some(InvalidKey::NameLength { chars: 300 })),
            ("a\0b".to_owned(), Some(InvalidKey::Nul { what: "name" })),
        ] {
            assert_eq!(NewKey { name, ..key() }.checked().err(), refused);
        }
    }

    #[test]
    fn a_hash_is_64_lower_case_hexadecimal_digits() {
        let hash = key().hash;
        assert_eq!(check_hash(&hash), Ok(()));
        let (upper, short, long) = (hash.to_uppercase(), &hash[1..], format!("{hash}0"));
        let other = format!("{short}g");
        for wrong in [&upper, short, &long, &other, "", &format!("{}é", &hash[2..])] {
            assert_eq!(check_hash(wrong), Err(InvalidKey::Hash), "{wrong}");
        }
    }

    #[test]
    fn scopes_are_an_object_with_tables() {
        let checked = |scopes: &str| NewKey { scopes: scopes.to_owned(), ..key() }.checked();
        for good in [r#"{"tables":["*"]}"#, r#"{"tables":null}"#, r#"{"a":{"b":1},"tables":[]}"#] {
            assert_eq!(checked(good).map(|key| key.scopes).as_deref(), Ok(good));
        }
        for bad in ["{}", r#"["tables"]"#, r#""tables""#, "null", r#"{"a":{"tables":[]}}"#] {
            assert_eq!(checked(bad), Err(InvalidKey::ScopesWithoutTables), "{bad}");
        }
        for bad in ["", "{", r#"{"tables":[1e400]}"#, r#"{"tables":["\ud800"]}"#] {
            let refused = checked(bad);
            assert!(matches!(refused, Err(InvalidKey::ScopesNotJson { .. })), "{bad}: {refused:?}");
        }
        for bad in [r#"{"tables":["\u0000"]}"#, r#"{"tables":[],"a":{"b\u0000":1}}"#] {
            assert_eq!(checked(bad), Err(InvalidKey::Nul { what: "scopes" }), "{bad}");
        }
        let long = format!(r#"{{"tables":["{}"]}}"#, "x".repeat(KEY_SCOPES_BYTES_MAX));
        assert_eq!(checked(&long), Err(InvalidKey::ScopesTooLong { bytes: long.len() }));
    }

    #[test]
    fn a_member_that_is_written_twice_counts_once() {
        let scopes = r#"{"tables":["*"],"tables":["orders"]}"#.to_owned();
        let checked = NewKey { scopes, ..key() }.checked().expect("it can be kept");
        assert_eq!(checked.scopes, r#"{"tables":["orders"]}"#);
    }

    #[test]
    fn a_key_that_has_expired_from_the_start_is_refused() {
        for (expires_in_ms, refused) in
            [(None, None), (Some(1), None), (Some(0), Some(InvalidKey::ExpiredFromTheStart))]
        {
            assert_eq!(NewKey { expires_in_ms, ..key() }.checked().err(), refused);
        }
    }
}
