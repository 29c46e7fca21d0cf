//! Whether our queries fit the schema, and are all used.

use tidewire_store::testing::queries_in_use;

use crate::fixture::Fixture;

#[tokio::test]
async fn every_query_can_be_prepared_and_is_used() {
    let fixture = Fixture::start_without_capture().await;
    for (name, sql) in queries_in_use(env!("CARGO_MANIFEST_DIR")) {
        let prepared = fixture.sql.prepare(&sql).await;
        prepared.unwrap_or_else(|error| panic!("{name}.sql: {error:?}"));
    }
    fixture.tear_down().await;
}

/// A plan that is made while the log is small stays in use while it grows.
#[tokio::test]
async fn counting_never_walks_the_whole_log() {
    let fixture = Fixture::start_without_capture().await;
    for method in ["seqscan", "bitmapscan", "hashjoin", "mergejoin"] {
        fixture.run(&format!("SET enable_{method} = off")).await;
    }
    let tally = concat!("EXPLAIN (COSTS OFF) ", include_str!("../../sql/tally.sql"));
    let plan = fixture.sql.query(tally, &[]).await.expect("a plan");
    let lines: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let begins_at_the_last =
        |line: &String| line.contains("Index Cond:") && line.contains("c_offset > GREATEST(");
    assert!(lines.iter().any(begins_at_the_last), "{lines:#?}");
    fixture.tear_down().await;
}
