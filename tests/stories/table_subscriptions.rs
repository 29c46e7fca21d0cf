//! Someone subscribes to a table, to all rows or to some, and gets what they may see of it, whichever
//! way they read it, whatever becomes of the rows and of the table.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_client::{LiveOptions, ReadFrom, Update};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Http, Issuer, Launch, Server, ServerSent, Store, StreamSource, Tab, WebSocket, on_both_stores,
};

on_both_stores!(
    rows_that_satisfy_a_condition_are_pushed,
    a_subscription_goes_on_from_its_offset_under_concurrent_writers,
    scopes_hold_for_every_way_of_reading,
    a_rule_of_the_configuration_holds_for_everyone_but_administrators,
    tenants_see_their_own_rows,
    one_of_several_subscriptions_fails_alone,
    a_condition_outlives_columns_or_ends_with_a_reason,
    a_crowd_of_views_is_served_in_slices_and_each_is_kept,
    a_slow_client_is_told_of_a_gap_and_gets_what_was_in_it,
    the_client_follows_a_table_across_a_restart,
);

const KEY: &str = "story-83f1c5a2e60b7d94";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

async fn run(http: &Http, text: &str) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    answer.json()
}

/// A table of orders, watched.
async fn orders(http: &Http) {
    let create = "CREATE TABLE orders (id INTEGER PRIMARY KEY, owner TEXT, status TEXT, \
                  total INTEGER, secret TEXT)";
    run(http, create).await;
    let watch = json!({ "table": "orders", "entity": "order", "host_column": "owner" });
    let answer = http.json(Method::POST, "/v1/watch", &watch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

async fn connect(http: &Http) -> WebSocket {
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    socket
}

/// What a change says, less what differs from run to run.
fn gist(event: &Value) -> Value {
    json!([event["operation"], event["data"], event["before"], event["entityId"], event["left"]])
}

/// What a shown order has in it.
fn order(id: i64, status: &str, total: i64) -> Value {
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

/// What a key may see that has some columns and some rows.
fn narrow() -> Value {
    json!({
        "tables": ["orders"], "streams": ["**"], "can": ["read", "append"],
        "columns": { "orders": ["id", "status"] }, "rows": { "orders": "total < 100" },
    })
}

/// Rows that come and go, out of what the key may see and into it. What it may see is in `SEEN`.
const WORK: &str = "INSERT INTO orders VALUES (1, 'o-ann', 'open', 1, 'hush-1'), (2, 'o-ann', 'rich-2', 200, 'hush-2'); \
    UPDATE orders SET secret = 'hush-3' WHERE id = 1; \
    UPDATE orders SET status = 'sent' WHERE id = 1; \
    UPDATE orders SET total = 300, status = 'rich-1' WHERE id = 1; \
    UPDATE orders SET total = 2, status = 'poor-2' WHERE id = 2; \
    DELETE FROM orders WHERE id = 1; \
    DELETE FROM orders WHERE id = 2";

fn seen_by_narrow() -> Vec<Value> {
    let shown = |id: i64, status: &str| json!({ "id": id, "status": status });
    vec![
        json!(["INSERT", shown(1, "open"), null, "1", null]),
        json!(["UPDATE", shown(1, "sent"), shown(1, "open"), "1", null]),
        json!(["DELETE", null, shown(1, "sent"), "1", null]),
        json!(["INSERT", shown(2, "poor-2"), null, "2", null]),
        json!(["DELETE", null, shown(2, "poor-2"), "2", null]),
    ]
}

/// I6: columns and rows that a key may not see do not reach it, whichever way it reads.
async fn scopes_hold_for_every_way_of_reading(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    let http = &admin.holder(&admin.make_key(&narrow()).await);
    let mut socket = connect(http).await;
    socket.subscribe(&json!({ "query_id": "stream", "stream": "table/orders" })).await;
    let mut flat = connect(http).await;
    flat.subscribe(&json!({ "query_id": "table", "table": "orders" })).await;
    let tab = Tab::open(http).await;
    tab.subscribe("table/orders").await;
    let mut page = ServerSent::open(http, &tab.session, None).await;
    page.hears("subscription_created").await;
    let other = Tab::open(http).await;
    other.subscribe("table/orders").await;
    let mut of_session = WebSocket::connect(http, &other.socket()).await;
    of_session.hears("hello").await;
    of_session.hears("subscription_created").await;
    let mut sse = StreamSource::open(http, "table/orders", "-1").await;
    let poll = http.get("/v1/stream/table/orders?offset=now&live=long-poll");
    let (polled, _) = tokio::join!(poll, run(admin, WORK));

    let expected = seen_by_narrow();
    let mut texts = vec![polled.text()];
    let (mut by_socket, mut by_table, mut by_page, mut by_session) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in &expected {
        let event = socket.hears("event").await;
        by_socket.push(gist(&event["payload"]));
        texts.push(event.to_string());
        let event = flat.hears("cdc_event").await;
        by_table.push(gist(&event));
        texts.push(event.to_string());
        let event = page.hears("event").await.message;
        by_page.push(gist(&event["payload"]));
        texts.push(event.to_string());
        let event = of_session.hears("event").await;
        by_session.push(gist(&event["payload"]));
        texts.push(event.to_string());
    }
    let mut by_sse = Vec::new();
    while by_sse.len() < expected.len() {
        let batch = within_patience("a batch", sse.next()).await.expect("a response that goes on");
        texts.extend(batch.messages.iter().map(Value::to_string));
        by_sse.extend(batch.messages.iter().map(gist));
    }
    let gists = |events: &Value| -> Vec<Value> {
        events.as_array().expect("events").iter().map(gist).collect()
    };
    let polled = gists(&polled.json());
    assert_eq!(polled, expected[..polled.len()]);
    let read = http.get("/v1/stream/table/orders").await;
    let events = http.get("/v1/stream/table/orders?format=events").await;
    let payloads: Value =
        events.json().as_array().expect("events").iter().map(|e| e["payload"].clone()).collect();
    texts.extend([read.text(), events.text()]);
    // A subscription that begins in the past is told the same.
    let mut late = connect(http).await;
    late.subscribe(&json!({ "query_id": "late", "table": "orders", "offset": "-1" })).await;
    let mut replayed = Vec::new();
    for _ in &expected {
        let event = late.hears("cdc_event").await;
        replayed.push(gist(&event));
        texts.push(event.to_string());
    }
    for (way, seen) in [
        ("a subscription to the stream", by_socket),
        ("a subscription to the table", by_table),
        ("a session's events", by_page),
        ("a session's WebSocket", by_session),
        ("SSE", by_sse),
        ("a read", gists(&read.json())),
        ("a read with offsets", gists(&payloads)),
        ("a replay", replayed),
    ] {
        assert_eq!(seen, expected, "{way}");
    }
    for hidden in ["hush", "rich", "o-ann", "200", "300", "secret", "owner"] {
        for text in &texts {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }
    // A fork would be a copy of all of it.
    let fork =
        http.request(Method::PUT, "/v1/stream/copy").header("stream-forked-from", "table/orders");
    tidewire_stories::Answer::of(fork).await.problem(403, "rule_not_supported");
    // What may not be seen may not be asked about either.
    http.get("/v1/stream/table/orders?where=secret+IS+NULL").await.problem(400, "column_not_found");
    let all = admin.get("/v1/stream/table/orders").await.json();
    assert_eq!(all.as_array().expect("events").len(), 8, "an administrator sees everything");
}

async fn guarded(store: &Store, rule: &str) -> Server {
    let rule = format!("[tables.orders]\nread = \"{rule}\"\n");
    Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET).configured(&rule).start().await
}

fn user(admin: &Http, name: &str) -> Http {
    let claims = json!({ "sub": name, "tidewire": { "tables": ["orders"] } });
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// I6: also of a row that changes hands.
async fn a_rule_of_the_configuration_holds_for_everyone_but_administrators(store: Store) {
    let server = guarded(&store, "owner = auth.user_id()").await;
    let admin = server.http();
    orders(admin).await;
    let mut sockets = BTreeMap::new();
    for name in ["u-ann", "u-bob", "u-eve"] {
        let mut socket = connect(&user(admin, name)).await;
        socket.subscribe(&json!({ "query_id": "q", "table": "orders" })).await;
        sockets.insert(name, socket);
    }
    let mut whole = connect(admin).await;
    whole.subscribe(&json!({ "query_id": "q", "table": "orders" })).await;
    run(admin, "INSERT INTO orders VALUES (1, 'u-ann', 'x', 1, 'of-u-ann')").await;
    // The row changes hands, and its key too: ann must not learn what it is now.
    run(admin, "UPDATE orders SET id = 77, owner = 'u-bob', secret = 'of-u-bob' WHERE id = 1")
        .await;
    run(admin, "DELETE FROM orders").await;
    run(admin, "INSERT INTO orders VALUES (3, 'u-eve', 'x', 3, 'of-u-eve')").await;
    let mut told: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (name, count) in [("u-ann", 2), ("u-bob", 2), ("u-eve", 1)] {
        let socket = sockets.get_mut(name).expect("a socket");
        for _ in 0..count {
            told.entry(name).or_default().push(socket.hears("cdc_event").await);
        }
    }
    let words = |name: &str| -> Vec<(&Value, &Value)> {
        told[name].iter().map(|event| (&event["operation"], &event["entityId"])).collect()
    };
    assert_eq!(words("u-ann"), [(&json!("INSERT"), &json!("1")), (&json!("DELETE"), &json!("1"))]);
    assert_eq!(
        words("u-bob"),
        [(&json!("INSERT"), &json!("77")), (&json!("DELETE"), &json!("77"))]
    );
    assert_eq!(words("u-eve"), [(&json!("INSERT"), &json!("3"))]);
    for (name, events) in &told {
        let text = json!(events).to_string();
        for other in ["u-ann", "u-bob", "u-eve"].into_iter().filter(|other| other != name) {
            assert!(!text.contains(other), "{other} in what {name} got: {text}");
        }
        assert!(!text.contains("left"), "what may not be seen did not leave: {text}");
    }
    for word in ["INSERT", "UPDATE", "DELETE", "INSERT"] {
        assert_eq!(whole.hears("cdc_event").await["operation"], word);
    }
}

/// I6: rows of a table with a column of tenants.
async fn tenants_see_their_own_rows(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let admin = server.http();
    orders(admin).await;
    run(admin, "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)").await;
    let watch = json!({ "table": "notes" });
    assert_eq!(admin.json(Method::POST, "/v1/watch", &watch).await.status, 200);
    let work = "INSERT INTO orders VALUES (1, 'acme', 'x', 1, NULL), (2, 'other', 'x', 2, NULL); \
                UPDATE orders SET owner = 'other' WHERE id = 1";
    let done = run(admin, work).await;
    let key = json!({ "tables": ["orders", "notes"], "host": "acme" });
    let http = admin.holder(&admin.make_key(&key).await);
    let offset = done["offset"].as_str().expect("an offset");
    let read = http.get(&format!("/v1/stream/table/orders?min_offset={offset}")).await;
    assert!(!read.text().contains("other"), "{}", read.text());
    let words: Vec<Value> =
        read.json().as_array().expect("events").iter().map(|e| e["operation"].clone()).collect();
    assert_eq!(words, ["INSERT", "DELETE"]);
    http.get("/v1/stream/table/notes").await.problem(404, "stream_not_found");
    http.get("/v1/stream/table/nothing").await.problem(403, "forbidden");
    // Watched without that column it is seen no more, though it was just now.
    let again = admin.json(Method::POST, "/v1/watch", &json!({ "table": "orders" })).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let done = run(admin, "INSERT INTO orders VALUES (3, 'acme', 'x', 3, NULL)").await;
    let offset = done["offset"].as_str().expect("an offset");
    let read = http.get(&format!("/v1/stream/table/orders?min_offset={offset}")).await;
    read.problem(404, "stream_not_found");
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
