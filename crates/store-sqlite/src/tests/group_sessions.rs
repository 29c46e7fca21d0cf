//! The handler's transaction.

use std::sync::Arc;
use std::time::Duration;

use super::groups::{LIMITS, Subject, ending, insert};
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Begun, Claim, GroupError, Groups, HELD_TOO_LONG, Start, Wants};
use tidewire_store::log::Log;
use tidewire_store::offset::Position;
use tidewire_store::sql::{SqlAnswer, SqlError};

#[tokio::test]
async fn what_a_handler_writes_is_in_the_log_with_the_advance() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    work.enter(true);
    insert(&mut *work, "one").await.expect("inserted");
    assert_eq!(subject.logged().await, [""; 0], "not before the commit");
    let next = subject.tip().await.next();
    let offset = work.finish(&ending(next)).await.expect("finished");
    assert_eq!(subject.logged().await, ["one"]);
    assert_eq!(offset, Some(subject.tip().await));
    assert_eq!(subject.holdings().await.partition.next, next);
    subject.store.close().await;
}

#[tokio::test]
async fn what_is_taken_back_leaves_nothing() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    work.enter(true);
    insert(&mut *work, "kept").await.expect("inserted");
    work.enter(true);
    insert(&mut *work, "undone").await.expect("inserted");
    let error = work.sql("INSERT INTO ledger VALUES (1, 'twice')", &[], LIMITS).await;
    assert!(matches!(error, Err(SqlError::Wrong(_))), "{error:?}");
    assert_code(insert(&mut *work, "after an error").await, "sql_failed");
    work.undo().await.expect("undone");
    insert(&mut *work, "again").await.expect("inserted");
    work.undo().await.expect("undone again");
    work.enter(false);
    insert(&mut *work, "other").await.expect("inserted");
    let undone = work.undo().await;
    assert!(matches!(undone, Err(GroupError::Invalid(_))), "{undone:?}");
    work.finish(&ending(claim.next)).await.expect("finished");
    assert_eq!(subject.logged().await, ["kept", "other"]);
    assert_eq!(subject.value("SELECT count(*) FROM ledger").await, "2");
    subject.store.close().await;
}

#[tokio::test]
async fn a_handlers_own_savepoint_does_not_outlive_its_turn() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    work.enter(false);
    work.sql("SAVEPOINT mine", &[], LIMITS).await.expect("set");
    insert(&mut *work, "one").await.expect("inserted");
    work.enter(true);
    insert(&mut *work, "two").await.expect("inserted");
    assert_code(work.sql("ROLLBACK TO mine", &[], LIMITS).await, "sql_failed");
    work.undo().await.expect("undone");
    work.enter(true);
    let own = work.sql("SAVEPOINT Tidewire_key", &[], LIMITS).await;
    assert!(format!("{own:?}").contains("reserved"), "{own:?}");
    work.undo().await.expect("undone");
    work.finish(&ending(claim.next)).await.expect("finished");
    assert_eq!(subject.logged().await, ["one"]);
    subject.store.close().await;
}

#[tokio::test]
async fn a_handler_may_go_back_to_its_own_savepoint_after_an_error() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "one").await.expect("inserted");
    work.sql("SAVEPOINT mine", &[], LIMITS).await.expect("set");
    let twice = "INSERT INTO ledger VALUES (2, 'two'), (1, 'twice')";
    assert_code(work.sql(twice, &[], LIMITS).await, "sql_constraint");
    work.sql("ROLLBACK TO mine", &[], LIMITS).await.expect("gone back");
    insert(&mut *work, "three").await.expect("inserted");
    work.finish(&ending(claim.next)).await.expect("finished");
    assert_eq!(subject.logged().await, ["one", "three"]);
    subject.store.close().await;
}

#[tokio::test]
async fn a_dropped_work_keeps_nothing_and_lets_go() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "one").await.expect("inserted");
    assert!(matches!(subject.store.begin(&claim).await, Ok(Begun::Taken)));
    drop(work);
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "two").await.expect("inserted");
    work.abandon().await;
    subject.begin(&claim).await.finish(&ending(claim.next)).await.expect("finished");
    assert_eq!(subject.value("SELECT count(*) FROM ledger").await, "0");
    assert_eq!(subject.logged().await, [""; 0]);
    subject.store.close().await;
}

#[tokio::test]
async fn a_failed_statement_that_the_handler_hides_ends_the_batch() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "one").await.expect("inserted");
    assert_code(work.sql("INSERT INTO nowhere VALUES (1)", &[], LIMITS).await, "sql_failed");
    let error = work.finish(&ending(claim.next.next())).await.expect_err("not finished");
    assert!(matches!(error, GroupError::Sql(_)), "{error:?}");
    assert_eq!(subject.logged().await, [""; 0]);
    assert_eq!(subject.claim().await.next, claim.next);
    subject.store.close().await;
}

#[tokio::test]
async fn a_statement_that_ends_the_transaction_is_found_out() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    for sql in ["COMMIT", "ROLLBACK", "BEGIN"] {
        work.enter(true);
        let refused = work.sql(sql, &[], LIMITS).await;
        assert!(format!("{refused:?}").contains("sql_refused"), "{refused:?}");
        work.undo().await.expect("undone");
    }
    insert(&mut *work, "one").await.expect("inserted");
    work.enter(true);
    let rolled_back = "INSERT OR ROLLBACK INTO ledger VALUES (1, 'twice')";
    assert_code(work.sql(rolled_back, &[], LIMITS).await, "sql_constraint");
    let error = work.undo().await.expect_err("there is nothing to go back to");
    assert!(matches!(error, GroupError::EndedByHandler), "{error:?}");
    let error = work.finish(&ending(claim.next)).await.expect_err("not finished");
    assert!(matches!(error, GroupError::EndedByHandler), "{error:?}");
    assert_eq!(subject.value("SELECT count(*) FROM ledger").await, "0");
    subject.store.close().await;
}

#[tokio::test]
async fn work_on_a_partition_that_was_reset_does_not_commit() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    subject.store.reset_group("g", Start::Now, None, false).await.expect("reset");
    let moved = insert(&mut *work, "one").await;
    assert!(matches!(moved, Err(SqlError::Store(StoreError::Unavailable(_)))), "{moved:?}");
    let error = work.finish(&ending(claim.next)).await.expect_err("not finished");
    assert!(matches!(error, GroupError::Moved), "{error:?}");
    assert!(matches!(subject.store.begin(&claim).await, Ok(Begun::Moved)));
    assert_eq!(subject.logged().await, [""; 0]);
    subject.store.close().await;
}

#[tokio::test]
async fn a_transaction_that_is_held_too_long_is_rolled_back_and_appends_go_on() {
    let subject = Subject::open().await;
    let claim = Claim { timeout_ms: 200, ..subject.claim().await };
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "one").await.expect("inserted");
    // The append waits for the writer, which waits for the handler, which does nothing.
    subject.append("beside").await;
    let error = insert(&mut *work, "two").await.expect_err("its time is over");
    assert!(is_held_too_long(&error), "{error:?}");
    let error = work.finish(&ending(claim.next)).await.expect_err("not finished");
    assert!(matches!(&error, GroupError::Sql(error) if is_held_too_long(error)), "{error:?}");
    assert_eq!(subject.logged().await, [""; 0]);
    subject.store.close().await;
}

#[track_caller]
fn assert_code(outcome: Result<SqlAnswer, SqlError>, code: &str) {
    match outcome {
        Err(SqlError::Wrong(problem)) => assert_eq!(problem.code, code, "{problem:?}"),
        other => panic!("expected {code}, got {other:?}"),
    }
}

fn is_held_too_long(error: &SqlError) -> bool {
    matches!(error, SqlError::Wrong(problem) if problem.code == HELD_TOO_LONG)
}

#[tokio::test]
async fn a_statement_that_is_broken_off_for_other_writers_is_not_called_slow() {
    let subject = Subject::open().await;
    let claim = Claim { timeout_ms: 200, ..subject.claim().await };
    let mut work = subject.begin(&claim).await;
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT count(*) FROM n";
    let error = work.sql(endless, &[], LIMITS).await.expect_err("its time is over");
    assert!(is_held_too_long(&error), "{error:?}");
    work.abandon().await;
    subject.store.close().await;
}

#[tokio::test]
async fn a_hidden_error_never_takes_back_the_key_before() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    work.enter(true);
    insert(&mut *work, "one").await.expect("inserted");
    let twice = work.sql("INSERT INTO ledger VALUES (1, 'twice')", &[], LIMITS).await;
    assert_code(twice, "sql_constraint");
    // Its handler says that all is well, and it is the next key's turn.
    work.enter(true);
    assert_code(insert(&mut *work, "two").await, "sql_failed");
    let undone = work.undo().await;
    assert!(matches!(undone, Err(GroupError::Sql(_))), "{undone:?}");
    let ended = work.finish(&ending(claim.next.next())).await.expect_err("not finished");
    assert!(matches!(ended, GroupError::Sql(_)), "{ended:?}");
    assert_eq!(subject.claim().await.next, claim.next);
    subject.store.close().await;
}

#[tokio::test]
async fn appends_beside_a_session_of_many_statements_are_all_there() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    let statements = async {
        for number in 0..100 {
            insert(&mut *work, &format!("{number}")).await.expect("inserted");
        }
        work.finish(&ending(claim.next)).await.expect("finished")
    };
    let appends = async {
        for number in 0..100 {
            subject.append(&format!("{number}")).await;
        }
    };
    tokio::join!(statements, appends);
    assert_eq!(subject.logged().await.len(), 100);
    assert_eq!(subject.holdings().await.partition.next, claim.next);
    let tip = subject.tip().await;
    let wants = Wants {
        filter: tidewire_store::groups::Filter {
            tables: Vec::new(),
            streams: vec!["a".to_owned()],
        },
        total: std::num::NonZeroU32::MIN,
        partitions: None,
        page_bytes: tidewire_store::groups::PAGE_BYTES_MAX,
    };
    let page = subject.store.log_page(Position::START, tip, &Arc::new(wants)).await;
    let events = page.expect("a page").entries.into_iter().filter(|entry| entry.event.is_some());
    assert_eq!(events.count(), 100);
    subject.store.close().await;
}

#[tokio::test]
async fn the_store_closes_under_an_open_session() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let mut work = subject.begin(&claim).await;
    insert(&mut *work, "one").await.expect("inserted");
    let close = tokio::time::timeout(Duration::from_secs(60), subject.store.close());
    close.await.expect("it does not wait for the handler");
    let error = work.finish(&ending(claim.next)).await.expect_err("not finished");
    assert!(matches!(error, GroupError::Store(StoreError::Closed)), "{error:?}");
    let error = subject.store.begin(&claim).await.expect_err("closed");
    assert!(matches!(error, GroupError::Store(StoreError::Closed)), "{error:?}");
}

#[tokio::test]
async fn members_that_fight_for_a_partition_never_hold_it_together() {
    let subject = Subject::open().await;
    subject.run("CREATE TABLE turns (c_offset INTEGER PRIMARY KEY)").await;
    let work_off = async || {
        let mut done = 0;
        while done < 20 {
            let claim = subject.claim().await;
            let Begun::Work(mut work) = subject.store.begin(&claim).await.expect("begun") else {
                tokio::task::yield_now().await;
                continue;
            };
            let sql = format!("INSERT INTO turns VALUES ({})", claim.next.number());
            work.sql(&sql, &[], LIMITS).await.expect("nobody else did this one");
            work.finish(&ending(claim.next.next())).await.expect("finished");
            done += 1;
        }
    };
    tokio::join!(work_off(), work_off(), work_off());
    assert_eq!(subject.value("SELECT count(*) FROM turns").await, "60");
    subject.store.close().await;
}
