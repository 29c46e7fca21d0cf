//! Events that are too large to push are announced, and the client fetches them.

use serde_json::{Value, json};
use tidewire_client::{Client, LiveOptions, ReadFrom, Update};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Http, Launch, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(
    what_is_too_large_to_push_is_announced_in_its_place,
    a_client_gets_large_and_small_events_once_and_in_order,
);

const NOTIFY_BYTES: usize = 1_000;
const EVENTS: usize = 60;

async fn start(store: &Store) -> tidewire_stories::Server {
    let notify_bytes = NOTIFY_BYTES.to_string();
    let server = Launch::dev(store).set("TIDEWIRE_LIVE_NOTIFY_BYTES", &notify_bytes).start().await;
    server.http().create("doc").await;
    server
}

/// On the wire: `notify` where the event stands, replayed and live, and only beyond the limit.
async fn what_is_too_large_to_push_is_announced_in_its_place(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    let at_limit = json!("x".repeat(NOTIFY_BYTES - 2));
    let beyond = json!("x".repeat(NOTIFY_BYTES - 1));
    let tab = Tab::open(http).await;
    let mut client = WebSocket::connect(http, &tab.socket()).await;
    client.hears("hello").await;
    client.subscribe(&json!({ "query_id": "q", "stream": "doc", "offset": "-1" })).await;
    let mut offsets = Vec::new();
    for payload in [&at_limit, &beyond, &at_limit] {
        offsets.push(http.append("doc", payload).await);
    }
    for round in ["live", "replayed"] {
        for (kind, offset) in ["event", "notify", "event"].into_iter().zip(&offsets) {
            let message = client.hears(kind).await;
            assert_eq!(message["offset"], **offset, "{round}: {message}");
            assert_eq!(message.get("payload").is_some(), kind == "event", "{round}: {message}");
        }
        client
            .say(&json!({ "type": "subscribe", "subscriptions": [
                { "query_id": "q", "stream": "doc", "offset": "-1" }
            ]}))
            .await;
        client.hears("subscription_created").await;
    }
}

/// I3: through the client nothing of this shows, though later events overtake the fetch.
async fn a_client_gets_large_and_small_events_once_and_in_order(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    append(http, 0..EVENTS / 2).await;
    let client = Client::new(http.base(), None).expect("a client");
    let mut live = client.live(LiveOptions::default()).expect("options that make sense");
    live.subscribe("q", "doc", ReadFrom::Start).expect("a stream's name");
    let writing = append(http, EVENTS / 2..EVENTS);
    let reading = async {
        let mut got: Vec<(String, Value)> = Vec::new();
        while got.len() < EVENTS {
            let update = within_patience("an update", live.next()).await.expect("no error");
            if let Some(Update::Event(event)) = update {
                got.push((event.offset.clone(), event.json().expect("JSON")));
            }
        }
        got
    };
    let ((), got) = tokio::join!(writing, reading);
    for (number, (_, payload)) in got.iter().enumerate() {
        assert_eq!(*payload, self::payload(number), "event {number}");
    }
    assert!(got.is_sorted_by(|(one, _), (next, _)| one < next), "offsets rise");
}

/// Two of three are too large.
fn payload(number: usize) -> Value {
    let text = if number.is_multiple_of(3) { "small".to_owned() } else { "large ".repeat(1_000) };
    json!({ "number": number, "text": text })
}

async fn append(http: &Http, numbers: std::ops::Range<usize>) {
    for number in numbers {
        http.append("doc", &payload(number)).await;
    }
}
