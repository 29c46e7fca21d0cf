//! What sessions leave in the database goes when they do, and the counts of subscribers are right
//! whatever happens to them.

use serde_json::json;
use tidewire_stories::{Http, Launch, Store, Wire, eventually};

/// Sessions that have expired leave no row behind; those that are live stay. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_forgets_what_has_expired() {
    what_has_expired_is_forgotten(&Store::sqlite()).await;
}

/// Sessions that have expired leave no row behind; those that are live stay. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_forgets_what_has_expired() {
    what_has_expired_is_forgotten(&Store::postgres().await).await;
}

/// A subscription that nobody acknowledges goes; one that is live stays. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_ends_stale_subscriptions_and_spares_live_ones() {
    stale_subscriptions_end(&Store::sqlite()).await;
}

/// A subscription that nobody acknowledges goes; one that is live stays. (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_ends_stale_subscriptions_and_spares_live_ones() {
    stale_subscriptions_end(&Store::postgres().await).await;
}

/// Sweeps come three times in a lease.
fn launch(store: &Store) -> Launch {
    Launch::dev(store).set("TIDEWIRE_NODE_LEASE_MS", "900")
}

async fn what_has_expired_is_forgotten(store: &Store) {
    let launch = launch(store).set("TIDEWIRE_SESSIONS_TTL_MS", "3000");
    let server = launch.start().await;
    let http = server.http();
    for stream in ["a", "b"] {
        http.create(stream).await;
    }
    let (live, mut wire) = connected(http, "a").await;
    for streams in [&["a"][..], &["a", "b"]] {
        let session = http.open_session().await;
        for stream in streams {
            http.follow(&session, stream, "-1").await;
        }
    }
    counted(store, "a", 3).await;
    counted(store, "b", 1).await;

    rows(store, "sessions", 1).await;
    rows(store, "session_subscriptions", 1).await;
    rows(store, "session_offsets", 1).await;
    counted(store, "a", 1).await;
    rows(store, "stream_subscriber_counts", 1).await;
    let kept = format!("session_id = '{live}'");
    assert_eq!(store.count("sessions", &kept).await, 1, "the session that is live");

    store.tamper("UPDATE {}stream_subscriber_counts SET count = 99 WHERE stream_id = 'a'").await;
    store.tamper("INSERT INTO {}stream_subscriber_counts VALUES ('nobody', 5, 0)").await;
    counted(store, "a", 1).await;
    rows(store, "stream_subscriber_counts", 1).await;
    store.tamper("DELETE FROM {}stream_subscriber_counts").await;
    counted(store, "a", 1).await;

    http.append("a", &json!("still here")).await;
    assert_eq!(wire.hears("event").await["payload"], "still here");
    drop(wire);
    for table in
        ["sessions", "session_subscriptions", "session_offsets", "stream_subscriber_counts"]
    {
        rows(store, table, 0).await;
    }
}

async fn stale_subscriptions_end(store: &Store) {
    let launch = launch(store).set("TIDEWIRE_SESSIONS_STALE_MS", "2000");
    let server = launch.start().await;
    let http = server.http();
    http.create("a").await;
    // The live one is older, so its time would be up before the other's.
    let (live, mut wire) = connected(http, "a").await;
    let idle = http.open_session().await;
    http.follow(&idle, "a", "-1").await;

    rows(store, "session_subscriptions", 1).await;
    counted(store, "a", 1).await;
    let of_live = format!("session_id = '{live}'");
    assert_eq!(store.count("session_subscriptions", &of_live).await, 1, "what is live is spared");
    assert_eq!(store.count("session_offsets", &of_live).await, 1, "and so is its pointer");
    assert_eq!(store.count("sessions", "1 = 1").await, 2, "the sessions themselves stay");
    let answer = http.get(&format!("/v1/session-offsets/{idle}")).await;
    assert_eq!((answer.status, answer.json()), (200, json!([])), "what the idle one follows");
    http.append("a", &json!("news")).await;
    assert_eq!(wire.hears("event").await["payload"], "news");
}

/// A session with a connection, which follows a stream.
async fn connected(http: &Http, stream: &str) -> (String, Wire) {
    let session = http.open_session().await;
    let mut wire = Wire::open(http, &format!("/v1/ws?session={session}")).await;
    wire.subscribe(stream, "now").await;
    (session, wire)
}

async fn counted(store: &Store, stream: &str, count: i64) {
    let right = format!("stream_id = '{stream}' AND count = {count}");
    eventually(&format!("{count} sessions are counted for {stream}"), async || {
        (store.count("stream_subscriber_counts", &right).await == 1).then_some(())
    })
    .await;
}

async fn rows(store: &Store, table: &str, count: i64) {
    eventually(&format!("{table} has {count} rows"), async || {
        (store.count(table, "1 = 1").await == count).then_some(())
    })
    .await;
}
