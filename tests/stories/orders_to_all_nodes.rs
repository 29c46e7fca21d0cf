//! An operator says something to one node, and all of them do it.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::presence::QUIET;
use tidewire_stories::{
    Http, Issuer, Nodes, Presence, ServerSent, Store, Tab, WebSocket, on_both_stores,
};

on_both_stores!(
    a_user_is_ended_on_every_node_and_may_come_back,
    a_connection_is_ended_wherever_it_is,
    a_subscription_is_ended_wherever_it_is,
    emptied_caches_look_up_every_key_again,
    orders_are_taken_from_administrators_only,
);

const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";
const SETTINGS: [(&str, &str); 3] = [
    ("TIDEWIRE_JWT_SECRET", SECRET),
    ("TIDEWIRE_STREAMS_LONG_POLL_MS", "40000"),
    ("TIDEWIRE_STREAMS_SSE_MS", "300000"),
];

async fn start(store: &Store) -> Nodes {
    let nodes = Nodes::of(store, &SETTINGS).await;
    for stream in QUIET {
        nodes.http(0).create(stream).await;
    }
    nodes
}

fn reader() -> Value {
    json!({ "tables": [], "streams": ["**"] })
}

/// An end user with a token.
fn user(http: &Http, name: &str) -> Http {
    let claims = json!({ "sub": name, "tidewire": reader() });
    http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

async fn order(http: &Http, order: Value) {
    let answer = http.json(Method::POST, "/v1/control", &order).await;
    assert_eq!(answer.status, 202, "{order}: {}", answer.text());
}

/// What is connected as a user ends, whichever token it came with; the tokens stay good.
async fn a_user_is_ended_on_every_node_and_may_come_back(store: Store) {
    let nodes = start(&store).await;
    let (mut hers, mut his) = (Vec::new(), Vec::new());
    for http in nodes.https() {
        let (ada, bob) = (user(http, "ada"), user(http, "bob"));
        hers.push((Presence::open(http, &ada).await, ada));
        his.push(Presence::open(http, &bob).await);
    }
    order(nodes.http(0), json!({ "act": "end_user", "user": "ada" })).await;
    for (presence, ada) in hers {
        presence.ends("ended_by_operator").await;
        let answer = ada.get(&format!("/v1/stream/{}", QUIET[0])).await;
        assert_eq!(answer.status, 200, "she may come back: {}", answer.text());
    }
    // He was not concerned, or he would not be there to be ended.
    let last = nodes.http(nodes.https().len() - 1);
    order(last, json!({ "act": "end_user", "user": "bob" })).await;
    for presence in his {
        presence.ends("ended_by_operator").await;
    }
}

/// A WebSocket or a page's SSE response, by the id that its first message said.
async fn a_connection_is_ended_wherever_it_is(store: Store) {
    let nodes = start(&store).await;
    let teller = nodes.http(0);
    let key = teller.make_key(&reader()).await;
    for http in nodes.https() {
        let holder = http.holder(&key);
        let mut sockets = Vec::new();
        for _ in 0..2 {
            let mut socket = WebSocket::connect(&holder, "/v1/ws").await;
            let id = socket.hears("hello").await["connection_id"].clone();
            socket.subscribe(&json!({ "query_id": "q", "stream": QUIET[0] })).await;
            sockets.push((socket, id));
        }
        let (mut stays, _) = sockets.pop().expect("two");
        let (mut goes, id) = sockets.pop().expect("two");
        order(teller, json!({ "act": "end_connection", "connection_id": id })).await;
        let farewell = goes.closed().await;
        assert_eq!((farewell.code, &*farewell.reason), (1008, "ended_by_operator"));
        let ended = farewell.messages.iter().find(|m| m["type"] == "subscription_ended");
        assert_eq!(ended.expect("its subscription")["reason"], "ended_by_operator");
        stays.say(&json!({ "type": "ping" })).await;
        stays.hears("pong").await;

        let tab = Tab::open(&holder).await;
        tab.subscribe(QUIET[0]).await;
        let (mut page, id) = ServerSent::open_with_id(&holder, &tab.session).await;
        page.hears("subscription_created").await;
        order(teller, json!({ "act": "end_connection", "connection_id": id })).await;
        let ended = page.hears("subscription_ended").await.message;
        assert_eq!(ended["reason"], "ended_by_operator", "{ended}");
        assert_eq!(page.next().await, None, "and then the response");
        // The session is there still, for a page that comes back.
        let mut page = ServerSent::open(&holder, &tab.session, None).await;
        page.hears("subscription_created").await;
    }
}

/// One subscription, by its `live_id`; the connection and what else it follows goes on.
async fn a_subscription_is_ended_wherever_it_is(store: Store) {
    let nodes = start(&store).await;
    let teller = nodes.http(0);
    let key = teller.make_key(&reader()).await;
    for http in nodes.https() {
        let mut socket = WebSocket::connect(&http.holder(&key), "/v1/ws").await;
        socket.hears("hello").await;
        // A name may have any number of dashes in it.
        for query_id in ["a-b-c", "a"] {
            let wanted = json!({ "query_id": query_id, "stream": QUIET[0] });
            let created = socket.subscribe(&wanted).await;
            if query_id == "a-b-c" {
                let live_id = created["live_id"].clone();
                order(teller, json!({ "act": "end_subscription", "live_id": live_id })).await;
                let ended = socket.hears("subscription_ended").await;
                assert_eq!(ended["query_id"], query_id, "{ended}");
                assert_eq!(ended["reason"], "ended_by_operator", "{ended}");
            }
        }
        teller.append(QUIET[0], &json!("goes on")).await;
        let event = socket.hears("event").await;
        assert_eq!(event["query_id"], "a", "{event}");
        // It may begin anew.
        socket.subscribe(&json!({ "query_id": "a-b-c", "stream": QUIET[0] })).await;
    }
}

/// A change that nobody was told of, because someone has switched the telling off.
async fn emptied_caches_look_up_every_key_again(store: Store) {
    let nodes = start(&store).await;
    let teller = nodes.http(0);
    let key = teller.make_key(&reader()).await;
    let mut presences = Vec::new();
    for http in nodes.https() {
        presences.push(Presence::open(http, &http.holder(&key)).await);
    }
    store
        .tamper(match &store {
            Store::Sqlite { .. } => "DROP TRIGGER {}key_updated",
            Store::Postgres { .. } => "ALTER TABLE {}api_keys DISABLE TRIGGER key_updated",
        })
        .await;
    let id = key.id;
    store.tamper(&format!("UPDATE {{}}api_keys SET is_active = false WHERE id = {id}")).await;
    let path = format!("/v1/stream/{}", QUIET[0]);
    for http in nodes.https() {
        assert_eq!(http.holder(&key).get(&path).await.status, 200, "it is remembered");
    }
    order(teller, json!({ "act": "empty_caches" })).await;
    for (presence, http) in presences.into_iter().zip(nodes.https()) {
        presence.ends("key_revoked").await;
        http.holder(&key).get(&path).await.problem(401, "key_revoked");
    }
}

/// I6: nobody else ends anything, and what is not understood is refused before anyone hears it.
async fn orders_are_taken_from_administrators_only(store: Store) {
    let nodes = start(&store).await;
    let admin = nodes.http(0);
    let everything_else = ["read", "append", "delete", "sql", "observe"];
    let scopes = json!({ "tables": ["*"], "streams": ["**"], "can": everything_else });
    let holder = admin.holder(&admin.make_key(&scopes).await);
    let deputy = json!({ "tables": [], "can": ["admin"] });
    let deputy = admin.holder(&admin.make_key(&deputy).await);
    let mut socket = WebSocket::connect(&user(admin, "ada"), "/v1/ws").await;
    let id = socket.hears("hello").await["connection_id"].clone();
    let created = socket.subscribe(&json!({ "query_id": "q", "stream": QUIET[0] })).await;
    let orders = [
        json!({ "act": "reload" }),
        json!({ "act": "empty_caches" }),
        json!({ "act": "end_user", "user": "ada" }),
        json!({ "act": "end_connection", "connection_id": id }),
        json!({ "act": "end_subscription", "live_id": created["live_id"] }),
    ];
    for http in nodes.https() {
        for order in &orders {
            for someone in [&holder, &user(http, "ada")] {
                let answer = someone.json(Method::POST, "/v1/control", order).await;
                answer.problem(403, "forbidden");
            }
            let stranger = http.as_someone(None);
            let answer = stranger.json(Method::POST, "/v1/control", order).await;
            answer.problem(401, "unauthorized");
        }
    }
    for wrong in [
        json!({}),
        json!([]),
        json!({ "act": "self_destruct" }),
        json!({ "act": "end_user" }),
        json!({ "act": "end_user", "user": 7 }),
        json!({ "act": "end_user", "user": "ada", "really": true }),
        json!({ "act": "end_connection", "live_id": id }),
    ] {
        let answer = admin.json(Method::POST, "/v1/control", &wrong).await;
        answer.problem(400, "invalid_request");
    }
    admin.get("/v1/control").await.problem(405, "method_not_allowed");
    // What is about nobody is heard, and nothing comes of it.
    for idle in [
        json!({ "act": "end_user", "user": "nobody" }),
        json!({ "act": "end_connection", "connection_id": "0000000000000000" }),
        json!({ "act": "end_subscription", "live_id": "no-such" }),
        json!({ "act": "end_subscription", "live_id": "nonsense" }),
    ] {
        order(&deputy, idle).await;
    }
    // An order that is obeyed shows that those before it were, or were not to be.
    socket.say(&json!({ "type": "ping" })).await;
    socket.hears("pong").await;
    order(&deputy, orders[4].clone()).await;
    assert_eq!(socket.hears("subscription_ended").await["reason"], "ended_by_operator");
    order(&deputy, orders[3].clone()).await;
    assert_eq!(socket.closed().await.reason, "ended_by_operator");
}
