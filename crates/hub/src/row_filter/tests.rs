//! What is seen through a row filter, against what a few lines say should be.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::messages::AsMessage as _;
use tidewire_query::{Dialect, Effort};
use tidewire_store::{
    Actor, Epoch, Event, Found, NewWatch, Operation, Page, PageLimit, Position, RowChange,
    SharedStore, SqlLimits, Statements,
};
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;

use super::filter::FilterError;
use super::{RowFilter, Tables, View, report, sift_apart};
use tidewire_access::auth::names::TableNames;
use tidewire_access::auth::scopes::Scopes;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::options::{Access, Options, TableRule};
use tidewire_access::problem::Problem;

const SCHEMA: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, owner TEXT COLLATE BINARY, \
                      total INTEGER, secret TEXT) STRICT";
const LIMITS: SqlLimits = SqlLimits { timeout_ms: 10_000, rows_max: 100, bytes_max: 1 << 20 };

/// A store with the table, watched.
struct World {
    store: SharedStore,
    tables: Tables,
    runtime: tokio::runtime::Runtime,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let store = runtime.block_on(async {
            let store = SqliteStore::open(SqliteOptions::new(folder.path())).await;
            let store: SharedStore = store.expect("a store");
            let (params, actor) = (Vec::new(), Actor::default());
            let made = Statements { sql: SCHEMA.to_owned(), params, actor, limits: LIMITS };
            store.run_sql(made).await.expect("a table");
            let watch = NewWatch {
                table: "orders".to_owned(),
                host_column: Some("owner".to_owned()),
                ..NewWatch::default()
            };
            store.watch(watch).await.expect("a watch");
            store
        });
        World {
            store,
            tables: Tables::new(TableNames::new(Dialect::Sqlite)),
            runtime,
            _folder: folder,
        }
    }

    fn row_filter(
        &self,
        scopes: &Value,
        rule: Option<&str>,
        filter: Option<&str>,
    ) -> Arc<RowFilter> {
        let scopes = Scopes::parse(&scopes.to_string(), &(), &TableNames::new(Dialect::Sqlite))
            .expect("scopes");
        let identity = Identity::new(Who::Key(1), scopes, None);
        let view = View::through(&identity, "orders", rule, filter).expect("not all is seen");
        self.bound(&view, 7).unwrap_or_else(|problem| panic!("{}", problem.message(None)))
    }

    /// The row filter of a node that has seen the log up to a position.
    fn bound(&self, view: &View, position: u64) -> Result<Arc<RowFilter>, Problem> {
        let bind = self.tables.bind(&self.store, view, Position::new(position));
        self.runtime.block_on(bind)
    }

    fn run(&self, sql: &str) {
        let (params, actor) = (Vec::new(), Actor::default());
        let statements = Statements { sql: sql.to_owned(), params, actor, limits: LIMITS };
        self.runtime.block_on(self.store.run_sql(statements)).expect("SQL");
    }

    fn refused(&self, scopes: &Value, filter: &str) -> &'static str {
        let scopes = Scopes::parse(&scopes.to_string(), &(), &TableNames::new(Dialect::Sqlite))
            .expect("scopes");
        let identity = Identity::new(Who::Key(1), scopes, None);
        let view = View::through(&identity, "orders", None, Some(filter)).expect("not all is seen");
        let bound = self.runtime.block_on(self.tables.bind(&self.store, &view, Position::new(7)));
        bound.expect_err("a refusal").code()
    }
}

fn row(id: i64, owner: &str, total: i64, secret: &str) -> Value {
    json!({ "id": id, "owner": owner, "total": total, "secret": secret })
}

fn event(before: Option<&Value>, after: Option<&Value>) -> Event {
    let operation = match (before, after) {
        (None, Some(_)) => Operation::Insert,
        (Some(_), Some(_)) => Operation::Update,
        (Some(_), None) => Operation::Delete,
        (None, None) => Operation::Truncate,
    };
    let image = |row: Option<&Value>| row.map(|row| Bytes::from(row.to_string()));
    let change = RowChange {
        table: "orders".to_owned(),
        operation,
        entity_code: None,
        entity_id: after.or(before).map(|row| row["id"].to_string()),
        before: image(before),
        after: image(after),
        host_id: None,
        user_id: None,
        txid: None,
        tx_last: false,
        created_at_ms: 0,
    };
    let position = Position::new(7);
    Event { position, append_id: position, payload: Bytes::new(), row: Some(Arc::new(change)) }
}

fn seen(row_filter: &RowFilter, event: &Event) -> Option<Value> {
    let seen = row_filter
        .sift(std::slice::from_ref(event), Epoch::FIRST, Effort::Shared)
        .expect("no doubt")
        .pop()?;
    Some(serde_json::from_slice(&seen.payload).expect("JSON"))
}

fn rows() -> impl Strategy<Value = Option<Value>> {
    let owner = prop::sample::select(vec!["ann", "bob"]);
    let one = (1i64..4, owner, 0i64..4, 0..2)
        .prop_map(|(id, owner, total, secret)| row(id, owner, total, &format!("hush-{secret}")));
    prop::option::weighted(0.8, one)
}

/// What of a change is to be seen: rows of ann, of those with a total over 1, without the secret.
fn expected(before: Option<&Value>, after: Option<&Value>, filtered: bool) -> Option<Value> {
    let may = |row: Option<&Value>| row.is_some_and(|row| row["owner"] == "ann");
    let wanted = |row: Option<&Value>| {
        may(row) && (!filtered || row.is_some_and(|row| row["total"].as_i64() > Some(1)))
    };
    let shown = |row: &Value| json!({ "id": row["id"], "total": row["total"] });
    match (wanted(before), wanted(after)) {
        (true, true) => {
            let (before, after) = (shown(before?), shown(after?));
            (before != after)
                .then(|| json!(["UPDATE", after, before, null, after["id"].to_string()]))
        }
        (true, false) => {
            let left = if may(after) { json!(true) } else { Value::Null };
            let before = shown(before?);
            Some(json!(["DELETE", null, before, left, before["id"].to_string()]))
        }
        (false, true) => {
            let after = shown(after?);
            Some(json!(["INSERT", after, null, null, after["id"].to_string()]))
        }
        (false, false) => None,
    }
}

/// Invariant 6, for one event: whatever the row was and is, what is seen is what may be.
#[test]
fn what_is_seen_is_what_may_be() {
    let world = World::new();
    let scopes = json!({
        "tables": ["orders"], "columns": { "orders": ["id", "total"] }, "rows": { "orders": "owner = 'ann'" },
    });
    let all = world.row_filter(&scopes, None, None);
    let some = world.row_filter(&scopes, None, Some("total > 1"));
    proptest!(|(before in rows(), after in rows())| {
        let (before, after) = (before.as_ref(), after.as_ref());
        prop_assume!(before.is_some() || after.is_some());
        let event = event(before, after);
        for (row_filter, filtered) in [(&all, false), (&some, true)] {
            let seen = seen(row_filter, &event);
            let text = seen.as_ref().map(Value::to_string).unwrap_or_default();
            prop_assert!(!text.contains("hush") && !text.contains("ann") && !text.contains("bob"), "{}", text);
            let gist = seen.map(|seen| {
                json!([seen["operation"], seen["data"], seen["before"], seen["left"], seen["entityId"]])
            });
            prop_assert_eq!(gist, expected(before, after, filtered));
        }
    });
}

#[test]
fn a_truncated_table_is_told_to_all() {
    let world = World::new();
    let row_filter =
        world.row_filter(&json!({ "tables": ["orders"] }), Some("owner = 'ann'"), None);
    let seen = seen(&row_filter, &event(None, None)).expect("an event");
    assert_eq!((&seen["operation"], &seen["data"]), (&json!("TRUNCATE"), &Value::Null));
}

#[test]
fn a_key_that_may_not_be_seen_is_not_told() {
    let world = World::new();
    let scopes = json!({ "tables": ["orders"], "columns": { "orders": ["total"] } });
    let row_filter = world.row_filter(&scopes, None, None);
    let seen = seen(&row_filter, &event(None, Some(&row(41, "ann", 5, "x")))).expect("an event");
    assert_eq!(seen["data"], json!({ "total": 5 }));
    assert!(seen.get("entityId").is_none() && !seen.to_string().contains("41"), "{seen}");
}

#[test]
fn tenants_see_their_own_rows() {
    let world = World::new();
    let scopes = json!({ "tables": ["orders"], "host": "ann" });
    let row_filter = world.row_filter(&scopes, None, None);
    let (ann, bob) = (row(1, "ann", 5, "x"), row(1, "bob", 5, "x"));
    let moved = seen(&row_filter, &event(Some(&ann), Some(&bob))).expect("an event");
    assert_eq!((&moved["operation"], &moved["data"]), (&json!("DELETE"), &Value::Null));
    assert!(moved.get("left").is_none(), "{moved}");
    assert_eq!(seen(&row_filter, &event(None, Some(&bob))), None);
    let unowned = json!({ "id": 1, "owner": null, "total": 5, "secret": "x" });
    assert_eq!(seen(&row_filter, &event(None, Some(&unowned))), None);
}

/// An image without a column that a rule asks about is from another time: it is not shown.
#[test]
fn what_a_rule_cannot_decide_is_not_shown() {
    let world = World::new();
    let row_filter =
        world.row_filter(&json!({ "tables": ["orders"] }), Some("owner <> 'bob'"), None);
    let renamed = json!({ "id": 1, "holder": "ann", "total": 5, "secret": "x" });
    assert_eq!(seen(&row_filter, &event(None, Some(&renamed))), None);
    let deleted = event(Some(&json!({ "id": 1 })), None);
    assert_eq!(seen(&row_filter, &deleted), None);
}

#[test]
fn a_hidden_column_is_not_there_for_a_filter() {
    let world = World::new();
    let scopes = json!({ "tables": ["orders"], "columns": { "orders": ["id", "total"] } });
    assert_eq!(world.refused(&scopes, "secret = 'x'"), "column_not_found");
    assert_eq!(world.refused(&scopes, "missing = 'x'"), "column_not_found");
}

#[test]
fn equal_views_share_a_lens() {
    let world = World::new();
    let scopes = json!({ "tables": ["orders"] });
    let (one, other) = (
        world.row_filter(&scopes, None, Some("total > 1")),
        world.row_filter(&scopes, None, Some("total > 1")),
    );
    assert!(Arc::ptr_eq(&one, &other));
    let third = world.row_filter(&scopes, None, Some("total > 2"));
    assert!(!Arc::ptr_eq(&one, &third));
}

/// A view of the rows that satisfy a condition, whoever asks.
fn filtered(filter: &str) -> View {
    let scopes = Scopes::parse(
        &json!({ "tables": ["orders"] }).to_string(),
        &(),
        &TableNames::new(Dialect::Sqlite),
    )
    .expect("scopes");
    let identity = Identity::new(Who::Key(1), scopes, None);
    View::through(&identity, "orders", None, Some(filter)).expect("not all is seen")
}

/// Invariant 3: a table is changed at once, and its stream says so a little later.
#[test]
fn a_row_that_is_newer_than_the_columns_is_seen_with_those_of_its_time() {
    let world = World::new();
    let (view, other) = (filtered("secret = 'x'"), filtered("total > 1"));
    let row_filter = world.bound(&view, 6).expect("a row filter");
    let others = world.bound(&other, 6).expect("a row filter");
    world.run("ALTER TABLE orders RENAME COLUMN secret TO hint");
    let renamed = event(None, Some(&json!({ "id": 1, "owner": "ann", "total": 5, "hint": "x" })));
    assert_eq!(
        row_filter.sift(std::slice::from_ref(&renamed), Epoch::FIRST, Effort::Shared),
        Err(FilterError::Columns)
    );
    assert!(!row_filter.is_current() && others.is_current());
    assert!(world.tables.current(&view).is_none(), "nobody else looks through it");
    let refused = world.bound(&view, 7).expect_err("the column is gone");
    assert_eq!(refused.code(), "column_not_found");
    assert!(!others.is_current(), "the columns are known to be others");
    let row_filter = world.bound(&filtered("hint = 'x'"), 7).expect("a row filter");
    assert_eq!(seen(&row_filter, &renamed).expect("an event")["data"]["hint"], "x");
}

#[test]
fn a_row_is_doubted_once() {
    let world = World::new();
    let (view, other) = (filtered("secret = 'x'"), filtered("total > 1"));
    let others = world.bound(&other, 6).expect("a row filter");
    let odd = event(None, Some(&json!({ "id": 1, "owner": "ann", "total": 5 })));
    let row_filter = world.bound(&view, 6).expect("a row filter");
    assert_eq!(
        row_filter.sift(std::slice::from_ref(&odd), Epoch::FIRST, Effort::Shared),
        Err(FilterError::Columns)
    );
    let row_filter = world.bound(&view, 7).expect("a row filter");
    assert_eq!(seen(&row_filter, &odd), None);
    assert!(row_filter.is_current());
    assert!(others.is_current(), "the columns are what they were");
}

#[test]
fn an_image_of_the_key_alone_says_nothing_of_the_columns() {
    let world = World::new();
    let row_filter = world.bound(&filtered("secret = 'x'"), 6).expect("a row filter");
    let deleted = event(Some(&json!({ "id": 1 })), None);
    assert_eq!(seen(&row_filter, &deleted), None);
    assert!(row_filter.is_current());
}

/// Where others wait a client's pattern is not tried on a long text, and where they do not it is.
#[test]
fn a_long_text_is_looked_at_apart() {
    let world = World::new();
    let row_filter = world.bound(&filtered("secret LIKE '%needle'"), 6).expect("a row filter");
    assert_eq!(row_filter.patterns(), 1);
    let long = "hay".repeat(30_000);
    for (secret, is_seen) in [(format!("{long}needle"), true), (long, false)] {
        let events = [event(None, Some(&row(1, "ann", 5, &secret)))];
        assert_eq!(
            row_filter.sift(&events, Epoch::FIRST, Effort::Shared),
            Err(FilterError::TooLong)
        );
        assert!(row_filter.is_current(), "the columns are not in doubt");
        let seen = row_filter.sift(&events, Epoch::FIRST, Effort::Whole).expect("no doubt");
        assert_eq!(!seen.is_empty(), is_seen);
    }
    assert!(seen(&row_filter, &event(None, Some(&row(1, "ann", 5, "a needle")))).is_some());
    // A rule is the operator's, and is kept on every row.
    let ruled = world.row_filter(&json!({ "tables": ["orders"] }), Some("secret LIKE '%x'"), None);
    assert_eq!(ruled.patterns(), 0);
    let long = event(None, Some(&row(1, "ann", 5, &"x".repeat(100_000))));
    assert!(seen(&ruled, &long).is_some());
}

/// The thread that serves others does not search it: where there is no other thread, the page waits for one.
#[test]
fn long_texts_of_a_page_are_searched_on_another_thread() {
    let world = World::new();
    let row_filter = world.bound(&filtered("secret LIKE '%needle'"), 6).expect("a row filter");
    let nothing = PageLimit { events: 0, bytes: 0 };
    let read = world.store.read("table/orders", Position::START, nothing);
    let Found::Stream(page) = world.runtime.block_on(read).expect("an answer") else {
        panic!("the table has a stream")
    };
    let page_of = |secret: &str| {
        let events = vec![event(None, Some(&row(1, "ann", 5, secret)))];
        Page { events, ..(*page).clone() }
    };
    let long = format!("{}needle", "hay".repeat(30_000));
    let one = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    let one = one.expect("a runtime");
    one.block_on(async {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let (mut short, mut apart) = (page_of("a needle"), page_of(&long));
        let seen = sift_apart(&row_filter, &mut short, Epoch::FIRST).now_or_never();
        assert!(seen.is_some(), "a short one is looked at where it is");
        let mut sifting = std::pin::pin!(sift_apart(&row_filter, &mut apart, Epoch::FIRST));
        assert!(sifting.as_mut().now_or_never().is_none(), "a long one waits for its thread");
        release.send(()).expect("it waits");
        busy.await.expect("no panic").expect("it was released");
        let seen = sifting.await.unwrap_or_else(|problem| panic!("{}", problem.message(None)));
        assert_eq!(seen.expect("no doubt").len(), 1);
    });
}

/// Events from memory are looked at where others wait: past so many bytes the store is read, apart.
#[test]
fn a_long_text_in_memory_is_not_searched_there() {
    let world = World::new();
    let options = Options::new(Access::OpenOnLoopback);
    let hub = crate::testing::hub(options, SharedStore::clone(&world.store));
    let (hub, _unstarted) = world.runtime.block_on(hub);
    let view = filtered("secret LIKE '%needle'");
    let bound = hub.tables.bind(&hub.store, &view, hub.tail.position());
    let _held = world.runtime.block_on(bound).expect("a row filter");
    let seen = |bytes: usize| {
        let text = format!("{}needle", "x".repeat(bytes - "needle".len()));
        let events = vec![event(None, Some(&row(1, "ann", 5, &text)))];
        hub.remembered(Some(&view), events).map(|seen| seen.len())
    };
    assert_eq!(seen(64 << 10), Some(1));
    assert_eq!(seen((64 << 10) + 1), None);
}

/// The next round would be a minute later.
#[test]
fn rules_are_looked_at_as_soon_as_a_table_may_be_another() {
    let world = World::new();
    let mut options = Options::new(Access::OpenOnLoopback);
    let rule = TableRule { read: "nosuch = 1".to_owned(), place: "a file".to_owned() };
    options.tables.insert("items".to_owned(), rule);
    let hub = crate::testing::hub(options, SharedStore::clone(&world.store));
    let (hub, _unstarted) = world.runtime.block_on(hub);
    let stop = CancellationToken::new();
    let keeping = world.runtime.spawn(report::keep(Arc::clone(&hub), stop.clone()));
    let is_said = |what: &str| {
        let said = async {
            while !hub.rules.said.lock().expect("no panic").iter().any(|it| it.contains(what)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = async { tokio::time::timeout(Duration::from_secs(30), said).await };
        world.runtime.block_on(in_time).unwrap_or_else(|_| panic!("it is not said: {what}"));
    };
    is_said("no watched table is called \"items\"");
    world.run("CREATE TABLE items (id INTEGER PRIMARY KEY)");
    let watch = NewWatch { table: "items".to_owned(), ..NewWatch::default() };
    world.runtime.block_on(world.store.watch(watch)).expect("a watch");
    hub.access.names.doubt();
    is_said("the rule for \"items\" cannot be kept");
    stop.cancel();
    world.runtime.block_on(keeping).expect("it stops");
}
