//! A commit that a synchronous standby holds back is in the write-ahead log before anyone can see it.
//! In the log it must not be, or a snapshot could miss a row whose event it has passed (invariant 10).

use std::time::Duration;

use tidewire_store_postgres::testing::fresh_database_on;
use tidewire_stories::cluster::Cluster;
use tokio_postgres::NoTls;

use crate::fixture::{Fixture, reading};

/// For so long it is looked at whether something happens that must not.
const LOOKS: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_in_the_log_only_when_its_row_can_be_seen() {
    let primary = Cluster::start_with(&["wal_level=logical"]).await;
    let mut fixture = Fixture::start_in(fresh_database_on(primary.url()).await).await;
    fixture.capture(reading("a"));
    fixture.until("SELECT mode = 'wal' FROM tidewire.capture").await;
    fixture.run("CREATE TABLE seen (id int PRIMARY KEY)").await;
    fixture.run("SELECT tidewire.watch('seen')").await;
    fixture.run("INSERT INTO seen VALUES (1)").await;
    fixture.caught_up().await;
    let mirror = primary.standby("mirror").await;
    fixture.run("ALTER SYSTEM SET synchronous_standby_names = 'mirror'").await;
    fixture.run("SELECT pg_reload_conf()").await;
    fixture.until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").await;
    pause(&mirror, true).await;

    // The standby has it on disk, which is enough for others, and does not show it, which is not for
    // this one: so this commit alone is held back.
    let writer = fixture.database.connect().await;
    let write = "SET synchronous_commit = remote_apply; INSERT INTO seen VALUES (2)";
    let written = tokio::spawn(async move { writer.batch_execute(write).await });
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    fixture.until(waits).await;
    let flushed = fixture.text("SELECT pg_current_wal_flush_lsn()::text").await;
    let sent = format!(
        "SELECT sent_lsn >= '{flushed}' FROM pg_stat_replication
         WHERE application_name = 'tidewire capture'"
    );
    fixture.until(&sent).await;
    let started = tokio::time::Instant::now();
    while started.elapsed() < LOOKS {
        let visible = fixture.number("SELECT count(*) FROM seen WHERE id = 2").await;
        assert_eq!(visible, 0, "the standby holds the commit back");
        let events = "SELECT count(*) FROM tidewire.log WHERE entity_id = '2'";
        assert_eq!(fixture.number(events).await, 0, "what cannot be seen is not in the log");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    pause(&mirror, false).await;
    written.await.expect("the writer ends").expect("it is committed");
    fixture.caught_up().await;
    let found: Vec<String> = fixture.changes().await.into_iter().map(|(_, id)| id).collect();
    assert_eq!(found, ["1", "2"]);
    fixture.run("ALTER SYSTEM RESET synchronous_standby_names").await;
    fixture.run("SELECT pg_reload_conf()").await;
    fixture.tear_down().await;
}

/// Lets the standby show what it gets, or not.
async fn pause(standby: &Cluster, paused: bool) {
    let (client, connection) = tokio_postgres::connect(&standby.url(), NoTls)
        .await
        .expect("the standby takes connections");
    tokio::spawn(connection);
    let (order, state) = match paused {
        true => ("SELECT pg_wal_replay_pause()", "paused"),
        false => ("SELECT pg_wal_replay_resume()", "not paused"),
    };
    client.batch_execute(order).await.expect("an order");
    loop {
        let said = client.query_one("SELECT pg_get_wal_replay_pause_state()", &[]).await;
        if said.expect("a state").get::<_, &str>(0) == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
