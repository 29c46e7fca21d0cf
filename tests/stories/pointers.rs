//! How far a session has got: moved by what its client says, and by nothing else.

use serde_json::{Value, json};
use tidewire_stories::{Http, Launch, Server, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(
    acknowledgements_move_a_pointer_by_query_id_stream_and_progress,
    a_pointer_moves_only_forwards,
    what_was_acknowledged_before_an_unsubscribe_moves_nothing_after_it,
    what_was_sent_is_not_what_was_processed,
);

const NOWHERE: &str = "0001_0000000000000000";

async fn start(store: &Store) -> (Server, Vec<String>) {
    let server = Launch::dev(store).set("TIDEWIRE_LIVE_PING_MS", "100").start().await;
    let http = server.http();
    for stream in ["a", "b", "c", "elsewhere"] {
        http.create(stream).await;
    }
    let mut offsets = Vec::new();
    for number in 0..6 {
        offsets.push(http.append(["a", "b", "c"][number % 3], &json!(number)).await);
    }
    (server, offsets)
}

/// A session's connection that has got all there is of three streams, each under another name.
async fn follow_all(http: &Http, tab: &Tab) -> WebSocket {
    let mut client = WebSocket::connect(http, &tab.socket()).await;
    client.hears("hello").await;
    for stream in ["a", "b", "c"] {
        let query_id = format!("my {stream}");
        let wanted = json!({ "query_id": query_id, "stream": stream, "offset": "-1" });
        client.subscribe(&wanted).await;
        for _ in 0..2 {
            client.hears("event").await;
        }
    }
    client
}

async fn ack(client: &mut WebSocket, offsets: Value) {
    client.say(&json!({ "type": "ack", "offsets": offsets })).await;
}

/// Each way of acknowledging moves what it names and nothing else.
async fn acknowledgements_move_a_pointer_by_query_id_stream_and_progress(store: Store) {
    let (server, offsets) = start(&store).await;
    let tab = Tab::open(server.http()).await;
    let mut client = follow_all(server.http(), &tab).await;
    ack(&mut client, json!([{ "query_id": "my a", "lastOffset": offsets[0] }])).await;
    tab.gets_to("a", &offsets[0]).await;
    ack(&mut client, json!([{ "streamId": "b", "lastOffset": offsets[1] }])).await;
    tab.gets_to("b", &offsets[1]).await;
    assert_eq!(tab.pointer("a").await.as_ref(), Some(&offsets[0]));
    assert_eq!(tab.pointer("c").await.as_deref(), Some(NOWHERE), "nobody spoke of it");
    let tip = server.http().append("elsewhere", &json!("so there is progress")).await;
    let told = loop {
        let progress = client.hears("progress").await;
        let told = progress["offset"].as_str().expect("an offset").to_owned();
        if told >= tip {
            break told;
        }
    };
    ack(&mut client, json!([{ "lastOffset": told }])).await;
    for stream in ["a", "b", "c"] {
        tab.gets_to(stream, &told).await;
    }
}

/// An older acknowledgement that arrives late, over whichever way, takes nothing back; and one past
/// the log's end, or of what the session does not follow, is left out.
async fn a_pointer_moves_only_forwards(store: Store) {
    let (server, offsets) = start(&store).await;
    let tab = Tab::open(server.http()).await;
    let mut client = follow_all(server.http(), &tab).await;
    let (older, newer) = (&offsets[0], &offsets[3]);
    ack(&mut client, json!([{ "query_id": "my a", "lastOffset": newer }])).await;
    tab.gets_to("a", newer).await;
    let beyond = "0001_0000000000999999";
    for stream in ["a", "there-is-none"] {
        for offset in [older.as_str(), beyond, NOWHERE] {
            ack(&mut client, json!([{ "streamId": stream, "lastOffset": offset }])).await;
            tab.heartbeat(&json!([{ "streamId": stream, "lastOffset": offset }])).await;
        }
    }
    ack(&mut client, json!([{ "lastOffset": beyond }])).await;
    // What was said before is in the same commit or an earlier one.
    ack(&mut client, json!([{ "query_id": "my c", "lastOffset": offsets[5] }])).await;
    tab.gets_to("c", &offsets[5]).await;
    assert_eq!(tab.pointer("a").await.as_ref(), Some(newer));
    assert_eq!(tab.pointer("b").await.as_deref(), Some(NOWHERE));
    assert_eq!(tab.offsets().await.as_array().expect("an array").len(), 3);
}

/// The race of the design note: a subscription is ended and made anew at an earlier offset, and an
/// acknowledgement of the old one arrives after that.
async fn what_was_acknowledged_before_an_unsubscribe_moves_nothing_after_it(store: Store) {
    let (server, offsets) = start(&store).await;
    let tab = Tab::open(server.http()).await;
    let first = tab.subscribe_at("a", "-1").await["subscriptionEpoch"].clone();
    let acked = |epoch: &Value, offset: &str| json!([{ "streamId": "a", "lastOffset": offset, "subscriptionEpoch": epoch }]);
    tab.heartbeat(&acked(&first, &offsets[0])).await;
    assert_eq!(tab.pointer("a").await.as_ref(), Some(&offsets[0]));

    tab.unsubscribe("a").await;
    tab.heartbeat(&acked(&first, &offsets[3])).await;
    assert_eq!(tab.offsets().await, json!([]), "it did not come back to life");

    let second = tab.subscribe_at("a", "-1").await["subscriptionEpoch"].clone();
    assert!(second.as_u64() > first.as_u64(), "{second} after {first}");
    tab.heartbeat(&acked(&first, &offsets[3])).await;
    assert_eq!(tab.pointer("a").await.as_deref(), Some(NOWHERE), "an old epoch");

    // Subscribing again at an offset makes it anew just as well.
    let third = tab.subscribe_at("a", "-1").await["subscriptionEpoch"].clone();
    assert!(third.as_u64() > second.as_u64(), "{third} after {second}");
    tab.heartbeat(&acked(&second, &offsets[3])).await;
    assert_eq!(tab.pointer("a").await.as_deref(), Some(NOWHERE), "an old epoch");
    tab.heartbeat(&acked(&json!(u32::MAX), &offsets[3])).await;
    assert_eq!(tab.pointer("a").await.as_deref(), Some(NOWHERE), "an epoch to come");
    tab.heartbeat(&acked(&third, &offsets[0])).await;
    assert_eq!(tab.pointer("a").await.as_ref(), Some(&offsets[0]), "the present one");
    tab.heartbeat(&json!([{ "streamId": "a", "lastOffset": offsets[3] }])).await;
    assert_eq!(tab.pointer("a").await.as_ref(), Some(&offsets[3]), "without an epoch");
}

/// A pushed event that nobody acknowledged comes again.
async fn what_was_sent_is_not_what_was_processed(store: Store) {
    let (server, offsets) = start(&store).await;
    let tab = Tab::open(server.http()).await;
    for _ in 0..2 {
        let mut client = WebSocket::connect(server.http(), &tab.socket()).await;
        client.hears("hello").await;
        if tab.pointer("a").await.is_none() {
            client.subscribe(&json!({ "query_id": "q", "stream": "a", "offset": "-1" })).await;
        } else {
            client.hears("subscription_created").await;
        }
        for offset in [&offsets[0], &offsets[3]] {
            let event = client.hears("event").await;
            assert_eq!((&event["offset"], &event["query_id"]), (&json!(offset), &json!("q")));
        }
        assert_eq!(tab.pointer("a").await.as_deref(), Some(NOWHERE));
    }
}
