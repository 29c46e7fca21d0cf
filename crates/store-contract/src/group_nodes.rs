//! Groups whose members are on several nodes.

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, LONG_MS, book, well_done};
use super::test_store::{DEADLINE, TestStore};
use tidewire_store::groups::{
    Acked, Begun, Ending, GroupError, LeaseRef, MemberKind, MemberReport,
};

/// Another node of the same fixture.
async fn beside<'a>(fixture: &GroupFixture<'a>) -> GroupFixture<'a> {
    let store = TestStore::open(fixture.data).await;
    let groups = store.groups();
    GroupFixture { data: fixture.data, store, groups }
}

/// While a node works on a partition no other does, and what it did is known to them.
pub async fn a_partition_is_worked_on_by_one_node(data: &dyn Opener) {
    let a = GroupFixture::of(data, 1).await;
    let b = beside(&a).await;
    a.ledger().await;
    a.say("h", "u", &["1"]).await;
    let (batch, claim) = (a.batch(0).await, b.claim(0, "b").await);
    let mut work = a.works(&a.claim(0, "a").await).await;
    work.enter(true);
    book(&mut work, 1, "a").await;
    assert!(matches!(b.begins(&claim).await, Begun::Taken));
    assert!(!b.groups.skip(&claim, batch.next).await.expect("an answer"));
    assert_eq!(b.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer"), None);
    work.finish(&well_done(&batch)).await.expect("it is committed");
    assert!(matches!(b.begins(&claim).await, Begun::Moved));
    assert!(b.next_batch(0).await.is_none());
    assert_eq!(b.booked().await, ["a"]);
}

/// Members of several nodes that race handle each event once.
pub async fn racing_nodes_handle_each_event_once(data: &dyn Opener) {
    let a = GroupFixture::of(data, 1).await;
    let b = beside(&a).await;
    a.ledger().await;
    for number in 0..20 {
        a.say("h", "u", &[number.to_string().as_str()]).await;
    }
    tokio::join!(a.races("a"), b.races("b"), a.races("c"), b.races("d"));
    assert_eq!(a.booked().await.len(), 20);
}

/// A batch that was leased on one node is acknowledged on another.
pub async fn a_lease_goes_from_node_to_node(data: &dyn Opener) {
    let a = GroupFixture::of(data, 1).await;
    let b = beside(&a).await;
    a.say("h", "u", &["1"]).await;
    let batch = a.batch(0).await;
    let claim = a.claim(0, "worker").await;
    let generation = a.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
    let generation = generation.expect("it is free");
    let lease = LeaseRef { group: GROUP.to_owned(), partition: 0, generation };
    b.groups.extend_lease(&lease, LONG_MS).await.expect("it is extended");
    let acked = b.groups.ack(&lease, &well_done(&batch), Vec::new()).await;
    assert!(matches!(acked, Ok(Acked::Done { .. })), "{acked:?}");
    let again = a.groups.ack(&lease, &well_done(&batch), Vec::new()).await;
    assert!(matches!(again, Ok(Acked::Before)), "{again:?}");
    let stale = LeaseRef { generation: generation - 1, ..lease };
    let fenced = a.groups.nack(&stale, &[], &Ending::default(), 0).await;
    assert!(matches!(fenced, Err(GroupError::Fenced)), "{fenced:?}");
}

/// All nodes hear that somebody joined.
pub async fn comings_are_signalled_to_all_nodes(data: &dyn Opener) {
    let a = GroupFixture::of(data, 1).await;
    let b = beside(&a).await;
    let mut signals = b.groups.group_signals();
    signals.mark_unchanged();
    let counts = serde_json::value::RawValue::from_string("{}".to_owned()).expect("JSON");
    let (group, member) = (GROUP.to_owned(), "m".to_owned());
    let report = MemberReport { group, member, kind: MemberKind::Library, pinned: None, counts };
    a.groups.renew_member(&report, LONG_MS).await.expect("it joins");
    let heard = tokio::time::timeout(DEADLINE, signals.changed()).await;
    heard.expect("it is heard").expect("the store is open");
    assert_eq!(b.view().await.members.len(), 1);
}
