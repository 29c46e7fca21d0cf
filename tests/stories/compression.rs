//! Clients that offer permessage-deflate, and clients that do not, hear the same.

use serde_json::{Value, json};
use tidewire_client::{Client, LiveOptions, ReadFrom, Update};
use tidewire_stories::wait::within_patience;
use tidewire_stories::websocket::{COMPRESSED, Frame, TEXT, deflate, frame};
use tidewire_stories::{Http, Launch, Store, WebSocket, on_both_stores};

on_both_stores!(whoever_offers_compression_gets_the_same_messages_compressed);

const EVENTS: usize = 20;

/// Past and present alike, pushed and said, through frames by hand and through the client.
async fn whoever_offers_compression_gets_the_same_messages_compressed(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    http.create("doc").await;
    append(http, 0..EVENTS / 2).await;
    let offer = [("sec-websocket-extensions", "permessage-deflate; client_max_window_bits")];
    let mut plain = WebSocket::connect(http, "/v1/ws").await;
    let mut compressed = WebSocket::connect_with(http, "/v1/ws", &offer).await;
    assert!(!plain.head().contains("sec-websocket-extensions"), "{}", plain.head());
    let agreed = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; \
                  client_no_context_takeover\r\n";
    assert!(compressed.head().contains(agreed), "{}", compressed.head());
    plain.hears("hello").await;
    compressed.hears("hello").await;

    let wanted = json!({ "query_id": "q", "stream": "doc", "offset": "-1" });
    let subscribe = json!({ "type": "subscribe", "subscriptions": [wanted] });
    plain.say(&subscribe).await;
    // What a client compresses is understood.
    let said = deflate(subscribe.to_string().as_bytes());
    compressed.send(frame(TEXT | COMPRESSED, &said)).await;
    plain.hears("subscription_created").await;
    compressed.hears("subscription_created").await;
    let mut expected = Vec::new();
    for half in [0..EVENTS / 2, EVENTS / 2..EVENTS] {
        if half.start > 0 {
            append(http, half.clone()).await;
        }
        for number in half {
            let (one, was_compressed) = event(&mut plain).await;
            assert!(!was_compressed, "nobody offered it");
            let (other, was_compressed) = event(&mut compressed).await;
            assert_eq!(was_compressed, number % 2 == 0, "only what shrinks: {other}");
            assert_eq!(one, other);
            assert_eq!(one["payload"], payload(number));
            expected.push(payload(number));
        }
    }
    for compression in [true, false] {
        let client = Client::new(http.base(), None).expect("a client");
        let options = LiveOptions { compression, ..LiveOptions::default() };
        let mut live = client.live(options).expect("options that make sense");
        live.subscribe("q", "doc", ReadFrom::Start).expect("a stream's name");
        let mut got: Vec<Value> = Vec::new();
        while got.len() < EVENTS {
            let update = within_patience("an update", live.next()).await.expect("no error");
            if let Some(Update::Event(event)) = update {
                got.push(event.json().expect("JSON"));
            }
        }
        assert_eq!(got, expected, "through the client, compression {compression}");
    }
}

/// Every other one is worth compressing.
fn payload(number: usize) -> Value {
    let text = if number.is_multiple_of(2) { "tide ".repeat(200) } else { String::new() };
    json!({ "number": number, "text": text })
}

async fn append(http: &Http, numbers: std::ops::Range<usize>) {
    for number in numbers {
        http.append("doc", &payload(number)).await;
    }
}

/// The next event, and whether it came compressed.
async fn event(client: &mut WebSocket) -> (Value, bool) {
    match client.frame().await {
        Some(Frame::Text { text, compressed }) => {
            let message: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(message["type"], "event", "{message}");
            (message, compressed)
        }
        other => panic!("an event was to come, not {other:?}"),
    }
}
