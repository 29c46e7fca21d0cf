//! Watched tables. Needs a store whose changes are captured: on PostgreSQL, one with a node that does.

use serde_json::json;

use super::Opener;
use super::rows::{self, changes, deleted, inserted, updated, watch, watch_as};
use super::test_store::{TestStore, eventually};
use tidewire_store::command::Actor;
use tidewire_store::event::Control;
use tidewire_store::offset::Position;
use tidewire_store::sql::Statements;
use tidewire_store::watch::{NewWatch, TableView, WatchedName};

/// Rows come into the log as they were and as they are; what was there before is not told.
pub async fn changes_of_rows_come_into_the_log(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'old', 1)").await;
    watch(&store, "orders").await;
    rows::run(&store, "INSERT INTO orders VALUES (2, 'tea', NULL)").await;
    rows::run(&store, "UPDATE orders SET name = 'new' WHERE id = 1").await;
    rows::run(&store, "DELETE FROM orders WHERE id = 2").await;
    let tea = json!({"id": 2, "name": "tea", "amount": null});
    let one = |name: &str| json!({"id": 1, "name": name, "amount": 1});
    let expected =
        [inserted("2", tea.clone()), updated("1", one("old"), one("new")), deleted("2", tea)];
    assert_eq!(changes(&store, "orders").await, expected);
}

/// A transaction's changes lie together, under one number, and the last is marked.
pub async fn a_transactions_changes_lie_together(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    let text = "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2);
        UPDATE orders SET amount = amount + 1; DELETE FROM orders";
    rows::run(&store, text).await;
    rows::run(&store, "INSERT INTO orders VALUES (3, 'c', 3)").await;
    let events = store.events("table/orders").await;
    let rows: Vec<_> = events.iter().filter_map(|event| event.row.clone()).collect();
    let words: Vec<&str> = rows.iter().map(|row| row.operation.as_str()).collect();
    assert_eq!(words, ["INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE", "DELETE", "INSERT"]);
    let last: Vec<bool> = rows.iter().map(|row| row.tx_last).collect();
    assert_eq!(last, [false, false, false, false, false, true, true]);
    assert!(rows[0].txid.is_some());
    assert!(rows[..6].iter().all(|row| row.txid == rows[0].txid), "{rows:?}");
    assert_ne!(rows[6].txid, rows[0].txid);
    let first = events[0].position.number();
    let places: Vec<u64> = events[..6].iter().map(|event| event.position.number()).collect();
    assert_eq!(places, (first..first + 6).collect::<Vec<_>>());
}

/// Work that is undone leaves nothing.
pub async fn what_is_undone_is_not_captured(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    let failing = "INSERT INTO orders VALUES (2, 'b', 2); UPDATE orders SET name = 'x';
        INSERT INTO orders SELECT 3, 'c', 3 UNION ALL SELECT 1, 'twice', 1";
    rows::problem(&store, failing).await;
    rows::run(&store, "INSERT INTO orders VALUES (4, 'd', 4)").await;
    let ids: Vec<_> = changes(&store, "orders").await.into_iter().map(|c| c.entity_id).collect();
    assert_eq!(ids, [Some("1".to_owned()), Some("4".to_owned())]);
}

/// What is undone back to a savepoint is not captured; what comes before and after it is.
pub async fn what_is_undone_to_a_savepoint_is_not_captured(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    let sql = "INSERT INTO orders VALUES (1, 'a', 1); SAVEPOINT s;
        INSERT INTO orders VALUES (2, 'b', 2); SELECT tidewire.publish('doc/1', '1');
        ROLLBACK TO s; INSERT INTO orders VALUES (3, 'c', 3); RELEASE s";
    rows::run(&store, sql).await;
    let kept: Vec<Option<String>> = store
        .events("table/orders")
        .await
        .iter()
        .filter_map(|event| event.row.as_ref().map(|row| row.entity_id.clone()))
        .collect();
    assert_eq!(kept, [Some("1".to_owned()), Some("3".to_owned())]);
    assert!(!store.is_found("doc/1").await, "nothing was published");
}

/// An insert that becomes an update is one.
pub async fn upserts_are_what_they_do(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    let upsert = "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)
        ON CONFLICT (id) DO UPDATE SET amount = orders.amount + excluded.amount";
    rows::run(&store, upsert).await;
    rows::run(&store, upsert).await;
    let row = |id: i64, name: &str, amount: i64| json!({"id": id, "name": name, "amount": amount});
    let expected = [
        inserted("1", row(1, "a", 1)),
        inserted("2", row(2, "b", 2)),
        updated("1", row(1, "a", 1), row(1, "a", 2)),
        updated("2", row(2, "b", 2), row(2, "b", 4)),
    ];
    assert_eq!(changes(&store, "orders").await, expected);
    rows::run(&store, "INSERT INTO orders VALUES (1, 'x', 1) ON CONFLICT DO NOTHING").await;
    assert_eq!(changes(&store, "orders").await.len(), 4, "nothing was done");
}

/// What foreign keys do is captured like anything else.
pub async fn cascades_are_captured(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE child (id INTEGER PRIMARY KEY,
            parent INTEGER REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO parent VALUES (1), (2);
        INSERT INTO child VALUES (10, 1), (11, 1), (12, 2)";
    rows::run(&store, schema).await;
    watch(&store, "parent").await;
    watch(&store, "child").await;
    rows::run(&store, "UPDATE parent SET id = 3 WHERE id = 2").await;
    rows::run(&store, "DELETE FROM parent WHERE id = 1").await;
    let child = |id: i64, parent: i64| json!({"id": id, "parent": parent});
    let expected = [
        updated("12", child(12, 2), child(12, 3)),
        deleted("10", child(10, 1)),
        deleted("11", child(11, 1)),
    ];
    assert_eq!(changes(&store, "child").await, expected);
    let expected =
        [updated("3", json!({"id": 2}), json!({"id": 3})), deleted("1", json!({"id": 1}))];
    assert_eq!(changes(&store, "parent").await, expected);
}

/// A key is found or given, has one column or several, or is the whole row.
pub async fn keys_tell_rows_apart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let schema = "CREATE TABLE pair (b TEXT, a INTEGER, c TEXT, PRIMARY KEY (a, b));
        CREATE TABLE bare (a INTEGER, b TEXT);
        CREATE TABLE given (a INTEGER PRIMARY KEY, b TEXT)";
    rows::run(&store, schema).await;
    assert_eq!(watch(&store, "pair").await.key_columns, ["a", "b"]);
    assert_eq!(watch(&store, "bare").await.key_columns, [] as [&str; 0]);
    let key_columns = Some(vec!["b".to_owned()]);
    let new = NewWatch { table: "given".to_owned(), key_columns, ..NewWatch::default() };
    assert_eq!(watch_as(&store, new).await.key_columns, ["b"]);
    let insert = "INSERT INTO pair VALUES ('x', 1, 'c'); INSERT INTO bare VALUES (1, 'x');
        INSERT INTO given VALUES (1, 'x')";
    rows::run(&store, insert).await;
    let id = async |table: &str| {
        changes(&store, table).await[0].entity_id.clone().expect("an entity's id")
    };
    let parsed = |text: String| serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    assert_eq!(parsed(id("pair").await), json!([1, "x"]));
    assert_eq!(parsed(id("bare").await), json!({"a": 1, "b": "x"}));
    assert_eq!(id("given").await, "x");
}

/// A row whose key changes is updated: the event has the new key, and the row before has the old one.
pub async fn a_key_may_change(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    watch(&store, "orders").await;
    rows::run(&store, "UPDATE orders SET id = 5").await;
    let row = |id: i64| json!({"id": id, "name": "a", "amount": 1});
    assert_eq!(changes(&store, "orders").await, [updated("5", row(1), row(5))]);
}

/// Tenant and user come from the row's columns, else from whoever runs the SQL.
pub async fn events_know_their_tenant_and_user(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let schema = "CREATE TABLE a (id INTEGER PRIMARY KEY, tenant TEXT, owner INTEGER);
        CREATE TABLE b (id INTEGER PRIMARY KEY)";
    rows::run(&store, schema).await;
    let column = |name: &str| Some(name.to_owned());
    let view = watch_as(
        &store,
        NewWatch {
            table: "a".to_owned(),
            entity_code: column("thing"),
            host_column: column("tenant"),
            user_column: column("owner"),
            ..NewWatch::default()
        },
    )
    .await;
    assert_eq!(view.entity_code.as_deref(), Some("thing"));
    watch(&store, "b").await;
    let actor = Actor { host_id: column("h"), user_id: column("u"), ..Actor::default() };
    let sql = "INSERT INTO a VALUES (1, 't', 7), (2, NULL, NULL); INSERT INTO b VALUES (1)";
    store.run_sql(Statements { actor, ..rows::statements(sql) }).await.expect("an insert");
    rows::run(&store, "SELECT tidewire.set_actor('me', 'mine'); INSERT INTO b VALUES (2)").await;
    let makers = async |table: &str| -> Vec<(Option<String>, Option<String>, Option<String>)> {
        let events = store.events(&format!("table/{table}")).await;
        let row = |event: &tidewire_store::Event| event.row.clone().expect("a row");
        let maker = |row: &tidewire_store::RowChange| {
            (row.host_id.clone(), row.user_id.clone(), row.entity_code.clone())
        };
        events.iter().map(|event| maker(&row(event))).collect()
    };
    let thing = column("thing");
    let expected = [(column("t"), column("7"), thing.clone()), (None, None, thing)];
    assert_eq!(makers("a").await, expected);
    let expected = [(column("h"), column("u"), None), (column("mine"), column("me"), None)];
    assert_eq!(makers("b").await, expected);
}

/// A document published by a transaction takes its place in it, and goes with it.
pub async fn documents_are_published_in_their_place(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    let before = store.log_tip().await;
    let publishing = "INSERT INTO orders VALUES (1, 'a', 1);
        SELECT tidewire.publish('doc/1', '{\"n\": 1}'); INSERT INTO orders VALUES (2, 'b', 2)";
    rows::run(&store, publishing).await;
    let failing = "SELECT tidewire.publish('doc/1', '{\"n\": 2}');
        INSERT INTO orders VALUES (1, 'a', 1)";
    rows::problem(&store, failing).await;
    assert_eq!(store.texts("doc/1").await.len(), 1);
    let log = store.log_after(before).await;
    let data: Vec<&str> = log
        .iter()
        .filter(|event| event.control.is_none())
        .map(|event| event.stream.as_str())
        .collect();
    assert_eq!(data, ["table/orders", "doc/1", "table/orders"]);
    for stream in ["table/orders", "", "a//b"] {
        rows::problem(&store, &format!("SELECT tidewire.publish('{stream}', '1')")).await;
    }
}

/// Unwatching ends the stream; one that is watched again shows nothing of before.
pub async fn an_unwatched_table_is_not_captured(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    assert!(store.unwatch("orders").await.expect("it can be unwatched"));
    assert!(!store.unwatch("orders").await.expect("it was not watched"));
    store.caught_up(20_000).await.expect("the log catches up");
    assert!(!store.is_found("table/orders").await);
    rows::run(&store, "INSERT INTO orders VALUES (2, 'b', 2)").await;
    watch(&store, "orders").await;
    rows::run(&store, "INSERT INTO orders VALUES (3, 'c', 3)").await;
    let row = json!({"id": 3, "name": "c", "amount": 3});
    assert_eq!(changes(&store, "orders").await, [inserted("3", row)]);
}

/// What is watched is listed, with how much came of it, and is still watched after a restart.
pub async fn watches_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "CREATE TABLE b (id INTEGER PRIMARY KEY)").await;
    watch(&store, "orders").await;
    watch(&store, "b").await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)").await;
    let store = store.reopen(data).await;
    rows::run(&store, "INSERT INTO orders VALUES (3, 'c', 3)").await;
    // Changes are counted a little later where many nodes could count them.
    let watches = eventually("the changes are counted", async || {
        let watches = store.watches().await.expect("watches can be listed");
        (watches.iter().map(|watch| watch.events).sum::<u64>() == 3).then_some(watches)
    })
    .await;
    let listed: Vec<(&str, &str, u64)> =
        watches.iter().map(|w| (w.table.as_str(), w.stream.as_str(), w.events)).collect();
    assert_eq!(listed, [("b", "table/b", 0), ("orders", "table/orders", 3)]);
    assert_eq!(watches[0].last, None);
    let events = store.events("table/orders").await;
    assert_eq!(events.len(), 3);
    assert_eq!(watches[1].last, Some(events[2].position));
}

/// Tables and columns that are not there, and what has no rows of its own, are refused with a hint.
pub async fn what_cannot_be_watched_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "CREATE VIEW v AS SELECT * FROM orders").await;
    for (table, key) in [("order", None), ("orders", Some("nam")), ("v", None), ("", None)] {
        let key_columns = key.map(|key: &str| vec![key.to_owned()]);
        let new = NewWatch { table: table.to_owned(), key_columns, ..NewWatch::default() };
        let wrong = rows::wrong(store.watch(new).await);
        assert_eq!(wrong.code, "table_not_watchable", "{table}: {wrong:?}");
        assert!(wrong.hint.is_some(), "{table}: {wrong:?}");
    }
    assert_eq!(store.watches().await.expect("a list"), []);
}

/// Names that need quotes, and names of several words.
pub async fn quoted_names_are_watched(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let schema = "CREATE TABLE \"Odd.Name\" (\"Key Of\" INTEGER PRIMARY KEY, \"a\"\"b\" TEXT)";
    rows::run(&store, schema).await;
    let view = watch(&store, "\"Odd.Name\"").await;
    assert_eq!((view.table.as_str(), view.stream.as_str()), ("\"Odd.Name\"", "table/\"Odd.Name\""));
    rows::run(&store, "INSERT INTO \"Odd.Name\" VALUES (1, 'x')").await;
    let expected = [inserted("1", json!({"Key Of": 1, "a\"b": "x"}))];
    assert_eq!(changes(&store, "\"Odd.Name\"").await, expected);
    assert!(store.unwatch("\"Odd.Name\"").await.expect("it can be unwatched"));
}

/// Columns that the database works out are not told; a reader can work them out, too.
pub async fn generated_columns_are_left_out(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY,
        twice INTEGER GENERATED ALWAYS AS (id * 2) STORED, name TEXT)";
    rows::run(&store, schema).await;
    watch(&store, "t").await;
    rows::run(&store, "INSERT INTO t (id, name) VALUES (4, 'x')").await;
    rows::run(&store, "UPDATE t SET name = 'y'").await;
    let row = |name: &str| json!({"id": 4, "name": name});
    let expected = [inserted("4", row("x")), updated("4", row("x"), row("y"))];
    assert_eq!(changes(&store, "t").await, expected);
}

/// Subscribers are told that a table's columns changed, at the place where they did.
pub async fn a_changed_table_is_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    watch(&store, "orders").await;
    let before = store.log_tip().await;
    rows::run(&store, "ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'none'").await;
    rows::run(&store, "UPDATE orders SET name = 'b'").await;
    let row = |name: &str| json!({"id": 1, "name": name, "amount": 1, "note": "none"});
    assert_eq!(changes(&store, "orders").await, [updated("1", row("a"), row("b"))]);
    let told = eventually("the change is told", async || {
        Some(schema_changes(&store, before).await).filter(|told| !told.is_empty())
    })
    .await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("note"), "{told:?}");
}

/// They are told as well that it is watched in another way, because what they may see depends on that;
/// and not if it is watched again in the same.
pub async fn a_table_that_is_watched_in_another_way_is_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    let mut wanted = NewWatch { table: "orders".to_owned(), ..NewWatch::default() };
    let told = async |wanted: &NewWatch| {
        let before = store.log_tip().await;
        watch_as(&store, wanted.clone()).await;
        // A row after it: by then what is told of the table is in the log.
        rows::run(&store, "INSERT INTO orders SELECT coalesce(max(id), 0) + 1, 'x', 1 FROM orders")
            .await;
        schema_changes(&store, before).await
    };
    assert_eq!(told(&wanted).await, Vec::<String>::new());
    wanted.host_column = Some("name".to_owned());
    let another = "the table is watched in another way: ";
    let tenants = format!("{another}its tenants are in another column");
    assert_eq!(told(&wanted).await, [tenants]);
    assert_eq!(told(&wanted).await, Vec::<String>::new());
    wanted.key_columns = Some(vec!["name".to_owned(), "id".to_owned()]);
    wanted.host_column = None;
    wanted.user_column = Some("name".to_owned());
    wanted.entity_code = Some("order".to_owned());
    let all = format!(
        "{another}its key is another; its tenants are in another column; its users are in another \
         column; its entity is another"
    );
    assert_eq!(told(&wanted).await, [all]);
}

async fn schema_changes(store: &TestStore, after: Position) -> Vec<String> {
    let log = store.log_after(after).await;
    let schema = log.iter().filter(|event| event.control == Some(Control::Schema));
    schema
        .map(|event| {
            assert_eq!(event.stream, "table/orders");
            let payload = event.payload.as_ref().expect("what changed");
            let value: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
            value["what"].as_str().expect("a text").to_owned()
        })
        .collect()
}

/// A table that is renamed stays watched, under its stream's name.
pub async fn a_renamed_table_keeps_its_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    rows::run(&store, "ALTER TABLE orders RENAME TO sales").await;
    rows::run(&store, "INSERT INTO sales VALUES (1, 'a', 1)").await;
    let row = json!({"id": 1, "name": "a", "amount": 1});
    assert_eq!(changes(&store, "orders").await, [inserted("1", row)]);
    let store = store.reopen(data).await;
    rows::run(&store, "DELETE FROM sales").await;
    assert_eq!(changes(&store, "orders").await.len(), 2);
}

/// A table that is dropped takes its stream along.
pub async fn a_dropped_table_ends_its_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    rows::orders(&store).await;
    watch(&store, "orders").await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    let before = store.log_tip().await;
    rows::run(&store, "DROP TABLE orders").await;
    eventually("the stream ends", async || (!store.is_found("table/orders").await).then_some(()))
        .await;
    let log = store.log_after(before).await;
    assert!(log.iter().any(|event| event.control == Some(Control::Delete)), "{log:?}");
    assert_eq!(store.watches().await.expect("a list"), []);
    rows::orders(&store).await;
    rows::run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    assert!(!store.is_found("table/orders").await, "another table of that name is another");
}

/// What a table is made of is known by the name that its events have, as it is after a change.
pub async fn columns_are_known_by_the_tables_name(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    assert_eq!(columns(&store, "orders").await, TableView::Unknown);
    let create = "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, amount BIGINT,
        twice BIGINT GENERATED ALWAYS AS (amount * 2) STORED)";
    rows::run(&store, create).await;
    assert_eq!(columns(&store, "orders").await, TableView::NotWatched);
    watch(&store, "orders").await;
    let names = |view: TableView| match view {
        TableView::Watched { columns, key_columns, .. } => {
            assert_eq!(key_columns, ["id"]);
            columns.into_iter().map(|c| (c.name, c.type_name)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let expected = if store.backend() == "SQLite" {
        [("id", "INTEGER"), ("name", "TEXT"), ("amount", "BIGINT")]
    } else {
        [("id", "int4"), ("name", "text"), ("amount", "int8")]
    };
    let expected = expected.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(names(columns(&store, "orders").await), expected);
    rows::run(&store, "ALTER TABLE orders RENAME COLUMN name TO label").await;
    rows::run(&store, "ALTER TABLE orders RENAME TO purchases").await;
    let after = names(columns(&store, "orders").await);
    assert_eq!(after[1].0, "label", "the watch keeps its name");
}

/// How texts compare is told, because by that a predicate is decided.
pub async fn collations_of_columns_are_known(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let bytes = if store.backend() == "SQLite" { "BINARY" } else { "\"C\"" };
    let other = if store.backend() == "SQLite" { "NOCASE" } else { "\"en-x-icu\"" };
    let create = format!(
        "CREATE TABLE words (id INTEGER PRIMARY KEY, plain TEXT COLLATE {bytes}, odd TEXT COLLATE {other})"
    );
    rows::run(&store, &create).await;
    watch(&store, "words").await;
    let TableView::Watched { columns, .. } = columns(&store, "words").await else {
        panic!("watched");
    };
    let collation = |place: usize| columns[place].collation.clone().unwrap_or_default();
    assert_eq!(collation(1), bytes.trim_matches('"'));
    assert_eq!(collation(2), other.trim_matches('"'));
}

/// What SQL calls a watched table is known, also after it has another name there than its events have.
pub async fn names_of_watched_tables_are_known(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let usual = if store.backend() == "SQLite" { "main" } else { "public" };
    let known = async || {
        let names = store.watched_names().await.expect("names");
        let shown = |it: WatchedName| (it.table, format!("{}.{}", it.schema, it.name), it.bare);
        names.into_iter().map(shown).collect::<Vec<_>>()
    };
    let of = |table: &str, name: &str| (table.to_owned(), format!("{usual}.{name}"), true);
    assert_eq!(known().await, []);
    rows::orders(&store).await;
    rows::run(&store, "CREATE TABLE \"Odd Name\" (id INTEGER PRIMARY KEY)").await;
    watch(&store, "ORDERS").await;
    watch(&store, "\"Odd Name\"").await;
    assert_eq!(known().await, [of("Odd Name", "Odd Name"), of("orders", "orders")]);
    rows::run(&store, "ALTER TABLE orders RENAME TO purchases").await;
    eventually("the other name", async || {
        (known().await == [of("Odd Name", "Odd Name"), of("orders", "purchases")]).then_some(())
    })
    .await;
}

async fn columns(store: &TestStore, table: &str) -> TableView {
    store.columns(table).await.expect("columns")
}
