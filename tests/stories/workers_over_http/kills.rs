//! The server is killed under its workers, and what they write with their acks is there once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tidewire_stories::jobs::{events, job};
use tidewire_stories::{Answer, Jobs, Launch, Store, eventually, faults, on_both_stores, rounds};

on_both_stores!(what_goes_with_an_ack_happens_once);

/// Jobs that are added before each kill.
const JOBS: i64 = 20;

/// I1: exactly once in the database, whenever the server dies.
async fn what_goes_with_an_ack_happens_once(store: Store) {
    let launch = Launch::dev(&store);
    let mut server = launch.start().await;
    let wish = json!({ "partitions": 2, "tables": ["jobs"] });
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    let rounds = i64::try_from(rounds(6)).expect("a number");
    let stop = AtomicBool::new(false);
    let (one, two) = (work(&jobs, "one", &stop), work(&jobs, "two", &stop));
    let faults = async {
        for round in 0..rounds {
            for id in round * JOBS..(round + 1) * JOBS {
                let host = format!("tenant-{}", id % 5);
                jobs.add(&[(id, &host, "ann")]).await;
            }
            faults::random_moment().await;
            server.kill();
            server = launch.start().await;
        }
        eventually("all is done", async || {
            let group = jobs.look().await;
            (group["lag_events"] == 0).then_some(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        server
    };
    let ((), (), server) = tokio::join!(one, two, faults);
    let ledger = jobs.sql("SELECT job, place FROM ledger ORDER BY place").await;
    let rows = ledger["rows"].as_array().expect("rows");
    let mut by_host: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows {
        let id = row["job"].as_i64().expect("a job");
        by_host.entry(id % 5).or_default().push(id);
    }
    assert_eq!(by_host.values().map(Vec::len).sum::<usize>() as i64, rounds * JOBS, "{by_host:?}");
    for (host, done) in by_host {
        let mut once = done.clone();
        once.dedup();
        assert!(done.is_sorted() && once == done, "tenant {host}: {done:?}");
    }
    server.stop().await;
}

/// Claims, and writes each job down with the ack; an ack that got no answer is sent again.
async fn work(jobs: &Jobs, member: &str, stop: &AtomicBool) {
    let claim = json!({ "member": member, "lease_ms": 500, "wait_ms": 200, "batch_size": 3 });
    while !stop.load(Ordering::Relaxed) {
        let Ok(answer) = jobs.try_post("claim", &claim).await else {
            faults::random_moment().await;
            continue;
        };
        if answer.status == 200 {
            end(jobs, &answer.json()).await;
        }
    }
}

async fn end(jobs: &Jobs, batch: &Value) {
    let written = |event: &Value| {
        json!({
            "sql": "INSERT INTO ledger VALUES ($1, $2)", "params": [job(event), event["offset"]],
        })
    };
    let sql: Vec<Value> = events(batch).iter().map(written).collect();
    let ack = json!({ "token": batch["token"], "sql": sql });
    let ended = |answer: &Answer| match answer.status {
        200 => true,
        409 => {
            let code = answer.json()["code"].as_str().map(ToOwned::to_owned);
            match code.as_deref() {
                Some("lease_lost") => true,
                // Another worker writes to the same table.
                Some("sql_conflict") => false,
                _ => panic!("an ack was refused: {}", answer.text()),
            }
        }
        500.. => false,
        _ => panic!("an ack was refused: {}", answer.text()),
    };
    eventually("an ack is answered", async || {
        let answer = jobs.try_post("ack", &ack).await.ok()?;
        ended(&answer).then_some(())
    })
    .await;
}
