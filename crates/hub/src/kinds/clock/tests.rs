//! What a kind gets for nothing.

use std::sync::atomic::Ordering;

use serde_json::Value;

use tidewire_store::Position;

use super::ClockRequest;
use crate::crowd::{Client, Crowd};
use crate::kinds::SubscribeRequest;

/// The messages that a client got.
fn messages(client: &mut Client) -> Vec<Value> {
    client.read();
    let lines = client.got.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Has a client follow the clock, and take the answer.
async fn follow(crowd: &mut Crowd, client: &mut Client, query_id: &str) {
    let request = SubscribeRequest::Clock(ClockRequest { query_id: query_id.into() });
    crowd.shard.subscribe(client.key, vec![request]);
    crowd.turn().await;
    client.read();
}

#[tokio::test]
async fn admission() {
    let mut crowd = Crowd::new(|options| options.live.subscriptions_max = 2).await;
    let mut client = crowd.client();
    for query_id in ["a", "b", "a", "c"] {
        follow(&mut crowd, &mut client, query_id).await;
    }
    let said = messages(&mut client);
    let begun: Vec<_> = said.iter().filter_map(|message| begun(message)).collect();
    assert_eq!(begun, [("a", false), ("b", false), ("a", true)], "a is begun anew");
    let refused = said.last().expect("an answer");
    assert_eq!(refused["code"], "too_many_subscriptions");
    assert_eq!(refused["query_id"], "c");
}

/// The name of what a message says has begun, and whether it takes the place of an earlier one.
fn begun(message: &Value) -> Option<(&str, bool)> {
    let begun = message["subscriptions"].as_array()?.first()?;
    Some((begun["query_id"].as_str()?, begun["reset"].as_bool()?))
}

/// The ticks that a client was told.
fn ticks(client: &mut Client) -> Vec<u64> {
    messages(client).iter().filter_map(|message| message["tick"].as_u64()).collect()
}

#[tokio::test]
async fn slices() {
    let mut crowd = Crowd::new(|options| options.live.fan_out_threshold = 2).await;
    let mut followers: Vec<Client> = (0..9).map(|_| crowd.client()).collect();
    for client in &mut followers {
        follow(&mut crowd, client, "q").await;
    }
    for tick in 1..=2 {
        crowd.shard.strike(tick);
    }
    for served in [2, 4, 6, 8] {
        crowd.turn().await;
        let told =
            followers.iter_mut().filter_map(|client| (!ticks(client).is_empty()).then_some(()));
        assert_eq!(told.count(), served, "two in each turn");
    }
    for _ in 0..9 {
        crowd.turn().await;
        followers.iter_mut().for_each(Client::read);
    }
    assert!(followers.iter_mut().all(|client| ticks(client) == [1, 2]), "all, and in order");
}

#[tokio::test]
async fn progress_and_ending() {
    let mut crowd = Crowd::new(|_| {}).await;
    let mut client = crowd.client();
    follow(&mut crowd, &mut client, "q").await;
    crowd.shard.position = Position::new(7);
    crowd.shard.connection(client.key).expect("there").next_ping_ms = 0;
    crowd.shard.upkeep();
    crowd.shard.care(1);
    for _ in 0..2 {
        crowd.turn().await;
        client.read();
    }
    let offset = crowd.hub.offset(Position::new(7)).to_string();
    let said = messages(&mut client);
    let progress = said.iter().find(|message| message["type"] == "progress");
    assert_eq!(progress.expect("it is asked for everyone")["offset"], offset);
    crowd.shard.unsubscribe(client.key, "q");
    crowd.shard.strike(1);
    crowd.turn().await;
    let said = messages(&mut client);
    let last = said.last().expect("the end");
    assert_eq!((&last["type"], &last["query_id"]), (&"subscription_ended".into(), &"q".into()));
    assert_eq!(last["reason"], "unsubscribed");
    assert_eq!(ticks(&mut client), [0; 0], "nothing comes after it");
}

#[tokio::test]
async fn backpressure() {
    let mut crowd = Crowd::new(|options| options.live.queue_events_max = 3).await;
    let (mut slow, mut quick) = (crowd.client(), crowd.client());
    for client in [&mut slow, &mut quick] {
        follow(&mut crowd, client, "q").await;
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
    assert_eq!(ticks(&mut quick), (1..=20).collect::<Vec<u64>>());
    let mut known = Vec::new();
    for message in messages(&mut slow) {
        match message["type"].as_str() {
            Some("subscription_created") => {}
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
    follow(&mut crowd, &mut client, "q").await;
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
    assert!(crowd.shard.rosters.clock.is_empty(), "it has left");
}
