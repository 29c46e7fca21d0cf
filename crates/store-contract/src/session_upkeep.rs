//! Upkeep of sessions: what a sweep removes, and the counts of who follows a stream.

use super::Opener;
use super::pointers::acknowledge;
use super::sessions::{
    LONG_MS, RULES, SHORT_MS, at, connect, disconnect, heartbeat, open, subscribe, unsubscribe,
};
use super::test_store::{TestStore, eventually};
use tidewire_store::session::{SessionRules, SweptSessions};

impl TestStore {
    pub(super) async fn sweeps_sessions(&self, rules: SessionRules) -> SweptSessions {
        self.sweep_sessions(rules).await.expect("sessions can be swept")
    }
}

/// The count of a stream follows those who subscribe and unsubscribe.
pub async fn counts_follow_subscriptions(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["s", "t", "u"] {
        store.opens(session).await;
        store.follows(session, "a", at(0)).await;
        store.follows(session, "a", at(5)).await;
    }
    store.follows("s", "b", at(0)).await;
    assert_eq!((store.count("a").await, store.count("b").await), (3, 1));
    store.does(unsubscribe("s", "a")).await;
    store.does(unsubscribe("s", "a")).await;
    store.does(unsubscribe("s", "b")).await;
    assert_eq!((store.count("a").await, store.count("b").await), (2, 0));
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default(), "all is well");
}

/// What has expired is removed with all it followed, and counts no longer; what lives stays.
pub async fn expired_sessions_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["s", "t", "lives"] {
        store.opens(session).await;
        store.follows(session, "a", at(0)).await;
    }
    store.follows("s", "b", at(0)).await;
    let mut signals = store.hears().await;
    store.do_all(vec![heartbeat("s", SHORT_MS), heartbeat("t", SHORT_MS)]).await;
    store.loses_session("s").await;
    store.loses_session("t").await;
    assert_eq!(store.count("a").await, 3, "counted until they are swept");
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { sessions: 2, subscriptions: 3, ..SweptSessions::default() });
    assert_eq!((store.count("a").await, store.count("b").await), (1, 0));
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default(), "nothing is left");
    store.has_session("lives").await;
    let mut gone = [signals.next().await, signals.next().await];
    gone.sort();
    assert_eq!(gone, ["s", "t"]);
}

/// A sweep removes so many rows and no more; the next one goes on. A session goes as a whole.
pub async fn a_sweep_is_bounded(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let sessions = ["s0", "s1", "s2", "s3", "s4"];
    for session in sessions {
        let follow = |number: usize| subscribe(session, &format!("a{number}"), at(0));
        store
            .do_all([open(session, LONG_MS)].into_iter().chain((0..3).map(follow)).collect())
            .await;
        store.does(heartbeat(session, SHORT_MS)).await;
    }
    for session in sessions {
        store.loses_session(session).await;
    }
    // Two sessions with three subscriptions each are eight rows.
    let rules = SessionRules { rows_max: 8, ..RULES };
    let mut sizes = Vec::new();
    for _ in 0..4 {
        sizes.push(store.sweeps_sessions(rules).await.sessions);
    }
    assert_eq!(sizes, [2, 2, 1, 0]);
    assert_eq!(store.count("a0").await, 0);
    store.do_all(vec![open("s", LONG_MS), subscribe("s", "a", at(0))]).await;
    store.does(heartbeat("s", SHORT_MS)).await;
    store.loses_session("s").await;
    let swept = store.sweeps_sessions(SessionRules { rows_max: 1, ..RULES }).await;
    assert_eq!((swept.sessions, swept.subscriptions), (1, 1), "more than fits, but one at least");
}

/// Subscriptions that nobody used for long are removed, a few a call, and their sessions live on;
/// but not those that a living node serves.
pub async fn stale_subscriptions_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["idle", "served"] {
        store.opens(session).await;
        for stream in ["a", "b", "c"] {
            store.follows(session, stream, at(0)).await;
        }
    }
    store.renews_node("n", LONG_MS).await;
    store.does(connect("served", "n")).await;
    let before = store.has_session("idle").await.revision;
    let mut signals = store.hears().await;
    // Time must pass first, and there are six pointers to look at, two a call.
    let rules = SessionRules { stale_ms: SHORT_MS, rows_max: 2, ..RULES };
    let sweeps = || async {
        let swept = store.sweeps_sessions(rules).await;
        assert!(swept.subscriptions <= 2, "{swept:?}");
        assert_eq!((swept.sessions, swept.nodes, swept.counts), (0, 0, 0));
        store.has_session("idle").await.subscriptions.is_empty().then_some(())
    };
    eventually("stale subscriptions go", sweeps).await;
    let idle = store.has_session("idle").await;
    assert_eq!(idle.revision, before + 3);
    assert_eq!(store.has_session("served").await.subscriptions.len(), 3);
    assert_eq!(store.count("a").await, 1);
    assert_eq!(signals.next().await, "idle");
}

/// What was used lately is not stale, whoever used it: an acknowledgement, or a connection that has
/// ended since.
pub async fn what_was_used_lately_is_not_stale(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["acknowledges", "connects", "idle"] {
        store.opens(session).await;
        store.follows(session, "a", at(0)).await;
    }
    store.renews_node("n", LONG_MS).await;
    data.run_sql("UPDATE tidewire.session_offsets SET updated_at = 1").await;
    store.does(acknowledge("acknowledges", "a", 1, 0)).await;
    store.do_all(vec![connect("connects", "n"), disconnect("connects", "n", LONG_MS)]).await;
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { subscriptions: 1, ..SweptSessions::default() });
    assert_eq!(store.has_session("idle").await.subscriptions, []);
    assert_eq!(store.count("a").await, 2);
    data.run_sql("UPDATE tidewire.sessions SET served_until = 1").await;
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { subscriptions: 1, ..SweptSessions::default() });
    assert_eq!(store.has_session("connects").await.subscriptions, []);
    assert_eq!(store.has_session("acknowledges").await.subscriptions.len(), 1);
}

/// Counts that somebody changed by hand are put right: too high, too low, missing, or of a stream
/// that nobody follows.
pub async fn wrong_counts_are_put_right(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["s", "t"] {
        store.opens(session).await;
        for stream in ["high", "low", "missing", "right"] {
            store.follows(session, stream, at(0)).await;
        }
    }
    let set = |stream: &str, count: i64| {
        let sql = format!(
            "UPDATE tidewire.stream_subscriber_counts SET count = {count}
             WHERE stream_id = '{stream}'"
        );
        async move { data.run_sql(&sql).await }
    };
    set("high", 7).await;
    set("low", -7).await;
    data.run_sql("DELETE FROM tidewire.stream_subscriber_counts WHERE stream_id = 'missing'").await;
    for (stream, count) in [("nobody", 3), ("none", 0)] {
        let sql = format!(
            "INSERT INTO tidewire.stream_subscriber_counts (stream_id, count, updated_at)
             VALUES ('{stream}', {count}, 0)"
        );
        data.run_sql(&sql).await;
    }
    assert_eq!((store.count("high").await, store.count("low").await), (7, 0));
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { counts: 5, ..SweptSessions::default() });
    let counts = "SELECT stream_id FROM tidewire.stream_subscriber_counts
        WHERE count = 2 ORDER BY stream_id";
    assert_eq!(data.run_sql(counts).await, ["high", "low", "missing", "right"]);
    let rows = data.run_sql("SELECT count(*) FROM tidewire.stream_subscriber_counts").await;
    assert_eq!(rows, ["4"], "a stream that nobody follows has no row");
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default());
}

/// However many streams are followed, all of their counts are looked at in the end, and then again.
pub async fn all_counts_are_looked_at_in_turn(data: &dyn Opener) {
    const STREAMS: usize = 450;
    // More than enough: one looks at two hundred.
    const SWEEPS: usize = 5;
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let follow = |number: usize| subscribe("s", &format!("a{number:03}"), at(0));
    store.do_all((0..STREAMS).map(follow).collect()).await;
    for round in 0..2 {
        data.run_sql("UPDATE tidewire.stream_subscriber_counts SET count = 2").await;
        let mut put_right = 0;
        for _ in 0..SWEEPS {
            put_right += store.sweeps_sessions(RULES).await.counts;
        }
        assert_eq!(put_right, STREAMS, "round {round}");
        let wrong = "SELECT count(*) FROM tidewire.stream_subscriber_counts WHERE count <> 1";
        assert_eq!(data.run_sql(wrong).await, ["0"], "round {round}");
    }
}

/// The rows that other tools read say when a subscription expires: with its session.
pub async fn subscriptions_say_when_they_expire(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.follows("s", "a", at(0)).await;
    store.follows("s", "b", at(0)).await;
    store.renews_node("n", SHORT_MS).await;
    let differing = "SELECT count(*) FROM tidewire.session_subscriptions AS subscription
        JOIN tidewire.sessions AS session ON session.session_id = subscription.session_id
        WHERE subscription.expires_at <> session.expires_at";
    let expiry = "SELECT expires_at FROM tidewire.sessions";
    let mut last = data.run_sql(expiry).await;
    for (number, change) in [
        heartbeat("s", 2 * LONG_MS),
        subscribe("s", "c", at(0)),
        connect("s", "n"),
        disconnect("s", "n", 3 * LONG_MS),
    ]
    .into_iter()
    .enumerate()
    {
        store.does(change).await;
        assert_eq!(data.run_sql(differing).await, ["0"], "after change {number}");
        let now = data.run_sql(expiry).await;
        assert_eq!(now == last, number == 2, "a connection alone does not change it");
        last = now;
    }
    store.does(connect("s", "n")).await;
    store.leases_end().await;
    store.sweeps_sessions(SessionRules { ttl_ms: 4 * LONG_MS, ..RULES }).await;
    assert_eq!(data.run_sql(differing).await, ["0"], "after its node died");
    assert_ne!(data.run_sql(expiry).await, last);
}

/// Pointers that belong to no session were left by somebody's hand, and go when they are stale.
pub async fn orphans_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["s", "t"] {
        store.opens(session).await;
        store.follows(session, "a", at(0)).await;
    }
    data.run_sql("DELETE FROM tidewire.sessions WHERE session_id = 's'").await;
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default(), "not yet stale");
    data.run_sql("UPDATE tidewire.session_offsets SET updated_at = 1 WHERE session_id = 's'").await;
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { subscriptions: 1, ..SweptSessions::default() });
    assert_eq!(store.count("a").await, 1);
    let rows = data.run_sql("SELECT session_id FROM tidewire.session_offsets").await;
    assert_eq!(rows, ["t"]);
}
