//! Someone is connected to every node in every way when their key is revoked, or changes, or
//! expires. All of it ends, with the reason, and nobody else notices.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::postgres::Sql;
use tidewire_stories::presence::QUIET;
use tidewire_stories::wait::within_patience;
use tidewire_stories::websocket::Frame;
use tidewire_stories::{ApiKey, Cluster, Http2, Nodes, Plan, Presence, Producers, Shutdown, Store};
use tidewire_stories::{Tab, Transcript, WebSocket, Witness, eventually, on_both_stores};

on_both_stores!(
    a_key_revoked_on_one_node_ends_all_that_is_connected_with_it_on_every_node,
    a_key_switched_off_with_sql_ends_as_one_that_is_revoked,
    a_key_deleted_with_sql_ends_as_one_that_is_revoked,
    a_key_whose_scopes_change_comes_back_to_the_new_ones,
    a_key_expires_by_itself,
    a_rotated_key_goes_on_for_its_overlap_and_no_longer,
);

/// Nothing must end for another reason meanwhile.
const SETTINGS: [(&str, &str); 2] =
    [("TIDEWIRE_STREAMS_LONG_POLL_MS", "40000"), ("TIDEWIRE_STREAMS_SSE_MS", "300000")];

/// The length of a stream that takes a while to read, in MiB.
const LONG_MIB: usize = 48;

fn reads_all() -> Value {
    json!({ "tables": [], "streams": ["**"] })
}

/// The nodes of a system with someone on each who has a key, and others who have another.
struct Fixture {
    nodes: Nodes,
    key: ApiKey,
    presences: Vec<Presence>,
    producers: Producers,
    /// With another key, on every node.
    others: Vec<Witness>,
}

impl Fixture {
    async fn set(store: &Store) -> Fixture {
        Fixture::set_for(store, None).await
    }

    /// With a key that expires, or one that does not.
    async fn set_for(store: &Store, expires_in_ms: Option<u64>) -> Fixture {
        let nodes = Nodes::of(store, &SETTINGS).await;
        let admin = nodes.http(0);
        for stream in QUIET.into_iter().chain(["busy"]) {
            admin.create(stream).await;
        }
        let plans = [Plan::idempotent("a", "busy"), Plan::idempotent("b", "busy").in_batches()];
        let producers = Producers::spread(nodes.https(), plans);
        let other = admin.make_key(&reads_all()).await;
        let mut others = Vec::new();
        for http in nodes.https() {
            let other = http.holder(&other);
            others.push(Witness::web_socket(&other, "busy").await);
            others.push(Witness::event_source(&other, "busy").await);
        }
        let key = match expires_in_ms {
            Some(ms) => admin.make_key_for(&reads_all(), ms).await,
            None => admin.make_key(&reads_all()).await,
        };
        let presences = present(&nodes, &key).await;
        producers.progress(20).await;
        Fixture { nodes, key, presences, producers, others }
    }

    /// Waits until all that is connected with the key has ended for this reason, and checks that
    /// each node then refuses the key for this reason.
    async fn ends(&mut self, reason: &str, refusal: &str) {
        for presence in self.presences.drain(..) {
            presence.ends(reason).await;
        }
        self.is_refused(refusal).await;
    }

    /// Checks that each node refuses the key.
    async fn is_refused(&self, code: &str) {
        for http in self.nodes.https() {
            let answer = http.holder(&self.key).get(&path()).await;
            answer.problem(401, code);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }

    /// Checks that the others got everything over the connections they had from the start, once and
    /// in order.
    async fn nobody_else_noticed(mut self) {
        self.producers.progress(20).await;
        self.producers.stop().await;
        let mut transcript = Transcript::new("busy");
        self.producers.check(self.nodes.http(0), &mut transcript).await;
        for other in &self.others {
            other.has_all_of(&transcript).await;
        }
    }
}

fn path() -> String {
    format!("/v1/stream/{}", QUIET[0])
}

/// Someone on every node, in every way.
async fn present(nodes: &Nodes, key: &ApiKey) -> Vec<Presence> {
    let mut presences = Vec::new();
    for http in nodes.https() {
        presences.push(Presence::open(http, &http.holder(key)).await);
    }
    presences
}

/// The nodes have remembered the key for minutes to come, and forget it.
async fn a_key_revoked_on_one_node_ends_all_that_is_connected_with_it_on_every_node(store: Store) {
    let mut scene = Fixture::set(&store).await;
    scene.nodes.http(0).revoke_key(&scene.key).await;
    scene.ends("key_revoked", "key_revoked").await;
    scene.nobody_else_noticed().await;
}

/// An operator with nothing but a database client.
async fn a_key_switched_off_with_sql_ends_as_one_that_is_revoked(store: Store) {
    let mut scene = Fixture::set(&store).await;
    let id = scene.key.id;
    store.tamper(&format!("UPDATE {{}}api_keys SET is_active = false WHERE id = {id}")).await;
    scene.ends("key_revoked", "key_revoked").await;
    scene.nobody_else_noticed().await;
}

/// What is gone from the table is a key like any other that never was.
async fn a_key_deleted_with_sql_ends_as_one_that_is_revoked(store: Store) {
    let mut scene = Fixture::set(&store).await;
    store.tamper(&format!("DELETE FROM {{}}api_keys WHERE id = {}", scene.key.id)).await;
    scene.ends("key_revoked", "unauthorized").await;
    scene.nobody_else_noticed().await;
}

/// The same key, which allows something else now.
async fn a_key_whose_scopes_change_comes_back_to_the_new_ones(store: Store) {
    let mut scene = Fixture::set(&store).await;
    let scopes = json!({ "tables": [], "streams": [QUIET[1]], "can": ["append"] });
    let id = scene.key.id;
    store.tamper(&format!("UPDATE {{}}api_keys SET scopes = '{scopes}' WHERE id = {id}")).await;
    for presence in scene.presences.drain(..) {
        presence.ends("permissions_changed").await;
    }
    for http in scene.nodes.https() {
        let holder = http.holder(&scene.key);
        holder.get(&path()).await.problem(403, "forbidden");
        holder.append(QUIET[1], &json!("it may append here now")).await;
    }
    scene.nobody_else_noticed().await;
}

/// Nobody does anything: time passes.
async fn a_key_expires_by_itself(store: Store) {
    let mut scene = Fixture::set_for(&store, Some(12_000)).await;
    scene.ends("credential_expired", "credential_expired").await;
    scene.nobody_else_noticed().await;
}

/// Holders change over from one key to the next; who has not when the time is up is cut off.
async fn a_rotated_key_goes_on_for_its_overlap_and_no_longer(store: Store) {
    let mut scene = Fixture::set(&store).await;
    let admin = scene.nodes.http(0).clone();
    let second = admin.rotate_key(&scene.key, 3_600_000).await;
    let late = present(&scene.nodes, &second).await;
    let third = admin.rotate_key(&second, 1_000).await;
    for http in scene.nodes.https() {
        for good in [&scene.key, &third] {
            let answer = http.holder(good).get(&path()).await;
            assert_eq!(answer.status, 200, "at once: {}", answer.text());
        }
    }
    for presence in late {
        presence.ends("credential_expired").await;
    }
    for http in scene.nodes.https() {
        http.holder(&second).get(&path()).await.problem(401, "credential_expired");
        assert_eq!(http.holder(&third).get(&path()).await.status, 200, "the newest");
    }
    // The first is connected still, or it would have ended for another reason.
    admin.revoke_key(&scene.key).await;
    scene.ends("key_revoked", "key_revoked").await;
    scene.nobody_else_noticed().await;
}

/// I6: nodes whose connections to the database break at the very moment hear of it when they have
/// new ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_no_node_could_hear_is_found_out() {
    let store = Store::postgres().await;
    let Store::Postgres { url } = &store else { unreachable!("it was just made") };
    let sql = Sql::connect(url).await.expect("a connection");
    let mut scene = Fixture::set(&store).await;
    let count = scene.nodes.https().len();
    for index in 0..count {
        scene.nodes.signal(index, "STOP");
    }
    // Whatever a node would have been told after this, it is not.
    let ended = sql
        .number(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    assert!(ended >= 3, "each node listens: {ended}");
    let id = scene.key.id;
    let revoke = format!("UPDATE tidewire.api_keys SET is_active = false WHERE id = {id}");
    sql.execute(&revoke, &[]).await.expect("a row is changed");
    for index in 0..count {
        scene.nodes.signal(index, "CONT");
    }
    scene.ends("key_revoked", "key_revoked").await;
    scene.nobody_else_noticed().await;
}

/// I6: the database is restarted, and the key revoked before the nodes are back.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_beside_a_restart_of_postgres_is_found_out() {
    let mut cluster = Cluster::start().await;
    for shutdown in [Shutdown::Fast, Shutdown::Immediate] {
        let sql = Sql::connect(&cluster.url()).await.expect("a connection");
        sql.batch_execute("DROP SCHEMA IF EXISTS tidewire CASCADE").await.expect("a clean slate");
        drop(sql);
        let store = Store::postgres_at(cluster.url());
        let mut scene = Fixture::set(&store).await;
        cluster.restart(shutdown).await;
        let id = scene.key.id;
        store.tamper(&format!("UPDATE {{}}api_keys SET is_active = false WHERE id = {id}")).await;
        scene.ends("key_revoked", "key_revoked").await;
        scene.nobody_else_noticed().await;
    }
}

/// I6: over HTTP/2 responses take another way through the server, and end the same.
#[tokio::test(flavor = "multi_thread")]
async fn responses_over_http2_end_too() {
    let store = Store::sqlite();
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let admin = nodes.http(0);
    let key = admin.make_key(&reads_all()).await;
    let holder = admin.holder(&key);
    let tab = Tab::open(&holder).await;
    for stream in QUIET {
        admin.create(stream).await;
        tab.subscribe(stream).await;
    }
    let mut http2 = Http2::connect(&holder).await;
    let mut page = http2.follow(&format!("/v1/live/{}", tab.session)).await;
    for stream in QUIET {
        page.hears(&format!("-{stream}\"")).await;
    }
    let mut stream = http2.follow(&format!("{}?offset=now&live=sse", path())).await;
    stream.hears("upToDate").await;
    admin.revoke_key(&key).await;
    let received = page.ended().await;
    assert_eq!(received.matches("\"subscription_ended\"").count(), QUIET.len(), "{received}");
    assert_eq!(received.matches("\"key_revoked\"").count(), QUIET.len(), "{received}");
    stream.ended().await;
}

/// I6: a reader that has yet to catch up is not let finish: what it has not got, it does not get.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_far_behind_is_cut_off_too() {
    let store = Store::sqlite();
    let nodes = Nodes::of(&store, &[("TIDEWIRE_STREAMS_READ_BYTES_MAX", "65536")]).await;
    let admin = nodes.http(0);
    admin.create("long").await;
    // Far more than all buffers on the way take, in messages that are not too large to push.
    let messages = Value::from(vec![json!("x".repeat(1 << 15)); 32]);
    for _ in 0..LONG_MIB {
        let answer = admin.json(Method::POST, "/v1/stream/long", &messages).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    let key = admin.make_key(&reads_all()).await;
    let holder = admin.holder(&key);
    let tab = Tab::open(&holder).await;
    tab.subscribe_at("long", "-1").await;
    let mut socket = WebSocket::connect_narrow(&holder, "/v1/ws").await;
    socket.hears("hello").await;
    socket.subscribe(&json!({ "query_id": "q", "stream": "long", "offset": "-1" })).await;
    let mut responses = Vec::new();
    for path in ["/v1/stream/long?offset=-1&live=sse", &format!("/v1/live/{}", tab.session)] {
        let response = holder.request(Method::GET, path).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        responses.push((path.to_owned(), response));
    }

    admin.revoke_key(&key).await;
    eventually("the key is refused", async || {
        (holder.get("/v1/stream/long?offset=now").await.status == 401).then_some(())
    })
    .await;

    for (path, mut response) in responses {
        let rest = async {
            let mut received = 0;
            while let Some(piece) = response.chunk().await.expect("a whole end") {
                received += piece.len();
            }
            received
        };
        let received = within_patience("the response ends", rest).await;
        assert!(received < LONG_MIB << 20, "{path} gave all {received} bytes");
    }
    let mut received = 0;
    while let Some(Frame::Text { text, .. }) = socket.frame().await {
        received += text.len();
    }
    assert!(received < LONG_MIB << 20, "the WebSocket gave all {received} bytes");
}
