//! Sessions of users' SQL: what one request leaves behind is not the next one's trouble.

use std::sync::Arc;

use super::super::PostgresStore;
use super::super::testing::{TestDatabase, fresh_database};
use crate::options::PostgresOptions;
use tidewire_store::command::Actor;
use tidewire_store::log::Log;
use tidewire_store::sql::{Sql, SqlAnswer, SqlError, SqlLimits, Statements};

/// A store with a single session for SQL, so that each request finds what the one before has left.
async fn open(database: &TestDatabase) -> Arc<PostgresStore> {
    let options = PostgresOptions { sql_connections: 1, ..PostgresOptions::new(&database.url) };
    PostgresStore::open(options).await.expect("the database opens")
}

async fn try_run(store: &PostgresStore, sql: &str) -> Result<SqlAnswer, SqlError> {
    let limits = SqlLimits { timeout_ms: 20_000, rows_max: 1_000, bytes_max: 1 << 20 };
    let (params, actor) = (Vec::new(), Actor::default());
    store.run_sql(Statements { sql: sql.to_owned(), params, actor, limits }).await
}

/// There is no prepared statement of that name.
#[track_caller]
fn assert_unprepared(outcome: Result<SqlAnswer, SqlError>) {
    let Err(SqlError::Wrong(problem)) = outcome else { panic!("somebody finds it: {outcome:?}") };
    assert!(problem.message.contains("26000"), "{problem:?}");
}

async fn run(store: &PostgresStore, sql: &str) -> SqlAnswer {
    try_run(store, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

/// The process that serves the session which the next request gets.
async fn backend(store: &PostgresStore) -> String {
    run(store, "SELECT pg_backend_pid()").await.rows[0][0].get().to_owned()
}

#[tokio::test]
async fn names_that_the_driver_would_give_can_be_taken_by_nobody() {
    let database = fresh_database().await;
    let store = open(&database).await;
    run(
        &store,
        "CREATE FUNCTION take() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            FOR number IN 0..5000 LOOP
                BEGIN
                    EXECUTE format('PREPARE s%s AS SELECT 1', number);
                EXCEPTION WHEN duplicate_prepared_statement THEN NULL;
                END;
            END LOOP;
        END $$",
    )
    .await;
    let before = backend(&store).await;
    assert_eq!(backend(&store).await, before, "a session is used again");
    run(&store, "SELECT take()").await;
    for number in 0..20 {
        let read = run(&store, &format!("SELECT {number} AS n")).await;
        assert_eq!(read.rows[0][0].get(), number.to_string());
    }
    assert_ne!(backend(&store).await, before, "what cannot be cleaned is closed");
    assert_unprepared(try_run(&store, "EXECUTE s0").await);
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn statements_of_the_driver_can_be_taken_away_by_nobody() {
    let database = fresh_database().await;
    let store = open(&database).await;
    run(
        &store,
        "CREATE TYPE mood AS ENUM ('sad', 'ok');
         CREATE FUNCTION forget() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE 'DEALLOCATE ALL';
         END $$",
    )
    .await;
    for _ in 0..3 {
        // The driver asks what the type is, by statements that it keeps.
        let read = run(&store, "SELECT 'ok'::mood AS m").await;
        assert_eq!(read.rows[0][0].get(), "\"ok\"");
        run(&store, "SELECT forget()").await;
    }
    run(&store, "CREATE TYPE other AS ENUM ('x')").await;
    assert_eq!(run(&store, "SELECT 'x'::other AS x").await.rows[0][0].get(), "\"x\"");
    // Somebody's own mistake is told as it is.
    match try_run(&store, "EXECUTE nothing").await {
        Err(SqlError::Wrong(wrong)) => assert!(wrong.message.contains("26000"), "{wrong:?}"),
        other => panic!("there is no such statement: {other:?}"),
    }
    store.close().await;
    database.drop_database().await;
}

/// Under a name that is in nobody's way, it would be the next one's to run.
#[tokio::test]
async fn what_somebody_prepared_is_gone_with_its_session() {
    let database = fresh_database().await;
    let store = open(&database).await;
    run(
        &store,
        "CREATE FUNCTION leave() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE 'PREPARE left_behind AS SELECT 42 AS n';
        END $$",
    )
    .await;
    let before = backend(&store).await;
    run(&store, "SELECT leave()").await;
    let found = try_run(&store, "EXECUTE left_behind").await;
    assert_unprepared(found);
    assert_ne!(backend(&store).await, before, "what cannot be cleaned is closed");
    store.close().await;
    database.drop_database().await;
}

/// There is a single place, so that the next request waits until the process is gone.
#[tokio::test]
async fn a_session_that_catches_its_cancel_is_ended() {
    let database = fresh_database().await;
    let store = open(&database).await;
    run(
        &store,
        "CREATE FUNCTION stay() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            LOOP
                BEGIN
                    PERFORM pg_sleep(1000);
                EXCEPTION WHEN query_canceled THEN NULL;
                END;
            END LOOP;
        END $$",
    )
    .await;
    let before = backend(&store).await;
    let limits = SqlLimits { timeout_ms: 100, rows_max: 1, bytes_max: 1 };
    let (sql, params, actor) = ("SELECT stay()".to_owned(), Vec::new(), Actor::default());
    let stays = store.run_sql(Statements { sql, params, actor, limits }).await;
    let Err(SqlError::Wrong(problem)) = stays else { panic!("it is given up: {stays:?}") };
    assert_eq!(problem.code, "sql_timeout");
    assert_ne!(backend(&store).await, before, "its process is gone");
    store.close().await;
    database.drop_database().await;
}
