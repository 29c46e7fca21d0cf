//! A thousand clients are cut off at once and come back at once. The server takes them in, stays
//! ready, appends meanwhile, and each of them has everything once.

use serde_json::json;
use tidewire_client::{LiveOptions, ReadFrom};
use tidewire_stories::{EventSource, Follower, Http, Launch, Store, Transcript, Wire, eventually};
use tidewire_stories::{rounds, wait::within_patience};

/// I3: after a crash. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_return_after_a_kill() {
    a_thousand_return(&Store::sqlite(), &[End::Kill]).await;
}

/// I3: after an orderly stop. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_return_after_a_stop() {
    a_thousand_return(&Store::postgres().await, &[End::Stop]).await;
}

/// Each client is told another time to come back at, so that they do not all come at once.
#[tokio::test(flavor = "multi_thread")]
async fn each_is_told_another_time_to_come_back() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store).set("TIDEWIRE_LIVE_RECONNECT_SPREAD_MS", "9000");
    let mut server = launch.start().await;
    let http = server.http().clone();
    let mut wires = Vec::new();
    for _ in 0..60 {
        let mut wire = Wire::open(&http, "/v1/ws").await;
        wire.hears("hello").await;
        wires.push(wire);
    }
    let session = http.open_session().await;
    let mut response = EventSource::open(&http, &session, None).await;

    server.process().signal("TERM");
    let mut waits = Vec::new();
    for wire in &mut wires {
        let closing = wire.hears("closing").await;
        assert_eq!(closing["reason"], "shutting_down", "{closing}");
        waits.push(closing["reconnect_in_ms"].as_u64().expect("milliseconds"));
        assert_eq!(within_patience("the end", wire.next()).await, None);
        assert_eq!(wire.closed, Some(1001), "going away");
    }
    let closing = response.next().await.expect("a message");
    assert_eq!(closing["type"], "closing", "{closing}");
    assert_eq!(response.retry_ms(), closing["reconnect_in_ms"].as_u64(), "{closing}");
    assert_eq!(response.next().await, None, "the response ends");
    assert_eq!(server.ended().await.code, Some(0));

    assert!(waits.iter().all(|wait| (1..=9_000).contains(wait)), "{waits:?}");
    // That sixty clients all fall into one third is less likely than a broken machine.
    for third in [0..3_000, 3_000..6_000, 6_000..9_001] {
        assert!(waits.iter().any(|wait| third.contains(wait)), "none in {third:?}: {waits:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Kill,
    Stop,
}

const HERD: usize = 1_000;
const STREAMS: usize = 20;

async fn a_thousand_return(store: &Store, ends: &[End]) {
    let launch = Launch::dev(store);
    let mut server = launch.start().await;
    let http = server.http().clone();
    let names: Vec<String> = (0..STREAMS).map(|n| format!("stream-{n}")).collect();
    for name in &names {
        http.create(name).await;
    }
    let herd = gather(&http, &names).await;
    all_are_back(&http).await;
    for name in &names {
        http.append(name, &json!("before")).await;
    }

    for _ in 0..rounds(1).min(5) {
        for end in ends {
            match end {
                End::Kill => server.kill(),
                End::Stop => drop(server.stop().await),
            }
            server = launch.start().await;
            let mut appends = 0;
            while http.metric("tidewire_live_websockets").await < HERD as u64 {
                assert_eq!(http.get("/readyz").await.status, 200, "while the herd returns");
                http.append(&names[appends % STREAMS], &json!(appends)).await;
                appends += 1;
                assert!(appends < 100_000, "the herd does not come back");
            }
            for name in &names {
                http.append(name, &json!("after")).await;
            }
        }
    }

    for (index, name) in names.iter().enumerate() {
        let transcript = Transcript::read(&http, name).await;
        for (_, follower) in herd.iter().enumerate().filter(|(n, _)| follows(*n).contains(&index)) {
            follower.has_all_of(&transcript).await;
        }
    }
    let refused: Vec<String> = herd.iter().flat_map(Follower::problems).collect();
    assert_eq!(refused, [""; 0], "nobody was refused anything");
}

/// Which streams a client follows.
fn follows(client: usize) -> [usize; 2] {
    [client % STREAMS, (client * 7 + 3) % STREAMS]
}

/// A thousand clients, every other one with a session.
async fn gather(http: &Http, names: &[String]) -> Vec<Follower> {
    let client = http.client();
    let mut herd = Vec::new();
    for n in 0..HERD {
        let session = if n % 2 == 0 { Some(http.open_session().await) } else { None };
        let options = LiveOptions { session, ..LiveOptions::default() };
        let from = follows(n).map(|index| (names[index].as_str(), ReadFrom::Start));
        herd.push(Follower::start(&client, options, &from));
    }
    herd
}

async fn all_are_back(http: &Http) {
    eventually("all are connected", async || {
        (http.metric("tidewire_live_websockets").await == HERD as u64).then_some(())
    })
    .await;
}
