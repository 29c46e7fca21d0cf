//! Pointers: how far a session has got, and what may move them.

use super::Opener;
use super::sessions::{at, heartbeat, subscribe, unless, unsubscribe};
use super::test_store::TestStore;
use tidewire_store::offset::Position;
use tidewire_store::session::{SessionChange, SessionOutcome};

pub(super) fn acknowledge(session: &str, stream: &str, epoch: u64, number: u64) -> SessionChange {
    let (session, stream) = (session.to_owned(), stream.to_owned());
    SessionChange::Acknowledge { session, stream, epoch, position: Position::new(number) }
}

pub(super) fn went_live(session: &str, stream: &str, epoch: u64, number: u64) -> SessionChange {
    let (session, stream) = (session.to_owned(), stream.to_owned());
    SessionChange::WentLive { session, stream, epoch, position: Position::new(number) }
}

/// Where the pointers of `s` stand, in order of stream.
async fn pointers(store: &TestStore) -> Vec<u64> {
    let session = store.has_session("s").await;
    session.subscriptions.iter().map(|subscription| subscription.pointer.number()).collect()
}

/// An acknowledgement moves the pointer forwards, and never back.
pub async fn a_pointer_moves_only_forwards(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let epoch = store.follows("s", "a", at(7)).await.epoch;
    for (acknowledged, pointer) in [(6, 7), (9, 9), (9, 9), (8, 9), (0, 9), (10, 10)] {
        let outcome = store.does(acknowledge("s", "a", epoch, acknowledged)).await;
        assert_eq!(outcome, SessionOutcome::Done);
        assert_eq!(pointers(&store).await, [pointer], "after {acknowledged}");
    }
    assert_eq!(store.has_session("s").await.revision, 1, "no subscription changed");
}

/// Several acknowledgements of one subscription in one commit leave it at the greatest.
pub async fn the_greatest_acknowledgement_of_a_commit_counts(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let outcomes = store.do_all(vec![subscribe("s", "a", at(1)), subscribe("s", "b", at(1))]).await;
    assert!(outcomes.iter().all(|o| matches!(o, SessionOutcome::Subscribed(_))));
    let acks = [("a", 1, 5), ("b", 2, 3), ("a", 1, 9), ("a", 1, 7), ("b", 2, 2), ("b", 1, 99)];
    let acks = acks.map(|(stream, epoch, number)| acknowledge("s", stream, epoch, number));
    assert_eq!(store.do_all(acks.to_vec()).await, vec![SessionOutcome::Done; 6]);
    assert_eq!(pointers(&store).await, [9, 3]);
}

/// An acknowledgement of an epoch that is over, or of what is not followed, changes nothing.
pub async fn an_acknowledgement_of_an_old_epoch_changes_nothing(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let old = store.follows("s", "a", at(7)).await.epoch;
    let new = store.follows("s", "a", at(3)).await.epoch;
    for (stream, epoch) in [("a", old), ("a", new + 1), ("a", 0), ("b", new)] {
        let outcome = store.does(acknowledge("s", stream, epoch, 9)).await;
        assert_eq!((outcome, pointers(&store).await), (SessionOutcome::Done, vec![3]), "{stream}");
    }
    store.does(acknowledge("s", "a", new, 4)).await;
    assert_eq!(pointers(&store).await, [4]);
}

/// What was on its way during an unsubscribe and a resubscribe brings no old pointer back: neither
/// before, nor between, nor after them, nor in one commit with them.
pub async fn an_old_pointer_cannot_be_brought_back(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let old = store.follows("s", "a", at(1)).await.epoch;
    let late = acknowledge("s", "a", old, 9);
    store.does(unsubscribe("s", "a")).await;
    store.does(late.clone()).await;
    assert_eq!(pointers(&store).await, Vec::<u64>::new(), "not while nothing is followed");
    store.follows("s", "a", unless(2)).await;
    store.does(late).await;
    assert_eq!(pointers(&store).await, [2]);
    let epoch = store.has_session("s").await.subscriptions[0].epoch;
    let together = vec![
        acknowledge("s", "a", epoch, 5),
        unsubscribe("s", "a"),
        acknowledge("s", "a", epoch, 6),
        subscribe("s", "a", at(3)),
        acknowledge("s", "a", epoch, 7),
        acknowledge("s", "a", epoch + 2, 4),
    ];
    store.do_all(together).await;
    assert_eq!(pointers(&store).await, [4]);
}

/// Where a subscription first went live is kept, for its own epoch, and only the first time.
pub async fn where_a_subscription_went_live_is_kept_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.opens("s").await;
    let live = async || store.has_session("s").await.subscriptions[0].live_since;
    let epoch = store.follows("s", "a", at(1)).await.epoch;
    store.does(went_live("s", "a", epoch + 1, 4)).await;
    assert_eq!(live().await, None, "of another epoch");
    store.do_all(vec![went_live("s", "a", epoch, 5), went_live("s", "a", epoch, 3)]).await;
    assert_eq!(live().await, Some(Position::new(5)));
    store.does(went_live("s", "a", epoch, 9)).await;
    assert_eq!(live().await, Some(Position::new(5)));
    store.does(acknowledge("s", "a", epoch, 7)).await;
    let session = store.has_session("s").await;
    assert_eq!(session.subscriptions[0].pointer, Position::new(7), "its pointer is another matter");
    assert_eq!((session.revision, live().await), (1, Some(Position::new(5))));
    store.does(went_live("s", "b", epoch, 9)).await;
    assert_eq!(store.follows("s", "a", at(2)).await.live_since, None, "anew");
}

/// An append writes nothing for those who follow its stream.
pub async fn an_append_moves_no_pointer(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.opens("s").await;
    store.follows("s", "a", at(0)).await;
    let before = store.has_session("s").await;
    store.append_text("a", "x").await;
    store.does(heartbeat("s", super::sessions::LONG_MS)).await;
    assert_eq!(store.has_session("s").await, before);
}
