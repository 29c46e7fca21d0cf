//! Someone subscribes to a table, to all rows or to some, and gets what they may see of it, whichever
//! way they read it, whatever becomes of the rows and of the table.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_client::{LiveOptions, ReadFrom, Update};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Http, Launch, ServerSent, Store, StreamSource, Tab, WebSocket, on_both_stores,
};

on_both_stores!(
    rows_that_satisfy_a_condition_are_pushed,
    a_subscription_goes_on_from_its_offset_under_concurrent_writers,
    one_of_several_subscriptions_fails_alone,
    a_condition_outlives_columns_or_ends_with_a_reason,
    a_crowd_of_views_is_served_in_slices_and_each_is_kept,
    a_slow_client_is_told_of_a_gap_and_gets_what_was_in_it,
    the_client_follows_a_table_across_a_restart,
);

const KEY: &str = "story-83f1c5a2e60b7d94";

pub(crate) async fn run(http: &Http, text: &str) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    answer.json()
}

/// A table of orders, watched.
pub(crate) async fn orders(http: &Http) {
    let create = "CREATE TABLE orders (id INTEGER PRIMARY KEY, owner TEXT, status TEXT, \
                  total INTEGER, secret TEXT)";
    run(http, create).await;
    let watch = json!({ "table": "orders", "entity": "order", "host_column": "owner" });
    let answer = http.json(Method::POST, "/v1/watch", &watch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

pub(crate) async fn connect(http: &Http) -> WebSocket {
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    socket
}

/// What a change says, less what differs from run to run.
pub(crate) fn gist(event: &Value) -> Value {
    json!([event["operation"], event["data"], event["before"], event["entityId"], event["left"]])
}

/// What a shown order has in it.
pub(crate) fn order(id: i64, status: &str, total: i64) -> Value {
    json!({ "id": id, "owner": "ann", "status": status, "total": total, "secret": null })
}

async fn rows_that_satisfy_a_condition_are_pushed(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    run(http, "INSERT INTO orders VALUES (1, 'ann', 'open', 1, NULL)").await;
    let mut socket = connect(http).await;
    let open = json!({ "query_id": "open", "table": "orders", "where": "status = 'open'", "offset": "-1" });
    let created = socket.subscribe(&open).await;
    assert_eq!(created["streamId"], "table/orders", "{created}");
    let replayed = socket.hears("cdc_event").await;
    let members: Vec<&str> =
        replayed.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = vec![
        "type",
        "query_id",
        "eventId",
        "tableName",
        "operation",
        "data",
        "entityCode",
        "entityId",
        "timestamp",
        "version",
        "offset",
        "txid",
        "txLast",
    ];
    let mut found = members.clone();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{replayed}");
    assert_eq!(gist(&replayed), json!(["INSERT", order(1, "open", 1), null, "1", null]));
    assert_eq!((&replayed["query_id"], &replayed["tableName"]), (&json!("open"), &json!("orders")));
    for (statement, seen) in [
        ("INSERT INTO orders VALUES (2, 'ann', 'closed', 2, NULL)", None),
        (
            "UPDATE orders SET total = 5 WHERE id = 1",
            Some(json!(["UPDATE", order(1, "open", 5), order(1, "open", 1), "1", null])),
        ),
        ("UPDATE orders SET total = 6 WHERE id = 2", None),
        (
            "UPDATE orders SET status = 'open' WHERE id = 2",
            Some(json!(["INSERT", order(2, "open", 6), null, "2", null])),
        ),
        (
            "UPDATE orders SET status = NULL WHERE id = 1",
            Some(json!(["DELETE", null, order(1, "open", 5), "1", true])),
        ),
        ("DELETE FROM orders WHERE id = 1", None),
        (
            "DELETE FROM orders WHERE id = 2",
            Some(json!(["DELETE", null, order(2, "open", 6), "2", null])),
        ),
    ] {
        run(http, statement).await;
        if let Some(seen) = seen {
            assert_eq!(gist(&socket.hears("cdc_event").await), seen, "{statement}");
        }
    }
    // The same by reading, with the same condition.
    let read = http.get("/v1/stream/table/orders?where=status+%3D+%27open%27").await.json();
    let words: Vec<&Value> =
        read.as_array().expect("events").iter().map(|event| &event["operation"]).collect();
    assert_eq!(words, ["INSERT", "UPDATE", "INSERT", "DELETE", "DELETE"]);
    http.create("doc").await;
    http.get("/v1/stream/doc?where=x").await.problem(400, "where_without_table");
}

/// I3: whoever names the last offset they got misses nothing and gets nothing twice.
async fn a_subscription_goes_on_from_its_offset_under_concurrent_writers(store: Store) {
    const WRITERS: i64 = 4;
    const ROUNDS: i64 = 25;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    orders(http).await;
    let writer = async |number: i64| {
        for round in 0..ROUNDS {
            let id = number * 1_000 + round;
            let insert = format!("INSERT INTO orders VALUES ({id}, 'ann', 'open', {round}, NULL)");
            run(http, &insert).await;
            let update = format!("UPDATE orders SET total = total + 10 WHERE id = {id}");
            run(http, &update).await;
        }
    };
    let reader = async {
        let (mut got, mut last) = (Vec::new(), "-1".to_owned());
        // Of each order the insertion, if its total is over 4, and then or else the update.
        let expected = usize::try_from(WRITERS * (ROUNDS + ROUNDS - 5)).expect("few");
        while got.len() < expected {
            let mut socket = connect(http).await;
            let wish =
                json!({ "query_id": "q", "table": "orders", "where": "total > 4", "offset": last });
            socket.subscribe(&wish).await;
            // Some, and then the connection is lost.
            for _ in 0..7.min(expected - got.len()) {
                let event = socket.hears("cdc_event").await;
                last = event["offset"].as_str().expect("an offset").to_owned();
                got.push(event);
            }
        }
        got
    };
    let (got, ..) = tokio::join!(reader, writer(0), writer(1), writer(2), writer(3));
    let all = http.get("/v1/stream/table/orders?where=total+%3E+4").await.json();
    let offsets = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|event| event["offset"].clone()).collect()
    };
    assert_eq!(offsets(&got), offsets(all.as_array().expect("events")));
}

async fn one_of_several_subscriptions_fails_alone(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    run(admin, "CREATE TABLE quiet (id INTEGER PRIMARY KEY)").await;
    let scopes = json!({ "tables": ["orders", "quiet", "nothing"] });
    let http = admin.holder(&admin.make_key(&scopes).await);
    let mut socket = connect(&http).await;
    let wishes = json!([
        { "query_id": "unknown", "table": "nothing" },
        { "query_id": "unwatched", "table": "quiet" },
        { "query_id": "forbidden", "table": "customers" },
        { "query_id": "syntax", "table": "orders", "where": "total >" },
        { "query_id": "column", "table": "orders", "where": "colour = 'red'" },
        { "query_id": "both", "table": "orders", "stream": "doc" },
        { "query_id": "stream", "stream": "table/orders", "where": "total > 1" },
        { "query_id": "good", "table": "orders", "where": "total > 1" },
    ]);
    socket.say(&json!({ "type": "subscribe", "subscriptions": wishes })).await;
    let (mut codes, mut created) = (BTreeMap::new(), false);
    while codes.len() < 7 || !created {
        let message = socket.next().await;
        match message["type"].as_str() {
            Some("error") => {
                let query_id = message["query_id"].as_str().expect("a name").to_owned();
                codes.insert(query_id, message["code"].as_str().expect("a code").to_owned());
            }
            Some("subscription_created") => {
                assert_eq!(message["subscriptions"][0]["query_id"], "good", "{message}");
                created = true;
            }
            _ => {}
        }
    }
    let expected = [
        ("both", "unsupported_subscription"),
        ("column", "column_not_found"),
        ("forbidden", "forbidden"),
        ("stream", "where_without_table"),
        ("syntax", "predicate_syntax"),
        ("unknown", "table_not_found"),
        ("unwatched", "table_not_watched"),
    ];
    let expected: BTreeMap<String, String> =
        expected.map(|(name, code)| (name.to_owned(), code.to_owned())).into();
    assert_eq!(codes, expected);
    run(admin, "INSERT INTO orders VALUES (1, 'ann', 'x', 5, NULL)").await;
    assert_eq!(socket.hears("cdc_event").await["query_id"], "good");
}

async fn a_condition_outlives_columns_or_ends_with_a_reason(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    let http = admin.holder(
        &admin
            .make_key(&json!({
                "tables": ["orders"], "columns": { "orders": ["id", "total", "status"] },
            }))
            .await,
    );
    let mut socket = connect(&http).await;
    socket.subscribe(&json!({ "query_id": "q", "table": "orders", "where": "total > 1" })).await;
    run(admin, "ALTER TABLE orders ADD COLUMN hush TEXT").await;
    let changed = socket.hears("schema_changed").await;
    assert!(!changed.to_string().contains("hush"), "the column is not to be seen: {changed}");
    run(admin, "INSERT INTO orders VALUES (1, 'ann', 'x', 5, NULL, 'hush-1')").await;
    let event = socket.hears("cdc_event").await;
    assert_eq!(event["data"], json!({ "id": 1, "total": 5, "status": "x" }), "{event}");
    run(admin, "ALTER TABLE orders RENAME COLUMN total TO amount").await;
    socket.hears("schema_changed").await;
    let problem = socket.hears("error").await;
    assert_eq!((&problem["query_id"], &problem["code"]), (&json!("q"), &json!("column_not_found")));
    let ended = socket.hears("subscription_ended").await;
    assert_eq!((&ended["query_id"], &ended["reason"]), (&json!("q"), &json!("columns_changed")));
}

/// I3: rows that have a column's other type already, before its stream says that it is another.
/// (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_seen_before_it_is_told_that_a_column_has_another_type() {
    let store = Store::postgres().await;
    // Nobody looks for changes of tables while the story lasts.
    let launch = Launch::dev(&store).set("TIDEWIRE_SEQUENCER_CHECK_MS", "60000");
    let server = launch.start().await;
    let http = server.http();
    let mode = http.json(Method::POST, "/v1/capture", &json!({ "mode": "outbox" })).await;
    assert_eq!(mode.status, 200, "{}", mode.text());
    orders(http).await;
    let mut socket = connect(http).await;
    socket.subscribe(&json!({ "query_id": "q", "table": "orders", "where": "total > 5" })).await;
    store.tamper("INSERT INTO orders VALUES (1, 'ann', 'x', 10, NULL)").await;
    assert_eq!(socket.hears("cdc_event").await["entityId"], "1");
    store.tamper("ALTER TABLE orders ALTER COLUMN total TYPE numeric(12, 2)").await;
    for id in ["2", "3"] {
        let insert = format!("INSERT INTO orders VALUES ({id}, 'ann', 'x', 10.50, NULL)");
        store.tamper(&insert).await;
        let event = socket.hears("cdc_event").await;
        assert_eq!(event["entityId"], id, "{event}");
    }
}

/// I3, I6: also where an audience is so large that it is served in slices, each sees their own part, whole
/// and in order.
async fn a_crowd_of_views_is_served_in_slices_and_each_is_kept(store: Store) {
    const PARTS: usize = 5;
    const ROWS: usize = 200;
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_LIVE_FAN_OUT_THRESHOLD", "2");
    let server = launch.start().await;
    let admin = server.http();
    orders(admin).await;
    let condition = |part: usize| format!("total = {part}");
    let (mut sockets, mut pages, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    for part in (0..PARTS).chain(0..PARTS) {
        let mut socket = connect(admin).await;
        let wish = json!({ "query_id": "q", "table": "orders", "where": condition(part) });
        socket.subscribe(&wish).await;
        sockets.push((part, socket));
    }
    for part in 0..PARTS {
        let scopes = json!({ "tables": ["orders"], "rows": { "orders": condition(part) } });
        let http = admin.holder(&admin.make_key(&scopes).await);
        let tab = Tab::open(&http).await;
        tab.subscribe("table/orders").await;
        let mut page = ServerSent::open(&http, &tab.session, None).await;
        page.hears("subscription_created").await;
        pages.push((part, page));
        readers.push((part, StreamSource::open(&http, "table/orders", "-1").await));
    }
    let writer = async |first: usize| {
        for id in (first..ROWS).step_by(2) {
            let insert =
                format!("INSERT INTO orders VALUES ({id}, 'ann', 'x', {}, NULL)", id % PARTS);
            run(admin, &insert).await;
        }
    };
    tokio::join!(writer(0), writer(1));
    let all = admin.get("/v1/stream/table/orders").await.json();
    let of_part = |part: usize| -> Vec<Value> {
        let events = all.as_array().expect("events").iter();
        let own = events.filter(|event| event["data"]["total"] == part);
        own.map(|event| event["offset"].clone()).collect()
    };
    for (part, socket) in &mut sockets {
        for offset in of_part(*part) {
            assert_eq!(socket.hears("cdc_event").await["offset"], offset, "part {part}");
        }
    }
    for (part, page) in &mut pages {
        for offset in of_part(*part) {
            assert_eq!(page.hears("event").await.message["offset"], offset, "part {part}");
        }
    }
    for (part, reader) in &mut readers {
        let mut got = Vec::new();
        let expected = of_part(*part);
        while got.len() < expected.len() {
            let batch = within_patience("a batch", reader.next()).await.expect("more");
            got.extend(batch.messages.iter().map(|event| event["offset"].clone()));
        }
        assert_eq!(got, expected, "part {part}");
    }
}

/// I3, I5: what a slow client has no room for is a gap, and asking from its beginning gives all of it.
async fn a_slow_client_is_told_of_a_gap_and_gets_what_was_in_it(store: Store) {
    const ROWS: usize = 500;
    let server = Launch::dev(&store).set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "20").start().await;
    let http = server.http();
    orders(http).await;
    let mut socket = WebSocket::connect_narrow(http, "/v1/ws").await;
    socket.hears("hello").await;
    let wish = json!({ "query_id": "q", "table": "orders", "where": "status = 'open'" });
    socket.subscribe(&wish).await;
    let filler = "x".repeat(30_000);
    for first in (0..ROWS).step_by(20) {
        let row = |id: usize| {
            let status = if id.is_multiple_of(2) { "open" } else { "closed" };
            format!("({id}, '{filler}', '{status}', 1, NULL)")
        };
        let rows: Vec<String> = (first..first + 20).map(row).collect();
        run(http, &format!("INSERT INTO orders VALUES {}", rows.join(", "))).await;
    }
    let (mut got, mut gaps) = (Vec::new(), 0);
    while got.len() < ROWS / 2 {
        let message = socket.next().await;
        match message["type"].as_str() {
            Some("cdc_event") => got.push(message["data"]["id"].as_u64().expect("an id")),
            Some("gap") => {
                gaps += 1;
                assert_eq!(message["query_id"], "q", "{message}");
                let mut again = wish.clone();
                again["offset"] = message["from"].clone();
                socket.subscribe(&again).await;
            }
            _ => {}
        }
    }
    assert!(gaps > 0, "the socket took everything: nothing was tried");
    let expected: Vec<u64> = (0..ROWS as u64).step_by(2).collect();
    assert_eq!(got, expected);
}

/// The Rust client goes on where it was, over another server.
async fn the_client_follows_a_table_across_a_restart(store: Store) {
    let launch = Launch::dev(&store);
    let server = launch.start().await;
    let http = server.http().clone();
    orders(&http).await;
    let mut live = http.client().live(LiveOptions::default()).expect("a connection");
    live.subscribe_table("q", "orders", Some("total > 1"), ReadFrom::Start).expect("a table");
    let large = "y".repeat(100_000);
    run(&http, &format!("INSERT INTO orders VALUES (1, '{large}', 'x', 5, NULL)")).await;
    run(&http, "INSERT INTO orders VALUES (2, 'ann', 'x', 1, NULL), (3, 'ann', 'x', 6, NULL)")
        .await;
    let next = async |live: &mut tidewire_client::Live| loop {
        match live.next().await.expect("an update").expect("it goes on") {
            Update::Event(event) => {
                return event.json::<Value>().expect("JSON")["data"]["id"].clone();
            }
            Update::Problem { problem, .. } => panic!("{problem}"),
            _ => {}
        }
    };
    // The first is too large to be pushed, and is read over HTTP with the same condition.
    assert_eq!(within_patience("a large row", next(&mut live)).await, 1);
    assert_eq!(within_patience("a row", next(&mut live)).await, 3);
    server.stop().await;
    let _server = launch.start().await;
    run(&http, "UPDATE orders SET total = 7 WHERE id = 2").await;
    assert_eq!(within_patience("a row of the next server", next(&mut live)).await, 2);
}
