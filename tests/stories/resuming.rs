//! Clients come back, each in its own way, while the streams go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tidewire_stories::server_sent::Sent;
use tidewire_stories::{
    Http, Launch, ServerSent, Store, Tab, Transcript, WebSocket, on_both_stores,
};
use tokio::task::JoinSet;

on_both_stores!(
    an_offset_a_pointer_and_a_last_event_id_each_resume_without_a_gap,
    one_last_event_id_resumes_every_stream_of_a_session_in_the_order_of_the_log,
    what_a_session_follows_changes_under_its_live_connection,
);

const STREAMS: [&str; 3] = ["one", "two", "three"];

/// Someone who appends to every stream in turn until told to stop.
struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinSet<()>,
}

impl Writer {
    fn start(http: &Http) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let (http, stopped) = (http.clone(), Arc::clone(&stop));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                http.append(STREAMS[number % STREAMS.len()], &json!(number)).await;
                number += 1;
            }
        });
        Writer { stop, task }
    }

    async fn stop(mut self, http: &Http) -> BTreeMap<&'static str, Vec<String>> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join_next().await.expect("one task").expect("a writer that does not panic");
        let mut offsets = BTreeMap::new();
        for stream in STREAMS {
            let transcript = Transcript::read(http, stream).await;
            let all = transcript.events().iter().map(|event| event.offset.clone());
            offsets.insert(stream, all.collect());
        }
        offsets
    }
}

/// Reads events of a subscription until there are so many.
async fn offsets(client: &mut WebSocket, count: usize) -> Vec<String> {
    let mut offsets = Vec::with_capacity(count);
    while offsets.len() < count {
        offsets.push(text(&client.hears("event").await, "offset"));
    }
    offsets
}

/// A session whose connection is live on some of the streams, which are made here and are empty.
async fn live_on(store: &Store, http: &Http, streams: &[&str]) -> (Tab, ServerSent) {
    for stream in STREAMS {
        http.create(stream).await;
    }
    let tab = Tab::open(http).await;
    for stream in streams {
        tab.subscribe(stream).await;
    }
    let live = ServerSent::open(http, &tab.session, None).await;
    // A cursor counts for what was live before it, which is noted a moment later.
    store.have_gone_live(i64::try_from(streams.len()).expect("a count")).await;
    (tab, live)
}

/// Reads so many events at a time, and comes back after the last of them as a browser does.
async fn come_back(http: &Http, live: (Tab, ServerSent), count: usize) -> Vec<Sent> {
    let (tab, mut live) = live;
    let mut got = live.events(count).await;
    for _ in 0..5 {
        drop(live);
        let last = got.last().and_then(|sent| sent.id.clone());
        live = ServerSent::open(http, &tab.session, last.as_deref()).await;
        got.extend(live.events(count).await);
    }
    got
}

fn text(message: &Value, member: &str) -> String {
    message[member].as_str().unwrap_or_else(|| panic!("{member} in {message}")).to_owned()
}

/// I3: what is past is replayed over the same connection, and what happens follows, while appends go
/// on; in each of the three ways to say where.
async fn an_offset_a_pointer_and_a_last_event_id_each_resume_without_a_gap(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let live = live_on(&store, http, &["three"]).await;
    let writer = Writer::start(http);

    let mut client = WebSocket::connect(http, "/v1/ws").await;
    client.hears("hello").await;
    client.subscribe(&json!({ "query_id": "q", "stream": "one", "offset": "-1" })).await;
    let mut by_offset = offsets(&mut client, 20).await;
    for _ in 0..5 {
        client = WebSocket::connect(http, "/v1/ws").await;
        client.hears("hello").await;
        let wanted = json!({ "query_id": "q", "stream": "one", "offset": by_offset.last() });
        assert_eq!(client.subscribe(&wanted).await["offset"], json!(by_offset.last()));
        by_offset.extend(offsets(&mut client, 20).await);
    }

    let tab = Tab::open(http).await;
    tab.subscribe_at("two", "-1").await;
    let mut by_pointer: Vec<String> = Vec::new();
    for _ in 0..5 {
        let mut client = WebSocket::connect(http, &tab.socket()).await;
        client.hears("hello").await;
        client.hears("subscription_created").await;
        by_pointer.extend(offsets(&mut client, 20).await);
        let last = by_pointer.last().expect("events");
        tab.heartbeat(&json!([{ "streamId": "two", "lastOffset": last }])).await;
    }

    let by_id = come_back(http, live, 20).await.into_iter().map(|sent| sent.id.expect("an id"));
    let by_id: Vec<String> = by_id.collect();

    let written = writer.stop(http).await;
    for (stream, got) in STREAMS.into_iter().zip([by_offset, by_pointer, by_id]) {
        assert_eq!(got, written[stream][..got.len()], "{stream}");
    }
}

/// I3: ids rise strictly over all streams of the connection, so one of them says where all continue.
async fn one_last_event_id_resumes_every_stream_of_a_session_in_the_order_of_the_log(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let live = live_on(&store, http, &STREAMS).await;
    let writer = Writer::start(http);
    let got = come_back(http, live, 40).await;
    let mut by_stream: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in got.windows(2) {
        assert!(pair[0].id < pair[1].id, "ids do not rise: {pair:?}");
    }
    for Sent { id, message } in &got {
        let offset = text(message, "offset");
        assert_eq!(id.as_ref(), Some(&offset), "{message}");
        by_stream.entry(text(message, "streamId")).or_default().push(offset);
    }
    let written = writer.stop(http).await;
    for (stream, got) in by_stream {
        assert_eq!(got, written[stream.as_str()][..got.len()], "{stream}");
    }
}

/// What is subscribed over HTTP begins to arrive, and what is unsubscribed ends, on the connection
/// that is open already: of one node, or of another on the same database.
async fn what_a_session_follows_changes_under_its_live_connection(store: Store) {
    let server = Launch::dev(&store).start().await;
    let another = match &store {
        Store::Postgres { .. } => Some(Launch::dev(&store).start().await),
        Store::Sqlite { .. } => None,
    };
    let http = server.http();
    let asked = another.as_ref().map_or(http, |another| another.http());
    http.create("one").await;
    http.append("one", &json!("before")).await;

    let (tab, page) = (Tab::open(asked).await, Tab::open(asked).await);
    let mut socket = WebSocket::connect(http, &tab.socket()).await;
    socket.hears("hello").await;
    let mut live = ServerSent::open(http, &page.session, None).await;
    for round in 0..2 {
        for tab in [&tab, &page] {
            tab.subscribe_at("one", "-1").await;
        }
        let created = socket.hears("subscription_created").await;
        assert_eq!(created["subscriptions"][0]["query_id"], "one", "{created}");
        assert_eq!(created["subscriptions"][0]["reset"], false, "{created}");
        live.hears("subscription_created").await;
        let after = asked.append("one", &json!(format!("after {round}"))).await;
        loop {
            let event = socket.hears("event").await;
            if event["offset"] == *after {
                assert_eq!(event["query_id"], "one", "{event}");
                break;
            }
        }
        while live.hears("event").await.id.as_deref() != Some(&after) {}
        for tab in [&tab, &page] {
            tab.unsubscribe("one").await;
        }
        for ended in [
            socket.hears("subscription_ended").await,
            live.hears("subscription_ended").await.message,
        ] {
            assert_eq!(ended["reason"], "unsubscribed", "{ended}");
            assert_eq!(ended["streamId"], "one", "{ended}");
        }
        // Nothing of it comes any more: the pong is next.
        http.append("one", &json!("to nobody")).await;
        socket.say(&json!({ "type": "ping" })).await;
        socket.hears("pong").await;
    }
}
