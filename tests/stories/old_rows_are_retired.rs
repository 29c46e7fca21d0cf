//! Captured rows that are past their age go, whoever comes back for them is told, and what is kept is
//! read as ever.

use reqwest::Method;
use serde_json::json;
use tidewire_stories::{Answer, Http, Launch, Metrics, Store, Tab, WebSocket, eventually};

tidewire_stories::on_both_stores!(
    old_rows_go_and_their_readers_are_told,
    whoever_lags_is_waited_for_and_then_told,
    streams_have_ages,
    a_group_that_lags_is_waited_for_and_then_stops,
);

/// Rounds follow each other quickly.
fn launch(store: &Store) -> Launch {
    Launch::dev(store)
        .set("TIDEWIRE_NODE_LEASE_MS", "600")
        .set("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "50")
        .set("TIDEWIRE_RETENTION_AGE_MS", "3600000")
}

/// A store with a table's stream in it, of three rows of yesterday and two of now.
async fn captured(store: &Store) -> Vec<i64> {
    let server = launch(store).start().await;
    server.http().create("doc").await;
    server.stop().await;
    store.capture("orders", &[90_000, 89_000, 88_000, 1, 0]).await
}

fn offset(position: i64) -> String {
    format!("0001_{position:016}")
}

async fn rows(http: &Http) -> Vec<i64> {
    let answer = http.get("/v1/stream/table/orders?offset=-1&format=events").await;
    let page = answer.json();
    let events = page.as_array().unwrap_or_else(|| panic!("{page}")).iter();
    let position = |event: &serde_json::Value| {
        let offset = event["offset"].as_str().expect("an offset").to_owned();
        offset.split_once('_').and_then(|(_, digits)| digits.parse().ok()).expect("a position")
    };
    events.map(position).collect()
}

/// I3: a cursor gets what comes after it, or is told that something is gone, however it reads.
async fn old_rows_go_and_their_readers_are_told(store: Store) {
    let positions = captured(&store).await;
    let server = launch(&store).start().await;
    let http = server.http();
    // An append after them, so that none of them is the log's end.
    http.append("doc", &json!(1)).await;
    eventually("old rows are given up", async || {
        (rows(http).await == positions[3..]).then_some(())
    })
    .await;

    let earliest = offset(positions[2]);
    for live in ["", "&live=long-poll", "&live=sse"] {
        let path = format!("/v1/stream/table/orders?offset={}{live}", offset(positions[1]));
        let answer = http.get(&path).await;
        let problem = answer.problem(410, "offset_trimmed");
        assert_eq!(problem["earliest_offset"], earliest.as_str());
        assert_eq!(answer.header("stream-earliest-offset"), Some(earliest.as_str()));
    }
    let kept = http.get(&format!("/v1/stream/table/orders?offset={earliest}")).await;
    assert_eq!((kept.status, kept.json().as_array().map(Vec::len)), (200, Some(2)));

    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let subscribe = |from: &str| {
        json!({
            "type": "subscribe",
            "subscriptions": [{ "query_id": "q", "stream": "table/orders", "offset": from }],
        })
    };
    socket.say(&subscribe(&offset(positions[0]))).await;
    let error = socket.hears("error").await;
    assert_eq!((&error["code"], &error["query_id"]), (&json!("offset_trimmed"), &json!("q")));
    assert_eq!(error["earliest_offset"], earliest.as_str());
    socket.say(&subscribe(&earliest)).await;
    socket.hears("subscription_created").await;

    let session = http.open_session().await;
    let body = json!({
        "sessionId": session, "streamId": "table/orders", "offset": offset(positions[0]),
    });
    let refused = http.json(Method::POST, "/v1/subscriptions", &body).await;
    refused.problem(410, "offset_trimmed");

    assert_eq!(store.on_disk("table/orders").await, 5, "reads under way find them still");
    store.tamper("UPDATE {}trims SET due_at_ms = 0").await;
    eventually("they are removed", async || {
        (store.on_disk("table/orders").await == 2).then_some(())
    })
    .await;
    Metrics::reaches(http, "retention_events_removed_total", 3.0).await;
    Metrics::shows(http, "captured_events", 2.0).await;
    assert_eq!(rows(http).await, positions[3..]);
    server.stop().await;

    // The log's tip, and what was lost, are as they were after a restart.
    let server = launch(&store).start().await;
    let path = format!("/v1/stream/table/orders?offset={}", offset(positions[1]));
    server.http().get(&path).await.problem(410, "offset_trimmed");
    server.stop().await;
}

/// A session keeps what it has not acknowledged, until a hard limit is reached: then the operator is
/// told, and so is the session when it comes back.
async fn whoever_lags_is_waited_for_and_then_told(store: Store) {
    let positions = captured(&store).await;
    let server = launch(&store).set("TIDEWIRE_RETENTION_AGE_MS", "0").start().await;
    server.http().append("doc", &json!(1)).await;
    let tab = Tab::open(server.http()).await;
    tab.subscribe_at("table/orders", &offset(positions[0])).await;
    server.stop().await;

    let server = launch(&store).set("TIDEWIRE_RETENTION_HARD_AGE_MS", "0").start().await;
    Metrics::shows(server.http(), "retention_streams_held_back", 1.0).await;
    eventually("what it has read is given up", async || {
        (rows(server.http()).await == positions[1..]).then_some(())
    })
    .await;
    assert_eq!(Metrics::read(server.http()).await.get("retention_cursors_passed_total"), 0.0);
    server.stop().await;

    let hard = launch(&store).set("TIDEWIRE_RETENTION_HARD_AGE_MS", "7200000");
    let mut server = hard.start().await;
    Metrics::reaches(server.http(), "retention_cursors_passed_total", 1.0).await;
    assert_eq!(rows(server.http()).await, positions[3..]);
    let told = server.process().said();
    assert!(told.contains("events that someone had not read were given up"), "{told}");
    let mut socket = WebSocket::connect(server.http(), &tab.at(server.http()).socket()).await;
    let error = socket.hears_at_last("error").await;
    assert_eq!(error["code"], "offset_trimmed", "{error}");
    assert_eq!(error["earliest_offset"], offset(positions[2]).as_str());
    server.stop().await;
}

/// A stream's own age: a page that was kept in memory, or by a client, is not shown again.
async fn streams_have_ages(store: Store) {
    let launch = launch(&store).set("TIDEWIRE_RETENTION_STREAMS", "logs/*=1s");
    let server = launch.start().await;
    let http = server.http();
    for stream in ["logs/a", "doc"] {
        http.create(stream).await;
    }
    let long = "x".repeat(5_000);
    http.append("logs/a", &json!(long)).await;
    http.append("doc", &json!(long)).await;
    let first = http.get("/v1/stream/logs/a?offset=-1").await;
    let tag = first.header("etag").expect("an ETag").to_owned();
    eventually("the event is given up", async || {
        let again = http.request(Method::GET, "/v1/stream/logs/a?offset=-1");
        let again = Answer::of(again.header("if-none-match", &tag)).await;
        (again.status == 200 && again.json() == json!([])).then_some(())
    })
    .await;
    let emptied = http.get("/v1/stream/logs/a?offset=-1").await;
    assert_eq!(emptied.next_offset(), first.next_offset(), "it ends where it ended");
    http.append("logs/a", &json!("later")).await;
    let later = http.get(&format!("/v1/stream/logs/a?offset={}", first.next_offset())).await;
    assert_eq!(later.status, 200, "whoever had read all of it has lost nothing");
    let kept = http.get("/v1/stream/doc?offset=-1").await;
    assert_eq!(kept.json(), json!([long]), "other streams are kept");
    server.stop().await;
}

/// What a group has not consumed is kept, until a hard limit is reached: then it stops and says so, and
/// goes on when someone accepts the loss.
async fn a_group_that_lags_is_waited_for_and_then_stops(store: Store) {
    let positions = captured(&store).await;
    let server = launch(&store).set("TIDEWIRE_RETENTION_AGE_MS", "0").start().await;
    let http = server.http();
    http.append("doc", &json!(1)).await;
    for (group, wish) in [
        ("slow", json!({ "partitions": 1 })),
        ("other", json!({ "partitions": 1, "streams": ["doc"] })),
    ] {
        let made = http.json(Method::PUT, &format!("/v1/groups/{group}"), &wish).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    server.stop().await;

    let server = launch(&store).set("TIDEWIRE_RETENTION_HARD_AGE_MS", "0").start().await;
    Metrics::shows(server.http(), "retention_streams_held_back", 1.0).await;
    assert_eq!(
        rows(server.http()).await,
        positions,
        "nothing that the group has not consumed goes"
    );
    server.stop().await;

    let hard = launch(&store).set("TIDEWIRE_RETENTION_HARD_AGE_MS", "7200000");
    let server = hard.start().await;
    let http = server.http();
    let look = async |group: &str| http.get(&format!("/v1/groups/{group}")).await.json();
    let stopped = eventually("the group stops", async || {
        let group = look("slow").await;
        (group["stopped"]["code"] == "events_lost").then_some(group)
    })
    .await;
    assert_eq!(stopped["lost_to"], offset(positions[2]).as_str(), "{stopped}");
    assert!(look("other").await["stopped"].is_null(), "it does not read that table");
    let claim = json!({ "wait_ms": 0 });
    let refused = http.json(Method::POST, "/v1/groups/slow/claim", &claim).await;
    assert_eq!(refused.problem(409, "group_stopped")["stopped"]["code"], "events_lost");
    let resume = http.json(Method::POST, "/v1/groups/slow/resume", &json!({})).await;
    assert_eq!(resume.status, 200, "{}", resume.text());
    assert_eq!(
        resume.json()["stopped"]["code"],
        "events_lost",
        "a loss is accepted in so many words"
    );
    let accept = json!({ "accept_loss": true });
    let resumed = http.json(Method::POST, "/v1/groups/slow/resume", &accept).await;
    assert_eq!((resumed.status, &resumed.json()["stopped"]), (200, &json!(null)));
    let claimed = http.json(Method::POST, "/v1/groups/slow/claim", &json!({})).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    let batch = claimed.json();
    let keys = batch["groups"].as_array().expect("keys").iter();
    let events = keys.flat_map(|key| key["events"].as_array().expect("events"));
    let is_row = |it: &serde_json::Value| positions.iter().any(|at| *it == offset(*at).as_str());
    let offsets: Vec<_> = events.map(|event| event["offset"].clone()).filter(is_row).collect();
    // What is given up lies there for a while: some of it may come, and all that is kept does.
    let kept: Vec<_> = positions[3..].iter().map(|at| json!(offset(*at))).collect();
    assert!(offsets.ends_with(&kept), "{offsets:?}");
    server.stop().await;
}
