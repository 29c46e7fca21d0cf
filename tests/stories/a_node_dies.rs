//! Three nodes on one database, and one of them is killed. Its clients move, its lease ends, and
//! nobody loses anything.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::postgres::Sql;
use tidewire_stories::{Http, Nodes, Plan, Producers, Store, Transcript, Wire};
use tidewire_stories::{eventually, rounds};

const LEASE_MS: u64 = 2_000;
const SETTINGS: [(&str, &str); 1] = [("TIDEWIRE_NODE_LEASE_MS", "2000")];
const STREAMS: [&str; 2] = ["left", "right"];

/// I1, I3: the clients of a node that is killed go on at the others without loss or repetition, and
/// its row and its sessions are given up when its lease has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_a_dead_node_go_on_elsewhere() {
    let url = tidewire_stories::postgres::fresh_database().await;
    let mut nodes = Nodes::start(3, &Store::postgres_at(&url), &SETTINGS).await;
    let sql = Sql::connect(&url).await.expect("a connection");
    for stream in STREAMS {
        nodes.http(0).create(stream).await;
    }
    let plans = [
        Plan::idempotent("a", "left"),
        Plan::idempotent("b", "right").in_batches(),
        Plan::plain("c", "left"),
    ];
    let mut producers = Producers::spread(nodes.https(), plans);
    let followers = nodes.followers(&STREAMS).await;

    for round in 0..rounds(2).min(50) {
        let (victim, witness) = (round % 3, (round + 1) % 3);
        let dead = name(nodes.http(victim)).await;
        let (sleeper, _asleep) = asleep(nodes.http(victim)).await;
        producers.progress(20).await;
        nodes.kill(victim);
        producers.progress(20).await;
        eventually("its lease ends", async || {
            let listed = list(nodes.http(witness)).await;
            (!listed.iter().any(|node| node["node"] == dead.as_str())).then_some(())
        })
        .await;
        eventually("its sessions are released", async || {
            let kept = format!("SELECT count(*) FROM tidewire.sessions WHERE node_id = '{dead}'");
            (sql.number(&kept).await == 0).then_some(())
        })
        .await;
        // Whose client has not come back yet is kept for it, and any node knows it.
        let body = json!({ "sessionId": sleeper });
        let answer = nodes.http(witness).json(Method::POST, "/v1/heartbeat", &body).await;
        assert_eq!(answer.status, 200, "a session of a dead node: {}", answer.text());
        nodes.start_again(victim).await;
    }
    producers.progress(20).await;
    producers.stop().await;

    for stream in STREAMS {
        let mut transcript = Transcript::new(stream);
        producers.check(nodes.http(1), &mut transcript).await;
        for follower in &followers {
            follower.has_all_of(&transcript).await;
        }
    }
    for follower in &followers {
        assert_eq!(follower.problems(), [""; 0], "nobody was refused anything");
    }
    assert!(followers[0].nodes().len() > 1, "it has moved: {:?}", followers[0].nodes());
}

/// I3: an append on any node reaches the subscribers on all nodes, each once.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_on_any_node_reaches_subscribers_on_all() {
    let nodes = Nodes::start(3, &Store::postgres().await, &SETTINGS).await;
    nodes.http(0).create("shared").await;
    let mut wires = Vec::new();
    for http in nodes.https() {
        let mut wire = Wire::open(http, "/v1/ws").await;
        wire.subscribe("shared", "-1").await;
        wires.push(wire);
    }
    let mut offsets = Vec::new();
    for round in 0..20 {
        for (index, http) in nodes.https().iter().enumerate() {
            let message = json!({ "round": round, "node": index });
            offsets.push((http.append("shared", &message).await, message));
        }
    }
    for wire in &mut wires {
        for (offset, message) in &offsets {
            let event = wire.hears("event").await;
            assert_eq!(event["offset"], offset.as_str(), "{event}");
            assert_eq!(event["payload"], *message, "{event}");
        }
    }
}

/// What `/v1/nodes` says of each node, whichever is asked.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_is_listed_by_every_node() {
    let mut nodes = Nodes::start(3, &Store::postgres().await, &SETTINGS).await;
    nodes.http(0).create("shared").await;
    let mut wire = Wire::open(nodes.http(2), "/v1/ws").await;
    wire.subscribe("shared", "-1").await;
    for (index, http) in nodes.https().iter().enumerate() {
        let listed = eventually("the node with a connection is known by it", async || {
            let listed = list(http).await;
            let of_wire = listed.iter().find(|node| node["url"] == nodes.http(2).base());
            // It reports when it renews its lease, which may be between the two.
            let report = of_wire.expect("three nodes");
            (report["connections"] == 1 && report["subscriptions"] == 1).then_some(listed)
        })
        .await;
        assert_eq!(listed.len(), 3, "{listed:?}");
        for node in &listed {
            assert_eq!(node["version"], env!("CARGO_PKG_VERSION"), "{node}");
            assert!(node["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{node}");
            assert!(node["leaseMs"].as_u64().is_some_and(|ms| ms <= LEASE_MS), "{node}");
            assert!(node["position"].is_string() && node["lag"].is_u64(), "{node}");
            let own = node["url"] == nodes.http(index).base();
            assert_eq!(node["self"], own, "{node}");
            let connected = u64::from(node["url"] == nodes.http(2).base());
            assert_eq!(node["connections"], connected, "{node}");
            assert_eq!(node["subscriptions"], connected, "{node}");
        }
    }
    // One that is told to stop says goodbye: nobody waits for its lease.
    drop(wire);
    nodes.stop(2).await;
    assert_eq!(list(nodes.http(0)).await.len(), 2, "after an orderly stop");
}

async fn list(http: &Http) -> Vec<Value> {
    let answer = http.get("/v1/nodes").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["nodes"].as_array().expect("nodes").clone()
}

/// The name that a node goes by.
async fn name(http: &Http) -> String {
    let listed = list(http).await;
    let own = listed.iter().find(|node| node["self"] == true).expect("the node itself");
    own["node"].as_str().expect("a name").to_owned()
}

/// A session that a node serves, and whose client goes when the node does.
async fn asleep(http: &Http) -> (String, Wire) {
    let session = http.open_session().await;
    http.follow(&session, "left", "now").await;
    let mut wire = Wire::open(http, &format!("/v1/ws?session={session}")).await;
    wire.hears("subscription_created").await;
    (session, wire)
}
