//! Connections that break, and a database that says no.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use super::*;
use crate::testing::fresh_database;

pub(super) const KILL_ALL: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = 'tidewire' AND datname = current_database()";

/// Makes a function of a trigger on the log, and the trigger.
async fn trigger(database: &TestDatabase, body: &str, trigger: &str) {
    let sql = format!(
        "CREATE SEQUENCE tidewire.times;
         CREATE FUNCTION tidewire.fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN {body} RETURN NEW; END $$;
         CREATE {trigger} FOR EACH ROW EXECUTE FUNCTION tidewire.fail()"
    );
    database.run(&sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_connections_are_killed() {
    const APPENDERS: usize = 8;
    const KILLS: usize = 10;
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let appender = |number: usize| {
        let (store, stop) = (&store, stop.clone());
        async move {
            let (mut acknowledged, mut unknown) = (Vec::new(), BTreeSet::new());
            for round in 0.. {
                let body = format!("{number}:{round}");
                match append_text(store, &body).await {
                    Ok(tail) => acknowledged.push((tail, body)),
                    Err(StoreError::Unknown(_)) => drop(unknown.insert(body)),
                    Err(other) => panic!("{other:?}"),
                }
                if stop.is_cancelled() {
                    break;
                }
            }
            (acknowledged, unknown)
        }
    };
    let killer = async {
        let mut grown = store.grown();
        for _ in 0..KILLS {
            // Kill in the middle of work: appends have been acknowledged since the last time.
            let from = *grown.borrow_and_update();
            let worked = grown.wait_for(|tip| *tip > from + 20);
            tokio::time::timeout(DEADLINE, worked).await.expect("recovers").expect("open");
            database.run(KILL_ALL).await;
        }
        stop.cancel();
    };
    let (results, ()) = tokio::join!(join_all((0..APPENDERS).map(appender)), killer);
    let (acknowledged, unknown): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let unknown: BTreeSet<String> = unknown.into_iter().flatten().collect();
    let mut there = events(&store).await;
    let positions: Vec<u64> = there.iter().map(|(position, _)| position.number()).collect();
    assert_eq!(positions, (2..2 + positions.len() as u64).collect::<Vec<u64>>(), "gapless");
    there.retain(|(_, body)| !unknown.contains(body));
    let mut acknowledged: Vec<(Position, String)> = acknowledged.into_iter().flatten().collect();
    acknowledged.sort();
    assert_eq!(there, acknowledged, "what was acknowledged is there, once");
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_batch_of_which_nothing_was_written_is_tried_again() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let once = "IF nextval('tidewire.times') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid()); END IF;";
    trigger(&database, once, "TRIGGER fail BEFORE INSERT ON tidewire.log").await;
    append_text(&store, "x").await.expect("the second attempt succeeds");
    assert_eq!(texts(&store).await, ["x"]);
    assert_eq!(store.commit_stats().failures, 1);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_commit_without_an_answer_is_unknown() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let once = "IF nextval('tidewire.times') = 1 THEN
        PERFORM pg_terminate_backend(pg_backend_pid()); END IF;";
    let at_commit = "CONSTRAINT TRIGGER fail AFTER INSERT ON tidewire.log
        DEFERRABLE INITIALLY DEFERRED";
    trigger(&database, once, at_commit).await;
    let lost = append_text(&store, "x").await;
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    append_text(&store, "y").await.expect("the writer is back");
    assert_eq!(texts(&store).await, ["y"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_full_disk_is_told_and_passes() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    let full = "RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full';";
    trigger(&database, full, "TRIGGER fail BEFORE INSERT ON tidewire.log").await;
    let refused = append_text(&store, "x").await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    database.run("DROP TRIGGER fail ON tidewire.log").await;
    append_text(&store, "y").await.expect("there is space again");
    assert_eq!(texts(&store).await, ["y"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_command_that_the_database_cannot_take_fails_alone() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    // Polled together, so they wait together and share a commit.
    let too_long = "x".repeat(1 << 20);
    let (x, nul, long, y) = tokio::join!(
        append_text(&store, "x"),
        create(&store, commands::create("nul \0 in the name")),
        create(&store, commands::create(&too_long)),
        append_text(&store, "y"),
    );
    assert!(matches!(nul, Err(StoreError::Broken { .. })), "{nul:?}");
    // PostgreSQL compresses long keys before it measures them.
    assert!(matches!(long, Ok(_) | Err(StoreError::Broken { .. })), "{long:?}");
    x.and(y).expect("the neighbours are accepted");
    assert_eq!(texts(&store).await, ["x", "y"]);
    let found = store.read("nul \0 in the name", Position::START, EVERYTHING).await;
    assert!(matches!(found, Ok(Found::NotFound)), "{found:?}");
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn commands_wait_for_a_lost_database_and_are_refused_in_time() {
    let database = fresh_database().await;
    let options = PostgresOptions {
        connect_timeout: Duration::from_millis(500),
        ..PostgresOptions::new(&database.url)
    };
    let store = PostgresStore::open(options).await.expect("the database opens");
    create(&store, commands::create("a")).await.expect("a stream is made");
    let let_in = |allowed: bool| {
        let sql = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", database.name);
        let database = &database;
        async move { database.run_on_server(&sql).await }
    };
    let kill = KILL_ALL.replace("current_database()", &format!("'{}'", database.name));
    let_in(false).await;
    database.run_on_server(&kill).await;
    let (one, two) = tokio::join!(append_text(&store, "x"), append_text(&store, "y"));
    for refused in [one, two] {
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    let_in(true).await;
    let mut appended = append_text(&store, "z").await;
    while matches!(appended, Err(StoreError::Unavailable(_))) {
        appended = append_text(&store, "z").await;
    }
    appended.expect("the writer comes back by itself");
    assert_eq!(texts(&store).await, ["z"]);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn reads_go_on_when_their_connections_are_killed() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    append_text(&store, "x").await.expect("an append");
    for _ in 0..10 {
        assert_eq!(texts(&store).await, ["x"]);
        database.run(KILL_ALL).await;
    }
    assert_eq!(texts(&store).await, ["x"]);
    store.close().await;
    database.drop_database().await;
}
