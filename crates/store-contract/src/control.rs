//! The control channel: every reader gets every message once, and changed keys are told.

use super::Opener;
use super::keys::{LONG_MS, hash, new_key};
use super::test_store::{DEADLINE, TestStore};
use tidewire_store::control::ControlCursor;
use tidewire_store::error::StoreError;
use tidewire_store::keys::NewKey;

/// What was said: its kind and its body.
type Said = (String, String);

pub(super) fn said(kind: &str, body: &str) -> Said {
    (kind.to_owned(), body.to_owned())
}

/// That a key changed.
pub(super) fn key_changed(id: i64) -> Said {
    said("key_changed", &format!(r#"{{"id":{id}}}"#))
}

impl TestStore {
    pub(super) async fn sends(&self, kind: &str, body: &str) {
        let sent = self.send_control(kind, body).await;
        sent.unwrap_or_else(|error| panic!("send {kind}: {error}"));
    }

    /// What the cursor has not seen.
    pub(super) async fn is_told(&self, cursor: &mut ControlCursor) -> Vec<Said> {
        let messages = self.control_since(cursor).await.expect("the channel can be read");
        let ids: Vec<i64> = messages.iter().map(|message| message.id).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        messages.into_iter().map(|message| (message.kind, message.body)).collect()
    }

    /// A cursor for what is said from now on.
    pub(super) async fn listens(&self) -> ControlCursor {
        let mut cursor = ControlCursor::default();
        self.is_told(&mut cursor).await;
        cursor
    }
}

/// Every reader gets every message once, as it was sent and in the order of sending.
pub async fn every_reader_hears_every_message_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (mut one, mut two) = (store.listens().await, store.listens().await);
    assert_eq!(store.is_told(&mut one).await, []);
    store.sends("a", "{}").await;
    store.sends("b", r#"{ "é":[1.50, null] }"#).await;
    let first = [said("a", "{}"), said("b", r#"{ "é":[1.50, null] }"#)];
    assert_eq!(store.is_told(&mut one).await, first);
    assert_eq!(store.is_told(&mut one).await, []);
    store.sends("c", "1").await;
    assert_eq!(store.is_told(&mut one).await, [said("c", "1")]);
    assert_eq!(store.is_told(&mut two).await, [&first[..], &[said("c", "1")]].concat());
}

/// Whoever leaves the first reading aside hears what is said from then on; the others all that is
/// kept.
pub async fn a_reader_begins_where_it_likes(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.sends("before", "{}").await;
    let mut from_now_on = store.listens().await;
    store.sends("after", "{}").await;
    assert_eq!(store.is_told(&mut from_now_on).await, [said("after", "{}")]);
    let mut all = ControlCursor::default();
    assert_eq!(store.is_told(&mut all).await, [said("before", "{}"), said("after", "{}")]);
}

/// Readers that read while others send miss nothing and hear nothing twice.
pub async fn messages_sent_at_once_are_heard_once(data: &dyn Opener) {
    const SENDERS: usize = 8;
    const MESSAGES: usize = 10;
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..SENDERS {
        let store = store.clone();
        senders.spawn(async move {
            for number in 0..MESSAGES {
                store.sends("n", &format!("[{sender},{number}]")).await;
            }
        });
    }
    let reader = async {
        let mut heard = Vec::new();
        while heard.len() < SENDERS * MESSAGES {
            heard.extend(store.is_told(&mut cursor).await);
        }
        heard
    };
    let (_, heard) = tokio::join!(senders.join_all(), tokio::time::timeout(DEADLINE, reader));
    let mut heard: Vec<String> =
        heard.expect("all is heard in time").into_iter().map(|(_, body)| body).collect();
    assert_eq!(store.is_told(&mut cursor).await, []);
    let mut expected: Vec<String> = (0..SENDERS)
        .flat_map(|sender| (0..MESSAGES).map(move |number| format!("[{sender},{number}]")))
        .collect();
    heard.sort_unstable();
    expected.sort_unstable();
    assert_eq!(heard, expected);
}

/// A message wakes those who wait for one.
pub async fn a_message_is_signalled(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut signals = store.control_signals();
    let mut cursor = store.listens().await;
    for round in 0..3 {
        store.sends("a", &round.to_string()).await;
        let heard = async {
            loop {
                signals.changed().await.expect("the store is open");
                let heard = store.is_told(&mut cursor).await;
                if !heard.is_empty() {
                    break heard;
                }
            }
        };
        let heard = tokio::time::timeout(DEADLINE, heard).await.expect("a signal");
        assert_eq!(heard, [said("a", &round.to_string())]);
    }
}

/// A message that is no JSON is refused, and does not disturb the others.
pub async fn a_message_that_is_no_json_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    for bad in ["", "{", "a", "{'a':1}"] {
        let sent = store.send_control("a", bad).await;
        assert!(matches!(sent, Err(StoreError::Broken { .. })), "{bad:?} gave {sent:?}");
    }
    store.sends("a", "{}").await;
    assert_eq!(store.is_told(&mut cursor).await, [said("a", "{}")]);
}

/// A key that changes or goes is told; one that is made or used is not.
pub async fn changed_keys_are_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    let a = store.makes(new_key('a')).await.id;
    let b = store.makes(NewKey { expires_in_ms: Some(LONG_MS), ..new_key('b') }).await.id;
    store.note_key_uses(&[a, b]).await.expect("uses are noted");
    assert_eq!(store.is_told(&mut cursor).await, []);
    let mut signals = store.control_signals();
    let before = *signals.borrow();
    store.revokes(a).await;
    assert_eq!(store.is_told(&mut cursor).await, [key_changed(a)]);
    store.revokes(a).await;
    assert_eq!(store.is_told(&mut cursor).await, [], "revoked before");
    store.rotate_key(b, &hash('c'), 0, None).await.expect("an answer").expect("a valid key");
    assert_eq!(store.is_told(&mut cursor).await, [key_changed(b)], "the old one");
    let woken = tokio::time::timeout(DEADLINE, signals.wait_for(|count| *count > before)).await;
    assert!(matches!(woken, Ok(Ok(_))), "{woken:?}");
}

/// A key that a person changes with SQL is told as well.
pub async fn keys_changed_by_hand_are_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    let a = store.makes(new_key('a')).await.id;
    let b = store.makes(new_key('b')).await.id;
    let update = |set: &str| format!("UPDATE tidewire.api_keys SET {set} WHERE id = {a}");
    for (statement, told) in [
        (update("is_active = false"), vec![key_changed(a)]),
        (update("is_active = false"), vec![]),
        (update(r#"scopes = '{"tables": []}'"#), vec![key_changed(a)]),
        (update("name = 'other'"), vec![key_changed(a)]),
        (update(&format!("key_hash = '{}'", hash('c'))), vec![key_changed(a)]),
        (update("expires_at = created_at"), vec![key_changed(a)]),
        (update("expires_at = NULL"), vec![key_changed(a)]),
        (update("last_used_at = created_at"), vec![]),
        (update("last_used_at = NULL"), vec![]),
        (update("last_used_at = created_at, is_active = true"), vec![key_changed(a)]),
        (
            "UPDATE tidewire.api_keys SET name = 'x'".to_owned(),
            vec![key_changed(a), key_changed(b)],
        ),
        (format!("DELETE FROM tidewire.api_keys WHERE id = {b}"), vec![key_changed(b)]),
        (format!("DELETE FROM tidewire.api_keys WHERE id = {b}"), vec![]),
    ] {
        data.run_sql(&statement).await;
        let mut heard = store.is_told(&mut cursor).await;
        heard.sort();
        assert_eq!(heard, told, "{statement}");
    }
}

/// Old messages are removed and young ones kept; a reader that was there hears no message twice for
/// it, and goes on.
pub async fn old_messages_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    store.sends("old", "{}").await;
    store.sends("old", "{}").await;
    assert_eq!(store.is_told(&mut cursor).await.len(), 2);
    data.run_sql("UPDATE tidewire.control SET created_at = created_at - 7200000").await;
    store.sends("young", "{}").await;
    assert_eq!(store.sweep_control(u64::MAX).await.expect("swept"), 0);
    assert_eq!(store.is_told(&mut cursor).await, [said("young", "{}")], "the floor rises here");
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 2);
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 0);
    assert_eq!(data.run_sql("SELECT kind FROM tidewire.control").await, ["young"]);
    assert_eq!(store.is_told(&mut cursor).await, []);
    store.sends("next", "{}").await;
    assert_eq!(store.is_told(&mut cursor).await, [said("next", "{}")]);
    let mut all = ControlCursor::default();
    assert_eq!(store.is_told(&mut all).await, [said("young", "{}"), said("next", "{}")]);
}

/// Tickets whose time is over are removed with them, and no others.
pub async fn expired_tickets_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.puts_ticket('a', "{}", 0).await;
    store.puts_ticket('b', "{}", LONG_MS).await;
    store.sends("young", "{}").await;
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 1);
    assert_eq!(data.run_sql("SELECT count(*) FROM tidewire.tickets").await, ["1"]);
    assert!(store.takes_ticket('b').await.is_some());
}

/// However much there is to remove, a sweep removes a limited part of it, the oldest first.
pub async fn a_sweep_of_the_channel_is_bounded(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let numbers = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500)";
    data.run_sql(&format!(
        "{numbers} INSERT INTO tidewire.control (kind, body, created_at) SELECT n, '{{}}', n FROM n"
    ))
    .await;
    data.run_sql(&format!(
        "{numbers} INSERT INTO tidewire.tickets (ticket_hash, holder, expires_at)
         SELECT n, '{{}}', n FROM n"
    ))
    .await;
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 2_000);
    assert_eq!(data.run_sql("SELECT min(created_at) FROM tidewire.control").await, ["1001"]);
    assert_eq!(data.run_sql("SELECT min(expires_at) FROM tidewire.tickets").await, ["1001"]);
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 1_000);
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 0);
}

/// What was said before a restart is heard after it, and ids go on, also if all has been swept.
pub async fn messages_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    store.sends("before", "{}").await;
    let store = store.reopen(data).await;
    assert_eq!(store.is_told(&mut cursor).await, [said("before", "{}")]);
    data.run_sql("UPDATE tidewire.control SET created_at = 0").await;
    assert_eq!(store.is_told(&mut cursor).await, []);
    assert_eq!(store.sweep_control(LONG_MS).await.expect("swept"), 1);
    let store = store.reopen(data).await;
    store.sends("after", "{}").await;
    assert_eq!(store.is_told(&mut cursor).await, [said("after", "{}")]);
}
