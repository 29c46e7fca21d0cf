//! Work whose SQL changes watched tables. Needs a store whose changes are captured: on PostgreSQL, one with a
//! node that does.

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, LONG_MS, handled, well_done};
use super::rows::{self, LIMITS, raw, statements};
use super::test_store::eventually;
use tidewire_store::groups::{Acked, Batch, Ending, GroupError, LeaseRef};
use tidewire_store::log::{Found, PageLimit};
use tidewire_store::offset::Position;

impl GroupFixture<'_> {
    async fn lease_of(&self, batch: &Batch) -> LeaseRef {
        let claim = self.claim(0, "worker").await;
        let leased = self.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
        let generation = leased.expect("it is free");
        LeaseRef { group: GROUP.to_owned(), partition: 0, generation }
    }

    async fn amounts(&self) -> Vec<Vec<String>> {
        let answer = rows::run(&self.store, "SELECT id, amount FROM orders ORDER BY id").await;
        raw(&answer)
            .iter()
            .map(|row| row.iter().map(|value| (*value).to_owned()).collect())
            .collect()
    }
}

/// What a handler changes in a watched table is in the log, once, if its batch is committed.
pub async fn what_a_handler_changes_is_in_the_log(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    rows::orders(&fixture.store).await;
    rows::watch(&fixture.store, "orders").await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    for kept in [false, true] {
        let mut work = fixture.works(&fixture.claim(0, "m").await).await;
        work.enter(true);
        let insert = "INSERT INTO orders VALUES (1, 'undone', 1)";
        work.sql(insert, &[], LIMITS).await.expect("an insert");
        work.undo().await.expect("it is undone");
        work.enter(true);
        let insert = "INSERT INTO orders VALUES (2, 'kept', 2), (3, 'kept', 3)";
        work.sql(insert, &[], LIMITS).await.expect("an insert");
        if kept {
            work.finish(&well_done(&batch)).await.expect("it is committed");
        } else {
            work.abandon().await;
        }
    }
    let logged = || async {
        // Where the rows are captured, the table's stream is there with the first change.
        let found = fixture
            .store
            .find("table/orders", Position::START, PageLimit { events: 0, bytes: 0 })
            .await;
        let Found::Stream(_) = found else { return None };
        let changes = rows::changes(&fixture.store, "orders").await;
        (changes.len() >= 2).then_some(changes)
    };
    let changes = eventually("the changes are in the log", logged).await;
    let ids: Vec<_> = changes.iter().map(|change| change.entity_id.clone()).collect();
    assert_eq!(ids, [Some("2".to_owned()), Some("3".to_owned())]);
    let batch = fixture.batch(0).await;
    let mut events = handled(&batch);
    events.retain(|event| event.change.is_some());
    assert_eq!(events.len(), 2);
    assert!(events[0].txid.is_some() && events[0].txid == events[1].txid);
}

/// Statements of an ack are committed with the advance, and the answer says where they are in the log.
pub async fn an_ack_runs_its_statements_with_the_advance(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    rows::orders(&fixture.store).await;
    rows::watch(&fixture.store, "orders").await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.lease_of(&batch).await;
    let sql = || {
        vec![
            statements("INSERT INTO orders VALUES (1, 'a', 1)"),
            statements("UPDATE orders SET amount = amount + 1"),
        ]
    };
    let acked = fixture.groups.ack(&lease, &well_done(&batch), sql()).await.expect("an ack");
    let Acked::Done { next, offset } = acked else { panic!("{acked:?}") };
    assert_eq!((next, fixture.holds(0).await.partition.next), (batch.next, batch.next));
    let events = fixture.store.events("table/orders").await;
    assert_eq!(events.len(), 2);
    assert!(offset.expect("a place") >= events[1].position);
    let again = fixture.groups.ack(&lease, &well_done(&batch), sql()).await.expect("an answer");
    assert_eq!(again, Acked::Before);
    assert_eq!(fixture.amounts().await, [["1", "2"]], "they ran once");
}

/// If one statement of an ack fails, nothing of it is kept, and the lease is as it was.
pub async fn an_ack_whose_statement_fails_does_nothing(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    rows::orders(&fixture.store).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.lease_of(&batch).await;
    let good = || statements("INSERT INTO orders VALUES (1, 'a', 1)");
    for bad in ["INSERT INTO orders VALUES (1, 'again', 1)", "SELEKT 1", "COMMIT"] {
        let sql = vec![good(), statements(bad)];
        let outcome = fixture.groups.ack(&lease, &well_done(&batch), sql).await;
        assert!(matches!(outcome, Err(GroupError::Sql(_))), "{bad} gave {outcome:?}");
    }
    assert!(fixture.amounts().await.is_empty());
    let partition = fixture.holds(0).await.partition;
    assert_eq!((partition.next, partition.generation), (batch.from, lease.generation));
    let acked = fixture.groups.ack(&lease, &well_done(&batch), vec![good()]).await.expect("an ack");
    assert!(matches!(acked, Acked::Done { .. }), "{acked:?}");
    assert_eq!(fixture.amounts().await, [["1", "1"]]);
}

/// Statements of a lease that is lost do not run.
pub async fn statements_of_a_lost_lease_do_not_run(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    rows::orders(&fixture.store).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.lease_of(&batch).await;
    fixture.groups.nack(&lease, &[], &Ending::default(), 0).await.expect("it is given back");
    let sql = vec![statements("INSERT INTO orders VALUES (1, 'a', 1)")];
    let outcome = fixture.groups.ack(&lease, &well_done(&batch), sql).await;
    assert!(matches!(outcome, Err(GroupError::Fenced)), "{outcome:?}");
    assert!(fixture.amounts().await.is_empty());
}
