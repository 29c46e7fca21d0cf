//! Sessions: how they come and go, and what they follow.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::Opener;
use super::pointers::{acknowledge, went_live};
use super::test_store::{DEADLINE, TestStore, eventually};
use tidewire_store::offset::Position;
use tidewire_store::session::{
    Owner, SESSION_SUBSCRIPTIONS_MAX, Session, SessionChange, SessionOutcome, SessionRules,
    SessionSignal, SessionSubscription, Start,
};

/// Longer than any test runs.
pub(super) const LONG_MS: u64 = 3_600_000;
/// Over before anyone looks.
pub(super) const SHORT_MS: u64 = 1;

/// A sweep that takes everything.
pub(super) const RULES: SessionRules =
    SessionRules { ttl_ms: LONG_MS, stale_ms: LONG_MS, rows_max: 10_000 };

pub(super) fn open(session: &str, ttl_ms: u64) -> SessionChange {
    let owner = Owner { user_id: "ann".to_owned(), host_id: None };
    SessionChange::Open { session: session.to_owned(), owner, ttl_ms }
}

pub(super) fn subscribe(session: &str, stream: &str, start: Start) -> SessionChange {
    SessionChange::Subscribe {
        session: session.to_owned(),
        stream: stream.to_owned(),
        query_id: stream.to_owned(),
        start,
        ttl_ms: LONG_MS,
    }
}

/// As [`subscribe`], under a name of its own.
pub(super) fn subscribe_as(name: &str, session: &str, stream: &str, start: Start) -> SessionChange {
    let mut change = subscribe(session, stream, start);
    if let SessionChange::Subscribe { query_id, .. } = &mut change {
        name.clone_into(query_id);
    }
    change
}

pub(super) fn unsubscribe(session: &str, stream: &str) -> SessionChange {
    SessionChange::Unsubscribe { session: session.to_owned(), stream: stream.to_owned() }
}

pub(super) fn heartbeat(session: &str, ttl_ms: u64) -> SessionChange {
    SessionChange::Heartbeat { session: session.to_owned(), ttl_ms }
}

pub(super) fn connect(session: &str, node: &str) -> SessionChange {
    SessionChange::Connect { session: session.to_owned(), node: node.to_owned() }
}

pub(super) fn disconnect(session: &str, node: &str, ttl_ms: u64) -> SessionChange {
    SessionChange::Disconnect { session: session.to_owned(), node: node.to_owned(), ttl_ms }
}

pub(super) fn at(number: u64) -> Start {
    Start::At(Position::new(number))
}

pub(super) fn unless(number: u64) -> Start {
    Start::Unless(Position::new(number))
}

impl TestStore {
    /// Makes one change.
    pub(super) async fn does(&self, change: SessionChange) -> SessionOutcome {
        let about = format!("{change:?}");
        let mut outcomes = self.do_all(vec![change]).await;
        outcomes.pop().unwrap_or_else(|| panic!("{about}: no outcome"))
    }

    /// Makes changes in one commit.
    pub(super) async fn do_all(&self, changes: Vec<SessionChange>) -> Vec<SessionOutcome> {
        let count = changes.len();
        let outcomes = self.change_sessions(changes).await.expect("sessions can be changed");
        assert_eq!(outcomes.len(), count, "an outcome each");
        outcomes
    }

    /// Opens a session that lives for long.
    pub(super) async fn opens(&self, session: &str) {
        assert_eq!(self.does(open(session, LONG_MS)).await, SessionOutcome::Done, "{session}");
    }

    /// Makes a subscription.
    pub(super) async fn follows(
        &self,
        session: &str,
        stream: &str,
        start: Start,
    ) -> SessionSubscription {
        match self.does(subscribe(session, stream, start)).await {
            SessionOutcome::Subscribed(subscription) => subscription,
            other => panic!("{session} cannot follow {stream}: {other:?}"),
        }
    }

    pub(super) async fn find_session(&self, id: &str) -> Option<Session> {
        self.session(id).await.expect("a session can be read")
    }

    /// A session that is there.
    pub(super) async fn has_session(&self, id: &str) -> Session {
        self.find_session(id).await.unwrap_or_else(|| panic!("the session {id} is gone"))
    }

    /// Waits until a session has expired.
    pub(super) async fn loses_session(&self, id: &str) {
        let gone = || async { self.find_session(id).await.is_none().then_some(()) };
        eventually(&format!("the session {id} expires"), gone).await;
    }

    /// Signals from now on. A store may begin to listen a moment after it was opened: then what it
    /// hears first is of a session that changes until it is heard.
    pub(super) async fn hears(&self) -> Signals {
        let mut signals = Signals(self.session_signals());
        self.opens(PROBE).await;
        loop {
            self.follows(PROBE, PROBE, at(0)).await;
            if signals.hears_probe().await {
                self.does(unsubscribe(PROBE, PROBE)).await;
                return signals;
            }
        }
    }

    pub(super) async fn count(&self, stream: &str) -> u64 {
        self.subscriber_count(stream).await.expect("a count can be read")
    }
}

/// A session that is changed only to be heard of.
const PROBE: &str = "probe";

/// Whose subscriptions change.
pub(super) struct Signals(broadcast::Receiver<SessionSignal>);

impl Signals {
    /// The next session that is heard of.
    pub(super) async fn next(&mut self) -> String {
        loop {
            let signal = tokio::time::timeout(DEADLINE, self.0.recv()).await;
            let signal = signal.expect("a signal in time").expect("the store is open");
            if let SessionSignal::Changed(session) = signal
                && session != PROBE
            {
                return session;
            }
        }
    }

    async fn hears_probe(&mut self) -> bool {
        let heard =
            async { while self.0.recv().await != Ok(SessionSignal::Changed(PROBE.to_owned())) {} };
        tokio::time::timeout(Duration::from_millis(50), heard).await.is_ok()
    }
}

/// A session that was opened is there, with its owner, until its time has run out; then it is as if
/// it had never been.
pub async fn a_session_is_there_until_it_expires(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let owner = Owner { user_id: "ann".to_owned(), host_id: Some("acme".to_owned()) };
    let opened =
        SessionChange::Open { session: "s".to_owned(), owner: owner.clone(), ttl_ms: LONG_MS };
    assert_eq!(store.does(opened).await, SessionOutcome::Done);
    let session = store.has_session("s").await;
    let fresh = Session { id: "s".to_owned(), owner, revision: 0, subscriptions: Vec::new() };
    assert_eq!(session, fresh);
    assert_eq!(store.does(heartbeat("s", SHORT_MS)).await, SessionOutcome::Done);
    store.loses_session("s").await;
    let revisions = store.session_revisions(&["s".to_owned()]).await.expect("revisions");
    assert_eq!(revisions, []);
}

/// Nothing can be done to a session that is not there, whatever its id looks like.
pub async fn a_foreign_id_is_no_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    for id in ["", "t", "S", "s ", "%", "s\0", "\u{10FFFF}"] {
        assert_eq!(store.find_session(id).await, None, "{id:?}");
        let changes = [
            heartbeat(id, LONG_MS),
            subscribe(id, "a", at(0)),
            unsubscribe(id, "a"),
            acknowledge(id, "a", 1, 1),
            went_live(id, "a", 1, 1),
            connect(id, "n"),
            disconnect(id, "n", LONG_MS),
        ];
        let outcomes = store.do_all(changes.to_vec()).await;
        assert_eq!(outcomes, vec![SessionOutcome::NoSession; changes.len()], "{id:?}");
    }
    let ids = ["", "s\0", "s", "t"].map(str::to_owned);
    let revisions = store.session_revisions(&ids).await.expect("revisions");
    assert_eq!(revisions, [("s".to_owned(), 0)]);
    assert_eq!((store.count("a").await, store.count("a\0").await), (0, 0));
}

/// What has expired takes no change any more, also before it is swept.
pub async fn an_expired_session_takes_no_change(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.follows("s", "a", at(7)).await;
    store.does(heartbeat("s", SHORT_MS)).await;
    store.loses_session("s").await;
    let changes = vec![
        heartbeat("s", LONG_MS),
        subscribe("s", "b", at(0)),
        unsubscribe("s", "a"),
        connect("s", "n"),
        open("s", LONG_MS),
    ];
    assert_eq!(store.do_all(changes).await, vec![SessionOutcome::NoSession; 5]);
    assert_eq!(store.find_session("s").await, None);
}

/// An id is given once: whoever opens it again learns nothing, unless it is the owner.
pub async fn a_session_is_opened_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.follows("s", "a", at(7)).await;
    let owner = Owner { user_id: "bob".to_owned(), host_id: None };
    let bobs = SessionChange::Open { session: "s".to_owned(), owner, ttl_ms: LONG_MS };
    assert_eq!(store.does(bobs).await, SessionOutcome::NoSession);
    assert_eq!(store.does(open("s", LONG_MS)).await, SessionOutcome::Done);
    let session = store.has_session("s").await;
    assert_eq!((session.owner.user_id.as_str(), session.subscriptions.len()), ("ann", 1));
}

/// A heartbeat keeps a session, and so does subscribing.
pub async fn signs_of_life_keep_a_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for session in ["beats", "subscribes", "silent"] {
        // Only as long as the next commit takes, or it would be gone before its sign of life.
        let sign = match session {
            "beats" => heartbeat(session, LONG_MS),
            "subscribes" => subscribe(session, "a", at(0)),
            _ => heartbeat(session, SHORT_MS),
        };
        let outcomes = store.do_all(vec![open(session, SHORT_MS), sign]).await;
        assert!(!outcomes.contains(&SessionOutcome::NoSession), "{session}: {outcomes:?}");
    }
    store.loses_session("silent").await;
    store.has_session("beats").await;
    store.has_session("subscribes").await;
}

/// A subscription is listed with its name, epoch and pointer, in order of stream; the epoch is the
/// revision that made it.
pub async fn what_a_session_follows_is_listed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let b = store.follows("s", "b", at(7)).await;
    let a = store.follows("s", "a", unless(9)).await;
    let expected = |stream: &str, epoch, number| SessionSubscription {
        stream: stream.to_owned(),
        query_id: stream.to_owned(),
        epoch,
        pointer: Position::new(number),
        live_since: None,
    };
    assert_eq!((&b, &a), (&expected("b", 1, 7), &expected("a", 2, 9)));
    let session = store.has_session("s").await;
    assert_eq!((session.revision, session.subscriptions), (2, vec![a, b]));
    let revisions = store.session_revisions(&["s".to_owned()]).await.expect("revisions");
    assert_eq!(revisions, [("s".to_owned(), 2)]);
}

/// Subscribing again without a place to begin changes nothing.
pub async fn subscribing_twice_changes_nothing(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let first = store.follows("s", "a", unless(7)).await;
    assert_eq!(store.follows("s", "a", unless(9)).await, first);
    let session = store.has_session("s").await;
    assert_eq!((session.revision, session.subscriptions), (1, vec![first]));
    assert_eq!(store.count("a").await, 1);
}

/// Subscribing again with a place begins anew there, even further back.
pub async fn resubscribing_moves_the_pointer_and_raises_the_epoch(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let first = store.follows("s", "a", at(7)).await;
    store.does(went_live("s", "a", first.epoch, 8)).await;
    let second = store.follows("s", "a", at(3)).await;
    assert_eq!((second.pointer, second.live_since), (Position::new(3), None));
    assert!(second.epoch > first.epoch, "{first:?} {second:?}");
    assert_eq!(store.has_session("s").await.subscriptions, [second]);
    assert_eq!(store.count("a").await, 1);
}

/// A stream has one name in a session. Another one is refused, and changes nothing.
pub async fn a_stream_has_one_name_in_a_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let first = store.follows("s", "a", at(7)).await;
    for start in [at(3), unless(3)] {
        let other = subscribe_as("other", "s", "a", start);
        let named = SessionOutcome::NamedOtherwise("a".to_owned());
        assert_eq!(store.does(other).await, named, "{start:?}");
    }
    let session = store.has_session("s").await;
    assert_eq!((session.revision, session.subscriptions), (1, vec![first]));
}

/// A name is one stream's in a session. Another stream is refused it, and changes nothing, until the
/// name is free.
pub async fn a_name_is_one_streams_in_a_session(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.opens("t").await;
    let taken = |stream: &str| SessionOutcome::NameTaken(stream.to_owned());
    let first = store.follows("s", "a", at(7)).await;
    for start in [at(3), unless(3)] {
        assert_eq!(store.does(subscribe_as("a", "s", "b", start)).await, taken("a"), "{start:?}");
    }
    let session = store.has_session("s").await;
    assert_eq!((session.revision, session.subscriptions), (1, vec![first]));
    assert_eq!(store.count("b").await, 0);
    let of_others = store.does(subscribe_as("a", "t", "b", at(0))).await;
    assert!(matches!(of_others, SessionOutcome::Subscribed(_)), "{of_others:?}");
    let swap = vec![
        subscribe_as("b", "s", "b", at(0)),
        unsubscribe("s", "a"),
        unsubscribe("s", "b"),
        subscribe_as("b", "s", "a", at(4)),
        subscribe_as("b", "s", "c", at(5)),
        subscribe_as("a", "s", "b", at(6)),
    ];
    let swapped = store.do_all(swap).await;
    assert_eq!(swapped[4], taken("a"), "within a commit, too: {swapped:?}");
    let names = |session: Session| -> Vec<(String, String, Position)> {
        let each = session.subscriptions.into_iter();
        each.map(|s| (s.query_id, s.stream, s.pointer)).collect()
    };
    let named = |name: &str, stream: &str, number| {
        (name.to_owned(), stream.to_owned(), Position::new(number))
    };
    assert_eq!(names(store.has_session("s").await), [named("b", "a", 4), named("a", "b", 6)]);
    let swap_back = vec![
        unsubscribe("s", "b"),
        unsubscribe("s", "a"),
        subscribe_as("b", "s", "b", at(8)),
        subscribe_as("a", "s", "a", at(9)),
    ];
    store.do_all(swap_back).await;
    assert_eq!(names(store.has_session("s").await), [named("a", "a", 9), named("b", "b", 8)]);
    assert_eq!((store.count("a").await, store.count("b").await, store.count("c").await), (1, 2, 0));
}

/// Unsubscribing raises the revision; what was not followed can be unfollowed.
pub async fn unsubscribing_ends_a_subscription(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.follows("s", "a", at(7)).await;
    assert_eq!(store.does(unsubscribe("s", "b")).await, SessionOutcome::Done);
    assert_eq!(store.has_session("s").await.revision, 1, "nothing changed");
    assert_eq!(store.does(unsubscribe("s", "a")).await, SessionOutcome::Done);
    let session = store.has_session("s").await;
    assert_eq!((session.revision, session.subscriptions.len()), (2, 0));
    let again = store.follows("s", "a", unless(9)).await;
    assert_eq!((again.epoch, again.pointer), (3, Position::new(9)), "nothing is left of the old");
}

/// A session follows so many streams and no more; one that goes makes room for another.
pub async fn a_session_follows_a_limited_number_of_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let most = |number: usize| subscribe("s", &format!("a{number}"), at(0));
    let outcomes = store.do_all((0..=SESSION_SUBSCRIPTIONS_MAX).map(most).collect()).await;
    let refused: Vec<usize> =
        (0..outcomes.len()).filter(|number| outcomes[*number] == SessionOutcome::TooMany).collect();
    assert_eq!(refused, [SESSION_SUBSCRIPTIONS_MAX]);
    assert_eq!(store.does(subscribe("s", "b", at(0))).await, SessionOutcome::TooMany);
    let again = store.follows("s", "a0", at(3)).await;
    assert_eq!(again.pointer, Position::new(3), "what is followed can be followed anew");
    let swap = vec![
        unsubscribe("s", "a1"),
        subscribe("s", "a0", at(4)),
        subscribe("s", "b", at(0)),
        subscribe("s", "c", at(0)),
    ];
    let swapped = store.do_all(swap).await;
    assert!(matches!(swapped[2], SessionOutcome::Subscribed(_)), "{swapped:?}");
    assert_eq!(swapped[3], SessionOutcome::TooMany);
    let session = store.has_session("s").await;
    assert_eq!(session.subscriptions.len(), SESSION_SUBSCRIPTIONS_MAX);
    assert_eq!((store.count("b").await, store.count("a1").await), (1, 0));
}

/// A change that is refused leaves its neighbours in the commit alone.
pub async fn a_refused_change_leaves_its_neighbours_alone(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let outcomes = store
        .do_all(vec![
            open("s", LONG_MS),
            subscribe("nobody", "a", at(1)),
            subscribe("s", "a", at(1)),
            heartbeat("nobody", LONG_MS),
            subscribe("s", "b", at(2)),
            unsubscribe("s", "a"),
        ])
        .await;
    let refused = [false, true, false, true, false, false];
    let is_refused = |outcome: &SessionOutcome| *outcome == SessionOutcome::NoSession;
    assert_eq!(outcomes.iter().map(is_refused).collect::<Vec<_>>(), refused, "{outcomes:?}");
    let session = store.has_session("s").await;
    let streams: Vec<&str> = session.subscriptions.iter().map(|s| s.stream.as_str()).collect();
    assert_eq!((streams, session.revision), (vec!["b"], 3));
    assert_eq!((store.count("a").await, store.count("b").await), (0, 1));
}

/// Invariant 8 under concurrency: every subscription gets an epoch of its own, and the count is
/// exact.
pub async fn changes_at_the_same_time_are_made_one_after_the_other(data: &dyn Opener) {
    const SESSIONS: usize = 8;
    const ROUNDS: usize = 5;
    let store = TestStore::open(data).await;
    store.opens("shared").await;
    let client = |number: usize| {
        let store = store.clone();
        async move {
            let (own, stream) = (format!("s{number}"), format!("a{number}"));
            store.opens(&own).await;
            let mut epochs = Vec::new();
            for _ in 0..ROUNDS {
                epochs.push(store.follows("shared", &stream, at(0)).await.epoch);
                store.follows(&own, "all", at(0)).await;
            }
            epochs
        }
    };
    let epochs = join_all((0..SESSIONS).map(client)).await;
    let mut epochs: Vec<u64> = epochs.into_iter().flatten().collect();
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=(SESSIONS * ROUNDS) as u64).collect::<Vec<_>>());
    assert_eq!(store.count("all").await, SESSIONS as u64);
}

/// Whoever listens hears whose subscriptions changed, once a commit, and of nothing else.
pub async fn changed_subscriptions_are_signalled(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    store.opens("t").await;
    let mut signals = store.hears().await;
    let quiet = vec![
        heartbeat("s", LONG_MS),
        unsubscribe("s", "a"),
        connect("s", "n"),
        disconnect("s", "n", LONG_MS),
    ];
    store.do_all(quiet).await;
    let follow = [("t", "a"), ("s", "a"), ("s", "b")];
    store.do_all(follow.map(|(session, stream)| subscribe(session, stream, at(0))).to_vec()).await;
    store.does(acknowledge("t", "a", 1, 1)).await;
    store.does(unsubscribe("t", "a")).await;
    let heard = [signals.next().await, signals.next().await, signals.next().await];
    assert_eq!(heard, ["s", "t", "t"]);
}
