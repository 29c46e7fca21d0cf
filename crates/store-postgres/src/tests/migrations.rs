//! The schema: who makes it, who may use it, and whether our queries fit it.

use futures_util::future::join_all;

use super::*;
use crate::connect::Connector;
use crate::open as opening;
use crate::testing::fresh_database;
use tidewire_store::SCHEMA_VERSION;
use tidewire_store::testing::queries_in_use;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_migrate_once() {
    let database = fresh_database().await;
    let stores = join_all((0..4).map(|_| open(&database))).await;
    let applied = database.run("SELECT number FROM tidewire.migrations ORDER BY number").await;
    let all: Vec<String> = (1..=SCHEMA_VERSION).map(|number| number.to_string()).collect();
    assert_eq!(applied, all);
    for store in stores {
        store.close().await;
    }
    database.drop_database().await;
}

#[tokio::test]
async fn streams_from_before_there_were_tenants_are_of_none() {
    let database = fresh_database().await;
    let connector = Connector::new(&PostgresOptions::new(&database.url)).expect("a database");
    let session = connector.session_in_time("").await.expect("a session");
    let older = &crate::MIGRATIONS[..5];
    opening::migrate(&session.client, older).await.expect("an older schema");
    let stream = "INSERT INTO tidewire.log (c_offset, stream_id, append_id, control)
            VALUES (1, 'a', 1, 'create');
        INSERT INTO tidewire.streams (stream_id, created_offset, content_type)
            VALUES ('a', 1, 'text/plain')";
    database.run(stream).await;
    let store = open(&database).await;
    append_text(&store, "y").await.expect("an append");
    let found = store.read("a", Position::START, EVERYTHING).await.expect("the stream can be read");
    let Found::Stream(page) = found else { panic!("the stream is gone") };
    assert_eq!((page.view.state.host_id, page.events.len()), (None, 1));
    store.close().await;
    drop(session);
    database.drop_database().await;
}

/// Two streams that have one name from an earlier version: the later one keeps it.
#[tokio::test]
async fn a_name_that_was_given_twice_stays_with_the_last() {
    let database = fresh_database().await;
    let connector = Connector::new(&PostgresOptions::new(&database.url)).expect("a database");
    let session = connector.session_in_time("").await.expect("a session");
    let older = &crate::MIGRATIONS[..18];
    opening::migrate(&session.client, older).await.expect("an older schema");
    database.run(tidewire_store::testing::names::NAMED_TWICE).await;
    let store = open(&database).await;
    tidewire_store::testing::names::is_named_once(&*store).await;
    store.close().await;
    drop(session);
    database.drop_database().await;
}

/// By the algorithm that costs a fraction of the default, where the server has it: in a partition that was
/// there and in one that is made later.
#[tokio::test]
async fn large_payloads_are_compressed_cheaply() {
    let database = fresh_database().await;
    let has_lz4 = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings
        WHERE name = 'default_toast_compression'";
    let expected = match database.run(has_lz4).await.concat().as_str() {
        "t" => "lz4",
        _ => "pglz",
    };
    let store = open_with_stream(&database).await;
    append_text(&store, &"x".repeat(16 << 10)).await.expect("an append");
    database.run("SELECT tidewire.ensure_log_partition(10000001)").await;
    let later = "INSERT INTO tidewire.log (c_offset, stream_id, append_id, after_data, operation)
        VALUES (10000001, 'table/b', 1, to_jsonb(repeat('x', 16384)), 'INSERT')";
    database.run(later).await;
    let how = "SELECT coalesce(pg_column_compression(payload), pg_column_compression(after_data))
        FROM tidewire.log WHERE control IS NULL ORDER BY c_offset";
    assert_eq!(database.run(how).await, [expected, expected]);
    assert_eq!(events(&store).await.len(), 1);
    store.close().await;
    database.drop_database().await;
}

/// Those have their owner's rights, and whoever may execute one can have a table of their own call it.
#[tokio::test]
async fn functions_of_triggers_are_their_owners_alone() {
    let database = fresh_database().await;
    open(&database).await.close().await;
    let for_all = "SELECT format('%s', made.oid::regprocedure) FROM pg_proc AS made
        CROSS JOIN LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner))) AS granted
        WHERE pronamespace = 'tidewire'::regnamespace AND prosecdef AND grantee = 0
          AND prorettype = 'trigger'::regtype
        ORDER BY 1";
    assert_eq!(database.run(for_all).await, Vec::<String>::new());
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
    for (name, sql) in queries_in_use(env!("CARGO_MANIFEST_DIR")) {
        client.prepare(&sql).await.unwrap_or_else(|error| panic!("{name}.sql: {error:?}"));
    }
    database.drop_database().await;
}
