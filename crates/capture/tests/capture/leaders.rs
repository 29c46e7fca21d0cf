//! Leaders that die, stop or are cut off, and transactions that take long.

use tidewire_store::Watches as _;
use tidewire_store_postgres::captured::OFFSET_LOCK;

use crate::fixture::{Fixture, quick};
use crate::stress::KILL_LEADER;

async fn watched(fixture: &Fixture) {
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
}

#[tokio::test]
async fn another_node_takes_over_from_one_that_dies_or_stops() {
    let mut fixture = Fixture::start().await;
    watched(&fixture).await;
    fixture.until("SELECT leader = 'a' FROM tidewire.capture").await;
    fixture.capture(quick("b"));
    fixture.run("INSERT INTO orders VALUES (1)").await;
    fixture.caught_up().await;
    fixture.database.run(KILL_LEADER).await;
    fixture.run("INSERT INTO orders VALUES (2)").await;
    fixture.caught_up().await;
    fixture.stop_first().await;
    fixture.run("INSERT INTO orders VALUES (3)").await;
    fixture.caught_up().await;
    fixture.until("SELECT leader = 'b' FROM tidewire.capture").await;
    assert_eq!(fixture.changes().await.len(), 3);
    let view = fixture.store.capture().await.expect("capture can be looked at");
    assert_eq!((view.leader.as_deref(), view.waiting), (Some("b"), 0));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_leader_that_was_cut_off_appends_nothing_when_it_comes_back() {
    let fixture = Fixture::start().await;
    watched(&fixture).await;
    fixture.caught_up().await;
    let other = fixture.database.connect().await;
    other.batch_execute("BEGIN").await.expect("a transaction");
    other.execute("SELECT pg_advisory_xact_lock($1)", &[&OFFSET_LOCK]).await.expect("the lock");
    fixture.run("INSERT INTO orders VALUES (1)").await;
    // The leader stands before the lock, with the row in its hands…
    let waits = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    fixture.until(waits).await;
    // …while another one is elected.
    let elected = "UPDATE tidewire.capture SET generation = generation + 1 RETURNING generation";
    let generation: i64 = other.query_one(elected, &[]).await.expect("a generation").get(0);
    other.batch_execute("COMMIT").await.expect("it commits");
    fixture.caught_up().await;
    assert_eq!(fixture.changes().await.len(), 1);
    let now = fixture.number("SELECT generation FROM tidewire.capture").await;
    assert!(now > generation, "it was elected again before it went on");
    fixture.tear_down().await;
}

#[tokio::test]
async fn transactions_that_wait_elsewhere_hold_nobody_up() {
    let fixture = Fixture::start().await;
    watched(&fixture).await;
    let (idle, writer) = (fixture.database.connect().await, fixture.database.connect().await);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
    idle.batch_execute(begin).await.expect("an idle transaction");
    writer.batch_execute("BEGIN; INSERT INTO orders VALUES (0)").await.expect("a long one");
    for id in 1..=20 {
        fixture.run(&format!("INSERT INTO orders VALUES ({id})")).await;
        if id % 5 == 0 {
            fixture.caught_up().await;
        }
    }
    assert_eq!(fixture.changes().await.len(), 20);
    writer.batch_execute("INSERT INTO orders VALUES (21); COMMIT").await.expect("its end");
    fixture.caught_up().await;
    let story = fixture.changes().await;
    assert_eq!(story[20..], [("INSERT".into(), "0".into()), ("INSERT".into(), "21".into())]);
    idle.batch_execute("ROLLBACK").await.expect("its end");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_long_writer_is_whole_after_the_floor_has_risen_above_it() {
    let fixture = Fixture::start().await;
    watched(&fixture).await;
    let writer = fixture.database.connect().await;
    writer.batch_execute("BEGIN; INSERT INTO orders VALUES (0)").await.expect("a long one");
    // Long enough for the floor to be raised more than once.
    let begun = std::time::Instant::now();
    let mut id = 0;
    while begun.elapsed() < std::time::Duration::from_millis(1_200) {
        id += 1;
        fixture.run(&format!("INSERT INTO orders VALUES ({id})")).await;
        fixture.caught_up().await;
    }
    writer.batch_execute("INSERT INTO orders VALUES (-1)").await.expect("more of it");
    fixture.caught_up().await;
    writer.batch_execute("COMMIT").await.expect("its end");
    fixture.caught_up().await;
    let log = fixture.log().await;
    let last: Vec<_> =
        log[log.len() - 2..].iter().map(|e| (e.entity_id.as_deref(), e.tx_last)).collect();
    assert_eq!(last, [(Some("0"), false), (Some("-1"), true)]);
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_large_transaction_goes_in_chunks_that_nothing_comes_between() {
    let mut options = quick("a");
    options.batch_rows_max = 100;
    let mut fixture = Fixture::start_without_capture().await;
    watched(&fixture).await;
    fixture.run("INSERT INTO orders SELECT generate_series(1, 1234)").await;
    for id in 2_000..2_050 {
        fixture.run(&format!("INSERT INTO orders VALUES ({id})")).await;
    }
    fixture.capture(options.clone());
    fixture.until("SELECT count(*) > 0 FROM tidewire.log").await;
    fixture.database.run(KILL_LEADER).await;
    fixture.capture(options);
    fixture.caught_up().await;
    let log = fixture.log().await;
    let entities: Vec<i64> = log[1..]
        .iter()
        .map(|event| event.entity_id.as_ref().expect("a key").parse().expect("a number"))
        .collect();
    assert_eq!(entities, (1..=1_234).chain(2_000..2_050).collect::<Vec<i64>>());
    let ends: Vec<i64> =
        log[1..].iter().filter(|event| event.tx_last).map(|event| event.offset - 1).collect();
    assert_eq!(ends, (1_234..=1_284).collect::<Vec<i64>>());
    let chunk = "SELECT count(chunk_txid) FROM tidewire.capture";
    assert_eq!(fixture.number(chunk).await, 0, "nothing is left half done");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_sleeping_sequencer_is_woken_by_the_next_writer() {
    let mut options = quick("a");
    options.sleep_after = std::time::Duration::ZERO;
    options.idle_poll = std::time::Duration::from_secs(1);
    let fixture = Fixture::start_with(options).await;
    watched(&fixture).await;
    for id in 0..3 {
        fixture.until("SELECT last_value = 2 FROM tidewire.sequencer_sleep").await;
        fixture.run(&format!("INSERT INTO orders VALUES ({id})")).await;
        fixture.caught_up().await;
    }
    assert_eq!(fixture.changes().await.len(), 3);
    fixture.tear_down().await;
}
