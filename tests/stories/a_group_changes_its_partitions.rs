//! The number of a group's partitions is changed while its members work: order holds, and nothing is lost.

use tidewire_consumer::Error;
use tidewire_store::groups::{GroupChange, GroupError};
use tidewire_stories::{Keeper, Ledger, Store, eventually, on_both_stores};

on_both_stores!(order_holds_through_the_change, a_member_that_was_told_another_number_ends);

async fn changed_to(ledger: &Ledger, partitions: u32) {
    let change = GroupChange { partitions: Some(partitions), ..GroupChange::default() };
    eventually("the change is begun", async || {
        match ledger.groups().change_group("g", &change).await {
            Ok(_) => Some(()),
            Err(GroupError::Changing) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

async fn has(ledger: &Ledger, partitions: u32) {
    eventually(&format!("there are {partitions} partitions"), async || {
        let group = ledger.groups().group("g").await.expect("a look").expect("a group");
        (group.total == partitions && group.barrier.is_none()).then_some(())
    })
    .await;
}

async fn orders(ledger: &Ledger) {
    for n in 0..30 {
        ledger.order(&format!("h{}", n % 9), &format!("u{}", n % 2), &["a", "b", "c"]).await;
    }
}

async fn order_holds_through_the_change(store: Store) {
    let ledger = Ledger::open(store).await;
    orders(&ledger).await;
    let member = || ledger.member().batch_size(5);
    let first = member().partitions(4).start(Keeper::default()).await.expect("a member");
    first.stop().await.expect("it stops");
    // Members that name no number go along with the group's.
    let (one, two) =
        (member().start(Keeper::default()).await, member().start(Keeper::default()).await);
    let (one, two) = (one.expect("a member"), two.expect("a member"));
    for partitions in [9, 1, 6] {
        let (_, ()) = tokio::join!(changed_to(&ledger, partitions), orders(&ledger));
        has(&ledger, partitions).await;
    }
    eventually("all is worked off", async || {
        (ledger.number("SELECT count(*) FROM ledger").await == 4 * 90).then_some(())
    })
    .await;
    one.stop().await.expect("it stops");
    two.stop().await.expect("it stops");
    ledger.holds().await;
}

async fn a_member_that_was_told_another_number_ends(store: Store) {
    let ledger = Ledger::open(store).await;
    let mut old = ledger.member().partitions(4).start(Keeper::default()).await.expect("a member");
    changed_to(&ledger, 2).await;
    let ended = old.ended().await.expect_err("it must not go on");
    assert!(matches!(ended, Error::Group(GroupError::Differs(_))), "{ended}");
    assert!(ended.to_string().contains("tidewire groups change g --partitions 4"), "{ended}");
    let refused = ledger.member().partitions(4).start(Keeper::default()).await;
    let refused = refused.expect_err("it is refused from the start");
    assert!(matches!(refused, Error::Group(GroupError::Differs(_))), "{refused}");
}
