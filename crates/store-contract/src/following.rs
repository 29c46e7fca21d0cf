//! Following the log itself, as each node does.

use std::sync::Arc;
use std::time::Duration;

use super::Opener;
use super::test_store::{EVERYTHING, TestStore, text};
use tidewire_store::command::Create;
use tidewire_store::event::Control;
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{
    LONG_AGO, append, append_json, close, create, create_json,
};

/// Any time this code ran at lies after it; a time in seconds or none at all lies before.
const MARCH_2020_MS: i64 = 1_583_020_800_000;

/// Invariants 2 and 3: while appends run at full speed, what a follower sees is always a prefix of
/// the log. So asking for what comes after the last event seen misses nothing.
pub async fn a_follower_always_sees_a_prefix(data: &dyn Opener) {
    const WRITERS: usize = 8;
    const APPENDS: usize = 40;
    const EVENTS: usize = 1 + WRITERS * APPENDS * 2;
    let store = TestStore::open(data).await;
    store.create(create_json("a")).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..APPENDS {
                store.append(append_json("a", &["1", "2"])).await;
            }
        });
    }
    for events in [3, 1_000] {
        let store = store.clone();
        tasks.spawn(async move {
            let limit = PageLimit { events, ..EVERYTHING };
            let mut last = Position::START;
            while last.number() < EVENTS as u64 {
                let tip = store.log_tip().await;
                let none = Arc::new(|_: &str| false);
                let seen = store.follow(last, limit, none).await.expect("the log can be followed");
                for event in &seen {
                    assert_eq!(event.position, last.next(), "an event was missed");
                    last = event.position;
                }
                let reached = last >= tip || seen.len() == limit.events;
                assert!(reached, "{last:?} lies before the tip {tip:?} that was visible before");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(store.log_tip().await, Position::new(EVENTS as u64));
}

/// A follower gets the headers of all events, and the payloads of the streams it asked for.
pub async fn payloads_come_only_for_wanted_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for stream in ["a", "b"] {
        store.create_text(stream).await;
        store.append_text(stream, "secret").await;
    }
    let wants_b = Arc::new(|stream: &str| stream == "b");
    let seen = store.follow(Position::START, EVERYTHING, wants_b).await.expect("followed");
    let seen: Vec<(u64, &str, Option<String>)> = seen
        .iter()
        .map(|e| (e.position.number(), e.stream.as_str(), e.payload.as_deref().map(text)))
        .collect();
    let payload = Some("secret".to_owned());
    assert_eq!(seen, [(1, "a", None), (2, "a", None), (3, "b", None), (4, "b", payload)]);
}

/// Creation, closing, deletion and expiry are events in the log, in order, without payload, so that
/// waiting readers on every node learn of them.
pub async fn control_events_tell_what_became_of_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append_text("a", "x").await;
    store.append(tidewire_store::Append { close: true, ..append("a", "end") }).await;
    store.create(Create { closed: true, messages: vec!["1".into()], ..create("b") }).await;
    store.delete("a").await;
    store.create(Create { lifetime: Some(LONG_AGO), ..create("c") }).await;
    store.create_text("c").await;
    store.append(close("c")).await;

    let log = store.log_after(Position::START).await;
    let seen: Vec<(&str, Option<Control>)> =
        log.iter().map(|event| (event.stream.as_str(), event.control)).collect();
    assert_eq!(
        seen,
        [
            ("a", Some(Control::Create)),
            ("a", None),
            ("a", None),
            ("a", Some(Control::Close)),
            ("b", Some(Control::Create)),
            ("b", None),
            ("b", Some(Control::Close)),
            ("a", Some(Control::Delete)),
            ("c", Some(Control::Create)),
            ("c", Some(Control::Expire)),
            ("c", Some(Control::Create)),
            ("c", Some(Control::Close)),
        ]
    );
    for event in &log {
        assert_eq!(event.control.is_some(), event.payload.is_none(), "{event:?}");
        assert!(event.created_at_ms > MARCH_2020_MS, "{event:?} has no time in milliseconds");
    }
}

/// Pages of the log end at their limits, and a single large event is still returned.
pub async fn the_log_is_followed_a_page_at_a_time(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create_text("b").await;
    let large = "x".repeat(100_000);
    for body in ["1234", large.as_str(), "5678", "9"] {
        store.append_text("a", body).await;
    }
    let positions = async |after: u64, events: usize, bytes: usize, wanted: &'static str| {
        let wants = Arc::new(move |stream: &str| stream == wanted);
        let limit = PageLimit { events, bytes };
        let seen = store.follow(Position::new(after), limit, wants).await.expect("followed");
        seen.iter().map(|event| event.position.number()).collect::<Vec<_>>()
    };
    assert_eq!(positions(0, 4, 1 << 20, "a").await, [1, 2, 3, 4]);
    assert_eq!(positions(0, 100, 4, "a").await, [1, 2, 3]);
    assert_eq!(positions(0, 100, 5, "a").await, [1, 2, 3, 4]);
    assert_eq!(positions(3, 100, 10, "a").await, [4], "a single large event is still returned");
    assert_eq!(positions(0, 100, 4, "b").await, [1, 2, 3, 4, 5, 6], "what is left out is free");
    assert_eq!(positions(6, 100, 1 << 20, "a").await, [] as [u64; 0], "nothing past the tip");
}

/// Whoever waits for the log to grow is woken by a commit.
pub async fn the_log_tells_that_it_has_grown(data: &dyn Opener) {
    const PATIENCE: Duration = Duration::from_secs(30);
    let store = TestStore::open(data).await;
    let mut grown = store.grown();
    for round in 0..3 {
        grown.mark_unchanged();
        store.create_text(&format!("s{round}")).await;
        let woken = tokio::time::timeout(PATIENCE, grown.changed()).await;
        assert!(matches!(woken, Ok(Ok(()))), "round {round}: {woken:?}");
    }
}
