//! A database that is not the one the log was noted in: captured changes get no offsets there.

use tidewire_store_postgres::Replaced;

use crate::stage::{DEADLINE, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_triggers_get_no_offsets_after_a_failover() {
    get_no_offsets(Stage::set().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_the_write_ahead_log_get_no_offsets_after_a_failover() {
    get_no_offsets(Stage::set_with_wal().await).await;
}

async fn get_no_offsets(stage: Stage) {
    stage.run("CREATE TABLE seen (id int PRIMARY KEY); SELECT tidewire.watch('seen')").await;
    stage.run("INSERT INTO seen VALUES (1)").await;
    stage.caught_up().await;
    let events = stage.number("SELECT count(*) FROM tidewire.log").await;
    // In one transaction: nobody captures in between.
    stage
        .run(
            "BEGIN; UPDATE tidewire.log_epoch SET timeline = '000000FF';
             INSERT INTO seen VALUES (2); COMMIT",
        )
        .await;
    let replaced = tokio::time::timeout(DEADLINE, stage.store.replaced()).await;
    assert!(matches!(replaced.expect("capture finds out"), Replaced::Reopen(_)));
    assert_eq!(stage.number("SELECT count(*) FROM tidewire.log").await, events);
    stage.strike().await;
}
