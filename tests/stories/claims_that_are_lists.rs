//! A token says which rooms its user is in, and rules and conditions look through them: on both stores, in live
//! queries, in subscriptions to tables and in what is read of their streams alike.

use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Issuer, Launch, QueryTab, Server, Store, WebSocket, on_both_stores};

on_both_stores!(
    a_rule_shows_the_rows_of_all_rooms_of_a_claim,
    a_condition_of_a_client_looks_through_its_claims,
);

const KEY: &str = "story-rooms-77c1e0a94b5f2d38";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// Tables, and the rules for them.
const RULES: [(&str, &str); 3] = [
    ("messages", "room = ANY(auth.claim('rooms'))"),
    ("letters", "room IN (auth.claim('rooms'))"),
    ("notes", "team >= 0"),
];

async fn start(store: &Store) -> Server {
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let rule = |(table, rule): (&str, &str)| format!("[tables.{table}]\nread = \"{rule}\"\n");
    let server = launch.configured(&RULES.map(rule).concat()).start().await;
    let http = server.http();
    for (table, _) in RULES {
        let columns = "id INTEGER PRIMARY KEY, room TEXT, team INTEGER";
        run(http, &format!("CREATE TABLE {table} ({columns})")).await;
        watch(http, &json!({ "table": table })).await;
        let rows = "(1, 'a', 1), (2, 'it''s', 2), (3, 'c', 3), (4, NULL, 4)";
        run(http, &format!("INSERT INTO {table} VALUES {rows}")).await;
    }
    server
}

fn user(http: &Http, mut claims: Value) -> Http {
    claims["sub"] = json!("ann");
    claims["tidewire"] = json!({ "tables": ["*"] });
    http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

fn ids(ids: &[i64]) -> Vec<Value> {
    ids.iter().map(|id| json!({ "id": id })).collect()
}

/// The rows that the stream of a table has told of, as the caller sees them.
async fn told(http: &Http, table: &str) -> Vec<i64> {
    let answer = http.get(&format!("/v1/stream/table/{table}?offset=-1")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = answer.json();
    let events = events.as_array().expect("events").iter();
    events.map(|event| event["data"]["id"].as_i64().expect("an id")).collect()
}

/// Follows a table, from an offset or from now on.
async fn subscribed(http: &Http, subscription: &Value) -> WebSocket {
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    socket.say(&json!({ "type": "subscribe", "subscriptions": [subscription] })).await;
    socket.hears("subscription_created").await;
    socket
}

/// I6: a row that leaves one of the rooms leaves the result, and one that comes into one enters it.
async fn a_rule_shows_the_rows_of_all_rooms_of_a_claim(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    for table in ["messages", "letters"] {
        let all = json!({ "query_id": "q", "sql": format!("SELECT id FROM {table}") });
        for (rooms, seen) in [
            (json!(["a", "it's"]), &[1, 2][..]),
            (json!(["nowhere", null]), &[]),
            (json!([]), &[]),
            (json!(null), &[]),
            (json!("a"), &[1]),
        ] {
            let ann = user(http, json!({ "rooms": rooms }));
            let mut tab = QueryTab::open(&ann).await;
            tab.follow(&all).await;
            tab.until("q", &ids(seen)).await;
            assert_eq!(told(&ann, table).await, seen, "{table}, {rooms}");
        }
        let ann = user(http, json!({ "rooms": ["a", "it's"] }));
        let mut tab = QueryTab::open(&ann).await;
        tab.follow(&all).await;
        let mut socket = subscribed(&ann, &json!({ "query_id": "t", "table": table })).await;
        run(http, &format!("INSERT INTO {table} VALUES (5, 'c', 5), (6, 'a', 6)")).await;
        run(http, &format!("UPDATE {table} SET room = 'c' WHERE id = 2")).await;
        tab.until("q", &ids(&[1, 6])).await;
        let entered = socket.hears("cdc_event").await;
        assert_eq!((&entered["operation"], &entered["data"]["id"]), (&json!("INSERT"), &json!(6)));
        let left = socket.hears("cdc_event").await;
        assert_eq!(left["operation"], "DELETE", "{left}");
    }
}

async fn a_condition_of_a_client_looks_through_its_claims(store: Store) {
    let server = start(&store).await;
    let ann = user(server.http(), json!({ "rooms": ["a", "c"], "teams": [2, 3], "none": [] }));
    let mut tab = QueryTab::open(&ann).await;
    for (query_id, condition, seen) in [
        ("any", "room = ANY(auth.claim('rooms'))", &[1, 3][..]),
        ("in", "room IN (auth.claim('rooms'), 'it''s')", &[1, 2, 3]),
        ("numbers", "team = ANY(auth.claim('teams'))", &[2, 3]),
        ("not in", "room NOT IN (auth.claim('rooms'))", &[2]),
        ("all", "room <> ALL(auth.claim('rooms'))", &[2]),
        ("empty", "room IN (auth.claim('none'))", &[]),
        ("not empty", "id NOT IN (auth.claim('none'))", &[1, 2, 3, 4]),
        // The database runs this one again.
        ("again", "lower(room) = ANY(auth.claim('rooms'))", &[1, 3]),
    ] {
        let sql = format!("SELECT id FROM notes WHERE {condition}");
        tab.follow(&json!({ "query_id": query_id, "sql": sql })).await;
        tab.until(query_id, &ids(seen)).await;
        if query_id == "again" {
            continue;
        }
        let table =
            json!({ "query_id": "t", "table": "notes", "where": condition, "offset": "-1" });
        let mut socket = subscribed(&ann, &table).await;
        for id in seen {
            assert_eq!(socket.hears("cdc_event").await["data"]["id"], json!(id), "{condition}");
        }
    }
    run(server.http(), "UPDATE notes SET room = 'a' WHERE id = 2").await;
    tab.until("any", &ids(&[1, 2, 3])).await;
    tab.until("again", &ids(&[1, 2, 3])).await;
    tab.until("not in", &[]).await;
}
