//! What the contract cannot ask of this store by SQL: time is the clock's, upkeep is bounded, and the
//! same calls give the same answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::{Delay, MemoryData, MemoryStore};
use crate::clock::Clock;
use crate::command::{Answer, Command};
use crate::control::{ControlChannel as _, ControlCursor, SETTLED_AFTER_MS, SWEPT_MAX};
use crate::error::StoreError;
use crate::groups::GroupError;
use crate::keys::{InvalidKey, Keys as _, NewKey};
use crate::log::{Found, Log as _, PURGE_DELAY_MS, PageLimit, SWEPT_EVENTS_MAX, Store, Swept};
use crate::nodes::{NodeReport, Nodes as _};
use crate::offset::Position;
use crate::session::{
    Owner, SessionChange, SessionOutcome, SessionRules, Sessions as _, Start, SweptSessions,
};
use crate::sql::SqlError;
use crate::subscription::{Config, Kind, Op, Reply, Subscriptions as _};
use crate::testing::commands::{append, create, delete};
use crate::tickets::Tickets as _;

const HOUR_MS: i64 = 3_600_000;
const HOUR: u64 = 3_600_000;
const EVERYTHING: PageLimit = PageLimit { events: usize::MAX, bytes: usize::MAX };

/// A store by a clock that stands still until it is moved.
struct Moved {
    now_ms: Arc<AtomicI64>,
    data: Arc<MemoryData>,
    store: Arc<MemoryStore>,
}

impl Moved {
    fn new() -> Moved {
        let now_ms = Arc::new(AtomicI64::new(HOUR_MS));
        let shown = Arc::clone(&now_ms);
        let data = MemoryData::new(Clock::new(move || shown.load(Ordering::Relaxed)));
        Moved { now_ms, store: MemoryStore::open(&data), data }
    }

    fn pass(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    async fn made(&self, stream: &str) {
        let answer = self.store.submit(Command::Create(Box::new(create(stream)))).await;
        assert!(matches!(answer, Ok(Answer::Created { new: true, .. })), "{answer:?}");
    }

    async fn appended(&self, stream: &str, text: &str) {
        let answer = self.store.submit(Command::Append(append(stream, text))).await;
        assert!(matches!(answer, Ok(Answer::Appended { .. })), "{answer:?}");
    }

    async fn changed(&self, changes: Vec<SessionChange>) -> Vec<SessionOutcome> {
        self.store.change_sessions(changes).await.expect("sessions are changed")
    }

    async fn swept(&self, stale_ms: u64) -> SweptSessions {
        let rules = SessionRules { ttl_ms: HOUR, stale_ms, rows_max: 1_000 };
        self.store.sweep_sessions(rules).await.expect("sessions are swept")
    }
}

fn opened(session: &str, ttl_ms: u64) -> SessionChange {
    SessionChange::Open { session: session.to_owned(), owner: Owner::default(), ttl_ms }
}

fn followed(session: &str, stream: &str) -> SessionChange {
    SessionChange::Subscribe {
        session: session.to_owned(),
        stream: stream.to_owned(),
        query_id: stream.to_owned(),
        start: Start::At(Position::START),
        ttl_ms: 10 * HOUR,
    }
}

fn report(id: &str) -> NodeReport {
    NodeReport {
        id: id.to_owned(),
        url: String::new(),
        version: String::new(),
        connections: 0,
        subscriptions: 0,
        position: Position::START,
        lag: 0,
    }
}

#[tokio::test]
async fn a_session_expires_when_the_clock_says_so() {
    let moved = Moved::new();
    moved.changed(vec![opened("s", HOUR)]).await;
    moved.pass(HOUR_MS - 1);
    assert!(moved.store.session("s").await.expect("read").is_some());
    moved.pass(1);
    assert!(moved.store.session("s").await.expect("read").is_none());
    assert_eq!(moved.swept(HOUR).await, SweptSessions { sessions: 1, ..SweptSessions::default() });
}

#[tokio::test]
async fn what_nobody_uses_for_long_is_stale() {
    let moved = Moved::new();
    moved.changed(vec![opened("s", 10 * HOUR), followed("s", "a"), followed("s", "b")]).await;
    moved.pass(HOUR_MS);
    let (session, stream, position) = ("s".to_owned(), "b".to_owned(), Position::new(1));
    moved.changed(vec![SessionChange::Acknowledge { session, stream, epoch: 2, position }]).await;
    assert_eq!(moved.swept(HOUR).await.subscriptions, 0, "not yet");
    moved.pass(1);
    assert_eq!(moved.swept(HOUR).await.subscriptions, 1);
    let session = moved.store.session("s").await.expect("read").expect("it lives");
    let streams = session.subscriptions.iter().map(|one| one.stream.as_str());
    assert_eq!(streams.collect::<Vec<_>>(), ["b"]);
    assert_eq!(moved.store.subscriber_count("a").await.expect("counted"), 0);
}

#[tokio::test]
async fn a_lease_that_ended_begins_anew() {
    let moved = Moved::new();
    moved.store.renew_node(&report("n"), HOUR).await.expect("renewed");
    moved.pass(HOUR_MS);
    assert_eq!(moved.store.nodes().await.expect("listed"), []);
    moved.store.renew_node(&report("n"), HOUR).await.expect("renewed");
    let nodes = moved.store.nodes().await.expect("listed");
    assert_eq!((nodes[0].started_at_ms, nodes[0].lease_ms), (2 * HOUR_MS, HOUR));
}

#[tokio::test]
async fn old_messages_and_tickets_are_swept_a_bounded_number_at_a_time() {
    let moved = Moved::new();
    let mut cursor = ControlCursor::default();
    for number in 0..SWEPT_MAX + 500 {
        moved.store.send_control("old", "{}").await.expect("sent");
        moved.store.put_ticket(&number.to_string(), "{}", HOUR).await.expect("put");
    }
    assert_eq!(moved.store.control_since(&mut cursor).await.expect("read").len(), SWEPT_MAX + 500);
    moved.pass(HOUR_MS.max(SETTLED_AFTER_MS));
    moved.store.send_control("young", "{}").await.expect("sent");
    assert_eq!(moved.store.control_since(&mut cursor).await.expect("read").len(), 1);
    assert_eq!(moved.store.sweep_control(HOUR).await.expect("swept"), 2 * SWEPT_MAX);
    assert_eq!(moved.store.sweep_control(HOUR).await.expect("swept"), 1_000);
    assert_eq!(moved.store.sweep_control(HOUR).await.expect("swept"), 0);
    moved.store.send_control("next", "{}").await.expect("sent");
    let news = moved.store.control_since(&mut cursor).await.expect("read");
    assert_eq!(news.iter().map(|message| message.kind.as_str()).collect::<Vec<_>>(), ["next"]);
    moved.store.put_ticket("t", "{}", HOUR).await.expect("put");
    moved.pass(HOUR_MS);
    assert_eq!(moved.store.take_ticket("t").await.expect("asked"), None, "it is over");
    let refused = moved.store.put_ticket("u", "{", HOUR).await;
    assert!(matches!(refused, Err(StoreError::Broken { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_key_expires_and_its_id_is_not_given_again() {
    let moved = Moved::new();
    let (name, scopes) = ("k".to_owned(), r#"{"tables":[]}"#.to_owned());
    let new = |hash: &str| NewKey {
        name: name.clone(),
        hash: hash.repeat(64),
        scopes: scopes.clone(),
        expires_in_ms: Some(HOUR),
    };
    let made = moved.store.create_key(new("a")).await.expect("made");
    assert_eq!((made.id, made.expires_in_ms, made.is_valid()), (1, Some(HOUR_MS), true));
    let rotated = moved.store.rotate_key(1, &"a".repeat(64), 0, None).await;
    assert!(matches!(rotated, Err(StoreError::InvalidKey(InvalidKey::HashInUse))), "{rotated:?}");
    assert!(moved.store.key(1).await.expect("read").expect("there").is_valid(), "nothing changed");
    moved.pass(HOUR_MS);
    let over = moved.store.key_of_hash(&"a".repeat(64)).await.expect("read").expect("there");
    assert!(!over.is_valid());
    assert_eq!(moved.store.rotate_key(1, &"b".repeat(64), 0, None).await.expect("asked"), None);
    assert_eq!(moved.store.create_key(new("c")).await.expect("made").id, 2);
}

#[tokio::test]
async fn the_events_of_a_deleted_stream_go_after_a_while_and_a_piece_at_a_time() {
    let moved = Moved::new();
    moved.made("a").await;
    let many = SWEPT_EVENTS_MAX + 1;
    join_all((0..many).map(|_| moved.appended("a", "x"))).await;
    moved.store.submit(delete("a")).await.expect("deleted");
    let purged = |events_purged| Swept { streams_expired: 0, events_purged };
    moved.pass(PURGE_DELAY_MS - 1);
    assert_eq!(moved.store.sweep().await.expect("swept"), purged(0));
    moved.pass(1);
    assert_eq!(moved.store.sweep().await.expect("swept"), purged(SWEPT_EVENTS_MAX));
    assert_eq!(moved.store.sweep().await.expect("swept"), purged(1));
    assert_eq!(moved.store.sweep().await.expect("swept"), purged(0));
    let left = moved.store.follow(Position::START, EVERYTHING, Arc::new(|_: &str| true)).await;
    assert_eq!(left.expect("followed").len(), 2, "that it was made, and that it was deleted");
    assert_eq!(moved.store.tip().await.expect("a tip").number(), many as u64 + 2);
}

/// A caller that goes away takes its command not back, nor those of others along.
#[tokio::test]
async fn a_command_is_carried_out_though_the_first_of_its_commit_went_away() {
    let moved = Moved::new();
    moved.made("a").await;
    let mut first = Box::pin(moved.appended("a", "first"));
    assert!(first.as_mut().now_or_never().is_none(), "it lets others run");
    let mut second = Box::pin(moved.appended("a", "second"));
    assert!(second.as_mut().now_or_never().is_none(), "it waits for the first");
    drop(first);
    second.await;
    let Found::Stream(page) =
        moved.store.read("a", Position::START, EVERYTHING).await.expect("read")
    else {
        panic!("the stream is there");
    };
    let texts: Vec<&[u8]> = page.events.iter().map(|event| &*event.payload).collect();
    assert_eq!(texts, [&b"first"[..], b"second"]);
}

/// What is asked for before something happens may be answered after it.
#[tokio::test]
async fn an_answer_may_come_late() {
    let moved = Moved::new();
    moved.made("a").await;
    let late = MemoryStore::open_delayed(&moved.data, Delay::new(|| 3));
    let mut tip = Box::pin(late.tip());
    for _ in 0..3 {
        assert!(tip.as_mut().now_or_never().is_none(), "it lets others run");
    }
    moved.appended("a", "x").await;
    assert_eq!(tip.await.expect("a tip").number(), 2);
}

/// Everything that a store says, to the same calls at the same times, is the same.
#[tokio::test]
async fn the_same_calls_give_the_same_answers() {
    let run = async || {
        let moved = Moved::new();
        for stream in ["wakes", "a/1", "a/2"] {
            moved.made(stream).await;
        }
        let config = Config {
            kind: Kind::PullWake { wake_stream: "wakes".to_owned() },
            pattern: Some("a/*".to_owned()),
            streams: Vec::new(),
            lease_ttl_ms: HOUR,
            description: None,
        };
        let mut replies: Vec<Reply> = Vec::new();
        let ops = [
            Op::Create(config),
            Op::Grown { stream: "a/1".to_owned() },
            Op::Claim { worker: "w".to_owned() },
        ];
        for op in ops {
            moved.pass(7);
            moved.appended("a/1", "x").await;
            replies.push(moved.store.change_subscription("s", op).await.expect("changed"));
        }
        let other = MemoryStore::open(&moved.data);
        let log = other.follow(Position::START, EVERYTHING, Arc::new(|_: &str| true)).await;
        (replies, log.expect("followed"))
    };
    assert_eq!(run().await, run().await);
}

/// It can be given to a node, which asks for everything; what needs a table is refused.
#[tokio::test]
async fn what_needs_sql_is_refused() {
    let store: Arc<dyn Store> = Moved::new().store;
    let statements = crate::sql::Statements {
        sql: "SELECT 1".to_owned(),
        params: Vec::new(),
        actor: crate::command::Actor::default(),
        limits: crate::sql::SqlLimits { timeout_ms: 1, rows_max: 1, bytes_max: 1 },
    };
    let refused = store.run_sql(statements).await.expect_err("there is no SQL");
    assert!(matches!(&refused, SqlError::Store(error) if !error.temporary()), "{refused:?}");
    assert!(refused.to_string().contains("SQLite or PostgreSQL"), "{refused}");
    assert_eq!(store.watches().await.expect("listed"), []);
    let groups = Arc::clone(&store).groups();
    let refused = groups.put_group("g", &crate::groups::GroupSettings::default()).await;
    let error = refused.expect_err("no groups");
    assert!(matches!(error, GroupError::Store(StoreError::Refused(_))), "{error:?}");
    assert!(groups.list_groups().await.expect("listed").is_empty());
}
