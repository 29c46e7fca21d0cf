//! A database that is not the one the log was noted in: captured changes get no offsets there.

use tidewire_store_postgres::Replaced;

use crate::fixture::{DEADLINE, Fixture};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_triggers_get_no_offsets_after_a_failover() {
    get_no_offsets(Fixture::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_write_ahead_log_get_no_offsets_after_a_failover() {
    get_no_offsets(Fixture::start_with_wal().await).await;
}

async fn get_no_offsets(fixture: Fixture) {
    fixture.run("CREATE TABLE seen (id int PRIMARY KEY); SELECT tidewire.watch('seen')").await;
    fixture.run("INSERT INTO seen VALUES (1)").await;
    fixture.caught_up().await;
    let events = fixture.number("SELECT count(*) FROM tidewire.log").await;
    // In one transaction: nobody captures in between.
    fixture
        .run(
            "BEGIN; UPDATE tidewire.log_epoch SET timeline = '000000FF';
             INSERT INTO seen VALUES (2); COMMIT",
        )
        .await;
    let replaced = tokio::time::timeout(DEADLINE, fixture.store.replaced()).await;
    assert!(matches!(replaced.expect("capture finds out"), Replaced::Reopen(_)));
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.log").await, events);
    fixture.tear_down().await;
}
