//! The schema: who makes it, who may use it, and whether our queries fit it.

use std::path::Path;

use futures_util::future::join_all;

use super::*;
use crate::postgres::testing::fresh_database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_migrate_once() {
    let database = fresh_database().await;
    let stores = join_all((0..4).map(|_| open(&database))).await;
    let applied = database.run("SELECT number FROM tidewire.migrations ORDER BY number").await;
    assert_eq!(applied, ["1", "2", "3"]);
    for store in stores {
        store.close().await;
    }
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
async fn a_wrong_url_is_refused_without_its_password() {
    for url in [
        "postgres://user:pass@word@127.0.0.1:1x/database",
        "postgres://user:password@127.0.0.1/database?sslmode=perhaps",
        "postgres://user:password@127.0.0.1/database?unknown=option",
        "user:password@127.0.0.1",
    ] {
        let options = PostgresOptions::new(url);
        assert!(!format!("{options:?}").contains("pass"));
        let refused = PostgresStore::open(options).await.expect_err(url);
        assert!(matches!(refused, StoreError::Refused(_)), "{url}: {refused:?}");
        let told = refused.to_string().replace("postgres://user:password@host", "");
        assert!(!told.contains("pass@word") && !told.contains(":password"), "{told}");
    }
}

#[tokio::test]
async fn every_query_can_be_prepared_and_is_used() {
    let database = fresh_database().await;
    open(&database).await.close().await;
    let client = database.connect().await;
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source: String = files(&crate_folder.join("src/postgres"), "rs").map(|(_, s)| s).collect();
    let mut queries = 0;
    for (name, sql) in files(&crate_folder.join("sql/postgres"), "sql") {
        client.prepare(&sql).await.unwrap_or_else(|error| panic!("{name}.sql: {error:?}"));
        assert!(source.contains(&format!("sql!(\"{name}\")")), "{name}.sql is not used");
        queries += 1;
    }
    assert!(queries > 0);
    database.drop_database().await;
}

/// The files of a folder with an extension: names without it, and contents.
fn files(folder: &Path, extension: &'static str) -> impl Iterator<Item = (String, String)> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    paths.filter(move |path| path.extension().is_some_and(|it| it == extension)).map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a readable file"))
    })
}
