//! Clients subscribe at moments of no one's choosing, while producers append without a pause. What
//! each gets is exactly what the stream holds after the offset that was agreed.

use bytes::Bytes;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use tidewire_stories::follower::is_exact;
use tidewire_stories::wait::within_patience;
use tidewire_stories::witness::Connection;
use tidewire_stories::{
    EventSource, Http, Launch, Nodes, Plan, Producers, Store, Transcript, Wire,
};
use tidewire_stories::{faults, rounds};
use tokio::task::JoinSet;

/// I3: whoever subscribes gets every event after the agreed offset, in order, once. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_gives_each_subscriber_exactly_what_it_was_promised() {
    let store = Store::sqlite();
    let server = Launch::dev(&store);
    let server = UNBOUNDED.iter().fold(server, |launch, (name, value)| launch.set(name, value));
    let server = server.start().await;
    each_gets_what_it_was_promised(&[server.http().clone()]).await;
}

/// I3: the same on three nodes, with subscribers on any and producers on all. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_give_each_subscriber_exactly_what_it_was_promised() {
    let store = Store::postgres().await;
    let nodes = Nodes::start(3, &store, &UNBOUNDED).await;
    each_gets_what_it_was_promised(nodes.https()).await;
}

/// A gap would be no fault of a server whose clients starve, and none of these asks again.
const UNBOUNDED: [(&str, &str); 2] =
    [("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "1000000"), ("TIDEWIRE_LIVE_QUEUE_BYTES_MAX", "268435456")];

const STREAMS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
/// Subscriptions in a round, and how many of them at a time.
const SUBSCRIPTIONS: usize = 300;
const AT_A_TIME: usize = 12;
/// Events that must arrive after the end that the stream had when the subscription stood.
const LIVE_EVENTS: usize = 5;

/// What one subscription came to.
struct Followed {
    stream: &'static str,
    start: String,
    events: Vec<(String, Bytes)>,
}

async fn each_gets_what_it_was_promised(nodes: &[Http]) {
    for stream in STREAMS {
        nodes[0].create(stream).await;
    }
    let plans = [
        Plan::plain("a", "one"),
        Plan::idempotent("b", "two").in_batches(),
        Plan::plain("c", "three").in_batches(),
        Plan::idempotent("d", "four"),
        Plan::plain("e", "five"),
        Plan::idempotent("f", "six"),
        Plan::idempotent("g", "one"),
        Plan::plain("h", "four").in_batches(),
    ];
    let mut producers = Producers::spread(nodes, plans);
    producers.progress(50).await;

    let mut followed = Vec::new();
    let mut under_way = JoinSet::new();
    for _ in 0..SUBSCRIPTIONS * rounds(1).min(10) {
        while under_way.len() >= AT_A_TIME {
            followed.extend(under_way.join_next().await.map(|one| one.expect("a subscription")));
        }
        under_way.spawn(subscription(nodes.to_vec()));
    }
    while let Some(one) = under_way.join_next().await {
        followed.push(one.expect("a subscription"));
    }
    producers.stop().await;

    for stream in STREAMS {
        let mut transcript = Transcript::new(stream);
        producers.check(&nodes[0], &mut transcript).await;
        for one in followed.iter().filter(|one| one.stream == stream) {
            is_exact(stream, &one.start, &one.events, transcript.events());
        }
    }
    assert!(producers.complaints().is_empty(), "{:?}", producers.complaints());
}

/// Subscribes one way or the other, and reads until it is live.
async fn subscription(nodes: Vec<Http>) -> Followed {
    faults::random_moment().await;
    let http = nodes.choose(&mut rand::rng()).expect("a node").clone();
    let stream = *STREAMS.choose(&mut rand::rng()).expect("a stream");
    let earlier = http.tail(stream).await;
    let (offset, sse) = {
        let mut random = rand::rng();
        let offset = match random.random_range(0..8) {
            0 => "-1".to_owned(),
            1..4 => "now".to_owned(),
            _ => earlier.clone(),
        };
        (offset, random.random_bool(0.5))
    };
    if offset != "now" {
        grows(&http, stream, &earlier).await;
    }
    let mut source = Source::open(&http, stream, &offset, sse).await;
    let tail = http.tail(stream).await;
    is_agreed(&offset, &source.start, &earlier, &tail);
    let events = within_patience("a subscription gets live", source.read_past(&tail)).await;
    Followed { stream, start: source.start, events }
}

/// Where a subscription begins is what was asked for.
fn is_agreed(asked: &str, start: &str, earlier: &str, tail: &str) {
    match asked {
        "-1" => assert!(start <= earlier, "from the start is after {start}"),
        "now" => assert!(earlier <= start && start <= tail, "{earlier} <= {start} <= {tail}"),
        offset => assert_eq!(start, offset, "where it begins"),
    }
}

/// Waits until there is something to be caught up on.
async fn grows(http: &Http, stream: &str, tail: &str) {
    let answer = http.get(&format!("/v1/stream/{stream}?live=long-poll&offset={tail}")).await;
    assert_eq!(answer.status, 200, "the stream grows: {}", answer.text());
}

/// Where events come from.
struct Source {
    stream: &'static str,
    start: String,
    connection: Connection,
}

impl Source {
    async fn open(http: &Http, stream: &'static str, offset: &str, sse: bool) -> Source {
        if sse {
            let session = http.open_session().await;
            let start = http.follow(&session, stream, offset).await;
            let connection = EventSource::open(http, &session, None).await;
            Source { stream, start, connection: Connection::EventSource(connection) }
        } else {
            let mut wire = Wire::open(http, "/v1/ws").await;
            let start = wire.subscribe(stream, offset).await;
            Source { stream, start, connection: Connection::WebSocket(wire) }
        }
    }

    /// Reads until some events have come that were not there yet when it began.
    async fn read_past(&mut self, tail: &str) -> Vec<(String, Bytes)> {
        let (mut events, mut live) = (Vec::new(), 0);
        while live < LIVE_EVENTS {
            let message = self.connection.next().await.expect("a connection that stays");
            match message["type"].as_str() {
                Some("event") => {
                    let offset = message["offset"].as_str().expect("an offset").to_owned();
                    live += usize::from(offset.as_str() > tail);
                    events.push((offset, message["payload"].to_string().into()));
                }
                Some("hello" | "subscription_created" | "progress") => {}
                _ => panic!("{} was told {message}", self.stream),
            }
        }
        events
    }
}
