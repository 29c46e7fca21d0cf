//! Webhooks: taking turns to deliver, retrying, and what the receiver's answer does.

use super::Opener;
use super::subscriptions::{grown, pull};
use super::test_store::{TestStore, eventually};
use tidewire_store::offset::Position;
use tidewire_store::subscription::{Config, Delivery, Kind, Op, Reply, Subscription};

const DONE: Reply = Reply::Done { next_wake: false };
const WOKEN: Reply = Reply::Done { next_wake: true };

/// Longer than any test runs.
const AN_HOUR_MS: u64 = 3_600_000;

fn hook() -> Config {
    let kind = Kind::Webhook { url: "https://example.org/hook".to_owned() };
    Config { kind, ..pull(None, &["a"]) }
}

/// A subscription `s` of the stream `a`, with one append pending.
async fn woken(store: &TestStore, config: Config) -> Position {
    store.create_text("a").await;
    store.change("s", Op::Create(config)).await;
    assert_eq!(due(store).await, [] as [&str; 0]);
    let tail = store.append_text("a", "1").await;
    assert_eq!(store.change("s", grown("a")).await, WOKEN);
    assert_eq!(due(store).await, ["s"], "a wake is due at once");
    tail
}

async fn due(store: &TestStore) -> Vec<String> {
    store.due_subscriptions(10).await.expect("due subscriptions can be listed")
}

/// Takes the turn to deliver.
async fn deliver(store: &TestStore, attempt_ms: u64) -> Subscription {
    match store.change("s", Op::Due { attempt_ms }).await {
        Reply::Deliver(subscription) => *subscription,
        other => panic!("expected the turn to deliver, got {other:?}"),
    }
}

async fn delivered(store: &TestStore, generation: u64, outcome: Delivery) -> Reply {
    store.change("s", Op::Delivered { generation, outcome }).await
}

/// Of many nodes that see a delivery due, one gets the turn.
pub async fn one_node_delivers_at_a_time(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let tail = woken(&store, hook()).await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        nodes.spawn(async move { store.change("s", Op::Due { attempt_ms: AN_HOUR_MS }).await });
    }
    let replies = nodes.join_all().await;
    let turns: Vec<&Reply> = replies.iter().filter(|r| matches!(r, Reply::Deliver(_))).collect();
    let [Reply::Deliver(subscription)] = turns[..] else { panic!("not one turn: {replies:?}") };
    assert_eq!((subscription.generation, subscription.retry_count), (1, 0));
    assert_eq!(subscription.wake.as_ref().map(|wake| wake.snapshot["a"]), Some(tail));
    assert_eq!(due(&store).await, [] as [&str; 0], "the turn is taken");
}

/// The turn of a node that dies passes on.
pub async fn a_dead_nodes_turn_passes_on(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, hook()).await;
    let first = deliver(&store, 1).await;
    eventually("the turn is due again", || async { (due(&store).await == ["s"]).then_some(()) })
        .await;
    let second = deliver(&store, AN_HOUR_MS).await;
    assert_eq!(second.generation, first.generation, "it is still the same wake");
    assert_eq!(second.wake.map(|wake| wake.id), first.wake.map(|wake| wake.id));
}

/// A failed delivery is tried again after the time given, and the failures are counted.
pub async fn a_failed_delivery_is_tried_again(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, hook()).await;
    for retry_count in 0..3 {
        let turn = deliver(&store, AN_HOUR_MS).await;
        assert_eq!((turn.generation, turn.retry_count), (1, retry_count));
        let failed = Delivery::Failed { retry_in_ms: 0 };
        assert_eq!(delivered(&store, 1, failed).await, DONE);
        assert_eq!(due(&store).await, ["s"]);
    }
    deliver(&store, AN_HOUR_MS).await;
    delivered(&store, 1, Delivery::Failed { retry_in_ms: AN_HOUR_MS }).await;
    assert_eq!(due(&store).await, [] as [&str; 0], "not before its time");
    assert_eq!(store.change("s", Op::Due { attempt_ms: 1 }).await, DONE);
    assert_eq!(store.subscribed("s").await.retry_count, 4);
}

/// A receiver that says "done" acknowledges what it was shown, and no more.
pub async fn a_done_delivery_acknowledges_what_was_announced(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let first = woken(&store, hook()).await;
    deliver(&store, AN_HOUR_MS).await;
    let second = store.append_text("a", "2").await;
    assert_eq!(store.change("s", grown("a")).await, DONE, "a wake is under way");
    assert_eq!(delivered(&store, 1, Delivery::Done).await, WOKEN, "the second append is news");
    assert_eq!(store.subscribed("s").await.links["a"].acked, first);
    assert_eq!(deliver(&store, AN_HOUR_MS).await.generation, 2);
    assert_eq!(delivered(&store, 2, Delivery::Done).await, DONE);
    let idle = store.subscribed("s").await;
    assert_eq!((idle.links["a"].acked, &idle.wake, idle.pending()), (second, &None, false));
    assert_eq!(due(&store).await, [] as [&str; 0]);
}

/// A retry announces what has come in the meantime.
pub async fn a_retry_announces_the_latest_ends(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, hook()).await;
    deliver(&store, AN_HOUR_MS).await;
    let second = store.append_text("a", "2").await;
    delivered(&store, 1, Delivery::Failed { retry_in_ms: 0 }).await;
    let retry = deliver(&store, AN_HOUR_MS).await;
    assert_eq!(retry.wake.map(|wake| wake.snapshot["a"]), Some(second));
}

/// An accepted delivery is leased to the receiver; when it does not call back, it is woken again.
pub async fn an_accepted_delivery_is_leased(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, Config { lease_ttl_ms: 1, ..hook() }).await;
    deliver(&store, AN_HOUR_MS).await;
    delivered(&store, 1, Delivery::Failed { retry_in_ms: 0 }).await;
    deliver(&store, AN_HOUR_MS).await;
    assert_eq!(delivered(&store, 1, Delivery::Accepted).await, DONE);
    let leased = store.subscribed("s").await;
    assert_eq!((leased.retry_count, leased.next_attempt_at_ms), (0, None));
    assert!(leased.wake.is_some_and(|wake| wake.lease_until_ms.is_some()));
    eventually("the lease is due", || async { (due(&store).await == ["s"]).then_some(()) }).await;
    let again = deliver(&store, AN_HOUR_MS).await;
    assert_eq!((again.generation, again.retry_count), (2, 0));
}

/// An answer to a delivery that is over changes nothing.
pub async fn a_late_answer_to_a_delivery_is_fenced_off(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, hook()).await;
    deliver(&store, AN_HOUR_MS).await;
    assert_eq!(delivered(&store, 1, Delivery::Done).await, DONE);
    store.append_text("a", "2").await;
    store.change("s", grown("a")).await;
    let before = store.subscribed("s").await;
    for outcome in [Delivery::Done, Delivery::Accepted, Delivery::Failed { retry_in_ms: 0 }] {
        assert_eq!(delivered(&store, 1, outcome).await, Reply::Fenced, "{outcome:?}");
    }
    assert_eq!(store.subscribed("s").await, before);
}

/// A webhook's work is not there to be claimed.
pub async fn a_webhook_cannot_be_claimed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, hook()).await;
    let claim = Op::Claim { worker: "w".to_owned() };
    assert_eq!(store.change("s", claim).await, Reply::NotPullWake);
}
