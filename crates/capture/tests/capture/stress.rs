//! Transactions of every kind at once, while leaders come and go: the log tells what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio_postgres::Client;

use crate::fixture::{Fixture, quick};
use crate::history;

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 60;
const IDS: i32 = 40;

/// Ends the session of whoever leads.
pub(crate) const KILL_LEADER: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objid = 5 AND classid = x'74696465'::int::oid
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_transactions_do_the_log_tells_what_happened() {
    let mut fixture = Fixture::start_without_capture().await;
    fixture.run(history::TABLE).await;
    // Batches so small that most transactions of several rows go in chunks now and then.
    for node in ["a", "b"] {
        let mut options = quick(node);
        options.batch_rows_max = 7;
        fixture.capture(options);
    }
    let seed: u64 = rand::random();
    let done = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for _ in 0..WRITERS {
        let client = fixture.database.connect().await;
        client.batch_execute("SET deadlock_timeout = '10ms'").await.expect("a setting");
        clients.push(client);
    }
    let killer = fixture.database.connect().await;
    let writers = join_all(clients.iter().zip(seed..).map(|(client, seed)| write(client, seed)));
    let kill = async {
        while !done.load(Ordering::Relaxed) {
            killer.simple_query(KILL_LEADER).await.expect("a session can be ended");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let write = async {
        let committed: usize = writers.await.into_iter().sum();
        done.store(true, Ordering::Relaxed);
        committed
    };
    let (committed, ()) = tokio::join!(write, kill);
    assert!(committed > 0, "something was committed (seed {seed})");
    fixture.stop_first().await;
    fixture.caught_up().await;
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.staging").await, 0, "seed {seed}");
    history::assert_told(&fixture).await;
    fixture.tear_down().await;
}

/// Runs random transactions, and returns how many of them were committed.
async fn write(client: &Client, seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut committed = 0;
    for _ in 0..TRANSACTIONS {
        client.batch_execute("BEGIN").await.expect("a transaction");
        let statements = if random.random_ratio(1, 10) { 30 } else { random.random_range(1..5) };
        let mut alive = true;
        for _ in 0..statements {
            if !statement(client, &mut random).await {
                alive = false;
                break;
            }
        }
        if random.random_ratio(1, 12) {
            tokio::time::sleep(Duration::from_millis(random.random_range(1..200))).await;
        }
        let end = if alive && !random.random_ratio(1, 5) { "COMMIT" } else { "ROLLBACK" };
        client.batch_execute(end).await.expect("a transaction ends");
        committed += usize::from(end == "COMMIT");
    }
    committed
}

/// Runs a random statement in a savepoint of its own, sometimes rolled back. False if it deadlocked.
async fn statement(client: &Client, random: &mut StdRng) -> bool {
    let (id, other) = (random.random_range(1..=IDS), random.random_range(1..=IDS));
    let seen = "(SELECT uid FROM t ORDER BY random() LIMIT 1)";
    let sql = match random.random_range(0..7) {
        0 | 1 => format!("INSERT INTO t (id, seen) VALUES ({id}, {seen}) ON CONFLICT DO NOTHING"),
        2 => format!(
            "INSERT INTO t (id, filler) VALUES ({id}, repeat('x', 5000))
             ON CONFLICT (id) DO UPDATE SET version = t.version + 1"
        ),
        3 => format!("UPDATE t SET version = version + 1 WHERE id BETWEEN {id} AND {id} + 8"),
        4 => format!(
            "UPDATE t SET id = {other} WHERE id = {id}
             AND NOT EXISTS (SELECT FROM t WHERE id = {other})"
        ),
        5 => format!("DELETE FROM t WHERE id = {id}"),
        _ => format!("UPDATE t SET version = version + 1 WHERE id = {id}"),
    };
    client.batch_execute("SAVEPOINT s").await.expect("a savepoint");
    // Two that insert one id, and a deadlock, fail: each is its own undoing.
    let end = match client.batch_execute(&sql).await {
        Ok(()) if random.random_ratio(1, 6) => "ROLLBACK TO s",
        Ok(()) => "RELEASE s",
        Err(error)
            if error.code() == Some(&tokio_postgres::error::SqlState::T_R_DEADLOCK_DETECTED) =>
        {
            return false;
        }
        Err(_) => "ROLLBACK TO s",
    };
    client.batch_execute(end).await.expect("a savepoint ends");
    true
}
