//! What a kind gets for nothing.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::ClockRequest;
use crate::hub::crowd::{Client, Crowd};
use crate::hub::kinds::SubscribeRequest;

/// The messages that a client got.
fn messages(client: &mut Client) -> Vec<Value> {
    client.read();
    let lines = client.got.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn follow(crowd: &mut Crowd, client: &Client, query_id: &str) {
    let request = SubscribeRequest::Clock(ClockRequest { query_id: query_id.into() });
    crowd.shard.subscribe(client.key, vec![request]);
}

#[tokio::test]
async fn admission() {
    let mut crowd = Crowd::new(|options| options.live.subscriptions_max = 2).await;
    let mut client = crowd.client();
    for query_id in ["a", "b", "a", "c"] {
        follow(&mut crowd, &client, query_id);
    }
    crowd.turn().await;
    let refused = messages(&mut client);
    assert_eq!(refused.len(), 1, "a is begun anew: {refused:?}");
    assert_eq!(refused[0]["code"], "too_many_subscriptions");
    assert_eq!(refused[0]["query_id"], "c");
}

#[tokio::test]
async fn backpressure() {
    let mut crowd = Crowd::new(|options| options.live.queue_events_max = 3).await;
    let (mut slow, mut quick) = (crowd.client(), crowd.client());
    for client in [&slow, &quick] {
        follow(&mut crowd, client, "q");
    }
    for tick in 1..=20 {
        crowd.shard.strike(tick);
        crowd.turn().await;
        quick.read();
        assert!(crowd.shard.connection(slow.key).expect("there").outbox.events <= 3);
    }
    for _ in 0..20 {
        slow.read();
        // It has taken something, so that its socket is free again.
        crowd.turn().await;
    }
    let ticks: Vec<u64> =
        messages(&mut quick).iter().filter_map(|tick| tick["tick"].as_u64()).collect();
    assert_eq!(ticks, (1..=20).collect::<Vec<u64>>());
    let mut known = Vec::new();
    for message in messages(&mut slow) {
        match message["type"].as_str() {
            Some("tick") => known.extend(message["tick"].as_u64()),
            _ => known.extend(
                message["from"].as_u64().expect("a tick") + 1
                    ..=message["to"].as_u64().expect("a tick"),
            ),
        }
    }
    assert_eq!(known, (1..=20).collect::<Vec<u64>>(), "told, or told to be missed: {}", slow.got);
    assert!(slow.got.contains("missed"), "{}", slow.got);
}

#[tokio::test]
async fn metrics() {
    let mut crowd = Crowd::new(|options| options.live.queue_events_max = 1).await;
    let mut client = crowd.client();
    follow(&mut crowd, &client, "q");
    for tick in 1..=5 {
        crowd.shard.strike(tick);
        crowd.turn().await;
    }
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let stats = std::sync::Arc::clone(&crowd.shard.stats);
    assert_eq!((read(&stats.subscriptions), read(&stats.pushed)), (1, 1));
    assert!(read(&stats.gaps) > 0);
    let told = crowd.shard.connection(client.key).expect("there").slots().count();
    assert_eq!(told, 1);
    client.read();
    crowd.shard.unsubscribe(client.key, "q");
    assert_eq!(read(&stats.subscriptions), 0);
    assert!(crowd.shard.clock.is_empty(), "it has left");
}
