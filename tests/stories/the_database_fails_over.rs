//! The primary dies, and a standby takes its place: with what it has, or with all there was. Two real
//! clusters.

use serde_json::{Value, json};
use tidewire_stories::postgres::Sql;
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Cluster, Http, Launch, Shutdown, Store, Transcript, WebSocket, eventually};

fn launch(store: &Store) -> Launch {
    Launch::dev(store)
        .set("TIDEWIRE_POSTGRES_CONNECT_TIMEOUT_MS", "1000")
        .set("TIDEWIRE_SHUTDOWN_GRACE_MS", "1000")
}

async fn number(cluster: &Cluster, sql: &str) -> i64 {
    let sql_session = Sql::connect(&cluster.url()).await.expect("a connection");
    sql_session.query_one(sql, &[]).await.expect(sql).get(0)
}

/// Waits until the standby shows as many events as the primary.
async fn has_caught_up(primary: &Cluster, standby: &Cluster) {
    let all = "SELECT count(*) FROM tidewire.log";
    let events = number(primary, all).await;
    eventually("the standby has caught up", async || {
        (number(standby, all).await == events).then_some(())
    })
    .await;
}

async fn texts(http: &Http, stream: &str) -> Vec<Value> {
    let read = Transcript::read(http, stream).await;
    read.events().iter().map(|event| event.payload.clone()).collect()
}

/// I1: the standby lacks the last commits. Their offsets are not given to others under the same name:
/// whoever has seen them is told, on every node, the one that appends and the one that reads.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_that_a_standby_lacks_are_never_given_again() {
    let mut primary = Cluster::start().await;
    let standby = primary.standby("mirror").await;
    let store = Store::postgres_at(primary.url_with(&standby));
    let (mut appends, mut reads) = (launch(&store).start().await, launch(&store).start().await);
    appends.http().create("orders").await;
    let kept = appends.http().append("orders", &json!("kept")).await;
    has_caught_up(&primary, &standby).await;
    let cut_off = Sql::connect(&standby.url()).await.expect("a connection");
    cut_off.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.expect("a setting");
    cut_off.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    eventually("the standby hears no more", async || {
        let listens = "SELECT count(*) FROM pg_stat_wal_receiver";
        (number(&standby, listens).await == 0).then_some(())
    })
    .await;
    let mut lost = String::new();
    for text in ["lost", "lost too"] {
        lost = appends.http().append("orders", &json!(text)).await;
    }
    assert_eq!(texts(reads.http(), "orders").await, ["kept", "lost", "lost too"]);
    primary.stop(Shutdown::Immediate).await;
    drop(cut_off);
    standby.promote().await;

    for node in [&mut appends, &mut reads] {
        for offset in [&lost, &kept] {
            eventually("offsets of before are of another epoch", async || {
                let path = format!("/v1/stream/orders?offset={offset}");
                let answer = node.http().try_get(&path).await.ok()?;
                assert_ne!(answer.status, 200, "{}", answer.text());
                (answer.status == 410).then(|| answer.problem(410, "offset_of_another_epoch"))
            })
            .await;
        }
        assert_eq!(node.process().status(), None, "the node goes on");
    }
    let first = appends.http().append("orders", &json!("other")).await;
    assert!(first.starts_with("0002_"), "{first}");
    assert!(first[5..] <= lost[5..], "a number is given again, which is why: {first} {lost}");
    assert_eq!(texts(reads.http(), "orders").await, ["kept", "other"]);
    let epoch = "SELECT epoch::bigint FROM tidewire.log_epoch";
    assert_eq!(number(&standby, epoch).await, 2, "raised once");
    let said = [appends.stop().await.said, reads.stop().await.said].concat();
    assert_eq!(said.matches("THE DATABASE FAILED OVER").count(), 1, "{said}");
    store.log_is_gapless().await;
}

/// I1, I3: the standby was synchronous, and the operator has said that nothing is missing. Everything
/// goes on, live connections too; and the slot, which a standby does not have, is made anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_goes_on_where_the_primary_was() {
    let mut primary = Cluster::start_with(&["wal_level=logical"]).await;
    let standby = primary.standby("mirror").await;
    let synchronous = Sql::connect(&primary.url()).await.expect("a connection");
    let name = "ALTER SYSTEM SET synchronous_standby_names = 'mirror'";
    synchronous.batch_execute(name).await.expect("a setting");
    synchronous.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    eventually("the standby is synchronous", async || {
        let held = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        (number(&primary, held).await == 1).then_some(())
    })
    .await;
    drop(synchronous);
    let store = Store::postgres_at(primary.url_with(&standby));
    let lossless =
        launch(&store).set("TIDEWIRE_POSTGRES_FAILOVER", "lossless").set("TIDEWIRE_CAPTURE", "wal");
    let server = lossless.start().await;
    let http = server.http();
    run(http, "CREATE TABLE seen (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "seen" })).await;
    run(http, "INSERT INTO seen VALUES (1)").await;
    http.create("orders").await;
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    socket.subscribe(&json!({ "query_id": "q", "stream": "orders", "offset": "now" })).await;
    let before = http.append("orders", &json!("before")).await;
    socket.hears_at_last("event").await;
    primary.stop(Shutdown::Immediate).await;
    standby.promote().await;

    let after = eventually("appends go on", async || {
        let append = http.request(reqwest::Method::POST, "/v1/stream/orders");
        let append = append.header("content-type", "application/json").body("\"after\"");
        let answer = tidewire_stories::Answer::try_of(append).await.ok()?;
        assert!(matches!(answer.status, 200 | 204 | 503), "{}", answer.text());
        (answer.status < 300).then(|| answer.next_offset())
    })
    .await;
    assert!(after.starts_with("0001_") && after > before, "{before} {after}");
    let told = socket.hears_at_last("event").await;
    assert!(told.to_string().contains("after"), "the connection of before: {told}");
    assert_eq!(http.get(&format!("/v1/stream/orders?offset={before}")).await.status, 200);
    assert_eq!(texts(http, "orders").await, ["before", "after"]);
    run(http, "INSERT INTO seen VALUES (2)").await;
    eventually("both rows are told, once each", async || {
        let events = texts(http, "table/seen").await;
        let rows: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "cdc_event").collect();
        assert!(rows.len() <= 2, "{rows:?}");
        (rows.len() == 2).then_some(())
    })
    .await;
    let said = server.stop().await.said;
    assert!(said.contains("so the log goes on"), "{said}");
    store.log_is_gapless().await;
}

/// I1: the operator wants to decide. A node that runs ends, says what to do, and does not start until that is done.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_to_stop_ends_and_says_what_to_do() {
    let mut primary = Cluster::start().await;
    let standby = primary.standby("mirror").await;
    let store = Store::postgres_at(primary.url_with(&standby));
    let stops = launch(&store).set("TIDEWIRE_POSTGRES_FAILOVER", "stop");
    let server = stops.start().await;
    server.http().create("orders").await;
    server.http().append("orders", &json!("before")).await;
    has_caught_up(&primary, &standby).await;
    primary.stop(Shutdown::Immediate).await;
    standby.promote().await;

    for ended in [server.ended().await, stops.run().await] {
        assert_eq!(ended.code, Some(1), "{}", ended.said);
        let message = ended.said.lines().last().unwrap_or_default();
        for what in
            ["postgres.failover is \"stop\"", "tidewire restore", "\"lossless\"", "BACKUP.md"]
        {
            assert!(message.contains(what), "{what} is missing in: {message}");
        }
    }
    let epoch = "SELECT epoch::bigint FROM tidewire.log_epoch";
    assert_eq!(number(&standby, epoch).await, 1, "nothing is decided yet");
    let server = launch(&store).set("TIDEWIRE_POSTGRES_FAILOVER", "lossless").start().await;
    assert_eq!(texts(server.http(), "orders").await, ["before"]);
    server.stop().await;
}
