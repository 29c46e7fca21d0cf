//! What a batch may have, and what becomes of those who come when there is no room.

use std::fmt::Write as _;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidewire_stories::jobs::{events, job, keys};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Jobs, Launch, Store, on_both_stores};
use tokio::task::JoinSet;

on_both_stores!(
    all_keys_of_a_large_transaction_fail_and_are_done,
    a_batch_ends_by_its_bytes_and_a_transaction_goes_whole,
    letters_that_are_redriven_are_done_where_others_go_on,
    a_thousand_claims_wait_and_what_comes_wakes_one,
);

/// More keys than a thousand, in one transaction.
const KEYS: i64 = 1_100;

async fn all_keys_of_a_large_transaction_fail_and_are_done(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_GROUPS_RETRY_MS_MAX", "1").start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"] });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    let rows: Vec<(i64, String)> = (0..KEYS).map(|id| (id, format!("user-{id}"))).collect();
    let rows: Vec<(i64, &str, &str)> =
        rows.iter().map(|(id, who)| (*id, "acme", who.as_str())).collect();
    jobs.add(&rows).await;
    let batch = jobs.claim("one").await;
    let failed: Vec<Value> = keys(&batch)
        .iter()
        .map(|key| json!({ "host_id": "acme", "user_id": key["user_id"], "error": "no" }))
        .collect();
    assert_eq!(failed.len(), rows.len());
    let nack = json!({ "token": batch["token"], "failed": failed, "retry_in_ms": 100_000_000 });
    let nacked = jobs.done("nack", &nack).await;
    assert_eq!(nacked, json!({ "retry_in_ms": 1, "dead_letters": 0 }), "no longer than it may be");
    let batch = jobs.claim("one").await;
    assert!(keys(&batch).iter().all(|key| key["attempt"] == 1), "each was counted");
    let insert = |key: &Value| json!({ "sql": "INSERT INTO ledger VALUES (1, $1)", "params": [key["user_id"]] });
    let statements: Vec<Value> = keys(&batch).iter().map(insert).collect();
    jobs.done("ack", &json!({ "token": batch["token"], "sql": statements })).await;
    let count = jobs.sql("SELECT count(*) AS n FROM ledger").await;
    assert_eq!(count["rows"][0]["n"], KEYS);
    server.stop().await;
}

async fn a_batch_ends_by_its_bytes_and_a_transaction_goes_whole(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_GROUPS_BATCH_BYTES", "2000")
        .set("TIDEWIRE_GROUPS_RETRY_MS", "1");
    let server = launch.start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"] });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    for id in 0..20 {
        jobs.add(&[(id, "acme", "ann")]).await;
    }
    let large: Vec<(i64, &str, &str)> = (20..60).map(|id| (id, "acme", "ann")).collect();
    jobs.add(&large).await;
    let mut seen: Vec<i64> = Vec::new();
    let mut sizes = String::new();
    while let Some(batch) = jobs.try_claim(&json!({ "wait_ms": 0 })).await {
        let ids: Vec<i64> = events(&batch).iter().map(job).collect();
        let _ = write!(sizes, "{} ", ids.len());
        match ids[0] {
            20 => assert_eq!(ids, (20..60).collect::<Vec<_>>(), "the transaction is whole"),
            _ => assert!(ids.len() < 10, "a usual batch has no more than 2,000 bytes: {ids:?}"),
        }
        // What it was is found again, however large.
        jobs.fail(&batch, "ann", "retry").await;
        let again = jobs.claim("one").await;
        assert_eq!(events(&again), events(&batch));
        jobs.ack(&again).await;
        seen.extend(ids);
    }
    assert_eq!(seen, (0..60).collect::<Vec<_>>(), "{sizes}");
    server.stop().await;
}

/// A letter is handed out once, when its partition has passed it, and is gone when it is done.
async fn letters_that_are_redriven_are_done_where_others_go_on(store: Store) {
    let server = Launch::dev(&store).start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"], "on_dead": "skip" });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    let batch = jobs.claim("one").await;
    jobs.fail(&batch, "ann", "dead").await;
    jobs.done("dead/redrive", &json!({ "all": true })).await;
    let mut done = Vec::new();
    while let Some(batch) = jobs.try_claim(&json!({ "wait_ms": 0 })).await {
        done.extend(events(&batch).iter().map(job));
        assert!(done.len() <= 2, "handed out again: {done:?}");
        jobs.ack(&batch).await;
    }
    assert_eq!(done, [2, 1], "the log first, then the letter");
    assert_eq!(jobs.letters("").await, Vec::<Value>::new());
    server.stop().await;
}

/// Claims that wait at one node.
const WAITING: usize = 1_000;
/// Transactions that come to them, one after the other, each with an event of so many tenants.
const ROUNDS: i64 = 20;
const TENANTS: i64 = 3;

/// One looks for all who wait: what comes goes to one of them, the others wait on, and the database is not asked
/// for each.
async fn a_thousand_claims_wait_and_what_comes_wakes_one(store: Store) {
    let places = WAITING.to_string();
    let server = Launch::dev(&store).set("TIDEWIRE_LIMITS_LIVE_READERS_MAX", &places).start().await;
    let wish = json!({ "partitions": 4, "tables": ["jobs"] });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    let mut workers = JoinSet::new();
    for number in 0..WAITING {
        workers.spawn(one_batch(jobs.clone(), format!("worker-{number}")));
    }
    server.readers_wait(WAITING).await;
    let one_too_many = jobs.post("claim", &json!({ "member": "one-too-many" })).await;
    one_too_many.problem(503, "too_many_live_readers");

    let mut served = 0;
    for round in 0..ROUNDS {
        let ids: Vec<i64> = (round * TENANTS..(round + 1) * TENANTS).collect();
        let rows: Vec<(i64, String)> =
            ids.iter().map(|id| (*id, format!("tenant-{}", id % TENANTS))).collect();
        let rows: Vec<(i64, &str, &str)> =
            rows.iter().map(|(id, host)| (*id, host.as_str(), "ann")).collect();
        jobs.add(&rows).await;
        let mut done = Vec::new();
        while done.len() < ids.len() {
            let ended = within_patience("someone is woken", workers.join_next()).await;
            let batch = ended.expect("someone waits").expect("no panic");
            done.extend(batch.expect("nobody is woken for nothing"));
            served += 1;
        }
        done.sort_unstable();
        assert_eq!(done, ids, "each event goes to one of them");
    }
    server.readers_wait(WAITING - served).await;
    server.stop().await;
    let left = within_patience("those who are left are let go", workers.join_all()).await;
    assert_eq!(left.len(), WAITING - served);
    assert!(left.iter().all(Option::is_none), "there was nothing else to do");
    // PostgreSQL counts for itself. Whoever comes costs a look or two; who waits, none.
    if let Some(looks) = store.ever_scanned("consumer_groups", 1).await {
        let bound = 10 * i64::try_from(WAITING).expect("a count");
        assert!(looks < bound, "{looks} looks at the groups for {WAITING} claims");
    }
}

/// Waits for a batch, however long, and does it: its jobs. None: the server went first.
async fn one_batch(jobs: Jobs, member: String) -> Option<Vec<i64>> {
    let claim = json!({ "member": member, "wait_ms": 40_000 });
    loop {
        let answer = jobs.try_post("claim", &claim).await.ok()?;
        if answer.status != 204 {
            assert_eq!(answer.status, 200, "{claim}: {}", answer.text());
            let batch = answer.json();
            jobs.ack(&batch).await;
            return Some(events(&batch).iter().map(job).collect());
        }
    }
}

/// The list of members is for people: who is not on it works all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_too_many_is_served_and_not_listed() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"] });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    for hundred in 0..10 {
        let claims = (0..100).map(|n| {
            let member = format!("worker-{}", hundred * 100 + n);
            let claim = json!({ "member": member, "wait_ms": 0, "lease_ms": 600_000 });
            let jobs = &jobs;
            async move { jobs.try_claim(&claim).await }
        });
        assert!(join_all(claims).await.iter().all(Option::is_none), "there is no work yet");
    }
    assert_eq!(jobs.look().await["member_count"], 1_000);
    jobs.add(&[(1, "acme", "ann")]).await;
    let batch = jobs.claim("one-too-many").await;
    assert_eq!(events(&batch).iter().map(job).collect::<Vec<_>>(), [1]);
    jobs.ack(&batch).await;
    server.stop().await;
}
