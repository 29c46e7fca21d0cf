//! Someone watches the server's numbers while clients come and go.

use serde_json::json;
use tidewire_stories::{
    Launch, Metrics, ServerSent, Store, Tab, WebSocket, eventually, on_both_stores,
};

on_both_stores!(
    connections_subscriptions_and_pushes_are_counted_and_gauges_return_to_zero,
    a_client_that_does_not_read_shows_in_the_queue_and_as_a_gap,
);

const SHARDS: usize = 3;
const EVENTS: usize = 10;

/// Every number is what the clients did, in total and shard by shard.
async fn connections_subscriptions_and_pushes_are_counted_and_gauges_return_to_zero(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_LIVE_SHARDS", &SHARDS.to_string())
        .set("TIDEWIRE_LIVE_MEMORY_BYTES_MAX", "2000000000");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    for number in 0..EVENTS {
        http.append("doc", &json!(number)).await;
    }
    let (mut sockets, mut pages) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut socket = WebSocket::connect(http, "/v1/ws").await;
        socket.hears("hello").await;
        for query_id in ["one", "two"] {
            let wanted = json!({ "query_id": query_id, "stream": "doc", "offset": "-1" });
            socket.subscribe(&wanted).await;
            for _ in 0..EVENTS {
                socket.hears("event").await;
            }
        }
        sockets.push(socket);
    }
    for _ in 0..3 {
        let tab = Tab::open(http).await;
        tab.subscribe("doc").await;
        let mut page = ServerSent::open(http, &tab.session, None).await;
        page.hears("subscription_created").await;
        pages.push((tab, page));
    }
    // All are live, so that what comes is pushed and not replayed.
    store.have_gone_live(3).await;
    for number in 0..EVENTS {
        http.append("doc", &json!(number)).await;
        for socket in &mut sockets {
            socket.hears("event").await;
            socket.hears("event").await;
        }
        for (_, page) in &mut pages {
            page.events(1).await;
        }
    }
    let pushed = as_number(EVENTS * (4 * 2 + 3));
    let metrics = Metrics::reaches(http, "live_pushed_events_total", pushed).await;
    for (name, value) in [
        ("live_websockets", 4.0),
        ("live_server_sent", 3.0),
        ("live_subscriptions", 11.0),
        ("live_pushed_events_total", pushed),
        ("live_push_seconds_count", pushed),
        ("live_push_seconds_bucket{le=\"+Inf\"}", pushed),
        ("live_catch_ups_total", 11.0),
        ("live_catch_up_events_total", as_number(EVENTS * 4 * 2)),
        ("live_gaps_total", 0.0),
        ("live_push_failures_total", 0.0),
        ("live_queue_events", 0.0),
        ("sessions_opened_total", 3.0),
        ("live_resumes_total", 0.0),
        ("memory_budget_bytes", 2_000_000_000.0),
    ] {
        assert_eq!(metrics.get(name), value, "{name}");
    }
    assert!(metrics.get("live_catch_up_bytes_total") > 0.0);
    let resident = metrics.get("memory_resident_bytes");
    assert!(resident > 1e6 && resident < 2e9, "{resident} bytes are resident");
    let buckets = metrics.all("live_push_seconds_bucket");
    assert!(buckets.iter().all(|count| *count <= pushed), "{buckets:?}");
    for (beginning, total) in
        [("live_shard_connections", 7.0), ("live_shard_pushed_events_total", pushed)]
    {
        let shards = metrics.all(beginning);
        assert_eq!(shards.len(), SHARDS, "{beginning}: {shards:?}");
        assert_eq!(shards.iter().sum::<f64>(), total, "{beginning}: {shards:?}");
    }

    let (tab, page) = pages.pop().expect("a page");
    drop(page);
    let cursor = http.append("doc", &json!("missed")).await;
    let back = ServerSent::open(http, &tab.session, Some(&cursor)).await;
    let metrics = Metrics::shows(http, "live_resumes_total", 1.0).await;
    assert_eq!(metrics.get("live_reconnects_total"), 1.0, "those with a cursor");

    drop((sockets, pages, back));
    eventually("all gauges return to zero", async || {
        let metrics = Metrics::read(http).await;
        let gauges = ["live_websockets", "live_server_sent", "live_subscriptions"];
        let shards = metrics.all("live_shard_connections").iter().sum::<f64>();
        let left = gauges.map(|name| metrics.get(name)).iter().sum::<f64>();
        (left + shards == 0.0).then_some(())
    })
    .await;
    Metrics::shows(http, "attended_streams", 0.0).await;
}

/// I5: what waits for a slow client is seen, bounded, and gone when the client is.
async fn a_client_that_does_not_read_shows_in_the_queue_and_as_a_gap(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "3")
        .set("TIDEWIRE_LIVE_PING_MS", "100");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    let mut slow = WebSocket::connect_narrow(http, "/v1/ws").await;
    slow.hears("hello").await;
    slow.subscribe(&json!({ "query_id": "q", "stream": "doc" })).await;
    eventually("something waits for the slow client", async || {
        http.append("doc", &json!("x".repeat(50_000))).await;
        let metrics = Metrics::read(http).await;
        let waiting = metrics.get("live_queue_events");
        assert!(waiting <= 3.0, "{waiting} events wait");
        (waiting > 0.0 && metrics.get("live_queue_bytes") > 0.0).then_some(())
    })
    .await;
    eventually("what waits becomes a gap", async || {
        http.append("doc", &json!("x".repeat(50_000))).await;
        (Metrics::read(http).await.get("live_gaps_total") > 0.0).then_some(())
    })
    .await;
    slow.hears_at_last("gap").await;
    drop(slow);
    for gauge in ["live_websockets", "live_subscriptions", "live_queue_events", "live_queue_bytes"]
    {
        Metrics::shows(http, gauge, 0.0).await;
    }
}

fn as_number(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a small count"))
}
