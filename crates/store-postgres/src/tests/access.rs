//! Keys, tickets and the control channel: what others do to the database meanwhile.

use super::outages::KILL_ALL;
use super::*;
use crate::testing::fresh_database;
use tidewire_store::control::{ControlChannel, ControlCursor, ControlMessage};
use tidewire_store::keys::{KeyView, Keys, NewKey};
use tokio_postgres::error::SqlState;

async fn make(store: &PostgresStore, letter: &str) -> KeyView {
    let key = NewKey {
        name: letter.to_owned(),
        hash: letter.repeat(64),
        scopes: r#"{"tables": []}"#.to_owned(),
        expires_in_ms: None,
    };
    store.create_key(key).await.expect("a key is made")
}

async fn since(store: &PostgresStore, cursor: &mut ControlCursor) -> Vec<ControlMessage> {
    store.control_since(cursor).await.expect("the channel can be read")
}

fn kinds(messages: &[ControlMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.kind.as_str()).collect()
}

#[tokio::test]
async fn a_message_that_commits_late_is_read_once() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let (late, early) = (database.connect().await, database.connect().await);
    let mut cursor = ControlCursor::default();
    since(&store, &mut cursor).await;
    let insert =
        |kind: &str| format!("INSERT INTO tidewire.control (kind, body) VALUES ('{kind}', '1')");
    late.batch_execute(&format!("BEGIN; {}", insert("late"))).await.expect("an id is drawn");
    early.batch_execute(&insert("early")).await.expect("a message");
    let first = since(&store, &mut cursor).await;
    assert_eq!(kinds(&first), ["early"]);
    assert_eq!(since(&store, &mut cursor).await, []);
    late.batch_execute("COMMIT").await.expect("a commit");
    let second = since(&store, &mut cursor).await;
    assert_eq!(kinds(&second), ["late"]);
    assert!(second[0].id < first[0].id, "it was drawn before");
    assert_eq!(since(&store, &mut cursor).await, []);
    early.batch_execute(&insert("next")).await.expect("a message");
    assert_eq!(kinds(&since(&store, &mut cursor).await), ["next"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_key_changed_in_a_long_transaction_is_told_as_of_its_commit() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let key = make(&store, "a").await;
    let mut cursor = ControlCursor::default();
    let by_hand = database.connect().await;
    let revoke = "BEGIN; UPDATE tidewire.api_keys SET is_active = false";
    by_hand.batch_execute(revoke).await.expect("an update");
    store.send_control("meanwhile", "{}").await.expect("sent");
    assert_eq!(kinds(&since(&store, &mut cursor).await), ["meanwhile"]);
    // As if the transaction had been open for an hour.
    database.run("UPDATE tidewire.control SET created_at = created_at - 3600000").await;
    assert_eq!(since(&store, &mut cursor).await, []);
    by_hand.batch_execute("COMMIT").await.expect("a commit");
    let told = since(&store, &mut cursor).await;
    assert_eq!(kinds(&told), ["key_changed"]);
    assert_eq!(told[0].body, format!(r#"{{"id":{}}}"#, key.id));
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_change_by_hand_holds_nobody_up() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let (held, free) = (make(&store, "a").await, make(&store, "b").await);
    let by_hand = database.connect().await;
    let hold = format!(
        "BEGIN; SET CONSTRAINTS ALL IMMEDIATE;
         UPDATE tidewire.api_keys SET is_active = false WHERE id = {}",
        held.id
    );
    by_hand.batch_execute(&hold).await.expect("the trigger has fired");
    let work = async {
        store.note_key_uses(&[held.id, free.id]).await.expect("uses are noted");
        assert!(store.revoke_key(free.id).await.expect("revoked"));
        store.send_control("meanwhile", "{}").await.expect("sent");
        make(&store, "c").await;
        assert!(store.key(held.id).await.expect("an answer").is_some_and(|key| key.is_valid()));
        store.sweep_control(0).await.expect("swept");
    };
    tokio::time::timeout(DEADLINE, work).await.expect("not held up");
    let used = store.key(free.id).await.expect("an answer").and_then(|key| key.last_used_at_ms);
    assert!(used.is_some());
    by_hand.batch_execute("COMMIT").await.expect("a commit");
    assert!(store.key(held.id).await.expect("an answer").is_some_and(|key| !key.is_valid()));
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_listener_that_comes_back_says_to_look() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let mut signals = store.control_signals();
    for _ in 0..3 {
        // The first time for having come at all.
        let signalled = tokio::time::timeout(DEADLINE, signals.changed()).await;
        signalled.expect("it says so").expect("the store is open");
        database.run(KILL_ALL).await;
    }
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn every_key_that_is_truncated_is_told() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let ids = [make(&store, "a").await.id, make(&store, "b").await.id];
    database.run("TRUNCATE tidewire.api_keys").await;
    let told = since(&store, &mut ControlCursor::default()).await;
    let bodies: Vec<&str> = told.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(bodies, ids.map(|id| format!(r#"{{"id":{id}}}"#)));
    assert_eq!(store.keys().await.expect("listed"), []);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_role_that_may_change_keys_needs_nothing_else() {
    let database = fresh_database().await;
    let store = open(&database).await;
    make(&store, "a").await;
    let role = format!("{}_keeper", database.name);
    let revoke = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA tidewire TO {role};
         GRANT SELECT, UPDATE ON tidewire.api_keys TO {role};
         SET ROLE {role}; UPDATE tidewire.api_keys SET is_active = false"
    );
    database.run(&revoke).await;
    assert_eq!(kinds(&since(&store, &mut ControlCursor::default()).await), ["key_changed"]);
    store.close().await;
    database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    database.drop_database().await;
}

#[tokio::test]
async fn the_table_refuses_what_is_no_key() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let client = database.connect().await;
    let hash = "a".repeat(64);
    for (columns, values) in [
        ("name", format!("'', '{hash}'")),
        ("name", format!("repeat('n', 256), '{hash}'")),
        ("name", format!("'n', '{}'", "A".repeat(64))),
        ("name", format!("'n', '{}'", "a".repeat(63))),
        ("scopes", format!("'{{}}', '{hash}'")),
        ("scopes", format!("'[\"tables\"]', '{hash}'")),
        ("scopes", format!("'{{', '{hash}'")),
        ("expires_at", format!("'infinity', '{hash}'")),
    ] {
        let also = if columns == "name" { "" } else { ", name" };
        let name = if columns == "name" { "" } else { ", 'n'" };
        let insert = format!(
            "INSERT INTO tidewire.api_keys ({columns}, key_hash{also}) VALUES ({values}{name})"
        );
        let refused = client.batch_execute(&insert).await.expect_err(&insert);
        let state = refused.code().map(SqlState::code).unwrap_or_default();
        assert!(state.starts_with("23") || state.starts_with("22"), "{insert}: {refused:?}");
    }
    assert_eq!(store.keys().await.expect("listed"), []);
    store.close().await;
    database.drop_database().await;
}
