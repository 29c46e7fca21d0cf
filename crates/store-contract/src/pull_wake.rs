//! Pull-wake: workers are told by an event in a stream, claim the work, and acknowledge it.

use super::Opener;
use super::subscriptions::{grown, pull};
use super::test_store::{TestStore, eventually};
use tidewire_store::offset::Position;
use tidewire_store::subscription::{Config, Fence, Op, Reply, Subscription};
use tidewire_store::testing::commands::{append, close};

const DONE: Reply = Reply::Done { next_wake: false };
const WOKEN: Reply = Reply::Done { next_wake: true };

/// A subscription `s` of the stream `a`, with one append pending and announced.
async fn woken(store: &TestStore, config: Config) -> Position {
    store.create_text("a").await;
    store.create_text("wakes").await;
    store.change("s", Op::Create(config)).await;
    let tail = store.append_text("a", "1").await;
    assert_eq!(store.change("s", grown("a")).await, WOKEN);
    tail
}

async fn claim(store: &TestStore, worker: &str) -> Reply {
    store.change("s", Op::Claim { worker: worker.to_owned() }).await
}

async fn claimed(store: &TestStore, worker: &str) -> Subscription {
    match claim(store, worker).await {
        Reply::Claimed(subscription) => *subscription,
        other => panic!("{worker} did not get the work: {other:?}"),
    }
}

fn fence(subscription: &Subscription) -> Fence {
    let generation = subscription.generation;
    let wake_id = subscription.wake.as_ref().map(|wake| wake.id.clone()).unwrap_or_default();
    Fence { token_generation: generation, generation, wake_id }
}

fn ack(fence: &Fence, upto: &[(&str, Position)], done: bool) -> Op {
    let acks = upto.iter().map(|&(stream, position)| (stream.to_owned(), position)).collect();
    Op::Ack { fence: fence.clone(), acks, done }
}

/// However many nodes see the stream grow, the wake is announced once.
pub async fn a_wake_is_announced_exactly_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create_text("wakes").await;
    store.change("s", Op::Create(pull(None, &["a"]))).await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        nodes.spawn(async move {
            let mut began = 0;
            for _ in 0..8 {
                store.append_text("a", "x").await;
                began += usize::from(store.change("s", grown("a")).await == WOKEN);
            }
            began
        });
    }
    let began: usize = nodes.join_all().await.into_iter().sum();
    let announced = store.texts("wakes").await;
    assert_eq!((began, announced.len()), (1, 1), "{announced:?}");
    let event: serde_json::Value = serde_json::from_str(&announced[0]).expect("JSON");
    assert_eq!(event["type"], "wake");
    assert_eq!(event["subscription_id"], "s");
    assert_eq!(event["stream"], "a");
    assert_eq!(event["generation"], 1);
    assert!(event["ts"].is_i64(), "{event}");
}

/// A worker claims the work, moves the cursor, and finishes; then there is nothing to claim.
pub async fn claimed_work_is_acknowledged_and_done(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let tail = woken(&store, pull(None, &["a"])).await;
    let claimed = claimed(&store, "w1").await;
    assert_eq!(claimed.generation, 1);
    let wake = claimed.wake.as_ref().expect("a wake is under way");
    assert_eq!(wake.holder.as_deref(), Some("w1"));
    assert_eq!(wake.snapshot["a"], tail);
    assert!(wake.lease_until_ms.is_some());
    let taken = Reply::AlreadyClaimed { holder: "w1".to_owned(), generation: 1 };
    assert_eq!(claim(&store, "w2").await, taken);

    assert_eq!(store.change("s", ack(&fence(&claimed), &[("a", tail)], true)).await, DONE);
    let after = store.subscribed("s").await;
    assert_eq!((after.links["a"].acked, &after.wake), (tail, &None));
    assert_eq!(claim(&store, "w2").await, Reply::NoPendingWork);
    assert_eq!(store.change("s", grown("a")).await, DONE, "an old event wakes nobody");
    assert_eq!(store.texts("wakes").await.len(), 1);
}

/// Work that came while a worker was busy is the next wake, begun and announced with its "done".
pub async fn work_that_arrived_meanwhile_is_the_next_wake(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let first = woken(&store, pull(None, &["a"])).await;
    let claimed = claimed(&store, "w").await;
    let second = store.append_text("a", "2").await;
    assert_eq!(store.change("s", grown("a")).await, DONE, "a wake is under way already");
    let fence = fence(&claimed);
    assert_eq!(store.change("s", ack(&fence, &[("a", first)], true)).await, WOKEN);
    let next = store.subscribed("s").await;
    assert_eq!((next.generation, next.links["a"].acked), (2, first));
    assert_eq!(next.wake.map(|wake| wake.snapshot["a"]), Some(second));
    assert_eq!(store.texts("wakes").await.len(), 2);
}

/// Released work is there for another worker; what was done before the release stays done.
pub async fn released_work_goes_to_the_next_worker(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let first = woken(&store, pull(None, &["a"])).await;
    let second = store.append_text("a", "2").await;
    let fence_1 = fence(&claimed(&store, "w1").await);
    assert_eq!(store.change("s", ack(&fence_1, &[("a", first)], false)).await, DONE);
    let release = |fence: &Fence| Op::Release { fence: fence.clone() };
    assert_eq!(store.change("s", release(&fence_1)).await, WOKEN, "one event is left");
    assert_eq!(store.texts("wakes").await.len(), 2, "which is announced");
    let claimed = claimed(&store, "w2").await;
    assert_eq!((claimed.generation, claimed.links["a"].acked), (2, first));
    let fence_2 = fence(&claimed);
    assert_eq!(store.change("s", ack(&fence_2, &[("a", second)], false)).await, DONE);
    assert_eq!(store.change("s", release(&fence_2)).await, DONE, "nothing is left");
    assert_eq!(claim(&store, "w3").await, Reply::NoPendingWork);
}

/// A stale token, generation or wake id is fenced off, and changes nothing.
pub async fn a_stale_worker_is_fenced_off(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let tail = woken(&store, pull(None, &["a"])).await;
    let old = fence(&claimed(&store, "w1").await);
    assert_eq!(store.change("s", Op::Release { fence: old.clone() }).await, WOKEN);
    let new = fence(&claimed(&store, "w2").await);
    assert_eq!(new.generation, 2);
    for stale in [
        old.clone(),
        Fence { token_generation: 1, ..new.clone() },
        Fence { generation: 1, ..new.clone() },
        Fence { wake_id: old.wake_id.clone(), ..new.clone() },
    ] {
        let before = store.subscribed("s").await;
        let acked = store.change("s", ack(&stale, &[("a", tail)], true)).await;
        let released = store.change("s", Op::Release { fence: stale.clone() }).await;
        assert_eq!((acked, released), (Reply::Fenced, Reply::Fenced), "{stale:?}");
        assert_eq!(store.subscribed("s").await, before);
    }
    assert_eq!(store.change("s", ack(&new, &[("a", tail)], true)).await, DONE);
    assert_eq!(store.change("s", Op::Release { fence: new }).await, Reply::Fenced, "it is over");
}

/// Acks that go back, lie past the end or name another stream are refused as a whole.
pub async fn an_ack_must_lie_between_cursor_and_end(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let first = woken(&store, pull(None, &["a", "b"])).await;
    let second = store.append_text("a", "2").await;
    let fence = fence(&claimed(&store, "w").await);
    assert_eq!(store.change("s", ack(&fence, &[("a", first)], false)).await, DONE);
    for wrong in [
        [("a", Position::START), ("b", Position::START)],
        [("a", second), ("b", second)],
        [("a", second), ("elsewhere", first)],
        [("a", second.next()), ("b", Position::START)],
    ] {
        let reply = store.change("s", ack(&fence, &wrong, true)).await;
        assert!(matches!(reply, Reply::InvalidAck { .. }), "{wrong:?}: {reply:?}");
        assert_eq!(store.subscribed("s").await.links["a"].acked, first, "{wrong:?}");
    }
    assert_eq!(store.change("s", ack(&fence, &[("a", second)], true)).await, DONE);
}

/// A lease that runs out clears its holder, and work that is still pending wakes again.
pub async fn work_is_taken_back_when_its_lease_runs_out(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, Config { lease_ttl_ms: 1, ..pull(None, &["a"]) }).await;
    let old = fence(&claimed(&store, "w1").await);
    eventually("the lease is due", || async {
        let due = store.due_subscriptions(10).await.expect("listed");
        (due == ["s"]).then_some(())
    })
    .await;
    assert_eq!(store.change("s", Op::Due { attempt_ms: 1_000 }).await, WOKEN);
    let again = store.subscribed("s").await;
    assert_eq!(again.generation, 2);
    let wake = again.wake.expect("the work wakes again");
    assert_eq!((wake.holder, wake.lease_until_ms), (None, None));
    assert_eq!(store.texts("wakes").await.len(), 2);
    assert_eq!(store.due_subscriptions(10).await.expect("listed"), [] as [&str; 0]);
    assert_eq!(store.change("s", ack(&old, &[], true)).await, Reply::Fenced);
    claimed(&store, "w2").await;
}

/// A sign of life renews the lease.
pub async fn a_sign_of_life_renews_the_lease(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    woken(&store, pull(None, &["a"])).await;
    let claimed = claimed(&store, "w").await;
    let until = |s: Subscription| s.wake.and_then(|wake| wake.lease_until_ms);
    let first = until(claimed.clone());
    eventually("the lease moves", || async {
        assert_eq!(store.change("s", ack(&fence(&claimed), &[], false)).await, DONE);
        (until(store.subscribed("s").await) > first).then_some(())
    })
    .await;
}

/// The application owns the wake stream: if it is missing or closed, the wake stands all the same.
pub async fn a_wake_that_cannot_be_announced_can_be_claimed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.change("s", Op::Create(pull(None, &["a"]))).await;
    let tail = store.append_text("a", "1").await;
    assert_eq!(store.change("s", grown("a")).await, WOKEN);
    let first = fence(&claimed(&store, "w").await);
    store.create_text("wakes").await;
    store.append(close("wakes")).await;
    store.append(append("a", "2")).await;
    assert_eq!(store.change("s", ack(&first, &[("a", tail)], true)).await, WOKEN);
    assert_eq!(claimed(&store, "w").await.generation, 2);
    assert!(store.texts("wakes").await.is_empty());
}
