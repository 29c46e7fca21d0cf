//! A fork of a table's stream shows rows under a name that no rule is for. It is read by those who see all
//! of the table, and by nobody else: whatever was said of the table since it was forked.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{
    Answer, Http, Issuer, Launch, Server, Store, Tab, WebSocket, on_both_stores,
};

use crate::rules_fail_closed::{all_are, doors_of_stream};

on_both_stores!(a_fork_is_read_with_the_rules_of_its_table);

const KEY: &str = "story-c49e07d1a85b36f2";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// A table with two rows, watched.
async fn table(admin: &Http, name: &str, host_column: Option<&str>) {
    run(admin, &format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, total INTEGER, host TEXT)"))
        .await;
    watch(admin, &json!({ "table": name, "host_column": host_column })).await;
    run(admin, &format!("INSERT INTO {name} VALUES (1, 5, 'acme'), (2, 500, 'evil')")).await;
}

async fn fork(http: &Http, source: &str, name: &str) {
    let request = http.request(Method::PUT, &format!("/v1/stream/{name}"));
    let answer = Answer::of(request.header("stream-forked-from", source)).await;
    assert_eq!(answer.status, 201, "{name}, a fork of {source}: {}", answer.text());
}

/// Someone who reads forks, with more scopes.
async fn holder(admin: &Http, more: Value) -> Http {
    let mut scopes =
        json!({ "tables": [], "streams": ["copy/**", "copy-*"], "can": ["read", "append"] });
    let Value::Object(more) = more else { panic!("members: {more}") };
    scopes.as_object_mut().expect("an object").extend(more);
    admin.holder(&admin.make_key(&scopes).await)
}

fn user(admin: &Http, rows: Option<&str>) -> Http {
    let mut scopes = json!({ "streams": ["copy/**", "copy-*"], "can": ["read", "append"] });
    if let Some(rows) = rows {
        scopes["rows"] = json!({ "orders": rows, "bins": rows });
    }
    let claims = json!({ "sub": "ann", "tidewire": scopes });
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// How many events someone reads of a stream.
async fn events(http: &Http, stream: &str) -> usize {
    let answer = http.get(&format!("/v1/stream/{stream}")).await;
    assert_eq!(answer.status, 200, "{stream}: {}", answer.text());
    answer.json().as_array().expect("events").len()
}

/// I6: what a rule hides is hidden in forks, in forks of those, and in forks that are older than the rule.
async fn a_fork_is_read_with_the_rules_of_its_table(store: Store) {
    let launch = || Launch::serve(&store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let mut server = launch().start().await;
    let forks = ["copy/orders", "copy/again", "copy/bins"];
    make(&server).await;

    // Nothing is hidden from keys yet, and end users are told nothing of tables by default.
    let admin = &server.http().clone();
    let key = holder(admin, json!({})).await;
    for (stream, has) in forks.into_iter().zip([2, 3, 2]) {
        all_are(&doors_of_stream(&key, stream).await, "ok", stream);
        assert_eq!((events(&key, stream).await, events(admin, stream).await), (has, has));
        let ann = doors_of_stream(&user(admin, None), stream).await;
        all_are(&ann, "read_rule_missing", stream);
        all_are(&doors_of_stream(&user(admin, Some("true")), stream).await, "ok", stream);
        let part = doors_of_stream(&user(admin, Some("total < 100")), stream).await;
        all_are(&part, "rule_not_supported", stream);
    }
    let rows = holder(admin, json!({ "rows": { "orders": "total < 100" } })).await;
    let columns = holder(admin, json!({ "columns": { "ORDERS": ["id"] } })).await;
    let lost = holder(admin, json!({ "columns": { "oders": ["id"] } })).await;
    for stream in ["copy/orders", "copy/again"] {
        all_are(&doors_of_stream(&rows, stream).await, "rule_not_supported", stream);
        all_are(&doors_of_stream(&columns, stream).await, "rule_not_supported", stream);
        all_are(&doors_of_stream(&lost, stream).await, "rule_without_table", stream);
    }
    let tenant = holder(admin, json!({ "host": "acme", "hosts": [""] })).await;
    all_are(&doors_of_stream(&tenant, "copy/bins").await, "rule_not_supported", "a tenant");
    // A session that was made by someone who saw all of it.
    let tab = Tab::open(&user(admin, Some("true"))).await;
    tab.subscribe("copy/again").await;
    let mut later = WebSocket::connect(&user(admin, None), &tab.socket()).await;
    later.hears("hello").await;
    assert_eq!(later.hears("error").await["code"], "read_rule_missing");

    // The rule comes, and the table goes.
    server.stop().await;
    let rule = "[tables.orders]\nread = \"total < 100\"\n";
    server = launch().configured(rule).start().await;
    for round in ["watched", "not watched"] {
        let admin = &server.http().clone();
        let key = holder(admin, json!({})).await;
        for stream in ["copy/orders", "copy/again"] {
            all_are(&doors_of_stream(&key, stream).await, "rule_not_supported", round);
            all_are(&doors_of_stream(admin, stream).await, "ok", "an administrator");
        }
        assert_eq!(events(&key, "copy/bins").await, 2, "of another table");
        let ended = Answer::of(admin.request(Method::DELETE, "/v1/watch?table=orders")).await;
        assert!(matches!(ended.status, 204 | 404), "{}", ended.text());
    }
}

/// Two tables, and three forks; one of them goes back to its table by way of another.
async fn make(server: &Server) {
    let admin = server.http();
    table(admin, "orders", None).await;
    table(admin, "bins", Some("host")).await;
    fork(admin, "table/orders", "copy/orders").await;
    fork(admin, "copy/orders", "copy/again").await;
    fork(admin, "table/bins", "copy/bins").await;
    admin.append("copy/again", &json!({ "own": true })).await;
}
