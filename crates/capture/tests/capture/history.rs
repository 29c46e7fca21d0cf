//! What truly happened to a table, written down by a trigger of the test's own, and whether the log
//! tells the same.
//!
//! Rows have a `uid` that never changes. Whoever changes a row holds its lock to the end of the
//! transaction, so that the order of the notes on one row is the order of its commits.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::fixture::{Fixture, Logged};

/// A table `t` under watch, whose history is kept in `notes`.
pub(crate) const TABLE: &str = "
    CREATE TABLE t (
        id int PRIMARY KEY,
        uid bigint GENERATED ALWAYS AS IDENTITY,
        version int NOT NULL DEFAULT 0,
        seen bigint,
        filler text
    );
    CREATE TABLE notes (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, txid bigint, uid bigint, op text,
        before jsonb, after jsonb
    );
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO notes (txid, uid, op, before, after) VALUES (
            txid_current(), coalesce(NEW.uid, OLD.uid), TG_OP,
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
            CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END
        );
        RETURN NULL;
    END $$;
    CREATE TRIGGER zz_note AFTER INSERT OR UPDATE OR DELETE ON t
        FOR EACH ROW EXECUTE FUNCTION note();
    SELECT tidewire.watch('t');
";

/// One change: operation, before, after.
type Change = (String, Option<Value>, Option<Value>);

/// Panics, and says where, if the log tells another story than the notes.
pub(crate) async fn assert_told(fixture: &Fixture) {
    let log: Vec<Logged> =
        fixture.log().await.into_iter().filter(|event| event.operation.is_some()).collect();
    let sql = "SELECT txid, uid, op, before::text, after::text FROM notes ORDER BY seq";
    let mut notes_by_row: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    let mut notes_by_tx: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    for row in fixture.sql.query(sql, &[]).await.expect("notes") {
        let image = |index| row.get::<_, Option<&str>>(index).map(|text| text.parse().expect("it"));
        let change: Change = (row.get(2), image(3), image(4));
        notes_by_row.entry(row.get(1)).or_default().push(change.clone());
        notes_by_tx.entry(row.get(0)).or_default().push(change);
    }
    let mut log_by_row: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    let mut log_by_tx: BTreeMap<i64, Vec<Change>> = BTreeMap::new();
    for event in &log {
        let image = event.after.as_ref().or(event.before.as_ref()).expect("an image");
        let uid = image["uid"].as_i64().expect("a uid");
        let operation = event.operation.clone().expect("an operation");
        let change = (operation, event.before.clone(), event.after.clone());
        log_by_row.entry(uid).or_default().push(change.clone());
        log_by_tx.entry(event.txid.expect("a txid")).or_default().push(change);
    }
    for (uid, notes) in &notes_by_row {
        assert_eq!(log_by_row.get(uid), Some(notes), "the history of row {uid}");
    }
    assert_eq!(log_by_row.len(), notes_by_row.len(), "rows in the log that never were");
    for (txid, notes) in &notes_by_tx {
        assert_eq!(log_by_tx.get(txid), Some(notes), "the changes of transaction {txid}");
    }
    assert_whole(&log);
    assert_causes_come_first(&log);
    assert_folds_to_the_table(fixture, &log).await;
}

/// Transactions are contiguous among captured events, and marked at their ends only.
fn assert_whole(log: &[Logged]) {
    let mut ended = HashSet::new();
    for (index, event) in log.iter().enumerate() {
        let txid = event.txid.expect("a txid");
        assert!(!ended.contains(&txid), "transaction {txid} is torn at {}", event.offset);
        let ends = log.get(index + 1).is_none_or(|next| next.txid != event.txid);
        assert_eq!(event.tx_last, ends, "the end of transaction {txid} at {}", event.offset);
        if ends {
            ended.insert(txid);
        }
    }
}

/// What a row was seen to be made after is told before it.
fn assert_causes_come_first(log: &[Logged]) {
    let mut told = HashSet::new();
    for event in log.iter().filter(|event| event.operation.as_deref() == Some("INSERT")) {
        let after = event.after.as_ref().expect("a new row");
        if let Some(seen) = after["seen"].as_i64() {
            assert!(told.contains(&seen), "{after} was told before what it saw");
        }
        told.insert(after["uid"].as_i64().expect("a uid"));
    }
}

async fn assert_folds_to_the_table(fixture: &Fixture, log: &[Logged]) {
    let mut rows: HashMap<i64, Value> = HashMap::new();
    let uid = |image: &Value| image["uid"].as_i64().expect("a uid");
    for event in log {
        if let Some(before) = &event.before {
            let held = rows.remove(&uid(before));
            assert_eq!(held.as_ref(), Some(before), "what was before, at {}", event.offset);
        }
        if let Some(after) = &event.after {
            rows.insert(uid(after), after.clone());
        }
    }
    let table = fixture.sql.query("SELECT to_jsonb(t)::text FROM t", &[]).await.expect("the table");
    let parsed = |row: &tokio_postgres::Row| row.get::<_, &str>(0).parse().expect("JSON");
    let table: HashMap<i64, Value> =
        table.iter().map(parsed).map(|image: Value| (uid(&image), image)).collect();
    assert_eq!(rows, table, "the log's changes, one after the other, make the table");
}
