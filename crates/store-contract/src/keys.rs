//! API keys: made, listed, revoked, rotated.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::Opener;
use super::test_store::{TestStore, eventually};
use tidewire_store::error::StoreError;
use tidewire_store::keys::{InvalidKey, KeyView, NewKey};

/// Longer than any test takes.
pub(super) const LONG_MS: u64 = 3_600_000;

/// Soon over. Tests wait for its end where they need that.
const SHORT_MS: u64 = 1;

/// A hash that no other letter has.
pub(super) fn hash(letter: char) -> String {
    String::from(letter).repeat(64)
}

/// A key in its plainest form, with the hash of a letter from `a` to `f`.
pub(super) fn new_key(letter: char) -> NewKey {
    NewKey {
        name: format!("key {letter}"),
        hash: hash(letter),
        scopes: r#"{"tables": ["*"]}"#.to_owned(),
        expires_in_ms: None,
    }
}

impl TestStore {
    pub(super) async fn makes(&self, key: NewKey) -> KeyView {
        let about = format!("{key:?}");
        self.create_key(key).await.unwrap_or_else(|error| panic!("{about}: {error}"))
    }

    pub(super) async fn lists_keys(&self) -> Vec<KeyView> {
        self.keys().await.expect("the keys can be listed")
    }

    /// A key that is there.
    pub(super) async fn has_key(&self, id: i64) -> KeyView {
        let found = self.key(id).await.expect("a key can be read");
        found.unwrap_or_else(|| panic!("there is no key {id}"))
    }

    pub(super) async fn revokes(&self, id: i64) -> bool {
        self.revoke_key(id).await.expect("a key can be revoked")
    }

    async fn rotates(&self, id: i64, letter: char, overlap_ms: u64) -> Option<KeyView> {
        let rotated = self.rotate_key(id, &hash(letter), overlap_ms, None).await;
        rotated.unwrap_or_else(|error| panic!("rotate {id}: {error}"))
    }

    async fn expires(&self, id: i64) -> KeyView {
        let check = || async { Some(self.has_key(id).await).filter(|key| !key.is_valid()) };
        eventually("a key expires", check).await
    }
}

/// What time changes is left out.
fn lasting(key: KeyView) -> KeyView {
    KeyView { expires_in_ms: None, ..key }
}

fn scopes(key: &KeyView) -> Value {
    serde_json::from_str(&key.scopes).expect("scopes are JSON")
}

/// A key is found by id and by hash as it was made, and in the list, in order of id.
pub async fn a_key_is_found_as_it_was_made(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    assert_eq!(store.lists_keys().await, []);
    let plain = store.makes(new_key('a')).await;
    let wanted = json!({"can": ["read"], "rows": {"t": "é = '1'"}, "tables": ["t"]});
    let ends = NewKey {
        name: "Schlüssel".to_owned(),
        scopes: wanted.to_string(),
        expires_in_ms: Some(LONG_MS),
        ..new_key('b')
    };
    let ends = store.makes(ends).await;
    assert_eq!((plain.name.as_str(), scopes(&plain)), ("key a", json!({"tables": ["*"]})));
    assert_eq!((plain.is_active, plain.last_used_at_ms, plain.expires_at_ms), (true, None, None));
    assert_eq!((ends.name.as_str(), scopes(&ends)), ("Schlüssel", wanted));
    let (at_ms, in_ms) = (ends.expires_at_ms.expect("an end"), ends.expires_in_ms.expect("an end"));
    let lasts_ms = i64::try_from(LONG_MS).expect("small");
    // What the clock moves meanwhile is nothing beside an hour.
    assert!((lasts_ms / 2..=lasts_ms).contains(&in_ms), "{in_ms}");
    assert!((at_ms - ends.created_at_ms - lasts_ms).abs() < lasts_ms / 2, "{ends:?}");
    assert!(plain.is_valid() && ends.is_valid() && plain.id < ends.id);
    for (key, letter) in [(&plain, 'a'), (&ends, 'b')] {
        let by_hash = store.key_of_hash(&hash(letter)).await.expect("a key can be read");
        assert_eq!(by_hash.map(lasting), Some(lasting(key.clone())));
        assert_eq!(lasting(store.has_key(key.id).await), lasting(key.clone()));
    }
    let listed: Vec<KeyView> = store.lists_keys().await.into_iter().map(lasting).collect();
    assert_eq!(listed, [lasting(plain), lasting(ends)]);
}

/// What is not a key's id or hash finds nothing.
pub async fn an_unknown_key_is_not_found(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let id = store.makes(new_key('a')).await.id;
    for other in [0, -1, id + 1, i64::MAX, i64::MIN] {
        assert_eq!(store.key(other).await.expect("an answer"), None, "{other}");
        assert!(!store.revokes(other).await, "{other}");
        assert_eq!(store.rotates(other, 'b', LONG_MS).await, None, "{other}");
    }
    for other in [&hash('b'), &hash('A'), "", "a", "' OR ''='", "a\0", &"a".repeat(100_000)] {
        assert_eq!(store.key_of_hash(other).await.expect("an answer"), None, "{other}");
    }
    assert!(store.has_key(id).await.is_valid());
}

/// What cannot be kept is refused with the reason, and the store goes on as if nothing had been.
pub async fn a_key_that_cannot_be_kept_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let id = store.makes(new_key('a')).await.id;
    let key = || new_key('b');
    let no_tables = r#"{"streams": ["*"]}"#.to_owned();
    for (wrong, reason) in [
        (NewKey { name: "n".repeat(300), ..key() }, InvalidKey::NameLength { chars: 300 }),
        (NewKey { name: String::new(), ..key() }, InvalidKey::NameLength { chars: 0 }),
        (NewKey { name: "a\0".to_owned(), ..key() }, InvalidKey::Nul { what: "name" }),
        (NewKey { hash: hash('A'), ..key() }, InvalidKey::Hash),
        (NewKey { hash: hash('a'), ..key() }, InvalidKey::HashInUse),
        (NewKey { scopes: no_tables, ..key() }, InvalidKey::ScopesWithoutTables),
        (NewKey { expires_in_ms: Some(0), ..key() }, InvalidKey::ExpiredFromTheStart),
    ] {
        let about = format!("{wrong:?}");
        let refused = store.create_key(wrong).await;
        let Err(StoreError::InvalidKey(why)) = refused else { panic!("{about}: {refused:?}") };
        assert_eq!(why, reason, "{about}");
    }
    for (taken, expires_in_ms, reason) in [
        (hash('a'), None, InvalidKey::HashInUse),
        (hash('A'), None, InvalidKey::Hash),
        (hash('b'), Some(0), InvalidKey::ExpiredFromTheStart),
    ] {
        let refused = store.rotate_key(id, &taken, SHORT_MS, expires_in_ms).await;
        let Err(StoreError::InvalidKey(why)) = refused else { panic!("{taken}: {refused:?}") };
        assert_eq!(why, reason);
    }
    assert_eq!(store.has_key(id).await.expires_at_ms, None, "a failed rotation changes nothing");
    store.makes(key()).await;
    assert_eq!(store.lists_keys().await.len(), 2);
}

/// Times without number are as good as for ever.
pub async fn an_immense_time_is_accepted_for_a_key(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let id = store.makes(NewKey { expires_in_ms: Some(u64::MAX), ..new_key('a') }).await.id;
    let rotated = store.rotate_key(id, &hash('b'), u64::MAX, Some(u64::MAX)).await;
    let rotated = rotated.expect("an answer").expect("a valid key");
    assert!(store.has_key(id).await.is_valid() && rotated.is_valid());
    assert_eq!(store.lists_keys().await.len(), 2);
}

/// A revoked key stays, and says that it is revoked.
pub async fn a_revoked_key_is_not_valid(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (id, other) = (store.makes(new_key('a')).await.id, store.makes(new_key('b')).await.id);
    for _ in 0..2 {
        assert!(store.revokes(id).await, "there is one, revoked before or not");
        let revoked = store.key_of_hash(&hash('a')).await.expect("an answer").expect("it is there");
        assert!(!revoked.is_active && !revoked.is_valid());
    }
    assert!(store.has_key(other).await.is_valid());
    assert_eq!(store.rotates(id, 'c', LONG_MS).await, None, "a revoked key is not rotated");
    assert_eq!(store.lists_keys().await.len(), 2);
}

/// An expired key stays, and says that it has expired.
pub async fn an_expired_key_is_not_valid(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let id = store.makes(NewKey { expires_in_ms: Some(SHORT_MS), ..new_key('a') }).await.id;
    let expired = store.expires(id).await;
    assert!(expired.is_active && expired.expires_in_ms.is_some_and(|left_ms| left_ms <= 0));
    assert_eq!(store.rotates(id, 'b', LONG_MS).await, None, "an expired key is not rotated");
    assert_eq!(store.lists_keys().await.len(), 1);
}

/// A rotated key and its successor are both valid until the overlap is over.
pub async fn a_rotated_key_is_valid_for_the_overlap(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let narrow = r#"{"tables": ["orders"]}"#.to_owned();
    let old = store.makes(NewKey { scopes: narrow, ..new_key('a') }).await;
    let new = store.rotates(old.id, 'b', LONG_MS).await.expect("a valid key is rotated");
    assert!(new.id > old.id);
    assert_eq!((&new.name, scopes(&new)), (&old.name, json!({"tables": ["orders"]})));
    assert_eq!((new.expires_at_ms, new.last_used_at_ms), (None, None));
    let leaving = store.has_key(old.id).await;
    assert!(leaving.is_valid() && leaving.expires_in_ms.is_some(), "{leaving:?}");
    let next = store.rotates(new.id, 'c', 0).await.expect("a valid key is rotated");
    assert!(!store.has_key(new.id).await.is_valid(), "without overlap it ends at once");
    assert!(store.has_key(next.id).await.is_valid());
    let last = store.rotates(next.id, 'd', SHORT_MS).await.expect("a valid key is rotated");
    store.expires(next.id).await;
    assert!(store.has_key(last.id).await.is_valid(), "the overlap was the old one's end only");
}

/// A rotation does not lengthen a key's life; its successor has a life of its own.
pub async fn a_rotated_key_expires_no_later_than_before(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let ends = NewKey { expires_in_ms: Some(LONG_MS), ..new_key('a') };
    let old = store.makes(ends).await;
    let new = store.rotate_key(old.id, &hash('b'), 2 * LONG_MS, Some(3 * LONG_MS)).await;
    let new = new.expect("an answer").expect("a valid key is rotated");
    assert_eq!(store.has_key(old.id).await.expires_at_ms, old.expires_at_ms);
    assert!(new.expires_at_ms > old.expires_at_ms, "{new:?}");
    store.rotates(old.id, 'c', SHORT_MS).await.expect("it is still valid");
    assert!(store.has_key(old.id).await.expires_at_ms < old.expires_at_ms, "sooner is possible");
}

/// Of rotations at once without overlap, one succeeds.
pub async fn a_key_is_rotated_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let id = store.makes(new_key('a')).await.id;
    let rotations = ['b', 'c', 'd', 'e'].map(|letter| store.rotates(id, letter, 0));
    let made: Vec<KeyView> = join_all(rotations).await.into_iter().flatten().collect();
    assert_eq!((made.len(), store.lists_keys().await.len()), (1, 2), "{made:?}");
}

/// Uses are noted on the keys that were used, and change nothing else.
pub async fn uses_of_keys_are_noted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let a = store.makes(new_key('a')).await;
    let b = store.makes(new_key('b')).await;
    let c = store.makes(new_key('c')).await;
    store.note_key_uses(&[]).await.expect("nothing is noted");
    store.note_key_uses(&[c.id, a.id, a.id, 999]).await.expect("uses are noted");
    for (key, used) in [(a, true), (b, false), (c, true)] {
        let found = store.has_key(key.id).await;
        let at_ms = found.last_used_at_ms;
        assert_eq!(at_ms.is_some_and(|at_ms| at_ms >= key.created_at_ms), used, "{found:?}");
        assert_eq!(KeyView { last_used_at_ms: None, ..found }, key);
    }
}

/// Keys of the same moment have ids of their own, and a removed key's is not given again.
pub async fn ids_of_keys_are_not_given_twice(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let made = join_all(['a', 'b', 'c', 'd', 'e'].map(|letter| store.makes(new_key(letter)))).await;
    let ids: BTreeSet<i64> = made.iter().map(|key| key.id).collect();
    assert_eq!(ids.len(), made.len());
    let last = ids.last().expect("five of them");
    data.run_sql("DELETE FROM tidewire.api_keys").await;
    let store = store.reopen(data).await;
    assert!(store.makes(new_key('f')).await.id > *last);
}

/// Keys are there after a restart, revoked and rotated as they were.
pub async fn keys_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let a = store.makes(new_key('a')).await.id;
    store.makes(NewKey { expires_in_ms: Some(LONG_MS), ..new_key('b') }).await;
    let c = store.makes(new_key('c')).await.id;
    store.rotates(a, 'd', LONG_MS).await.expect("a valid key is rotated");
    assert!(store.revokes(c).await);
    store.note_key_uses(&[a]).await.expect("a use is noted");
    let before: Vec<KeyView> = store.lists_keys().await.into_iter().map(lasting).collect();

    let store = store.reopen(data).await;
    let again: Vec<KeyView> = store.lists_keys().await.into_iter().map(lasting).collect();
    assert_eq!(again, before);
    assert!(store.key_of_hash(&hash('d')).await.expect("an answer").is_some_and(|k| k.is_valid()));
}

/// A key that a person makes with SQL, under the names of the columns that other tools know, is as
/// good as any.
pub async fn a_key_can_be_made_by_hand(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let insert = "INSERT INTO tidewire.api_keys (name, key_hash) VALUES";
    data.run_sql(&format!("{insert} ('by hand', '{}')", hash('a'))).await;
    let found = store.key_of_hash(&hash('a')).await.expect("an answer").expect("it is there");
    assert!(found.is_valid(), "{found:?}");
    assert_eq!((found.name.as_str(), scopes(&found)), ("by hand", json!({"tables": ["*"]})));
    let made = store.makes(new_key('b')).await;
    let hour_ms = i64::try_from(LONG_MS).expect("small");
    assert!((made.created_at_ms - found.created_at_ms).abs() < hour_ms, "{made:?}, {found:?}");
    data.run_sql("UPDATE tidewire.api_keys SET is_active = false WHERE name = 'by hand'").await;
    assert!(!store.has_key(found.id).await.is_valid());
    assert!(store.has_key(made.id).await.is_valid());
}
