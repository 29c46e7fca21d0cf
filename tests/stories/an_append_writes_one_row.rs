//! A document that a thousand tabs follow is edited.

use std::collections::BTreeMap;

use serde_json::json;
use tidewire_stories::{Http, Launch, ServerSent, Store, Tab, WebSocket, on_both_stores};

on_both_stores!(an_append_writes_one_row_however_many_follow);

const FOLLOWERS: usize = 1_000;
const APPENDS: usize = 100;

/// Fan-out is in memory: what an append writes does not depend on who follows.
async fn an_append_writes_one_row_however_many_follow(store: Store) {
    // Nothing is swept in the meantime.
    let launch = Launch::dev(&store).set("TIDEWIRE_LOG_SWEEP_INTERVAL_MS", "3600000");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    let alone = written_by_appends(&store, http).await;
    assert_eq!(alone.get("log"), Some(&APPENDS), "one row of the log for each: {alone:?}");

    let tabs = follow(http).await;
    let (mut sockets, mut pages) = (Vec::new(), Vec::new());
    for tab in &tabs[..20] {
        let mut socket = WebSocket::connect(http, &tab.socket()).await;
        socket.hears("hello").await;
        socket.hears("subscription_created").await;
        sockets.push(socket);
    }
    for tab in &tabs[20..40] {
        let mut page = ServerSent::open(http, &tab.session, None).await;
        page.hears("subscription_created").await;
        pages.push(page);
    }
    store.have_gone_live(40).await;

    let followed = written_by_appends(&store, http).await;

    assert_eq!(followed, alone, "what {APPENDS} appends write with and without followers");
    for socket in &mut sockets {
        for number in 0..APPENDS {
            assert_eq!(socket.hears("event").await["payload"], number);
        }
    }
    for page in &mut pages {
        let events = page.events(APPENDS).await;
        assert_eq!(events.last().expect("the last").message["payload"], APPENDS - 1);
    }
    drop((sockets, pages));
    server.stop().await;
    // PostgreSQL counts for itself: each pointer was made, and none was ever moved.
    let followers = i64::try_from(FOLLOWERS).expect("a count");
    if let Some(written) = store.ever_written("session_offsets", followers).await {
        assert_eq!(written, followers, "rows ever written to session_offsets");
    }
}

/// A thousand sessions that follow the document.
async fn follow(http: &Http) -> Vec<Tab> {
    let mut joining = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let http = http.clone();
        joining.spawn(async move {
            let mut tabs = Vec::new();
            for _ in 0..FOLLOWERS / 8 {
                let tab = Tab::open(&http).await;
                tab.subscribe("doc").await;
                tabs.push(tab);
            }
            tabs
        });
    }
    joining.join_all().await.into_iter().flatten().collect()
}

/// Appends one by one, and counts the rows that this wrote.
async fn written_by_appends(store: &Store, http: &Http) -> BTreeMap<String, usize> {
    let before = store.rows().await;
    for number in 0..APPENDS {
        http.append("doc", &json!(number)).await;
    }
    let mut written = store.rows().await.written_since(&before);
    // A node's lease is renewed in its own time, whoever appends, and capture keeps its own place.
    for own in ["nodes", "capture", "wal_places"] {
        written.remove(own);
    }
    written
}
