//! Streams that end by themselves. Time is the store's own, so these tests use moments long past,
//! or wait until the store says that the time has come.

use super::Opener;
use super::test_store::{TestStore, eventually, refusal};
use tidewire_store::command::{Answer, Create, Refusal};
use tidewire_store::event::Control;
use tidewire_store::offset::Position;
use tidewire_store::stream::Lifetime;
use tidewire_store::testing::commands::{LONG_AGO, append, create, delete, touch};

const SHORT: Lifetime = Lifetime::Sliding { ttl_s: 1 };
const LONG: Lifetime = Lifetime::Sliding { ttl_s: 3600 };

fn living(stream: &str, lifetime: Lifetime) -> Create {
    Create { lifetime: Some(lifetime), ..create(stream) }
}

async fn expires_at_ms(store: &TestStore, stream: &str) -> i64 {
    store.view(stream).await.state.expires_at_ms.expect("the stream's life is limited")
}

/// A stream whose time has run out is not there, even before the sweep comes round.
pub async fn an_expired_stream_is_not_found(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for (stream, lifetime) in [("until", LONG_AGO), ("ttl", Lifetime::Sliding { ttl_s: 0 })] {
        store.create(living(stream, lifetime)).await;
        assert!(!store.is_found(stream).await, "{stream}");
        assert!(store.names("", "", 10).await.expect("listed").is_empty(), "{stream}");
        assert_eq!(store.ask(touch(stream)).await, Answer::Done, "{stream}: a read may come late");
        assert!(!store.is_found(stream).await, "{stream}: and does not bring it back");
        assert_eq!(refusal(store.appends(append(stream, "x")).await), Refusal::NotFound);
        assert_eq!(refusal(store.ask(delete(stream)).await), Refusal::NotFound);
    }
}

/// The name of an expired stream is free, and its content does not come back.
pub async fn an_expired_streams_name_can_be_used_again(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let messages = vec!["old".to_owned().into()];
    store.create(Create { messages, ..living("a", LONG_AGO) }).await;
    assert_eq!(store.create_text("a").await, Position::START);
    assert!(store.events("a").await.is_empty());
    store.append_text("a", "new").await;
    assert_eq!(store.texts("a").await, ["new"]);
}

/// A fixed end is not moved by reads and writes.
pub async fn a_fixed_expiry_is_not_renewed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let at_ms = 4_000_000_000_000;
    store.create(living("a", Lifetime::Until { at_ms })).await;
    store.append_text("a", "x").await;
    store.ask(touch("a")).await;
    assert_eq!(expires_at_ms(&store, "a").await, at_ms);
    assert_eq!(store.texts("a").await, ["x"]);
}

/// Reads that are noted move the end of a sliding lifetime.
pub async fn a_sliding_lifetime_is_renewed_by_reads(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(living("a", SHORT)).await;
    let first = expires_at_ms(&store, "a").await;
    // It has moved by more than the time to live: without renewals the stream would be gone.
    eventually("reads keep the stream alive", || async {
        store.ask(touch("a")).await;
        (expires_at_ms(&store, "a").await > first + 1_500).then_some(())
    })
    .await;
}

/// Appends move the end of a sliding lifetime.
pub async fn a_sliding_lifetime_is_renewed_by_appends(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(living("a", SHORT)).await;
    let first = expires_at_ms(&store, "a").await;
    eventually("appends keep the stream alive", || async {
        store.append_text("a", "x").await;
        (expires_at_ms(&store, "a").await > first).then_some(())
    })
    .await;
}

/// A read that would hardly move the end writes nothing, so a busy stream costs no write a read.
pub async fn a_renewal_that_changes_little_is_not_written(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(living("a", LONG)).await;
    let first = expires_at_ms(&store, "a").await;
    let tip = store.log_tip().await;
    store.ask(touch("a")).await;
    assert_eq!(expires_at_ms(&store, "a").await, first);
    assert_eq!(store.log_tip().await, tip, "a renewal is no event");
}

/// Left alone, a stream expires; looking at it does not renew it.
pub async fn a_stream_left_alone_expires(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(living("a", SHORT)).await;
    store.append_text("a", "x").await;
    eventually("the stream expires", || async { (!store.is_found("a").await).then_some(()) }).await;
    assert_eq!(refusal(store.appends(append("a", "y")).await), Refusal::NotFound);
}

/// The sweep removes expired streams and says so in the log, once.
pub async fn the_sweep_tells_of_expired_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for stream in ["a", "b"] {
        store.create(living(stream, LONG_AGO)).await;
    }
    store.create(living("long", LONG)).await;
    store.create_text("for-ever").await;
    let before = store.log_tip().await;
    let swept = store.sweep().await.expect("the sweep runs");
    assert_eq!(swept.streams_expired, 2);
    let log = store.log_after(before).await;
    let mut expired: Vec<(&str, Option<Control>)> =
        log.iter().map(|event| (event.stream.as_str(), event.control)).collect();
    expired.sort_by_key(|(stream, _)| *stream);
    assert_eq!(expired, [("a", Some(Control::Expire)), ("b", Some(Control::Expire))]);
    let tip = store.log_tip().await;
    assert_eq!(store.sweep().await.expect("the sweep runs").streams_expired, 0);
    assert_eq!(store.log_tip().await, tip, "a sweep without work writes nothing");
    assert!(store.is_found("long").await && store.is_found("for-ever").await);
}

/// A life longer than any clock counts is for ever in effect, and harms nobody.
pub async fn an_immense_time_to_live_is_accepted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let lifetime = Lifetime::Sliding { ttl_s: i64::MAX.unsigned_abs() };
    store.create(living("a", lifetime)).await;
    store.append_text("a", "x").await;
    assert_eq!(store.ask(touch("a")).await, Answer::Done);
    assert_eq!(store.texts("a").await, ["x"]);
}
