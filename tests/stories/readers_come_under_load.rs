//! Readers of streams come at moments of no one's choosing, while producers append without a pause,
//! some of them too slow for it. What each gets over one response is exactly what the stream holds
//! after the offset it asked for.

use std::time::Duration;

use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use tidewire_stories::stream_source::{START, is_exact};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Batch, Http, Launch, Nodes, Plan, Producers, Store, StreamSource, Transcript,
};
use tidewire_stories::{faults, rounds};
use tokio::task::JoinSet;

/// Few make a crowd, so that most are served in slices.
const SETTINGS: [(&str, &str); 2] =
    [("TIDEWIRE_LIVE_FAN_OUT_THRESHOLD", "3"), ("TIDEWIRE_STREAMS_SSE_MS", "300000")];

const STREAMS: [&str; 3] = ["one", "two", "three"];
/// Readers in a round, and how many of them at a time.
const READERS: usize = 200;
const AT_A_TIME: usize = 24;
/// Batches that must arrive after the end that the stream had when the reader came.
const LIVE_BATCHES: usize = 5;

/// I3: whoever reads by SSE gets every event after its offset, in order, once. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_gives_each_reader_exactly_what_it_asked_for() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store);
    let launch = SETTINGS.iter().fold(launch, |launch, (name, value)| launch.set(name, value));
    let server = launch.start().await;
    each_gets_what_it_asked_for(&[server.http().clone()]).await;
}

/// I3: the same on two nodes, with readers on any and producers on both. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_give_each_reader_exactly_what_it_asked_for() {
    let store = Store::postgres().await;
    let nodes = Nodes::start(2, &store, &SETTINGS).await;
    each_gets_what_it_asked_for(nodes.https()).await;
}

/// What one reader got.
struct Got {
    stream: &'static str,
    start: String,
    batches: Vec<Batch>,
}

async fn each_gets_what_it_asked_for(nodes: &[Http]) {
    for stream in STREAMS {
        nodes[0].create(stream).await;
    }
    let plans = [
        Plan::plain("a", "one"),
        Plan::idempotent("b", "one").in_batches(),
        Plan::idempotent("c", "two"),
        Plan::plain("d", "two").in_batches(),
        Plan::plain("e", "three"),
        Plan::idempotent("f", "three"),
    ];
    let mut producers = Producers::spread(nodes, plans);
    producers.progress(50).await;

    let mut all = Vec::new();
    let mut under_way = JoinSet::new();
    for _ in 0..READERS * rounds(1).min(10) {
        while under_way.len() >= AT_A_TIME {
            all.extend(under_way.join_next().await.map(|one| one.expect("a reader")));
        }
        under_way.spawn(reader(nodes.to_vec()));
    }
    while let Some(one) = under_way.join_next().await {
        all.push(one.expect("a reader"));
    }
    producers.stop().await;

    for stream in STREAMS {
        let mut transcript = Transcript::new(stream);
        producers.check(&nodes[0], &mut transcript).await;
        for got in all.iter().filter(|got| got.stream == stream) {
            is_exact(stream, &got.start, &got.batches, transcript.events());
        }
    }
    assert!(producers.complaints().is_empty(), "{:?}", producers.complaints());
}

/// Reads until it is live, with or without pauses.
async fn reader(nodes: Vec<Http>) -> Got {
    faults::random_moment().await;
    let http = nodes.choose(&mut rand::rng()).expect("a node").clone();
    let stream = *STREAMS.choose(&mut rand::rng()).expect("a stream");
    let earlier = http.tail(stream).await;
    let (offset, pause) = {
        let mut random = rand::rng();
        let offset = match random.random_range(0..4) {
            0 => "-1".to_owned(),
            1 => "now".to_owned(),
            _ => earlier,
        };
        (offset, Duration::from_millis(random.random_range(0..3) * 5))
    };
    let mut source = StreamSource::open(&http, stream, &offset).await;
    let tail = http.tail(stream).await;
    let read = async {
        let (mut batches, mut live) = (Vec::new(), 0);
        while live < LIVE_BATCHES {
            let batch = source.next().await.expect("a response that goes on");
            live += usize::from(batch.offset() > tail.as_str());
            batches.push(batch);
            tokio::time::sleep(pause).await;
        }
        batches
    };
    let mut batches = within_patience("a reader gets live", read).await;
    let start = match offset.as_str() {
        "-1" => START.to_owned(),
        // What came at once may not have been there when the server looked for the end.
        "now" => batches.remove(0).offset().to_owned(),
        _ => offset,
    };
    Got { stream, start, batches }
}
