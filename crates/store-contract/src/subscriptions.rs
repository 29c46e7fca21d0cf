//! Subscriptions: which streams belong to them, and from where on.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::Opener;
use super::test_store::TestStore;
use tidewire_store::event::Control;
use tidewire_store::offset::Position;
use tidewire_store::subscription::{Config, Interest, Kind, Link, Op, Reply};
use tidewire_store::testing::commands::{fork, fork_at};

/// A subscription woken by events in the stream `wakes`, with a lease that outlasts any test.
pub(super) fn pull(pattern: Option<&str>, streams: &[&str]) -> Config {
    Config {
        kind: Kind::PullWake { wake_stream: "wakes".to_owned() },
        pattern: pattern.map(str::to_owned),
        streams: streams.iter().map(|&name| name.to_owned()).collect(),
        lease_ttl_ms: 60_000,
        description: None,
    }
}

/// An append to `stream` has been seen.
pub(super) fn grown(stream: &str) -> Op {
    Op::Grown { stream: stream.to_owned() }
}

const DONE: Reply = Reply::Done { next_wake: false };

/// Creation is confirmed when it is repeated, and refused when it says something else.
pub async fn a_subscription_is_made_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let config = Config { description: Some("why".to_owned()), ..pull(Some("a/*"), &["b"]) };
    assert_eq!(store.subscription("s").await.expect("readable"), None);
    let Reply::Subscription { new: true, subscription } =
        store.change("s", Op::Create(config.clone())).await
    else {
        panic!("the subscription was not made");
    };
    assert_eq!(subscription.config, config);
    assert_eq!((subscription.generation, &subscription.wake), (0, &None));
    assert_eq!(*subscription, store.subscribed("s").await);

    let again = store.change("s", Op::Create(config.clone())).await;
    assert_eq!(again, Reply::Subscription { new: false, subscription });
    for other in [
        Config { lease_ttl_ms: 1_000, ..config.clone() },
        Config { pattern: None, ..config.clone() },
        Config { streams: Vec::new(), ..config.clone() },
        Config { description: None, ..config.clone() },
        Config { kind: Kind::Webhook { url: "https://example.org".to_owned() }, ..config },
    ] {
        assert_eq!(store.change("s", Op::Create(other.clone())).await, Reply::Exists, "{other:?}");
    }
}

/// Whatever is asked of a subscription that is not there, it is not found.
pub async fn a_deleted_subscription_is_not_found(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.change("s", Op::Create(pull(None, &["a"]))).await;
    assert_eq!(store.change("s", Op::Delete).await, DONE);
    assert_eq!(store.subscription("s").await.expect("readable"), None);
    assert_eq!(store.interests().await.expect("listed"), []);
    for op in [grown("a"), Op::Delete, Op::Claim { worker: "w".to_owned() }] {
        assert_eq!(store.change("s", op).await, Reply::NotFound);
    }
    store.append_text("a", "x").await;
    store.change("s", Op::Create(pull(None, &["a"]))).await;
    assert!(!store.subscribed("s").await.pending(), "a new one does not inherit the old one's");
}

/// Streams that exist are linked at their ends; those named before they exist, at the start.
pub async fn existing_streams_are_linked_at_their_ends(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut tails = BTreeMap::new();
    for stream in ["a", "a/b", "a/c", "a/b/c", "named", "other"] {
        store.create_text(stream).await;
        tails.insert(stream, store.append_text(stream, "old").await);
    }
    store.create_text("a/deleted").await;
    store.delete("a/deleted").await;
    store.change("s", Op::Create(pull(Some("a/*"), &["missing", "named"]))).await;
    let links: Vec<(String, bool, Position)> = store
        .subscribed("s")
        .await
        .links
        .into_iter()
        .map(|(stream, link)| (stream, link.explicit, link.acked))
        .collect();
    let link = |stream: &str, explicit: bool| {
        (stream.to_owned(), explicit, tails.get(stream).copied().unwrap_or_default())
    };
    assert_eq!(
        links,
        [link("a/b", false), link("a/c", false), link("missing", true), link("named", true)]
    );
    assert!(!store.subscribed("s").await.pending(), "what was there before is not news");

    store.change("all", Op::Create(pull(Some("a/**"), &[]))).await;
    let links: Vec<String> = store.subscribed("all").await.links.into_keys().collect();
    assert_eq!(links, ["a", "a/b", "a/b/c", "a/c"], "two stars are any number of segments");
}

/// A stream that comes later is linked just before the append that reveals it.
pub async fn later_streams_are_linked_before_their_first_append(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.change("s", Op::Create(pull(Some("a/*"), &[]))).await;
    store.create_text("a/new").await;
    assert_eq!(store.change("s", grown("a/new")).await, DONE, "nothing is pending yet");
    let tail = store.append_text("a/new", "first").await;
    assert_eq!(store.change("s", grown("a/new")).await, Reply::Done { next_wake: true });
    let link = store.subscribed("s").await.links["a/new"];
    let expected = Link { explicit: false, by_pattern: true, acked: Position::START, tail };
    assert_eq!(link, expected);
    store.create_text("elsewhere").await;
    store.append_text("elsewhere", "x").await;
    assert_eq!(store.change("s", grown("elsewhere")).await, DONE);
    assert!(!store.subscribed("s").await.links.contains_key("elsewhere"));
}

/// A pattern covers streams that are: one that is deleted leaves, and is news when it comes back.
/// One that was named stays.
pub async fn a_deleted_stream_leaves_its_patterns(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for stream in ["a/1", "named"] {
        store.create_text(stream).await;
        store.append_text(stream, "old").await;
    }
    store.change("s", Op::Create(pull(Some("a/*"), &["named"]))).await;
    for stream in ["a/1", "named"] {
        store.delete(stream).await;
    }
    let left = store.subscribed("s").await;
    assert_eq!(left.links.keys().collect::<Vec<_>>(), ["named"]);
    assert!(!left.pending());
    for stream in ["a/1", "named"] {
        store.create_text(stream).await;
        store.append_text(stream, "new").await;
        store.change("s", grown(stream)).await;
        assert!(store.subscribed("s").await.links[stream].pending(), "{stream}");
    }
}

/// Streams can be added and taken away by name; those a pattern covers stay.
pub async fn streams_are_added_and_removed_by_name(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for stream in ["a/1", "b"] {
        store.create_text(stream).await;
        store.append_text(stream, "old").await;
    }
    store.change("s", Op::Create(pull(Some("a/*"), &["a/1"]))).await;
    let add = Op::AddStreams(vec!["b".to_owned(), "missing".to_owned()]);
    assert_eq!(store.change("s", add).await, DONE);
    let subscription = store.subscribed("s").await;
    let names: Vec<&String> = subscription.links.keys().collect();
    assert_eq!(names, ["a/1", "b", "missing"]);
    assert!(!subscription.pending(), "added streams are linked at their ends");
    for stream in ["b", "a/1", "never-added"] {
        assert_eq!(store.change("s", Op::RemoveStream(stream.to_owned())).await, DONE);
    }
    let links = store.subscribed("s").await.links;
    let names: Vec<&String> = links.keys().collect();
    assert_eq!(names, ["a/1", "missing"], "the pattern still covers a/1");
    assert!(!links["a/1"].explicit);
    assert!(!links["a/1"].pending(), "and its cursor is kept");
}

/// Nodes learn which streams concern which subscription, and when to ask again.
pub async fn interests_are_listed_and_their_changes_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a/by-pattern").await;
    store.create_text("b").await;
    let before = store.log_tip().await;
    store.change("s", Op::Create(pull(Some("a/*"), &["b"]))).await;
    store.change("s", Op::AddStreams(vec!["c".to_owned()])).await;
    let mut interests = store.interests().await.expect("listed");
    interests.iter_mut().for_each(|interest| interest.streams.sort());
    let streams = vec!["b".to_owned(), "c".to_owned()];
    let pattern = Some("a/*".to_owned());
    assert_eq!(interests, [Interest { id: "s".to_owned(), pattern, streams }]);
    store.change("s", Op::RemoveStream("c".to_owned())).await;
    store.change("s", grown("b")).await;
    store.change("s", Op::Delete).await;
    let told: Vec<(String, Option<Control>)> = store
        .log_after(before)
        .await
        .into_iter()
        .map(|event| (event.stream, event.control))
        .collect();
    let changed = ("__ds/subscriptions/s".to_owned(), Some(Control::Subscription));
    assert_eq!(told, [(); 4].map(|()| changed.clone()), "made, added, removed, deleted");
}

/// A stream's end is that of its forks too: one without content of its own has its source's.
pub async fn forks_are_linked_at_their_ends(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("source").await;
    let first = store.append_text("source", "1").await;
    let second = store.append_text("source", "2").await;
    store.create(fork_at("source", first, 0, "f/first")).await;
    store.create(fork("source", "f/second")).await;
    store.change("s", Op::Create(pull(Some("f/*"), &[]))).await;
    let links = store.subscribed("s").await.links;
    let ends = |stream: &str| (links[stream].acked, links[stream].tail);
    assert_eq!(ends("f/first"), (first, first));
    assert_eq!(ends("f/second"), (second, second));
    store.append_text("source", "3").await;
    assert!(!store.subscribed("s").await.pending(), "the source's later appends are not theirs");
}

/// The first to ask for a secret decides it for all.
pub async fn a_secret_is_decided_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let answers = join_all((0..8u8).map(|n| store.secret("key", vec![n, 0, 255]))).await;
    let values: Vec<Vec<u8>> = answers.into_iter().map(|a| a.expect("a secret")).collect();
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    assert_eq!(store.secret("key", vec![99]).await.expect("a secret"), values[0]);
    assert_eq!(store.secret("other", vec![1]).await.expect("a secret"), [1]);
}
