//! Workers in any language: batches over HTTP, with leases, on both stores.

mod bounds;
mod failures;
mod kills;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidewire_stories::jobs::{events, job};
use tidewire_stories::{Jobs, Launch, Metrics, Nodes, Store, eventually, on_both_stores};

on_both_stores!(
    two_workers_share_the_work,
    an_expired_lease_goes_to_another_and_the_first_is_fenced,
    a_late_ack_is_good_while_nobody_else_came,
    an_ack_that_is_repeated_is_answered_and_not_done_again,
    a_claim_that_waits_is_woken,
    an_ack_whose_sql_fails_is_not_an_ack,
    any_node_takes_what_another_gave,
    a_group_says_how_far_it_is,
    a_group_that_is_paused_says_so,
    a_group_gets_another_number_of_partitions,
);

/// All batches that there are, one after the other, done by workers in turn.
async fn work_off(jobs: &Jobs, members: &[&str]) -> Vec<Value> {
    let mut batches = Vec::new();
    for member in members.iter().cycle() {
        let claim = json!({ "member": member, "wait_ms": 0, "batch_size": 5 });
        let Some(batch) = jobs.try_claim(&claim).await else { break };
        jobs.ack(&batch).await;
        batches.push(batch);
    }
    batches
}

/// I1: each event is handed out once, those of a key in order.
async fn two_workers_share_the_work(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 4, "tables": ["jobs"] })).await;
    for round in 0..10 {
        let rows: Vec<(i64, String)> =
            (0..12).map(|n| (round * 12 + n, format!("tenant-{}", n % 6))).collect();
        let rows: Vec<(i64, &str, &str)> =
            rows.iter().map(|(id, host)| (*id, host.as_str(), "ann")).collect();
        jobs.add(&rows).await;
    }
    let first = jobs.claim("one").await;
    let second = jobs.claim("two").await;
    assert_ne!(first["partition"], second["partition"], "two hold one partition");
    let mut batches = vec![first.clone(), second.clone()];
    jobs.ack(&first).await;
    jobs.ack(&second).await;
    batches.extend(work_off(&jobs, &["one", "two"]).await);

    let mut seen: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in batches.iter().flat_map(events) {
        let host = event["host_id"].as_str().expect("a tenant").to_owned();
        seen.entry(host).or_default().push(job(&event));
    }
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 120, "{seen:?}");
    for (host, jobs) in &seen {
        assert!(jobs.is_sorted() && jobs.len() == 20, "{host}: {jobs:?}");
    }
    let group = jobs.look().await;
    assert_eq!(group["lag_events"], 0, "{group}");
    let members = group["members"].as_array().expect("members").iter();
    let members: Vec<&str> = members.filter_map(|member| member["member"].as_str()).collect();
    assert_eq!(members, ["one", "two"], "{group}");
    server.stop().await;
}

/// A worker that is too slow loses its batch, and cannot end it any more.
async fn an_expired_lease_goes_to_another_and_the_first_is_fenced(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs = Jobs::start(server.http(), "mail", &json!({ "partitions": 1 })).await;
    jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    let slow = json!({ "member": "slow", "lease_ms": 100 });
    let slow = jobs.try_claim(&slow).await.expect("a batch");
    let quick = jobs.claim("quick").await;
    assert_eq!(slow["groups"], quick["groups"], "the same work");
    assert!(quick["generation"].as_u64() > slow["generation"].as_u64(), "{quick}");
    let token = &slow["token"];
    let failed = json!([{ "host_id": "acme", "user_id": "ann", "error": "late" }]);
    for (step, body) in [
        ("ack", json!({ "token": token })),
        (
            "ack",
            json!({ "token": token, "sql": [{ "sql": "INSERT INTO ledger VALUES (1, 'late')" }] }),
        ),
        ("extend", json!({ "token": token, "lease_ms": 1000 })),
        ("nack", json!({ "token": token, "failed": failed })),
    ] {
        jobs.post(step, &body).await.problem(409, "lease_lost");
    }
    let extended =
        jobs.done("extend", &json!({ "token": quick["token"], "lease_ms": 60000 })).await;
    assert_eq!(extended["lease_ms"], 60000);
    jobs.ack(&quick).await;
    assert_eq!(jobs.sql("SELECT count(*) AS n FROM ledger").await["rows"][0]["n"], 0);
    assert!(jobs.try_claim(&json!({ "wait_ms": 0 })).await.is_none(), "it is done");
    server.stop().await;
}

async fn a_late_ack_is_good_while_nobody_else_came(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs = Jobs::start(server.http(), "mail", &json!({ "partitions": 1 })).await;
    jobs.add(&[(1, "acme", "ann")]).await;
    let batch = jobs.try_claim(&json!({ "lease_ms": 100 })).await.expect("a batch");
    eventually("the lease is over", async || {
        let left = jobs.look().await["partitions"][0]["lease_ms"].as_i64();
        left.is_some_and(|left| left <= 0).then_some(())
    })
    .await;
    let acked = jobs.ack(&batch).await;
    assert_eq!((&acked["repeated"], &acked["consumed"]), (&json!(false), &batch["to"]));
    server.stop().await;
}

async fn an_ack_that_is_repeated_is_answered_and_not_done_again(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    jobs.add(&[(1, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    let statement = json!({ "sql": "INSERT INTO ledger VALUES ($1, $2)", "params": [1, "here"] });
    let ack = json!({ "token": batch["token"], "sql": [statement] });
    let first = jobs.done("ack", &ack).await;
    assert_eq!((&first["repeated"], &first["consumed"]), (&json!(false), &batch["to"]), "{first}");
    let again = jobs.done("ack", &ack).await;
    assert_eq!((&again["repeated"], &again["consumed"]), (&json!(true), &Value::Null), "{again}");
    let ledger = jobs.sql("SELECT job, place FROM ledger").await;
    assert_eq!(ledger["rows"], json!([{ "job": 1, "place": "here" }]));
    // Nor is it good for anything once the partition has moved on.
    jobs.add(&[(2, "acme", "ann")]).await;
    let next = jobs.claim("one").await;
    jobs.post("ack", &ack).await.problem(409, "lease_lost");
    jobs.ack(&next).await;
    server.stop().await;
}

/// Whoever waits for work gets it when it comes, and holds nothing meanwhile.
async fn a_claim_that_waits_is_woken(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 2, "tables": ["jobs"] })).await;
    let claim = json!({ "member": "patient", "wait_ms": 40000 });
    let (batch, ()) = tokio::join!(jobs.try_claim(&claim), async {
        server.readers_wait(1).await;
        jobs.add(&[(1, "acme", "ann")]).await;
    });
    let batch = batch.expect("it was woken");
    assert_eq!(events(&batch).iter().map(job).collect::<Vec<_>>(), [1]);
    // And when a lease is given back.
    let claim = json!({ "member": "patient", "wait_ms": 40000, "partition": batch["partition"] });
    let (again, ()) = tokio::join!(jobs.try_claim(&claim), async {
        server.readers_wait(1).await;
        let given_back = jobs.done("nack", &json!({ "token": batch["token"] })).await;
        assert_eq!(given_back, json!({ "retry_in_ms": 0, "dead_letters": 0 }));
    });
    let again = again.expect("it was woken");
    assert_eq!(again["groups"], batch["groups"], "and nothing was counted");
    jobs.ack(&again).await;
    server.stop().await;
}

async fn an_ack_whose_sql_fails_is_not_an_ack(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs = Jobs::start(server.http(), "mail", &json!({ "partitions": 1 })).await;
    jobs.sql("CREATE TABLE once (job BIGINT PRIMARY KEY)").await;
    jobs.add(&[(1, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    let insert = json!({ "sql": "INSERT INTO once VALUES (7)" });
    let other = json!({ "sql": "INSERT INTO ledger VALUES (7, 'x')" });
    let twice = json!({ "token": batch["token"], "sql": [other, insert, insert] });
    jobs.post("ack", &twice).await.problem(409, "sql_constraint");
    for table in ["once", "ledger"] {
        let count = jobs.sql(&format!("SELECT count(*) AS n FROM {table}")).await;
        assert_eq!(count["rows"][0]["n"], 0, "{table}: all of it, or none");
    }
    let commit = json!({ "token": batch["token"], "sql": [{ "sql": "COMMIT" }] });
    jobs.post("ack", &commit).await.problem(400, "sql_refused");
    // The lease is as it was.
    let right = json!({ "token": batch["token"], "sql": [other, insert] });
    let acked = jobs.done("ack", &right).await;
    assert_eq!(acked["repeated"], false, "{acked}");
    server.stop().await;
}

/// What is true of a group lies in the store: nodes are all alike to a worker.
async fn any_node_takes_what_another_gave(store: Store) {
    let mut nodes = Nodes::of(&store, &[]).await;
    let last = nodes.https().len() - 1;
    let jobs =
        Jobs::start(nodes.http(0), "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    jobs.add(&[(1, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    let elsewhere = jobs.at(nodes.http(last));
    elsewhere.done("extend", &json!({ "token": batch["token"], "lease_ms": 30000 })).await;
    elsewhere.ack(&batch).await;
    // One who waits at a node hears what comes to another.
    let claim = json!({ "member": "two", "wait_ms": 40000, "lease_ms": 1000 });
    let (batch, ()) = tokio::join!(elsewhere.try_claim(&claim), jobs.add(&[(2, "acme", "ann")]));
    let batch = batch.expect("it was woken");
    if last > 0 {
        // The node goes, the lease does not: it is good until its deadline, and on every other node.
        nodes.kill(last);
        let again = jobs.claim("one").await;
        assert_eq!(again["groups"], batch["groups"], "after the deadline, another has it");
        jobs.post("ack", &json!({ "token": batch["token"] })).await.problem(409, "lease_lost");
        jobs.ack(&again).await;
    }
}

async fn a_group_says_how_far_it_is(store: Store) {
    let launch = Launch::dev(&store).set("TIDEWIRE_GROUPS_METRICS_MS", "50");
    let server = launch.start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 2, "tables": ["jobs"] })).await;
    server.http().create("doc").await;
    jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob"), (3, "acme", "ann")]).await;
    server.http().append("doc", &json!("nothing to do with it")).await;
    let group = jobs.look().await;
    assert_eq!((&group["lag_events"], &group["member_count"]), (&json!(3), &json!(0)), "{group}");
    let partitions = group["partitions"].as_array().expect("partitions");
    let events: Vec<u64> = partitions.iter().filter_map(|at| at["lag_events"].as_u64()).collect();
    assert!(events == [3, 0] || events == [0, 3], "one tenant is in one partition: {group}");
    Metrics::shows(server.http(), "group_dead_letters{group=\"mail\"}", 0.0).await;
    let lag = |group: &Value| {
        let busy = group["partitions"].as_array().expect("partitions").iter();
        busy.filter_map(|at| at["lag_events"].as_u64()).sum::<u64>()
    };
    let batch = jobs.claim("one").await;
    assert_eq!(lag(&jobs.look().await), 3, "what is leased is not consumed");
    jobs.ack(&batch).await;
    assert_eq!(lag(&jobs.look().await), 0);
    let name = "group_events_total{group=\"mail\"}";
    Metrics::reaches(server.http(), name, 3.0).await;
    eventually("the metrics say so", async || {
        let metrics = Metrics::read(server.http()).await;
        (metrics.all("group_lag_events{group=\"mail\"") == [0.0, 0.0]).then_some(())
    })
    .await;
    let listed = server.http().get("/v1/groups").await.json();
    let listed = &listed["groups"][0];
    assert_eq!((&listed["group"], &listed["lag_events"]), (&json!("mail"), &json!(0)), "{listed}");
    assert_eq!(listed.get("partitions"), None, "{listed}");
    server.stop().await;
}

async fn a_group_that_is_paused_says_so(store: Store) {
    let server = Launch::dev(&store).start().await;
    let jobs = Jobs::start(server.http(), "mail", &json!({ "partitions": 1 })).await;
    jobs.add(&[(1, "acme", "ann")]).await;
    let claim = json!({ "wait_ms": 40000, "partition": 0 });
    let held = jobs.claim("one").await;
    // Whoever waits is told at once.
    let (refused, ()) = tokio::join!(jobs.post("claim", &claim), async {
        server.readers_wait(1).await;
        jobs.done("change", &json!({ "paused": true })).await;
    });
    let problem = refused.problem(409, "group_stopped");
    assert_eq!(problem["stopped"]["code"], "paused", "{problem}");
    let group = jobs.done("resume", &json!({})).await;
    assert_eq!(group["stopped"], Value::Null, "{group}");
    drop(held);
    jobs.post("claim", &json!({ "partition": 1 })).await.problem(404, "partition_not_found");
    let other = json!({ "partitions": 3 });
    let differs = jobs.http.json(reqwest::Method::PUT, "/v1/groups/mail", &other).await;
    differs.problem(409, "group_differs");
    server.stop().await;
}

/// Order holds across the change, and who holds a batch of before ends it as ever.
async fn a_group_gets_another_number_of_partitions(store: Store) {
    let launch = Launch::dev(&store).set("TIDEWIRE_GROUPS_METRICS_MS", "50");
    let server = launch.start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 2, "tables": ["jobs"] })).await;
    let add = async |from: i64| {
        let rows: Vec<(i64, String)> =
            (from..from + 12).map(|id| (id, format!("tenant-{}", id % 6))).collect();
        let rows: Vec<(i64, &str, &str)> =
            rows.iter().map(|(id, host)| (*id, host.as_str(), "ann")).collect();
        jobs.add(&rows).await;
    };
    add(0).await;
    let first = jobs.claim("one").await;
    jobs.ack(&first).await;
    let changing = jobs.done("change", &json!({ "partitions": 5 })).await;
    add(12).await;
    let mut batches = vec![first];
    if !changing["wanted_partitions"].is_null() {
        jobs.post("change", &json!({ "partitions": 3 })).await.problem(409, "partitions_changing");
    }
    eventually("it has its partitions, and all is done", async || {
        batches.extend(work_off(&jobs, &["one", "two"]).await);
        let group = jobs.look().await;
        (group["total_partitions"] == 5 && group["lag_events"] == 0).then_some(())
    })
    .await;
    let mut seen: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in batches.iter().flat_map(events) {
        let host = event["host_id"].as_str().expect("a tenant").to_owned();
        seen.entry(host).or_default().push(job(&event));
    }
    assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 24, "{seen:?}");
    assert!(seen.values().all(|jobs| jobs.is_sorted()), "{seen:?}");
    // Down again, with nobody at work: the server does it.
    jobs.done("change", &json!({ "partitions": 1 })).await;
    eventually("it has one partition", async || {
        (jobs.look().await["total_partitions"] == 1).then_some(())
    })
    .await;
    server.stop().await;
}
