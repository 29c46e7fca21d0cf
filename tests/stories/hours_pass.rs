//! Round after round people come to any node, follow, write, work and leave. Whatever each was told is exact; and when they
//! have left, nothing of them is there: no connection, no open file, no growing memory.
//!
//! Some seconds of it in every run; `./test soak` lets an hour pass.

use std::time::Instant;

use rand::seq::IndexedRandom as _;
use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::faults::soak;
use tidewire_stories::jobs::{events, job};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::wait::within_patience;
use tidewire_stories::witness::Connection;
use tidewire_stories::{
    EventSource, Http, Jobs, Metrics, Nodes, QueryTab, Resources, Store, Wire, on_both_stores,
};
use tokio::task::JoinSet;

on_both_stores!(whoever_leaves_leaves_nothing_behind);

/// Of each kind, at once.
const VISITORS: usize = 6;
/// Messages of a stream, rows of a query, jobs of a tenant.
const EACH: usize = 12;
/// Rounds before it is noted what the nodes need: until then pools and caches fill.
const WARM_UP: usize = 2;
/// Files that a node may have open beside those it had: connections of its pool come and go.
const FILES_MORE: usize = 24;
/// Memory that a node may need beside a half more than it did, for caches that fill within the first thousand rounds: of
/// SQLite's pages (64 MiB of the writer's alone) and statements, of streams' pages. What leaks with each round is more in an hour.
const BYTES_MORE: usize = 160 << 20;

/// What a node counts of those who are there.
const PRESENT: [&str; 4] =
    ["live_websockets", "live_server_sent", "live_subscriptions", "live_readers"];

/// I1, I3, I4, again and again.
async fn whoever_leaves_leaves_nothing_behind(store: Store) {
    // What is captured goes when it is old, or the disk would fill.
    let settings =
        [("TIDEWIRE_RETENTION_AGE_MS", "60000"), ("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "1000")];
    let nodes = Nodes::of(&store, &settings).await;
    let first = nodes.http(0);
    run(first, "CREATE TABLE visits (id INTEGER PRIMARY KEY, visitor TEXT, total INTEGER)").await;
    watch(first, &json!({ "table": "visits" })).await;
    let group = json!({ "partitions": 4, "tables": ["jobs"] });
    let jobs = Jobs::start(first, "soak", &group).await;

    let (began, length) = (Instant::now(), soak());
    let mut needed: Option<Vec<Resources>> = None;
    let (mut round, mut told) = (0, None);
    while round <= WARM_UP || began.elapsed() < length {
        everybody(nodes.https(), round).await;
        work(&jobs, nodes.https(), round).await;
        for http in nodes.https() {
            for name in PRESENT {
                Metrics::shows(http, name, 0.0).await;
            }
        }
        round += 1;
        let needs = nodes.resources();
        match &needed {
            Some(before) => needs.iter().zip(before).for_each(|(now, then)| modest(*now, *then)),
            None if round == WARM_UP => needed = Some(needs.clone()),
            None => {}
        }
        let minutes = began.elapsed().as_secs() / 60;
        if told.replace(minutes) != Some(minutes) {
            eprintln!("{minutes} min, {round} rounds: {needs:?}");
        }
    }
}

/// Whether a node needs no more than it did.
fn modest(now: Resources, then: Resources) {
    let files_max = then.open_files + FILES_MORE;
    assert!(now.open_files <= files_max, "files stay open: {now:?}, after {then:?}");
    let bytes_max = then.resident_bytes + then.resident_bytes / 2 + BYTES_MORE;
    assert!(now.resident_bytes <= bytes_max, "memory grows: {now:?}, after {then:?}");
}

/// All kinds of visitors at once, until the last has left.
async fn everybody(nodes: &[Http], round: usize) {
    let mut visitors = JoinSet::new();
    for number in round * VISITORS..(round + 1) * VISITORS {
        let (nodes, others) = (nodes.to_vec(), nodes.to_vec());
        visitors.spawn(reader(nodes, number, number % 2 == 0));
        visitors.spawn(follower_of_queries(others, number));
    }
    while let Some(visitor) = visitors.join_next().await {
        visitor.expect("a visitor");
    }
}

fn any(nodes: &[Http]) -> &Http {
    nodes.choose(&mut rand::rng()).expect("a node")
}

/// Someone who makes a stream, follows it at one node, writes to it at others and removes it.
async fn reader(nodes: Vec<Http>, number: usize, by_session: bool) {
    let (stream, here) = (format!("visit/{number}"), any(&nodes));
    any(&nodes).create(&stream).await;
    let mut connection = if by_session {
        let session = here.open_session().await;
        here.follow(&session, &stream, "-1").await;
        Connection::EventSource(EventSource::open(here, &session, None).await)
    } else {
        let mut wire = Wire::open(here, "/v1/ws").await;
        wire.subscribe(&stream, "-1").await;
        Connection::WebSocket(wire)
    };
    let sent: Vec<Value> = (0..EACH).map(|n| json!({ "visitor": number, "n": n })).collect();
    for message in &sent {
        any(&nodes).append(&stream, message).await;
    }
    let mut got = Vec::new();
    while got.len() < sent.len() {
        let message = within_patience("an event", connection.next()).await;
        let message = message.expect("a connection that stays");
        match message["type"].as_str() {
            Some("event") => got.push(message["payload"].clone()),
            Some("hello" | "subscription_created" | "progress") => {}
            _ => panic!("{stream} was told {message}"),
        }
    }
    assert_eq!(got, sent, "{stream}");
    drop(connection);
    let path = format!("/v1/stream/{stream}");
    let removed = any(&nodes).request(Method::DELETE, &path).send().await.expect("an answer");
    assert_eq!(removed.status(), 204, "{stream}");
}

/// Someone who follows queries over rows that are only theirs, changes those and removes them.
async fn follower_of_queries(nodes: Vec<Http>, number: usize) {
    let here = any(&nodes);
    let queries = [
        ("rows", format!("SELECT id, total FROM visits WHERE visitor = 'v{number}'")),
        ("sum", format!("SELECT sum(total) AS total FROM visits WHERE visitor = 'v{number}'")),
    ];
    let mut tab = QueryTab::open(here).await;
    for (name, sql) in &queries {
        tab.follow(&json!({ "query_id": name, "sql": sql })).await;
    }
    let first = number * EACH;
    for id in first..first + EACH {
        run(any(&nodes), &format!("INSERT INTO visits VALUES ({id}, 'v{number}', {id})")).await;
    }
    let raise = format!("UPDATE visits SET total = total + 1 WHERE visitor = 'v{number}'");
    run(any(&nodes), &raise).await;
    for (name, sql) in &queries {
        tab.until_as_run(here, name, sql, false).await;
    }
    run(any(&nodes), &format!("DELETE FROM visits WHERE visitor = 'v{number}'")).await;
    tab.until("rows", &[]).await;
}

/// Jobs of some tenants, worked off by members at all nodes: each once, those of a tenant in order.
async fn work(jobs: &Jobs, nodes: &[Http], round: usize) {
    let first = i64::try_from(round * EACH * VISITORS).expect("not so many");
    let count = i64::try_from(EACH * VISITORS).expect("few");
    let tenant = |id: i64| format!("tenant-{}", id % i64::try_from(VISITORS).expect("few"));
    let rows: Vec<(i64, String)> = (first..first + count).map(|id| (id, tenant(id))).collect();
    let rows: Vec<_> = rows.iter().map(|(id, host)| (*id, host.as_str(), "ann")).collect();
    jobs.add(&rows).await;
    let mut done = Vec::new();
    for http in nodes.iter().cycle() {
        let claim =
            json!({ "member": format!("at {}", http.port()), "wait_ms": 40_000, "batch_size": 10 });
        let batch = jobs.at(http).try_claim(&claim).await.expect("there is work");
        jobs.at(any(nodes)).ack(&batch).await;
        // Those of the round before were removed, which is an event too.
        done.extend(events(&batch).iter().filter(|event| event["operation"] == "INSERT").map(job));
        if done.len() >= rows.len() {
            break;
        }
    }
    for (_, host, _) in rows.iter().take(VISITORS) {
        let of_tenant = done.iter().filter(|id| tenant(**id) == *host);
        assert!(of_tenant.is_sorted(), "{host}: {done:?}");
    }
    done.sort_unstable();
    assert!(done.iter().copied().eq(first..first + count), "each once: {done:?}");
    jobs.sql(&format!("DELETE FROM jobs WHERE id < {}", first + count)).await;
}
