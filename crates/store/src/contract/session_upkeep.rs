//! Upkeep of sessions: what a sweep removes, and the counts of who follows a stream.

use super::Opener;
use super::sessions::{
    LONG_MS, RULES, SHORT_MS, at, connect, heartbeat, open, subscribe, unsubscribe,
};
use super::subject::{Subject, eventually};
use crate::session::{SessionRules, SessionSignal, SweptSessions};

impl Subject {
    pub(super) async fn sweeps_sessions(&self, rules: SessionRules) -> SweptSessions {
        self.sweep_sessions(rules).await.expect("sessions can be swept")
    }
}

/// The count of a stream follows those who subscribe and unsubscribe.
pub async fn counts_follow_subscriptions(data: &dyn Opener) {
    let store = Subject::open(data).await;
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
    let store = Subject::open(data).await;
    for session in ["s", "t", "lives"] {
        store.opens(session).await;
        store.follows(session, "a", at(0)).await;
    }
    store.follows("s", "b", at(0)).await;
    let mut signals = store.session_signals();
    store.do_all(vec![heartbeat("s", SHORT_MS), heartbeat("t", SHORT_MS)]).await;
    store.loses_session("s").await;
    store.loses_session("t").await;
    assert_eq!(store.count("a").await, 3, "counted until they are swept");
    let swept = store.sweeps_sessions(RULES).await;
    assert_eq!(swept, SweptSessions { sessions: 2, subscriptions: 3, ..SweptSessions::default() });
    assert_eq!((store.count("a").await, store.count("b").await), (1, 0));
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default(), "nothing is left");
    store.has_session("lives").await;
    let mut gone = vec![signals.recv().await, signals.recv().await];
    gone.retain(|signal| *signal != Ok(SessionSignal::Missed));
    assert!(gone.contains(&Ok(SessionSignal::Changed("s".to_owned()))), "{gone:?}");
}

/// A sweep removes so many rows and no more; the next one goes on. A session goes as a whole.
pub async fn a_sweep_is_bounded(data: &dyn Opener) {
    let store = Subject::open(data).await;
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
    while sizes.last() != Some(&0) {
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
    let store = Subject::open(data).await;
    for session in ["idle", "served"] {
        store.opens(session).await;
        for stream in ["a", "b", "c"] {
            store.follows(session, stream, at(0)).await;
        }
    }
    store.renews_node("n", LONG_MS).await;
    store.does(connect("served", "n")).await;
    let before = store.has_session("idle").await.revision;
    let mut signals = store.session_signals();
    let mut removed = 0;
    // Time must pass first, and there are six pointers to look at.
    let rules = SessionRules { stale_ms: SHORT_MS, rows_max: 2, ..RULES };
    while removed < 3 {
        let swept = store.sweeps_sessions(rules).await;
        assert!(swept.subscriptions <= 2, "{swept:?}");
        assert_eq!((swept.sessions, swept.nodes, swept.counts), (0, 0, 0));
        removed += swept.subscriptions;
    }
    let idle = store.has_session("idle").await;
    assert_eq!((removed, idle.subscriptions.len(), idle.revision), (3, 0, before + 3));
    assert_eq!(store.has_session("served").await.subscriptions.len(), 3);
    assert_eq!(store.count("a").await, 1);
    let signalled =
        async { while signals.recv().await != Ok(SessionSignal::Changed("idle".to_owned())) {} };
    let heard = tokio::time::timeout(std::time::Duration::from_secs(30), signalled).await;
    heard.expect("a signal of what was removed");
}

/// What is acknowledged is not stale.
pub async fn fresh_subscriptions_are_not_swept(data: &dyn Opener) {
    let store = Subject::open(data).await;
    store.opens("s").await;
    store.follows("s", "a", at(0)).await;
    let started = store.has_session("s").await;
    assert_eq!(store.sweeps_sessions(RULES).await, SweptSessions::default());
    assert_eq!(store.has_session("s").await, started);
    // The same rule that would remove everything else.
    let rules = SessionRules { stale_ms: SHORT_MS, ..RULES };
    let swept = || async {
        let swept = store.sweeps_sessions(rules).await;
        (swept.subscriptions == 1).then_some(())
    };
    eventually("it goes stale in the end", swept).await;
}
