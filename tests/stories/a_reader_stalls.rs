//! A client reads slowly, or not at all, or is not there any more. It costs the server little,
//! delays nobody, and misses nothing.

use std::time::Duration;

use serde_json::json;
use tidewire_client::{LiveOptions, ReadFrom};
use tidewire_stories::follower::{Pace, is_exact};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Batch, Flood, Follower, Http, Launch, Server, Store, StreamSource, Transcript, Wire,
    eventually, stream_source,
};
use tokio::time::Instant;

/// How long a client stops, and by how much memory the server may grow meanwhile: far less than
/// what is appended.
const STALL: Duration = Duration::from_secs(30);
const GROWTH_BYTES_MAX: usize = 16 << 20;
const STALL_APPENDED_BYTES: usize = 32 << 20;

/// More than the buffers of two sockets hold, so that a server whose client does not read must
/// keep the rest, or drop it.
const PAST_THE_SOCKETS_BYTES: usize = 12 << 20;

/// How long it talks: long enough to cost far more than it may, if nothing held it back.
const TALK: Duration = Duration::from_secs(8);
/// Messages whose answers are ten times what the server may grow by.
const PINGS: usize = 2_000_000;

/// A server that keeps little for a slow client, and closes one that is silent for two seconds.
fn launch(store: &Store) -> Launch {
    Launch::dev(store)
        .set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "200")
        .set("TIDEWIRE_LIVE_QUEUE_BYTES_MAX", "262144")
        // Pages that are kept for others who catch up are no cost of this client.
        .set("TIDEWIRE_STREAMS_PAGE_CACHE_BYTES_MAX", "0")
}

fn impatient(store: &Store) -> Launch {
    launch(store).set("TIDEWIRE_LIVE_PING_MS", "500").set("TIDEWIRE_LIVE_SILENCE_MS", "2000")
}

/// Without compression, which would make nothing of what fills the sockets.
fn follow(http: &Http, stream: &str) -> Follower {
    let options = LiveOptions { compression: false, ..LiveOptions::default() };
    Follower::start(&http.client(), options, &[(stream, ReadFrom::Start)])
}

async fn start(launch: Launch, stream: &str) -> Server {
    let server = launch.start().await;
    server.http().create(stream).await;
    server
}

/// I3, I5: thirty seconds without reading under load cost bounded memory and delay nobody; the
/// client is not closed, and has every event once when it reads on.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_minute_without_reading_costs_little_and_loses_nothing() {
    // PostgreSQL's memory is not the server's, as SQLite's cache is.
    let store = Store::postgres().await;
    let mut server = start(launch(&store), "busy").await;
    let http = server.http().clone();
    let (stalled, attentive) = (follow(&http, "busy"), follow(&http, "busy"));
    let mut flood = Flood::start(&http, "busy");
    flood.rises(4 << 20).await;
    stalled.progresses(1).await;
    stalled.reads(Pace::Stopped);

    let before = server.process().resident_bytes();
    let until = Instant::now() + STALL;
    let mut highest = before;
    let enough = flood.appended_bytes() + STALL_APPENDED_BYTES;
    while Instant::now() < until || flood.appended_bytes() < enough {
        attentive.progresses(1).await;
        highest = highest.max(server.process().resident_bytes());
    }
    assert!(http.metric("tidewire_live_gaps_total").await > 0, "no gap");
    let growth = highest - before;
    assert!(growth < GROWTH_BYTES_MAX, "it grew by {growth} bytes from {before}");
    flood.stop().await;

    stalled.reads(Pace::Full);
    let transcript = Transcript::read(&http, "busy").await;
    stalled.has_all_of(&transcript).await;
    attentive.has_all_of(&transcript).await;
    for follower in [&stalled, &attentive] {
        assert_eq!(follower.losses(), [""; 0], "nobody was disconnected");
        assert_eq!(follower.nodes().len(), 1);
    }
}

/// I3, I5: the same for one who reads a stream by SSE. It keeps its one response, and gets every
/// event over it.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_nobody_reads_costs_little_and_loses_nothing() {
    let store = Store::postgres().await;
    let launch = launch(&store).set("TIDEWIRE_STREAMS_SSE_MS", "300000");
    let mut server = start(launch, "busy").await;
    let http = server.http().clone();
    let mut stalled = StreamSource::open(&http, "busy", "-1").await;
    let attentive = follow(&http, "busy");
    let mut reader = StreamSource::open(&http, "busy", "-1").await;
    let mut flood = Flood::start(&http, "busy");
    flood.rises(4 << 20).await;
    attentive.progresses(1).await;

    let before = server.process().resident_bytes();
    let mut highest = before;
    let enough = flood.appended_bytes() + STALL_APPENDED_BYTES;
    let mut read = Vec::new();
    while flood.appended_bytes() < enough {
        read.push(within_patience("one who reads", reader.next()).await.expect("it goes on"));
        attentive.progresses(1).await;
        highest = highest.max(server.process().resident_bytes());
    }
    let growth = highest - before;
    assert!(growth < GROWTH_BYTES_MAX, "it grew by {growth} bytes from {before}");
    flood.stop().await;

    let transcript = Transcript::read(&http, "busy").await;
    let last = &transcript.events().last().expect("an event").offset;
    for (source, mut batches) in [(&mut stalled, Vec::new()), (&mut reader, read)] {
        while batches.last().is_none_or(|batch: &Batch| batch.offset() < last.as_str()) {
            batches.push(within_patience("the rest", source.next()).await.expect("it goes on"));
        }
        stream_source::is_exact("busy", stream_source::START, &batches, transcript.events());
        let end = batches.last().expect("a batch");
        assert_eq!(end.control["upToDate"], true, "{}", end.control);
    }
}

/// I3: what was dropped is told as a gap that begins where the client stands; whoever asks again from
/// there gets it all.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_says_what_is_missing_and_asking_again_brings_it() {
    let store = Store::sqlite();
    let server = start(launch(&store), "busy").await;
    let http = server.http();
    let mut wire = Wire::open(http, "/v1/ws").await;
    let start = wire.subscribe("busy", "now").await;
    let mut flood = Flood::start(http, "busy");
    eventually("something is dropped", async || {
        (http.metric("tidewire_live_gaps_total").await > 0).then_some(())
    })
    .await;
    flood.rises(1 << 20).await;
    flood.stop().await;

    let transcript = Transcript::read(http, "busy").await;
    let last = &transcript.events().last().expect("an event").offset;
    let (mut events, mut gaps) = (Vec::new(), 0);
    let mut newest = start.clone();
    while newest < *last {
        let message = within_patience("the rest", wire.next()).await.expect("a connection");
        match message["type"].as_str() {
            Some("event") => {
                newest = message["offset"].as_str().expect("an offset").to_owned();
                events.push((newest.clone(), message["payload"].to_string().into()));
            }
            Some("gap") => {
                gaps += 1;
                assert_eq!(message["from"], newest.as_str(), "{message}");
                assert!(message["to"].as_str() > message["from"].as_str(), "{message}");
                assert_eq!(wire.subscribe("busy", &newest).await, newest, "begun anew");
            }
            _ => {}
        }
    }
    is_exact("busy", &start, &events, transcript.events());
    assert!(gaps > 0, "{gaps} gaps");
}

/// I3: whoever is silent for too long is closed, comes back, and has every event once.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_is_silent_for_too_long_is_closed_and_comes_back_to_everything() {
    let store = Store::sqlite();
    let server = start(impatient(&store), "busy").await;
    let http = server.http();
    let follower = follow(http, "busy");
    let mut flood = Flood::start(http, "busy");
    follower.progresses(1).await;
    follower.reads(Pace::Stopped);
    silent_are_closed(http, 1).await;
    flood.rises(1 << 20).await;
    flood.stop().await;
    follower.reads(Pace::Full);
    let transcript = Transcript::read(http, "busy").await;
    follower.has_all_of(&transcript).await;
    assert!(!follower.losses().is_empty(), "it was closed");
}

/// I3, I5: whoever reads slowly is never closed, for as long as there is something to read.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_reads_slowly_is_never_closed() {
    let store = Store::sqlite();
    // Long enough for a starved client to read what makes a socket take more.
    let launch = impatient(&store).set("TIDEWIRE_LIVE_SILENCE_MS", "5000");
    let server = start(launch, "busy").await;
    let http = server.http();
    let follower = follow(http, "busy");
    follower.stands(1).await;
    follower.reads(Pace::Pausing(Duration::from_millis(3)));
    let mut flood = Flood::start(http, "busy");
    flood.rises(PAST_THE_SOCKETS_BYTES).await;
    flood.stop().await;
    let transcript = Transcript::read(http, "busy").await;
    follower.has_all_of(&transcript).await;
    assert_eq!(follower.losses(), [""; 0], "a slow reader was disconnected");
    assert_eq!(http.metric("tidewire_live_silent_closed_total").await, 0);
}

/// I5: one who vanished without a word is found, whether something was to be sent or not; one who
/// only answers pings stays.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_vanished_is_found_and_closed() {
    let store = Store::sqlite();
    let server = start(impatient(&store), "quiet").await;
    let http = server.http();
    http.create("busy").await;
    let mut waiting = Wire::open(http, "/v1/ws").await;
    waiting.subscribe("quiet", "now").await;
    let mut vanished = Vec::new();
    for stream in ["quiet", "busy"] {
        let mut wire = Wire::open(http, "/v1/ws").await;
        wire.subscribe(stream, "now").await;
        wire.answers = false;
        vanished.push(wire);
    }
    let flood = Flood::start(http, "busy");
    // Meanwhile its pings are read and answered.
    let answering = async {
        while let Some(message) = waiting.next().await {
            assert_eq!(message["type"], "progress", "nothing else is to be told");
        }
    };
    tokio::select! {
        () = silent_are_closed(http, 2) => {}
        () = answering => panic!("one who answers was closed"),
    }
    flood.stop().await;
    eventually("both are gone", async || {
        (http.metric("tidewire_live_websockets").await == 1).then_some(())
    })
    .await;
    http.append("quiet", &json!("news")).await;
    assert_eq!(waiting.hears("event").await["payload"], "news", "for one who answered");
    drop(vanished);
}

/// I5: one who talks and never listens costs bounded memory too.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_talks_and_never_listens_costs_little() {
    let store = Store::sqlite();
    let mut server = start(launch(&store), "quiet").await;
    let http = server.http().clone();
    let mut wire = Wire::open(&http, "/v1/ws").await;
    wire.hears("hello").await;
    let before = server.process().resident_bytes();
    let ping = json!({ "type": "ping" });
    // Whoever is not heard any more, or is closed, may say the rest in vain.
    let talking = async {
        for _ in 0..PINGS {
            wire.say(&ping).await;
        }
    };
    let _ = tokio::time::timeout(TALK, talking).await;
    let growth = server.process().resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "it grew by {growth} bytes from {before}");
}

async fn silent_are_closed(http: &Http, count: u64) {
    eventually("the silent are closed", async || {
        let closed = http.metric("tidewire_live_silent_closed_total").await;
        (closed >= count).then_some(())
    })
    .await;
}
