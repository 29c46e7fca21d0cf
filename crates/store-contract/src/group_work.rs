//! Work on a partition in a transaction.

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, book, handled, host_in, well_done};
use super::rows::{LIMITS, wrong};
use super::test_store::eventually;
use tidewire_store::groups::{Begun, Claim, GroupChange, GroupError};
use tidewire_store::offset::Position;

/// While somebody works on a partition nobody else can, and then they can.
pub async fn a_partition_is_worked_on_by_one(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    fixture.say("h", "u", &["1"]).await;
    let (claim, other) = (fixture.claim(0, "m").await, fixture.claim(1, "n").await);
    let work = fixture.works(&claim).await;
    assert!(matches!(fixture.begins(&claim).await, Begun::Taken));
    assert!(matches!(
        fixture.begins(&Claim { member: "n".to_owned(), ..claim.clone() }).await,
        Begun::Taken
    ));
    let beside = fixture.works(&other).await;
    work.abandon().await;
    let again = fixture.works(&claim).await;
    beside.abandon().await;
    drop(again);
    let free = || async { matches!(fixture.begins(&claim).await, Begun::Work(_)).then_some(()) };
    eventually("what is dropped is let go of", free).await;
}

/// What a handler writes and the advance are one commit.
pub async fn work_and_advance_are_one_commit(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    let tip = fixture.say("h", "u", &["1", "2"]).await;
    let batch = fixture.batch(0).await;
    let texts: Vec<u64> = handled(&batch).iter().map(|event| event.position.number()).collect();
    assert_eq!(texts, [tip.number() - 1, tip.number()]);
    let claim = fixture.claim(0, "worker").await;
    let mut work = fixture.works(&claim).await;
    work.enter(true);
    book(&mut work, 1, "first").await;
    book(&mut work, 2, "second").await;
    assert!(fixture.booked().await.is_empty(), "before it is committed nobody sees it");
    assert_eq!(fixture.holds(0).await.partition.next, claim.next);
    work.finish(&well_done(&batch)).await.expect("it is committed");
    assert_eq!(fixture.booked().await, ["first", "second"]);
    let partition = fixture.holds(0).await.partition;
    assert_eq!((partition.next, partition.generation), (tip.next(), claim.generation));
    assert_eq!(partition.member.as_deref(), Some("worker"));
    assert!(partition.moved_at_ms.is_some());
    assert!(fixture.next_batch(0).await.is_none());
}

/// Abandoned or dropped, work leaves nothing.
pub async fn abandoned_work_leaves_nothing(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    fixture.say("h", "u", &["1"]).await;
    let claim = fixture.claim(0, "m").await;
    let mut work = fixture.works(&claim).await;
    work.enter(true);
    book(&mut work, 1, "abandoned").await;
    work.abandon().await;
    let mut work = fixture.works(&claim).await;
    work.enter(false);
    book(&mut work, 1, "dropped").await;
    drop(work);
    let again = || async {
        match fixture.begins(&claim).await {
            Begun::Work(work) => Some(work),
            _ => None,
        }
    };
    let mut work = eventually("it is rolled back", again).await;
    work.enter(true);
    book(&mut work, 1, "kept").await;
    work.finish(&well_done(&fixture.batch(0).await)).await.expect("it is committed");
    assert_eq!(fixture.booked().await, ["kept"]);
}

/// Whoever knows a partition as it was must look again.
pub async fn a_partition_that_moved_is_told(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let claim = fixture.claim(0, "m").await;
    let behind = Claim { next: Position::new(claim.next.number() + 1), ..claim.clone() };
    let elsewhen = Claim { generation: claim.generation + 1, ..claim.clone() };
    for wrong in [&behind, &elsewhen] {
        assert!(matches!(fixture.begins(wrong).await, Begun::Moved), "{wrong:?}");
    }
    fixture.ends(0, &well_done(&fixture.batch(0).await)).await;
    assert!(matches!(fixture.begins(&claim).await, Begun::Moved));
    fixture.works(&fixture.claim(0, "m").await).await.abandon().await;
}

/// What one key did is taken back, and what the others did is kept.
pub async fn a_keys_work_is_undone_alone(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let mut work = fixture.works(&fixture.claim(0, "m").await).await;
    work.enter(true);
    book(&mut work, 1, "kept").await;
    work.enter(true);
    book(&mut work, 2, "undone").await;
    book(&mut work, 3, "undone").await;
    work.undo().await.expect("it is undone");
    book(&mut work, 2, "again").await;
    work.undo().await.expect("it is undone again");
    work.enter(true);
    work.undo().await.expect("there is nothing to undo");
    work.enter(true);
    book(&mut work, 4, "kept too").await;
    work.finish(&well_done(&batch)).await.expect("it is committed");
    assert_eq!(fixture.booked().await, ["kept", "kept too"]);
}

/// Without a savepoint a key's work cannot be taken back, but that a handler did nothing is no work.
pub async fn without_a_savepoint_nothing_is_undone(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let mut work = fixture.works(&fixture.claim(0, "m").await).await;
    work.enter(false);
    work.undo().await.expect("there is nothing to undo");
    book(&mut work, 1, "x").await;
    let undone = work.undo().await;
    assert!(matches!(undone, Err(GroupError::Invalid(_))), "{undone:?}");
    work.abandon().await;
    assert!(fixture.booked().await.is_empty());
    fixture.ends(0, &well_done(&batch)).await;
}

/// A statement that failed is taken back with its key, and the batch goes on.
pub async fn a_failed_statement_is_undone_with_its_key(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let mut work = fixture.works(&fixture.claim(0, "m").await).await;
    work.enter(true);
    book(&mut work, 1, "kept").await;
    work.enter(true);
    book(&mut work, 2, "undone").await;
    let twice = work.sql("INSERT INTO ledger (id, who) VALUES (1, 'twice')", &[], LIMITS).await;
    assert_eq!(wrong(twice).code, "sql_constraint");
    work.undo().await.expect("it is undone");
    work.enter(true);
    book(&mut work, 3, "kept too").await;
    work.finish(&well_done(&batch)).await.expect("it is committed");
    assert_eq!(fixture.booked().await, ["kept", "kept too"]);
}

/// A handler that reads sees what it wrote, and what it wrote is told as rows.
pub async fn a_handler_reads_what_it_wrote(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    let mut work = fixture.works(&fixture.claim(0, "m").await).await;
    work.enter(true);
    book(&mut work, 1, "a").await;
    let answer = work.sql("SELECT who FROM ledger", &[], LIMITS).await.expect("an answer");
    assert_eq!(super::rows::raw(&answer), [["\"a\""]]);
    let changed = work.sql("UPDATE ledger SET who = 'b'", &[], LIMITS).await.expect("an answer");
    assert_eq!(changed.row_count, 1);
    work.abandon().await;
}

/// A handler cannot commit its work without the advance.
pub async fn a_handler_cannot_end_the_transaction(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    for ending in ["COMMIT", "ROLLBACK"] {
        let mut work = fixture.works(&fixture.claim(0, "m").await).await;
        work.enter(true);
        book(&mut work, 1, "torn").await;
        let refused = work.sql(ending, &[], LIMITS).await;
        assert_eq!(wrong(refused).code, "sql_refused", "{ending}");
        work.abandon().await;
        assert!(fixture.booked().await.is_empty(), "{ending}");
    }
    fixture.ends(0, &well_done(&batch)).await;
}

/// A partition without events of its own is moved without a handler, unless somebody is there.
pub async fn a_partition_is_moved_past_what_others_have(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let tip = fixture.say(&host_in(1, 2), "u", &["1"]).await;
    assert!(fixture.next_batch(0).await.is_none());
    let claim = fixture.claim(0, "m").await;
    let work = fixture.works(&claim).await;
    assert!(!fixture.groups.skip(&claim, tip.next()).await.expect("an answer"));
    work.abandon().await;
    assert!(fixture.groups.skip(&claim, tip.next()).await.expect("it moves"));
    let partition = fixture.holds(0).await.partition;
    assert_eq!((partition.next, partition.generation), (tip.next(), claim.generation));
    assert!(!fixture.groups.skip(&claim, tip.next().next()).await.expect("it moved meanwhile"));
    assert_eq!(fixture.holds(0).await.partition.next, tip.next());
}

/// A partition in trouble is handed to nobody until that is cleared.
pub async fn a_partition_in_trouble_stands_still(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let claim = fixture.claim(0, "m").await;
    let trouble = "transaction_too_large: raise the limit";
    fixture.groups.set_trouble(&claim, Some(trouble)).await.expect("it is noted");
    assert_eq!(fixture.holds(0).await.partition.trouble.as_deref(), Some(trouble));
    let claim = fixture.claim(0, "m").await;
    assert!(matches!(fixture.begins(&claim).await, Begun::Taken));
    assert_eq!(
        fixture.groups.lease(&claim, claim.next.next(), 1_000).await.expect("an answer"),
        None
    );
    fixture.works(&fixture.claim(1, "m").await).await.abandon().await;
    fixture.groups.set_trouble(&claim, None).await.expect("it is cleared");
    fixture.works(&fixture.claim(0, "m").await).await.abandon().await;
    let claim = fixture.claim(0, "m").await;
    fixture.groups.set_trouble(&claim, Some(trouble)).await.expect("it is noted");
    let clear = GroupChange { clear_trouble: true, ..GroupChange::default() };
    let view = fixture.groups.change_group(GROUP, &clear).await.expect("it is cleared");
    assert_eq!(view.partitions[0].trouble, None);
    let stale = Claim { next: claim.next.next(), ..fixture.claim(0, "m").await };
    let outcome = fixture.groups.set_trouble(&stale, Some(trouble)).await;
    assert!(matches!(outcome, Err(GroupError::Moved)), "{outcome:?}");
}

/// Those who come later in a race find that the partition moved, and no event is handled twice.
pub async fn racing_members_handle_each_event_once(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.ledger().await;
    for number in 0..10 {
        fixture.say("h", "u", &[number.to_string().as_str()]).await;
    }
    tokio::join!(fixture.races("a"), fixture.races("b"), fixture.races("c"));
    assert_eq!(fixture.booked().await.len(), 10);
}
