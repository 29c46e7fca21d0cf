//! Rules that name a table otherwise, or no table, or are wrong, and tables without a rule: nobody sees
//! more for that, whichever way they read.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{
    Answer, Http, Issuer, Jobs, Launch, QueryTab, Server, Store, Tab, WebSocket, eventually,
    on_both_stores,
};

use crate::table_subscriptions::connect;

on_both_stores!(
    rules_hold_under_every_spelling_of_a_table,
    a_rule_for_no_table_closes_every_door,
    end_users_read_a_table_only_where_it_is_said_which_rows,
    what_is_wrong_with_rules_is_told_to_the_operator,
);

const KEY: &str = "story-7e15d0b9c8a2463f";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// A table with two rows, watched. Its rows are entities of the code `of_NAME`.
async fn table(admin: &Http, name: &str) {
    run(admin, &format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, total INTEGER)")).await;
    watch(admin, &json!({ "table": name, "entity": format!("of_{name}") })).await;
    run(admin, &format!("INSERT INTO {name} VALUES (1, 5), (2, 500)")).await;
}

/// Scopes of one who may try all doors, with more members.
fn scopes(more: Value) -> Value {
    let mut scopes =
        json!({ "tables": ["*"], "streams": ["copy-*"], "can": ["read", "append", "sql"] });
    let Value::Object(more) = more else { panic!("members: {more}") };
    scopes.as_object_mut().expect("an object").extend(more);
    scopes
}

async fn holder(admin: &Http, more: Value) -> Http {
    admin.holder(&admin.make_key(&scopes(more)).await)
}

fn user(admin: &Http, name: &str, scopes: Option<Value>) -> Http {
    let mut claims = json!({ "sub": name });
    if let Some(scopes) = scopes {
        claims["tidewire"] = scopes;
    }
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// How an answer is: `ok`, or the code of the refusal.
fn outcome(answer: &Answer) -> String {
    match answer.status {
        200..300 => "ok".to_owned(),
        _ => answer.json()["code"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The same of something that is asked over a WebSocket.
pub(crate) async fn told(socket: &mut WebSocket, message: &Value) -> String {
    socket.say(message).await;
    loop {
        let answer = socket.next().await;
        match answer["type"].as_str() {
            Some("subscription_created") => return "ok".to_owned(),
            Some("error") => return answer["code"].as_str().expect("a code").to_owned(),
            _ => {}
        }
    }
}

/// Tries every way to read a stream, and says how each ended.
pub(crate) async fn doors_of_stream(http: &Http, stream: &str) -> Vec<(&'static str, String)> {
    let path = format!("/v1/stream/{stream}");
    let mut all = Vec::new();
    for (way, query) in [
        ("a read", ""),
        ("a read of the end", "?offset=now"),
        ("a long poll", "?offset=-1&live=long-poll"),
    ] {
        all.push((way, outcome(&http.get(&format!("{path}{query}")).await)));
    }
    // One that goes on is not read to its end.
    let sse = http.request(Method::GET, &format!("{path}?offset=-1&live=sse")).send().await;
    let sse = sse.expect("an answer");
    all.push((
        "SSE",
        match sse.status().as_u16() {
            200 => "ok".to_owned(),
            _ => {
                let body = sse.bytes().await.expect("a body");
                let problem: Value = serde_json::from_slice(&body).expect("JSON");
                problem["code"].as_str().expect("a code").to_owned()
            }
        },
    ));
    let head = Answer::of(http.request(Method::HEAD, &path)).await;
    let seen = all[0].1.clone();
    all.push((
        "HEAD",
        if (head.status == 200) == (seen == "ok") { seen } else { format!("{}", head.status) },
    ));
    let fork = http
        .request(Method::PUT, &format!("/v1/stream/copy-{:x}", rand::random::<u64>()))
        .header("stream-forked-from", stream);
    all.push(("a fork", outcome(&Answer::of(fork).await)));
    let session = http.open_session().await;
    let follow = json!({ "sessionId": session, "streamId": stream });
    let follow = http.json(Method::POST, "/v1/subscriptions", &follow).await;
    all.push(("a session", outcome(&follow)));
    let mut socket = connect(http).await;
    for (way, entry) in [
        ("a stream", json!({ "query_id": "s", "stream": stream })),
        ("a replayed stream", json!({ "query_id": "r", "stream": stream, "offset": "-1" })),
    ] {
        all.push((way, told(&mut socket, &subscribe(entry)).await));
    }
    all
}

fn subscribe(entry: Value) -> Value {
    json!({ "type": "subscribe", "subscriptions": [entry] })
}

/// The same of a table.
async fn doors(http: &Http, name: &str) -> Vec<(&'static str, String)> {
    let stream = format!("table/{name}");
    let mut all = doors_of_stream(http, &stream).await;
    let filtered = http.get(&format!("/v1/stream/{stream}?where=id+%3D+1")).await;
    all.push(("a filtered read", outcome(&filtered)));
    let mut socket = connect(http).await;
    let entity = json!({ "entityCode": format!("of_{name}"), "entityIds": ["1"] });
    for (way, message) in [
        ("a table", subscribe(json!({ "query_id": "t", "table": name }))),
        ("a replay", subscribe(json!({ "query_id": "r", "table": name, "offset": "-1" }))),
        ("entities", json!({ "type": "SUBSCRIBE", "payload": entity })),
        ("a query", subscribe(json!({ "query_id": "q", "sql": format!("SELECT id FROM {name}") }))),
    ] {
        all.push((way, told(&mut socket, &message).await));
    }
    let explain = json!({ "sql": format!("EXPLAIN LIVE SELECT id FROM {name}") });
    all.push(("EXPLAIN LIVE", outcome(&http.json(Method::POST, "/v1/sql", &explain).await)));
    all
}

pub(crate) fn all_are(doors: &[(&str, String)], expected: &str, about: &str) {
    for (way, outcome) in doors {
        // No table carries the code of one that is not there: then it is a stream's name.
        if about != ABSENT || *way != "entities" {
            assert_eq!(outcome, expected, "{about}: {way}");
        }
    }
}

const ABSENT: &str = "a table that is not there";

/// The ids that someone sees of a table, by its stream and by a live query, which agree.
async fn ids(http: &Http, name: &str) -> Vec<i64> {
    let read = http.get(&format!("/v1/stream/table/{name}")).await;
    assert_eq!(read.status, 200, "{}", read.text());
    let events = read.json();
    let events = events.as_array().expect("events").iter();
    let seen: Vec<i64> = events.filter_map(|event| event["data"]["id"].as_i64()).collect();
    let mut tab = QueryTab::open(http).await;
    tab.follow(&json!({ "query_id": "q", "sql": format!("SELECT id FROM {name}") })).await;
    let mut asked: Vec<i64> = tab.rows("q").iter().filter_map(|row| row["id"].as_i64()).collect();
    asked.sort_unstable();
    assert_eq!(asked, seen, "a query sees what the stream has");
    seen
}

/// I6: a rule is one for the table that the database takes its name for.
async fn rules_hold_under_every_spelling_of_a_table(store: Store) {
    let (spellings, configured) = match store {
        Store::Sqlite { .. } => {
            (["ORDERS", "main.orders", "\"oRders\"", "Main.Orders"], "main.Orders")
        }
        Store::Postgres { .. } => {
            (["ORDERS", "public.orders", "\"orders\"", "Public.\"orders\""], "public.Orders")
        }
    };
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let rule = format!("[tables.\"{configured}\"]\nread = \"total < 100\"\n");
    let server = launch.configured(&rule).start().await;
    let admin = server.http();
    table(admin, "orders").await;
    table(admin, "items").await;
    assert_eq!(ids(&holder(admin, json!({})).await, "orders").await, [1], "the configuration's");
    let of_token = json!({ "tables": [configured] });
    assert_eq!(ids(&user(admin, "ann", Some(of_token)), "orders").await, [1]);
    for spelling in spellings {
        let spelt = |name: &str| spelling.to_lowercase().replace("orders", name);
        let rows =
            json!({ "tables": [spelt("items")], "rows": { spelt("items"): "total >= 100" } });
        let holder = holder(admin, rows).await;
        assert_eq!(ids(&holder, "items").await, [2], "rows of {spelling}");
        let answer = holder.get("/v1/stream/table/orders").await;
        answer.problem(403, "forbidden");
    }
    if let Store::Postgres { .. } = store {
        run(admin, "CREATE SCHEMA sales").await;
        table(admin, "sales.bins").await;
        let rows = json!({ "rows": { "Sales.BINS": "total >= 100" } });
        assert_eq!(ids(&holder(admin, rows).await, "sales.bins").await, [2]);
        // The rows of a table that inherits from another are that one's too.
        run(admin, "CREATE TABLE boxes () INHERITS (sales.bins)").await;
        watch(admin, &json!({ "table": "boxes", "key_columns": ["id"] })).await;
        run(admin, "INSERT INTO boxes VALUES (3, 3), (4, 400)").await;
        let rows = json!({ "rows": { "sales.bins": "total >= 100" } });
        assert_eq!(ids(&holder(admin, rows).await, "boxes").await, [4]);
        let columns = json!({ "columns": { "sales.bins": ["id"] } });
        let read = holder(admin, columns).await.get("/v1/stream/table/boxes").await;
        assert!(!read.text().contains("total"), "columns of the parent: {}", read.text());
        let bare = holder(admin, json!({ "rows": { "bins": "total >= 100" } })).await;
        let answer = bare.get("/v1/stream/table/sales.bins").await;
        answer.problem(403, "rule_without_table");
    }
    for spelling in spellings {
        // What the configuration and the key say holds at once.
        let rows = json!({ "tables": [spelling], "rows": { spelling: "total >= 100" } });
        assert_eq!(ids(&holder(admin, rows).await, "orders").await, [0_i64; 0], "{spelling}");
        let columns = json!({ "columns": { spelling: ["id"] } });
        let read = holder(admin, columns).await.get("/v1/stream/table/orders").await;
        assert!(!read.text().contains("total"), "columns of {spelling}: {}", read.text());
    }
}

/// I6: what such a rule was to hide is not known, so nothing is shown; and the log says why.
async fn a_rule_for_no_table_closes_every_door(store: Store) {
    let launch = Launch::serve(&store, KEY);
    let mut server = launch.start().await;
    table(server.http(), "orders").await;
    let lost = json!({ "rows": { "oders": "total < 100" } });
    let key = server.http().make_key(&scopes(lost)).await;
    let hidden = server.http().make_key(&scopes(json!({ "columns": { "oders": ["id"] } }))).await;
    let near = "nearest=\"orders\"";
    for round in ["when it is made", "as it is stored"] {
        let http = server.http().holder(&key);
        all_are(&doors(&http, "orders").await, "rule_without_table", round);
        all_are(&doors(&http, "absent").await, "rule_without_table", ABSENT);
        let refused = server.http().holder(&hidden).get("/v1/stream/table/orders").await;
        let problem = refused.problem(403, "rule_without_table");
        assert!(problem["detail"].as_str().expect("a text").contains("oders"), "{problem}");
        assert!(!problem.to_string().contains("\"orders"), "no other name is told: {problem}");
        http.create(&format!("copy-{:x}", rand::random::<u64>())).await;
        assert!(server.process().said().contains(near), "{}", server.process().said());
        server.stop().await;
        server = launch.start().await;
    }
    eventually("it is told at start", async || {
        let said = server.process().said();
        (said.contains("rows of \"oders\": no watched table")
            && said.contains("nearest is \"orders\""))
        .then_some(())
    })
    .await;
    // The table comes: the rule is one for it, and for no other.
    table(server.http(), "oders").await;
    let http = server.http().holder(&key);
    all_are(&doors(&http, "orders").await, "ok", "a table without a rule");
    assert_eq!(ids(&http, "oders").await, [1]);
}

/// Tables that end users read, and others.
async fn shop(store: &Store) -> Server {
    let configured = "[tables.notes]\nread = \" ( TRUE ) \"\n\
        [tables.tasks]\nread = \"EXISTS (SELECT 1 FROM members m WHERE m.id = tasks.id)\"\n\
        [jwt]\nscopes = '{\"tables\": [\"*\"], \"streams\": [\"**\"], \"can\": [\"read\", \"append\", \"sql\"]}'\n";
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.configured(configured).start().await;
    for name in ["orders", "notes", "members", "tasks"] {
        table(server.http(), name).await;
    }
    run(server.http(), "DELETE FROM members WHERE id = 2").await;
    server
}

/// I6: what nobody has decided about is not shown to end users.
async fn end_users_read_a_table_only_where_it_is_said_which_rows(store: Store) {
    let mut server = shop(&store).await;
    let admin = &server.http().clone();
    let ann = &user(admin, "ann", None);
    all_are(&doors(ann, "orders").await, "read_rule_missing", "a table without read");
    all_are(&doors(ann, "absent").await, "read_rule_missing", ABSENT);
    let problem = ann.get("/v1/stream/table/orders").await.problem(403, "read_rule_missing");
    let hint = problem["hint"].as_str().expect("a hint");
    assert!(hint.contains("[tables.orders] read ="), "it says what to write: {hint}");
    // `read = "true"` is no rule: what needs all of a table is to be had.
    all_are(&doors(ann, "notes").await, "ok", "a table whose rows are all read");
    assert_eq!(ids(ann, "notes").await, [1, 2]);
    let explain = json!({ "sql": "EXPLAIN LIVE SELECT id FROM notes WHERE total > 1" });
    let explained = ann.json(Method::POST, "/v1/sql", &explain).await.text();
    assert!(explained.contains("notes"), "{explained}");
    for fence in ["OFFSET 0", "LIMIT -1", "TRUE"] {
        assert!(!explained.contains(fence), "{fence} in {explained}");
    }
    // Every table of a query counts, but not those that only a rule reads.
    let mut socket = connect(ann).await;
    for sql in [
        "SELECT n.id FROM notes n JOIN orders o ON o.id = n.id",
        "SELECT id FROM notes WHERE id IN (SELECT id FROM orders)",
        "WITH o AS (SELECT id FROM orders) SELECT n.id FROM notes n, o",
        "SELECT id FROM notes UNION ALL SELECT id FROM members",
    ] {
        let query =
            json!({ "type": "subscribe", "subscriptions": [{ "query_id": "q", "sql": sql }] });
        assert_eq!(told(&mut socket, &query).await, "read_rule_missing", "{sql}");
    }
    let mut tab = QueryTab::open(ann).await;
    tab.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM tasks" })).await;
    assert_eq!(tab.rows("q"), [json!({ "id": 1 })]);
    // What the token itself says of the rows counts as well; columns alone do not.
    let rows = |rule: &str| Some(scopes(json!({ "rows": { "orders": rule } })));
    assert_eq!(ids(&user(admin, "bob", rows("total < 100")), "orders").await, [1]);
    let all = &user(admin, "bob", rows("true"));
    all_are(&doors(all, "orders").await, "ok", "a token for all rows");
    let columns = scopes(json!({ "columns": { "orders": ["id"] } }));
    all_are(
        &doors(&user(admin, "bob", Some(columns)), "orders").await,
        "read_rule_missing",
        "columns",
    );
    // A session that follows the table is served as what its user shows by then.
    let tab = Tab::open(all).await;
    tab.subscribe("table/orders").await;
    let mut later = WebSocket::connect(&user(admin, "bob", None), &tab.socket()).await;
    later.hears("hello").await;
    assert_eq!(later.hears("error").await["code"], "read_rule_missing");
    // Administrators and keys are not asked.
    let boss = user(admin, "eve", Some(json!({ "can": ["admin"] })));
    assert_eq!(ids(&boss, "orders").await, [1, 2]);
    assert_eq!(ids(&holder(admin, json!({})).await, "orders").await, [1, 2]);
    workers_are_not_asked(admin).await;
    eventually("the operator is told which tables", async || {
        let said = server.process().said();
        said.contains("nothing says which rows: members, orders. Write").then_some(())
    })
    .await;
}

/// An end user that works for a group gets what the group reads, and still reads no table.
async fn workers_are_not_asked(admin: &Http) {
    let billing = Jobs::of(admin, "billing");
    billing.make(&json!({ "tables": ["orders"], "partitions": 1 })).await;
    let can = json!({ "tables": ["*"], "groups": ["billing"], "can": ["read", "consume"] });
    let worker = user(admin, "wim", Some(can));
    let batch = billing.at(&worker).claim("wim").await;
    let events = batch["groups"][0]["events"].as_array().expect("events").iter();
    let claimed: Vec<&Value> = events.map(|event| &event["after_data"]["id"]).collect();
    assert_eq!(claimed, [1, 2], "all rows, though nobody has said which may be read");
    worker.get("/v1/stream/table/orders").await.problem(403, "read_rule_missing");
}

/// Where the rule is written, and what is wrong with it: at start, when its table is watched, and when the
/// configuration is read again.
async fn what_is_wrong_with_rules_is_told_to_the_operator(store: Store) {
    let configured = "[tables.oders]\nread = \"total < 100\"\n\n[tables.orders]\nread = \"totl < 100\"\n\n\
        [tables.broken]\nread = \"id <\"\n\n[tables.called]\nread = \"nosuch(id) = 1\"\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tidewire.toml");
    std::fs::write(&file, configured).expect("a file");
    let launch = Launch::serve(&store, KEY).set("TIDEWIRE_CONFIG", &file.to_string_lossy());
    let mut server = launch.start().await;
    let admin = &server.http().clone();
    let says = async |server: &mut Server, what: &str, times: usize| {
        let about = format!("the log says {what}");
        let said = eventually(&about, async || {
            (server.process().said().matches(what).count() >= times).then_some(())
        });
        // Rules are looked at once a minute as well, in case a change of a table was told to nobody.
        let at_once = tokio::time::timeout(Duration::from_secs(30), said).await;
        at_once.unwrap_or_else(|_| panic!("{about} when there is news, not in the next round"));
    };
    says(&mut server, "tidewire.toml line 2, [tables.oders] read: no watched table", 1).await;
    says(&mut server, "[tables.broken] read: the rule cannot be kept", 1).await;
    let ready = async || {
        let ready = admin.get("/readyz").await;
        assert_eq!(ready.status, 200, "{}", ready.text());
        ready.json()["rules_without_table"].clone()
    };
    assert_eq!(ready().await, json!(["broken", "called", "oders", "orders"]));
    let reader = holder(admin, json!({})).await;
    for name in ["orders", "broken", "called"] {
        table(admin, name).await;
        let mut refused = doors(&reader, name).await;
        // A session may note down that it follows the table; it is refused what it follows.
        refused.retain(|(way, _)| *way != "a session");
        all_are(&refused, "rule_not_supported", name);
    }
    assert_eq!(ready().await, json!(["oders"]));
    let wrong = [
        "[tables.orders] read, character 1: the rule for \"orders\" cannot be kept",
        "[tables.broken] read: the rule for \"broken\" cannot be kept",
        "[tables.called] read, character 1: the rule for \"called\" cannot be kept",
        "called \"oders\" (the nearest is \"orders\")",
    ];
    for what in wrong {
        says(&mut server, what, 1).await;
    }
    let doctor = admin.get("/v1/doctor").await.json();
    let checks = doctor["checks"].as_array().expect("checks").clone();
    let rules = checks.iter().find(|check| check["name"] == "rules").expect("rules");
    assert_eq!(rules["status"], "bad", "{rules}");
    assert!(
        wrong.iter().all(|what| rules["todo"].to_string().contains(&what.replace('"', "\\\""))),
        "{rules}"
    );
    let key = |rule: &str| {
        let scopes = json!({ "tables": ["orders"], "rows": { "orders": rule } });
        let body = json!({ "name": "story", "scopes": scopes });
        let admin = admin.clone();
        async move { admin.json(Method::POST, "/v1/keys", &body).await }
    };
    key("id <").await.problem(400, "invalid_scopes");
    let noted = key("totl < 100").await.json();
    assert!(
        noted["notes"][0].as_str().is_some_and(|note| note.contains("cannot be kept")),
        "{noted}"
    );
    assert_eq!(key("total < 100").await.json()["notes"], Value::Null);
    let before = wrong.map(|what| server.process().said().matches(what).count());
    server.process().signal("HUP");
    for (what, before) in wrong.iter().zip(before) {
        says(&mut server, what, before + 1).await;
    }
    assert!(!server.process().said().contains("have changed"), "the file is as it was");
    // The name that was meant for another table is one by and by, and the rule applies.
    table(admin, "oders").await;
    assert_eq!(ids(&reader, "oders").await, [1]);
    assert_eq!(ready().await, Value::Null);
    let ended = Answer::of(admin.request(Method::DELETE, "/v1/watch?table=oders")).await;
    assert_eq!(ended.status, 204, "{}", ended.text());
    eventually("the rule is one without a table again", async || {
        (ready().await == json!(["oders"])).then_some(())
    })
    .await;
}
