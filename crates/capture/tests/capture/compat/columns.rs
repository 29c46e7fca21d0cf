//! Whether the names have the columns that their documents define, by name and type.

use std::collections::BTreeMap;

use tidewire_store_postgres::testing::{TestDatabase, fresh_database};

use super::start;

/// Tables with their columns and types, as a database has them.
async fn columns(database: &TestDatabase) -> BTreeMap<String, BTreeMap<String, String>> {
    let sql = "SELECT nspname || '.' || relname || ' ' || attname || ' '
                   || format_type(atttypid, atttypmod)
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname IN ('app', 'public') AND relkind IN ('r', 'v') AND attnum > 0
          AND NOT attisdropped";
    let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in database.run(sql).await {
        let mut parts = line.splitn(3, ' ').map(ToOwned::to_owned);
        let mut next = || parts.next().expect("a table, a column and its type");
        let (table, column, kind) = (next(), next(), next());
        tables.entry(table).or_default().insert(column, kind);
    }
    tables
}

#[tokio::test]
async fn every_table_has_the_columns_that_its_document_defines() {
    let documents = fresh_database().await;
    documents.run(include_str!("tables.sql")).await;
    let wanted = columns(&documents).await;
    let fixture = start().await;
    let found = columns(&fixture.database).await;
    let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let expected = [
        "app.logging",
        "app.rxdb_subscription",
        "public.api_keys",
        "public.consumer_offsets",
        "public.log_counter",
        "public.outbox",
        "public.outbox_message_t",
    ];
    assert_eq!(names, expected);
    for (table, columns) in &wanted {
        for (column, kind) in columns {
            let here = found.get(table).and_then(|columns| columns.get(column));
            assert_eq!(here, Some(kind), "{table}.{column}");
        }
    }
    fixture.tear_down().await;
    documents.drop_database().await;
}
