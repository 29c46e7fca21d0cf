//! Closing a store and opening it again: nothing is lost, nothing begins anew.

use futures_util::future::join_all;

use super::Opener;
use super::pointers::{acknowledge, went_live};
use super::sessions::{RULES, SHORT_MS, at, connect, heartbeat};
use super::subscriptions::{grown, pull};
use super::test_store::{EVERYTHING, TestStore, refusal};
use tidewire_store::command::{Answer, Append, Command, Create, Refusal};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::stream::Lifetime;
use tidewire_store::subscription::{Fence, Op, Reply};
use tidewire_store::testing::commands::{
    append, append_json, close, create, create_json, delete, fork, fork_at, stamped,
};

/// Invariant 1, for a clean restart: every event is there, at its place.
pub async fn the_log_survives_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create(create_json("j")).await;
    store.append_text("a", "x").await;
    store.append(append_json("j", &["1", "2"])).await;
    store.append(Append { close: true, ..append("a", "end") }).await;
    store.delete("j").await;
    let (epoch, tip) = (store.epoch(), store.log_tip().await);
    let before = store.log_after(Position::START).await;
    let events = store.events("a").await;

    let store = store.reopen(data).await;
    assert_eq!((store.epoch(), store.log_tip().await), (epoch, tip));
    assert_eq!(store.log_after(Position::START).await, before);
    assert_eq!(store.events("a").await, events);
    assert!(!store.is_found("j").await);
}

/// Invariant 2, across a restart: the next event gets the next position.
pub async fn offsets_continue_after_a_restart(data: &dyn Opener) {
    let mut store = TestStore::open(data).await;
    store.create_text("a").await;
    for round in 0..3 {
        let tip = store.log_tip().await;
        assert_eq!(store.append_text("a", "x").await, tip.next(), "round {round}");
        store = store.reopen(data).await;
    }
}

/// Everything that is known of a stream is known after a restart.
pub async fn streams_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let sliding = Some(Lifetime::Sliding { ttl_s: 3600 });
    let until = Some(Lifetime::Until { at_ms: 4_000_000_000_000 });
    store.create(Create { lifetime: sliding, ..create("sliding") }).await;
    store.create(Create { lifetime: until, ..create("until") }).await;
    store.create_text("a").await;
    let first = store.append(Append { seq: Some("7".to_owned()), ..append("a", "12345") }).await;
    store.append_text("a", "67890").await;
    store.create(fork_at("a", first, 2, "cut")).await;
    store.create(fork("a", "fork")).await;
    store.append(Append { close: true, ..stamped("fork", "end", "p", 1, 0) }).await;
    store.create(fork("fork", "fork-of-fork")).await;
    store.delete("fork").await;
    let names = ["a", "cut", "fork-of-fork", "sliding", "until"];
    let mut before = Vec::new();
    for name in names {
        before.push((store.view(name).await, store.texts(name).await));
    }

    let store = store.reopen(data).await;
    assert_eq!(store.names("", "", 10).await.expect("listed"), names);
    for (view, texts) in before {
        let name = &view.state.name;
        let again = store.view(name).await;
        assert_eq!((&again.state, again.tail), (&view.state, view.tail));
        assert_eq!(store.texts(name).await, texts, "{name}");
    }
    assert_eq!(refusal(store.ask(delete("fork")).await), Refusal::Gone);
    store.delete("fork-of-fork").await;
    assert_eq!(refusal(store.ask(delete("fork")).await), Refusal::NotFound);
    let late = Append { seq: Some("6".to_owned()), ..append("a", "x") };
    assert_eq!(refusal(store.appends(late).await), Refusal::SeqNotRising { last: "7".to_owned() });
}

/// A producer's state is committed with its data: a retry across a restart is a duplicate.
pub async fn a_duplicate_is_known_after_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append(stamped("a", "1", "p", 3, 0)).await;
    let tail = store.append(stamped("a", "2", "p", 3, 1)).await;
    store.create_text("closed").await;
    let closing = Append { close: true, ..stamped("closed", "end", "p", 0, 0) };
    let end = store.append(closing.clone()).await;

    let store = store.reopen(data).await;
    let again = Answer::Duplicate { tail, seq: 1, closed: false };
    assert_eq!(store.appends(stamped("a", "2", "p", 3, 1)).await, again);
    let stale = store.appends(stamped("a", "x", "p", 2, 2)).await;
    assert_eq!(refusal(stale), Refusal::StaleEpoch { current: 3 });
    store.append(stamped("a", "3", "p", 3, 2)).await;
    assert_eq!(store.texts("a").await, ["1", "2", "3"]);
    let again = Answer::Duplicate { tail: end, seq: 0, closed: true };
    assert_eq!(store.appends(closing).await, again);
}

/// A subscription goes on where it was: cursors, the wake under way, its holder and its lease.
pub async fn subscriptions_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a/1").await;
    store.create_text("wakes").await;
    store.change("s", Op::Create(pull(Some("a/*"), &["later"]))).await;
    let tail = store.append_text("a/1", "x").await;
    store.change("s", grown("a/1")).await;
    store.change("s", Op::Claim { worker: "w".to_owned() }).await;
    let before = store.subscribed("s").await;
    let interests = store.interests().await.expect("listed");
    let secret = store.secret("key", vec![1, 2, 3]).await.expect("a secret");

    let store = store.reopen(data).await;
    assert_eq!(store.subscribed("s").await, before);
    assert_eq!(store.interests().await.expect("listed"), interests);
    assert_eq!(store.secret("key", vec![9]).await.expect("a secret"), secret);
    let wake_id = before.wake.map(|wake| wake.id).expect("a wake is under way");
    let generation = before.generation;
    let fence = Fence { token_generation: generation, generation, wake_id };
    let ack = Op::Ack { fence, acks: vec![("a/1".to_owned(), tail)], done: true };
    assert_eq!(store.change("s", ack).await, Reply::Done { next_wake: false });
}

/// Sessions go on where they were, with what they follow and how far they have got; and those that
/// a server left behind when it died wait for their clients.
pub async fn sessions_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", SHORT_MS).await;
    store.opens("s").await;
    let a = store.follows("s", "a", at(7)).await;
    store.follows("s", "b", at(3)).await;
    store
        .do_all(vec![
            acknowledge("s", "a", a.epoch, 9),
            went_live("s", "a", a.epoch, 8),
            connect("s", "n"),
            heartbeat("s", SHORT_MS),
        ])
        .await;
    let before = store.has_session("s").await;

    let store = store.reopen(data).await;
    store.leases_end().await;
    assert_eq!(store.has_session("s").await, before);
    assert_eq!((store.count("a").await, store.count("b").await), (1, 1));
    assert_eq!(store.sweeps_sessions(RULES).await.nodes, 1);
    let again = store.follows("s", "a", at(1)).await;
    assert_eq!(again.epoch, before.revision + 1, "epochs go on");
}

/// When a backup has replaced the log, what a session had seen of the old one means nothing.
pub async fn pointers_into_another_epoch_are_a_fresh_start(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let epoch = store.follows("s", "a", at(7)).await.epoch;
    store.does(went_live("s", "a", epoch, 8)).await;
    store.close().await;
    data.run_sql("UPDATE tidewire.log_epoch SET epoch = 2").await;

    let store = TestStore::open(data).await;
    let found = async || store.has_session("s").await.subscriptions.remove(0);
    let fresh = found().await;
    assert_eq!((fresh.epoch, fresh.pointer, fresh.live_since), (epoch, Position::START, None));
    store.do_all(vec![acknowledge("s", "a", epoch, 2), went_live("s", "a", epoch, 3)]).await;
    let moved = found().await;
    assert_eq!((moved.pointer, moved.live_since), (Position::new(2), Some(Position::new(3))));
}

/// Closing finishes the commands that wait: they are answered, and what they did is there.
pub async fn closing_finishes_what_waits(data: &dyn Opener) {
    const APPENDS: usize = 100;
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    // The appends are queued before the store is told to close, because they are polled first.
    let appends =
        join_all((0..APPENDS).map(|number| store.append(append("a", &number.to_string()))));
    let (tails, ()) = tokio::join!(biased; appends, store.close());
    assert_eq!(tails.len(), APPENDS);
    let store = store.reopen(data).await;
    assert_eq!(store.texts("a").await.len(), APPENDS);
}

/// A closed store takes no more commands and says so; the data can be opened again even while
/// someone still holds on to the old handle.
pub async fn a_closed_store_lets_go_of_its_data(data: &dyn Opener) {
    let old = TestStore::open(data).await;
    old.create_text("a").await;
    old.close().await;
    old.close().await;
    let refused = old.submit(Command::Append(close("a"))).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    let refused = old.change_subscription("s", Op::Delete).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    let refused = old.read("a", Position::START, EVERYTHING).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    let refused = old.change_sessions(vec![heartbeat("s", SHORT_MS)]).await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    let refused = old.session("s").await;
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    let store = TestStore::open(data).await;
    store.append_text("a", "x").await;
    assert_eq!(store.texts("a").await, ["x"]);
}
