//! Sessions when connections break, and when many want to change them.

use futures_util::future::join_all;

use super::outages::KILL_ALL;
use super::*;
use crate::sessions::SESSION_LOCK;
use crate::testing::fresh_database;
use tidewire_store::session::{
    Owner, SessionChange, SessionOutcome, SessionSignal, Sessions, Start,
};

fn open_session() -> SessionChange {
    let owner = Owner { user_id: "ann".to_owned(), host_id: None };
    SessionChange::Open { session: "s".to_owned(), owner, ttl_ms: 3_600_000 }
}

fn subscribe(stream: &str, query_id: &str) -> SessionChange {
    SessionChange::Subscribe {
        session: "s".to_owned(),
        stream: stream.to_owned(),
        query_id: query_id.to_owned(),
        start: Start::At(Position::START),
        ttl_ms: 3_600_000,
    }
}

async fn change(
    store: &PostgresStore,
    change: SessionChange,
) -> Result<SessionOutcome, StoreError> {
    Ok(store.change_sessions(vec![change]).await?.remove(0))
}

/// What the session `s` follows.
async fn followed(store: &PostgresStore) -> Vec<String> {
    let session = store.session("s").await.expect("a session can be read");
    let subscriptions = session.expect("it is there").subscriptions;
    subscriptions.into_iter().map(|subscription| subscription.stream).collect()
}

/// Holds the lock of those who change sessions, on a connection of its own.
async fn hold_lock(database: &TestDatabase) -> tokio_postgres::Client {
    let elsewhere = database.connect().await;
    let lock = format!("SELECT pg_advisory_lock({SESSION_LOCK})");
    elsewhere.batch_execute(&lock).await.expect("the lock is free");
    elsewhere
}

/// Waits until someone waits for a lock.
async fn until_someone_waits(database: &TestDatabase) {
    let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while database.run(waits).await.is_empty() {}
}

#[tokio::test]
async fn a_listener_that_comes_back_says_that_it_missed_signals() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let mut signals = store.session_signals();
    for _ in 0..2 {
        let missed = async {
            while signals.recv().await.expect("the store is open") != SessionSignal::Missed {}
        };
        // The first time for having come at all.
        tokio::time::timeout(DEADLINE, missed).await.expect("it says so");
        database.run(KILL_ALL).await;
    }
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn changes_that_wait_leave_connections_to_reads() {
    const CHANGES: usize = 50;
    let database = fresh_database().await;
    let store = open(&database).await;
    change(&store, open_session()).await.expect("a session");
    let elsewhere = hold_lock(&database).await;
    let streams: Vec<String> = (0..CHANGES).map(|number| format!("a{number:02}")).collect();
    let changes = join_all(streams.iter().map(|stream| change(&store, subscribe(stream, stream))));
    let reads = async {
        until_someone_waits(&database).await;
        assert_eq!(followed(&store).await, Vec::<String>::new());
        drop(elsewhere);
    };
    let (outcomes, ()) = tokio::join!(changes, reads);
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(SessionOutcome::Subscribed(_))), "{outcome:?}");
    }
    assert_eq!(followed(&store).await, streams);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_change_that_its_caller_drops_lets_go_of_the_lock() {
    let database = fresh_database().await;
    let store = open(&database).await;
    let elsewhere = hold_lock(&database).await;
    tokio::select! {
        outcome = change(&store, open_session()) => panic!("not held up: {outcome:?}"),
        () = until_someone_waits(&database) => {}
    }
    drop(elsewhere);
    let opened = tokio::time::timeout(DEADLINE, change(&store, open_session())).await;
    assert_eq!(opened.expect("nobody holds the lock").expect("a session"), SessionOutcome::Done);
    store.close().await;
    database.drop_database().await;
}

/// Makes the connection break once, when something is written to the counts: before the commit, or
/// with it.
async fn break_once(database: &TestDatabase, when: &str) {
    let sql = format!(
        "CREATE SEQUENCE tidewire.times;
         CREATE FUNCTION tidewire.fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN
                IF nextval('tidewire.times') = 1 THEN
                    PERFORM pg_terminate_backend(pg_backend_pid());
                END IF;
                RETURN NEW;
             END $$;
         CREATE {when} FOR EACH ROW EXECUTE FUNCTION tidewire.fail()"
    );
    database.run(&sql).await;
}

#[tokio::test]
async fn changes_of_which_nothing_was_written_are_tried_again() {
    let database = fresh_database().await;
    let store = open(&database).await;
    change(&store, open_session()).await.expect("a session");
    let before = "TRIGGER fail BEFORE INSERT ON tidewire.stream_subscriber_counts";
    break_once(&database, before).await;
    let outcome = change(&store, subscribe("a", "q")).await.expect("the second attempt succeeds");
    assert!(matches!(outcome, SessionOutcome::Subscribed(made) if made.epoch == 1));
    assert_eq!(followed(&store).await, ["a"]);
    assert_eq!(store.subscriber_count("a").await.expect("a count"), 1);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_commit_of_changes_without_an_answer_is_unknown() {
    let database = fresh_database().await;
    let store = open(&database).await;
    change(&store, open_session()).await.expect("a session");
    let at_commit = "CONSTRAINT TRIGGER fail AFTER INSERT ON tidewire.stream_subscriber_counts
        DEFERRABLE INITIALLY DEFERRED";
    break_once(&database, at_commit).await;
    let lost = change(&store, subscribe("a", "q")).await;
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    assert_eq!(followed(&store).await, Vec::<String>::new());
    change(&store, subscribe("a", "q")).await.expect("a connection is there again");
    assert_eq!(followed(&store).await, ["a"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn changes_that_the_database_cannot_take_change_nothing() {
    let database = fresh_database().await;
    let store = open(&database).await;
    change(&store, open_session()).await.expect("a session");
    let changes = vec![subscribe("a", "q"), subscribe("b", "nul \0 in the name")];
    let refused = store.change_sessions(changes).await;
    assert!(matches!(refused, Err(StoreError::Broken { .. })), "{refused:?}");
    assert_eq!(followed(&store).await, Vec::<String>::new());
    change(&store, subscribe("a", "q")).await.expect("the next is taken");
    store.close().await;
    database.drop_database().await;
}
