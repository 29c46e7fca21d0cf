//! A page that reads by EventSource reads slowly, or has only just caught up, and is cut off. It
//! comes back with the last `id` it was given, as browsers do by themselves.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use tidewire_stories::follower::is_exact;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{EventSource, Launch, Store, Transcript};

const STREAMS: [&str; 2] = ["left", "right"];

/// Of the size that fills sockets soon.
fn large(n: usize) -> Value {
    json!({ "n": n, "text": "x".repeat(5 << 10) })
}

/// I3: what was dropped from the queue of a slow client is not lost when the connection breaks before
/// it was read again: its last `id` must not stand for what it did not get.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_dropped_is_not_lost_when_the_connection_breaks() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store).set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "100");
    let server = launch.start().await;
    let http = server.http();
    let session = http.open_session().await;
    let mut starts = BTreeMap::new();
    for stream in STREAMS {
        http.create(stream).await;
        starts.insert(stream, http.follow(&session, stream, "now").await);
    }
    let mut response = EventSource::open(http, &session, None).await;
    hears(&mut response, "subscription_created").await;

    // What was dropped is caught up on once more.
    let mut appends = 0;
    let caught_up = http.metric("tidewire_live_catch_ups_total").await;
    while http.metric("tidewire_live_catch_ups_total").await == caught_up {
        for stream in STREAMS {
            http.append(stream, &large(appends)).await;
        }
        appends += 1;
        assert!(appends < 10_000, "nothing was dropped");
    }

    // Cut off at any moment, and back with what a browser would send.
    let mut got: BTreeMap<String, Vec<(String, Bytes)>> = BTreeMap::new();
    let mut left = rand::random_range(1..2 * appends);
    note(&mut response, &mut got, |_| {
        left -= 1;
        left == 0
    })
    .await;
    let last_id = response.last_id.clone();
    drop(response);
    let mut response = EventSource::open(http, &session, last_id.as_deref()).await;
    let ends =
        [http.append("left", &json!("end")).await, http.append("right", &json!("end")).await];
    let mut ends_left = 2;
    note(&mut response, &mut got, |message| {
        assert_ne!(message["type"], "gap", "to one who reads");
        ends_left -= usize::from(message["type"] == "event" && message["payload"] == "end");
        ends_left == 0
    })
    .await;

    for (stream, end) in STREAMS.into_iter().zip(ends) {
        let transcript = Transcript::read(http, stream).await;
        let last = got[stream].last().map(|(offset, _)| offset);
        assert_eq!(last, Some(&end), "the last event of {stream}");
        is_exact(stream, &starts[stream], &got[stream], transcript.events());
    }
}

/// I3: whoever has caught up, and came back before anything else was appended, is not given all of
/// it again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_caught_up_on_is_not_given_again() {
    let store = Store::sqlite();
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    http.create("left").await;
    for n in 0..3 {
        http.append("left", &json!(n)).await;
    }
    let session = http.open_session().await;
    http.follow(&session, "left", "-1").await;
    let mut response = EventSource::open(http, &session, None).await;
    for n in 0..3 {
        assert_eq!(hears(&mut response, "event").await["payload"], n);
    }
    let last_id = response.last_id.clone();
    drop(response);
    let mut response = EventSource::open(http, &session, last_id.as_deref()).await;
    hears(&mut response, "subscription_created").await;
    http.append("left", &json!("news")).await;
    assert_eq!(hears(&mut response, "event").await["payload"], "news", "after a return");
}

async fn hears(response: &mut EventSource, kind: &str) -> Value {
    let heard = async {
        loop {
            let message = response.next().await.expect("a response that stays");
            if message["type"] == kind {
                return message;
            }
        }
    };
    within_patience(kind, heard).await
}

/// Notes events, of each stream those that are greater than the last, up to a message that ends it.
async fn note(
    response: &mut EventSource,
    got: &mut BTreeMap<String, Vec<(String, Bytes)>>,
    mut ends: impl FnMut(&Value) -> bool,
) {
    let all = async {
        loop {
            let message = response.next().await.expect("a response that stays");
            if message["type"] == "event" {
                let text = |member: &str| message[member].as_str().expect("text").to_owned();
                let (offset, events) = (text("offset"), got.entry(text("streamId")).or_default());
                if events.last().is_none_or(|(last, _)| *last < offset) {
                    events.push((offset, message["payload"].to_string().into()));
                }
            }
            if ends(&message) {
                return;
            }
        }
    };
    within_patience("the rest", all).await;
}
