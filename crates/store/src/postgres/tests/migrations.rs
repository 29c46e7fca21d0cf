//! The schema: who makes it, who may use it, and whether our queries fit it.

use futures_util::future::join_all;

use super::*;
use crate::postgres::testing::{fresh_database, queries_in_use};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_migrate_once() {
    let database = fresh_database().await;
    let stores = join_all((0..4).map(|_| open(&database))).await;
    let applied = database.run("SELECT number FROM tidewire.migrations ORDER BY number").await;
    assert_eq!(applied, ["1", "2", "3", "4", "5", "6"]);
    for store in stores {
        store.close().await;
    }
    database.drop_database().await;
}

#[tokio::test]
async fn streams_from_before_there_were_tenants_are_of_none() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    append_text(&store, "x").await.expect("an append");
    store.close().await;
    let before_access = "DROP TABLE tidewire.api_keys, tidewire.tickets, tidewire.control;
        DROP FUNCTION tidewire.to_ms, tidewire.from_now, tidewire.tell_of_key,
            tidewire.tell_of_all_keys;
        ALTER TABLE tidewire.streams DROP COLUMN host_id;
        DELETE FROM tidewire.migrations WHERE number >= 6";
    database.run(before_access).await;
    let store = open(&database).await;
    append_text(&store, "y").await.expect("an append");
    let found = store.read("a", Position::START, EVERYTHING).await.expect("the stream can be read");
    let Found::Stream(page) = found else { panic!("the stream is gone") };
    assert_eq!((page.view.state.host_id, page.events.len()), (None, 2));
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = fresh_database().await;
    open(&database).await.close().await;
    database.run("INSERT INTO tidewire.migrations (number, name) VALUES (999, 'later')").await;
    let refused = PostgresStore::open(PostgresOptions::new(&database.url)).await;
    let StoreError::Refused(text) = refused.expect_err("a newer schema") else {
        panic!("refused for another reason")
    };
    assert!(text.contains("the database has schema version 999"), "{text}");
    database.drop_database().await;
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let database = fresh_database().await;
    let latin = format!("{}_latin1", database.url);
    let (_, name) = latin.rsplit_once('/').expect("a database in the URL");
    database
        .run(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'"))
        .await;
    let refused = PostgresStore::open(PostgresOptions::new(&latin)).await;
    let text = refused.expect_err("another encoding").to_string();
    assert!(text.contains("encoded in LATIN1"), "{text}");
    database.run(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
    database.drop_database().await;
}

#[tokio::test]
async fn every_query_can_be_prepared() {
    let database = fresh_database().await;
    open(&database).await.close().await;
    let client = database.connect().await;
    for (name, sql) in queries_in_use("postgres") {
        client.prepare(&sql).await.unwrap_or_else(|error| panic!("{name}.sql: {error:?}"));
    }
    database.drop_database().await;
}
