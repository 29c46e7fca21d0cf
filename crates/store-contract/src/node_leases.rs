//! Nodes: their leases, and the sessions that live by them.

use super::Opener;
use super::sessions::{
    LONG_MS, RULES, SHORT_MS, at, connect, disconnect, heartbeat, open, subscribe,
};
use super::test_store::{TestStore, eventually};
use tidewire_store::nodes::{NodeReport, NodeView};
use tidewire_store::offset::Position;
use tidewire_store::session::{SessionOutcome, SessionRules, SweptSessions};

/// What a node says of itself.
pub(super) fn report(id: &str, connections: u64) -> NodeReport {
    NodeReport {
        id: id.to_owned(),
        url: format!("http://{id}.example:4437"),
        version: "0.1.0".to_owned(),
        connections,
        subscriptions: 2 * connections,
        position: Position::new(3 * connections),
        lag: 7 * connections,
    }
}

impl TestStore {
    pub(super) async fn renews_node(&self, id: &str, lease_ms: u64) {
        self.renew_node(&report(id, 1), lease_ms).await.expect("a lease can be renewed");
    }

    pub(super) async fn lists_nodes(&self) -> Vec<NodeView> {
        self.nodes().await.expect("nodes can be listed")
    }

    async fn node_ids(&self) -> Vec<String> {
        self.lists_nodes().await.into_iter().map(|node| node.report.id).collect()
    }

    /// A session that only the node keeps alive: its own time has run out.
    async fn serves(&self, session: &str, node: &str) {
        let changes = vec![
            open(session, LONG_MS),
            subscribe(session, "a", at(0)),
            connect(session, node),
            heartbeat(session, SHORT_MS),
        ];
        let outcomes = self.do_all(changes).await;
        assert!(!outcomes.contains(&SessionOutcome::NoSession), "{outcomes:?}");
        // Another one whose time ran out no earlier says when.
        let witness = format!("witness of {session}");
        self.does(open(&witness, SHORT_MS)).await;
        self.loses_session(&witness).await;
    }

    /// Waits until no lease holds any more.
    pub(super) async fn leases_end(&self) {
        let ended = || async { self.lists_nodes().await.is_empty().then_some(()) };
        eventually("the lease ends", ended).await;
    }
}

/// Nodes whose lease holds are listed by id, as they last described themselves.
pub async fn nodes_are_listed_as_they_report(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    assert_eq!(store.lists_nodes().await, []);
    store.renew_node(&report("b", 1), LONG_MS).await.expect("renewed");
    store.renew_node(&report("a", 2), LONG_MS).await.expect("renewed");
    store.renew_node(&report("b", 3), 2 * LONG_MS).await.expect("renewed");
    let nodes = store.lists_nodes().await;
    let reports: Vec<&NodeReport> = nodes.iter().map(|node| &node.report).collect();
    assert_eq!(reports, [&report("a", 2), &report("b", 3)]);
    let left: Vec<bool> = nodes.iter().map(|node| node.lease_ms <= LONG_MS).collect();
    assert_eq!(left, [true, false], "{nodes:?}");
    assert!(nodes.iter().all(|node| node.lease_ms > 0 && node.started_at_ms > 0), "{nodes:?}");
}

/// A lease that is renewed in time holds without a break.
pub async fn a_lease_is_renewed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    let started = store.lists_nodes().await[0].started_at_ms;
    store.renews_node("n", u64::MAX).await;
    let node = store.lists_nodes().await.remove(0);
    assert_eq!(node.started_at_ms, started);
    assert!(node.lease_ms > LONG_MS, "an immense lease is accepted: {node:?}");
}

/// A lease ends by the store's clock. A node that comes back afterwards can see that it was thought
/// dead: it is listed as one that has just started.
pub async fn a_lease_ends_unless_it_is_renewed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.leases_end().await;
    data.run_sql("UPDATE tidewire.nodes SET started_at = 1").await;
    store.renews_node("n", LONG_MS).await;
    assert!(store.lists_nodes().await[0].started_at_ms > 1);
}

/// A node that was thought dead and comes back has lost its sessions, and can connect them again.
pub async fn a_node_that_comes_back_connects_its_sessions_again(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.serves("s", "n").await;
    store.leases_end().await;
    store.sweeps_sessions(RULES).await;
    store.renews_node("n", LONG_MS).await;
    store.do_all(vec![connect("s", "n"), heartbeat("s", SHORT_MS)]).await;
    store.does(open("later", SHORT_MS)).await;
    store.loses_session("later").await;
    store.has_session("s").await;
}

/// A session that a living node serves does not expire.
pub async fn a_served_session_does_not_expire(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.serves("s", "n").await;
    store.has_session("s").await;
    assert_eq!(store.does(heartbeat("s", SHORT_MS)).await, SessionOutcome::Done);
    let swept = store.sweeps_sessions(SessionRules { ttl_ms: 0, ..RULES }).await;
    assert_eq!(swept, SweptSessions { sessions: 1, ..SweptSessions::default() }, "the witness");
    store.has_session("s").await;
    assert_eq!(store.count("a").await, 1);
}

/// The session of a node that died waits for its client: until the sweep notices, and for the time
/// of a session after that. Then it expires.
pub async fn the_sessions_of_a_dead_node_live_on_for_a_while(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.serves("s", "n").await;
    store.leases_end().await;
    store.has_session("s").await;
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { sessions: 1, nodes: 1, ..SweptSessions::default() });
    store.has_session("s").await;
    let swept = store.sweeps_sessions(SessionRules { ttl_ms: 0, ..RULES }).await;
    assert_eq!(swept, SweptSessions::default(), "it has been given its time");
    store.has_session("s").await;
    assert_eq!(store.does(heartbeat("s", SHORT_MS)).await, SessionOutcome::Done);
    store.loses_session("s").await;
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!((swept.sessions, swept.subscriptions), (1, 1));
}

/// The time that a dead node's sessions are given is the sweep's, and it ends.
pub async fn the_time_of_a_dead_nodes_sessions_ends(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.serves("s", "n").await;
    store.leases_end().await;
    store.sweeps_sessions(SessionRules { ttl_ms: SHORT_MS, ..RULES }).await;
    store.loses_session("s").await;
    store.sweeps_sessions(RULES).await;
    assert_eq!(store.count("a").await, 0);
}

/// The end of a lease does not shorten the time that a session has of its own.
pub async fn a_dead_node_takes_no_time_from_its_sessions(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.do_all(vec![open("s", LONG_MS), connect("s", "n")]).await;
    store.leases_end().await;
    let swept = store.sweeps_sessions(SessionRules { ttl_ms: 0, ..RULES }).await;
    assert_eq!(swept, SweptSessions { nodes: 1, ..SweptSessions::default() });
    store.has_session("s").await;
}

/// However many sessions a dead node had, a sweep lets go of so many and no more, and the node is
/// remembered until it has let go of all.
pub async fn a_dead_node_is_forgotten_with_its_last_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    for number in 0..5 {
        let session = format!("s{number}");
        store.do_all(vec![open(&session, LONG_MS), connect(&session, "n")]).await;
    }
    store.leases_end().await;
    let rules = SessionRules { rows_max: 2, ..RULES };
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(store.sweeps_sessions(rules).await.nodes);
    }
    assert_eq!(nodes, [0, 0, 1, 0]);
    for number in 0..5 {
        store.has_session(&format!("s{number}")).await;
    }
}

/// A node that nobody knows keeps no session alive.
pub async fn an_unknown_node_keeps_no_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let changes = vec![open("s", LONG_MS), connect("s", "nobody"), heartbeat("s", SHORT_MS)];
    store.do_all(changes).await;
    store.loses_session("s").await;
    store.remove_node("nobody", LONG_MS).await.expect("a node can be removed");
    assert_eq!(store.find_session("s").await, None, "what has expired stays so");
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { sessions: 1, ..SweptSessions::default() });
}

/// A node that disconnects a session which another serves by now changes nothing.
pub async fn only_the_node_that_serves_a_session_disconnects_it(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.renews_node("other", LONG_MS).await;
    store.serves("s", "other").await;
    store.does(connect("s", "n")).await;
    assert_eq!(store.does(disconnect("s", "other", SHORT_MS)).await, SessionOutcome::Done);
    store.does(open("later", SHORT_MS)).await;
    store.loses_session("later").await;
    store.has_session("s").await;
    assert_eq!(store.does(disconnect("s", "n", SHORT_MS)).await, SessionOutcome::Done);
    store.loses_session("s").await;
    assert_eq!(store.does(disconnect("s", "n", LONG_MS)).await, SessionOutcome::NoSession);
}

/// A session lives for a while after its connection ended.
pub async fn a_disconnected_session_lives_on_for_a_while(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.serves("s", "n").await;
    store.does(disconnect("s", "n", LONG_MS)).await;
    store.sweeps_sessions(RULES).await;
    store.has_session("s").await;
}

/// A node that goes is no longer listed, and its sessions live on for a while.
pub async fn a_node_that_goes_leaves_its_sessions(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.renews_node("stays", LONG_MS).await;
    for (session, node) in [("s", "n"), ("t", "n"), ("u", "stays")] {
        store.serves(session, node).await;
    }
    store.remove_node("n", LONG_MS).await.expect("a node can be removed");
    store.remove_node("nobody", LONG_MS).await.expect("a node can be removed");
    assert_eq!(store.node_ids().await, ["stays"]);
    store.has_session("s").await;
    store.has_session("t").await;
    store.remove_node("stays", SHORT_MS).await.expect("a node can be removed");
    store.loses_session("u").await;
    store.sweeps_sessions(RULES).await;
    store.has_session("s").await;
    assert_eq!(store.count("a").await, 2);
}
