//! Members of a group are killed at any moment; each event takes effect once (I7).
//!
//! Half of the kills strike at any moment from outside, half are the worker's own end at a place that matters:
//! before the work, in it between its statements, and after the handler returned and before the commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use rand::Rng as _;
use tidewire_stories::faults::random_moment;
use tidewire_stories::ledger::worker;
use tidewire_stories::postgres::Sql;
use tidewire_stories::{Abort, Keeper, Ledger, Process, Store, eventually, rounds};
use tokio::task::JoinSet;

const WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");
/// Workers side by side, each killed again and again.
const WORKERS: usize = 3;
/// A worker that aborts does so in one of its first runs.
const TURNS_MAX: u32 = 15;
/// Tenants: so many that every partition has some, for a worker that has nothing to do is never in its work.
const HOSTS: u32 = 24;
/// What is not handled yet, and how much of that there may be before producers wait.
const BACKLOG: &str = "SELECT (SELECT count(*) FROM orders) - (SELECT count(*) FROM ledger)";
const BACKLOG_MAX: i64 = 3_000;
/// Between two transactions of a producer.
const PAUSE: Duration = Duration::from_millis(15);

/// Lets a worker die, one way or the other, once it works.
async fn live_and_die(at: &str, member: &str, from_outside: bool) {
    let abort = (!from_outside).then(|| {
        let mut rng = rand::rng();
        let places = [Abort::Before, Abort::Between, Abort::After];
        (places[rng.random_range(0..places.len())], rng.random_range(1..=TURNS_MAX))
    });
    let mut process = Process::spawn(worker(WORKER, at, member, abort));
    if from_outside {
        eventually("the worker works", async || {
            assert_eq!(process.status(), None, "it ended by itself");
            process.said().contains("working").then_some(())
        })
        .await;
        let moments = rand::rng().random_range(1..=8);
        for _ in 0..moments {
            random_moment().await;
        }
        process.kill();
    } else {
        let ended = process.ended().await;
        assert_eq!(ended.code, None, "it ended otherwise than by its abort: {}", ended.said);
    }
}

/// Transactions of 1 to 300 rows, of several hosts and users, until told to stop. How many rows.
async fn produce(url: String, who: usize, stop: Arc<AtomicBool>, rows: Arc<AtomicU64>) {
    let sql = Sql::connect(&url).await.expect("a connection");
    while !stop.load(Ordering::SeqCst) {
        tokio::time::sleep(PAUSE).await;
        if sql.number(BACKLOG).await > BACKLOG_MAX {
            continue;
        }
        let (count, host, user) = {
            let mut rng = rand::rng();
            // Most transactions are small, and some are far larger than a batch.
            let count = if rng.random_ratio(1, 20) { 300 } else { 12 };
            (rng.random_range(1..=count), rng.random_range(0..HOSTS), rng.random_range(0..3))
        };
        // Neighbours in a transaction may be of other hosts, so of other partitions.
        let statement = format!(
            "INSERT INTO orders (host, usr, what) SELECT 'h' || ({host} + n / 4) % {HOSTS}, 'u' || {user}, \
             '{who}.' || n FROM generate_series(1, {count}) AS n"
        );
        let changed = sql.execute(&statement, &[]).await.expect("an insert");
        rows.fetch_add(changed, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_are_killed_two_hundred_times() {
    let ledger = Ledger::open(Store::postgres().await).await;
    let (stop, rows) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut producers = JoinSet::new();
    for who in 0..3 {
        let (url, stop, rows) = (ledger.url().to_owned(), Arc::clone(&stop), Arc::clone(&rows));
        producers.spawn(produce(url, who, stop, rows));
    }

    let kills = AtomicU64::new(rounds(200) as u64);
    let live_again = async |number: usize| {
        let one_less = |left: u64| left.checked_sub(1);
        while let Ok(left) = kills.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            live_and_die(ledger.url(), &format!("w{number}"), left % 2 == 0).await;
        }
    };
    join_all((0..WORKERS).map(live_again)).await;
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = producers.join_next().await {
        ended.expect("a producer");
    }
    let rows = i64::try_from(rows.load(Ordering::SeqCst)).expect("a number");

    let _last = Process::spawn(worker(WORKER, ledger.url(), "w0", None));
    eventually("all is worked off", async || {
        let done = ledger.number("SELECT count(DISTINCT c_offset) FROM ledger").await;
        (done >= rows).then_some(())
    })
    .await;
    assert_eq!(ledger.number("SELECT count(*) FROM ledger").await, rows, "once each");
    ledger.holds().await;
}

/// One process, which also produces, for no other may open the folder.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_an_embedded_store_is_killed_again_and_again() {
    let store = Store::sqlite();
    let Store::Sqlite { folder, .. } = &store else { unreachable!("it is SQLite") };
    let at = folder.to_string_lossy().into_owned();
    for left in (0..rounds(36)).rev() {
        live_and_die(&at, "w", left % 2 == 0).await;
    }
    let ledger = Ledger::open(store).await;
    let worker = ledger.member().partitions(8).start(Keeper::default()).await.expect("a member");
    eventually("all is worked off", async || {
        let rows = ledger.number("SELECT count(*) FROM orders").await;
        let done = ledger.number("SELECT count(DISTINCT c_offset) FROM ledger").await;
        (done >= rows).then_some(())
    })
    .await;
    worker.stop().await.expect("it stops");
    assert!(ledger.number("SELECT count(*) FROM ledger").await > 0, "something was done at all");
    ledger.holds().await;
}
