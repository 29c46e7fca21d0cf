//! Removing streams that have forks: hidden at once, collected with the last fork.

use super::Opener;
use super::test_store::{EVERYTHING, TestStore, eventually, refusal};
use tidewire_store::command::{Create, Refusal};
use tidewire_store::log::Found;
use tidewire_store::offset::Position;
use tidewire_store::stream::Lifetime;
use tidewire_store::testing::commands::{LONG_AGO, append, create, delete, fork, touch};

/// `a` with one text, `b` forked from it with another, `c` forked from that with a third.
async fn chain(store: &TestStore) {
    store.create_text("a").await;
    store.append_text("a", "1").await;
    for (source, stream, text) in [("a", "b", "2"), ("b", "c", "3")] {
        store.create(fork(source, stream)).await;
        store.append_text(stream, text).await;
    }
}

async fn is_gone(store: &TestStore, stream: &str) -> bool {
    matches!(store.find(stream, Position::START, EVERYTHING).await, Found::Gone { .. })
}

/// A deleted source is gone for everyone but its forks, and holds its name for them.
pub async fn a_deleted_source_is_kept_for_its_forks(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    chain(&store).await;
    store.delete("a").await;
    assert!(is_gone(&store, "a").await);
    assert_eq!(refusal(store.appends(append("a", "x")).await), Refusal::Gone);
    assert_eq!(refusal(store.ask(delete("a")).await), Refusal::Gone);
    assert_eq!(refusal(store.creates(create("a")).await), Refusal::NameHeldByForks);
    assert_eq!(refusal(store.creates(fork("a", "d")).await), Refusal::SourceGone);
    store.ask(touch("a")).await;
    assert!(is_gone(&store, "a").await, "a late read does not bring it back");
    assert_eq!(store.names("", "", 10).await.expect("listed"), ["b", "c"]);
    store.sweep().await.expect("the sweep runs");
    assert_eq!(store.texts("b").await, ["1", "2"]);
    assert_eq!(store.texts("c").await, ["1", "2", "3"]);
    store.append_text("b", "still open").await;
}

/// The last fork takes its hidden sources with it, all the way up, and the names are free again.
pub async fn the_last_fork_takes_its_hidden_sources_along(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    chain(&store).await;
    store.delete("a").await;
    store.delete("b").await;
    assert_eq!(store.texts("c").await, ["1", "2", "3"]);
    store.delete("c").await;
    for stream in ["a", "b", "c"] {
        assert!(!is_gone(&store, stream).await && !store.is_found(stream).await, "{stream}");
        store.create_text(stream).await;
        assert!(store.events(stream).await.is_empty(), "{stream} starts from nothing");
    }
}

/// A source is held until the last of its forks goes, whichever that is.
pub async fn a_source_is_held_by_every_one_of_its_forks(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    for stream in ["b", "c", "d"] {
        store.create(fork("a", stream)).await;
    }
    assert_eq!(store.view("a").await.state.forks, 3);
    store.delete("c").await;
    assert_eq!(store.view("a").await.state.forks, 2);
    store.delete("a").await;
    store.delete("b").await;
    assert!(is_gone(&store, "a").await, "d still needs it");
    store.delete("d").await;
    store.create_text("a").await;
}

/// The middle of a chain can be deleted; what lies above it lives on.
pub async fn the_middle_of_a_chain_can_be_deleted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    chain(&store).await;
    store.delete("b").await;
    assert!(is_gone(&store, "b").await);
    assert_eq!(store.texts("c").await, ["1", "2", "3"]);
    assert_eq!(store.view("a").await.state.forks, 1, "the middle still needs its source");
    store.append_text("a", "later").await;
    store.delete("c").await;
    assert!(!is_gone(&store, "b").await, "the middle went with its last fork");
    assert_eq!(store.view("a").await.state.forks, 0);
    assert_eq!(store.texts("a").await, ["1", "later"]);
    store.delete("a").await;
    store.create_text("a").await;
}

/// A source whose time runs out is kept for its forks, like one that is deleted.
pub async fn an_expired_source_is_kept_for_its_forks(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let lifetime = Some(Lifetime::Sliding { ttl_s: 1 });
    store.create(Create { lifetime, ..create("a") }).await;
    store.append_text("a", "1").await;
    store.create(Create { lifetime: Some(Lifetime::Forever), ..fork("a", "b") }).await;
    eventually("the source is swept", || async {
        store.sweep().await.expect("the sweep runs");
        is_gone(&store, "a").await.then_some(())
    })
    .await;
    assert_eq!(store.texts("b").await, ["1"]);
    assert_eq!(refusal(store.creates(create("a")).await), Refusal::NameHeldByForks);
    store.delete("b").await;
    store.create_text("a").await;
}

/// An expired fork releases its source like a deleted one.
pub async fn an_expired_fork_releases_its_source(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create(Create { lifetime: Some(LONG_AGO), ..fork("a", "b") }).await;
    store.delete("a").await;
    assert!(is_gone(&store, "a").await);
    store.sweep().await.expect("the sweep runs");
    assert!(!is_gone(&store, "a").await);
    store.create_text("a").await;
}
