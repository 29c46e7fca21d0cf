//! Two tenants share a server, and to each the other's streams are not there.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tidewire_stories::{
    Answer, Http, Issuer, Launch, Nodes, Server, ServerSent, Store, Tab, WebSocket, on_both_stores,
};

on_both_stores!(
    the_streams_of_another_tenant_are_not_there,
    a_name_of_another_tenant_is_taken_and_no_more_is_told,
    a_stream_of_entities_is_not_there_for_a_tenant,
    scopes_say_which_tenants_can_be_reached,
    the_tenant_of_a_token_is_a_claim,
    a_stream_made_again_by_another_tenant_is_not_delivered_to_the_first,
    a_session_that_sleeps_does_not_wake_up_to_another_tenants_stream,
    subscriptions_are_not_there_for_those_bound_to_a_tenant,
    the_log_says_which_tenant_and_user_wrote,
);

const KEY: &str = "story-2d6a7f93b1c840e5";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

async fn start(store: &Store) -> Server {
    launch(store).start().await
}

fn launch(store: &Store) -> Launch {
    Launch::serve(store, KEY)
        .set("TIDEWIRE_JWT_SECRET", SECRET)
        .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "1000")
}

/// Someone with a key that may do anything with streams, as far as these members let it.
async fn key_holder(admin: &Http, members: &Value) -> Http {
    let scopes = scopes(members);
    admin.holder(&admin.make_key(&scopes).await)
}

/// An end user of a tenant who may do anything with streams.
fn user(admin: &Http, name: &str, host: &str) -> Http {
    let claims = json!({ "sub": name, "host_id": host, "tidewire": scopes(&json!({})) });
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

fn scopes(members: &Value) -> Value {
    let mut scopes =
        json!({ "tables": [], "streams": ["**"], "can": ["read", "append", "delete"] });
    for (name, value) in members.as_object().expect("an object") {
        scopes[name] = value.clone();
    }
    scopes
}

/// All that an answer tells, but for when it was given and the name that was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Response {
    fn of(answer: &Answer, name: &str) -> Response {
        let text = |value: &str| value.replace(name, "NAME");
        let headers = answer.headers.iter().filter(|(header, _)| *header != "date");
        let headers = headers.map(|(header, value)| {
            (header.to_string(), text(value.to_str().expect("headers are text")))
        });
        Response { status: answer.status, headers: headers.collect(), body: text(&answer.text()) }
    }
}

/// Everything that can be done with a stream but making it, and what came of it.
async fn all_that_can_be_tried(http: &Http, name: &str) -> Vec<(String, Response)> {
    let path = format!("/v1/stream/{name}");
    let request = |method: Method, query: &str| http.request(method, &format!("{path}{query}"));
    let json = |request: RequestBuilder| request.header("content-type", "application/json");
    let fork = http.request(Method::PUT, "/v1/stream/fork");
    let ours = http.request(Method::PUT, "/v1/stream/fork/again");
    let requests = [
        ("read", request(Method::GET, "")),
        ("read events", request(Method::GET, "?offset=-1&format=events")),
        ("read now", request(Method::GET, "?offset=now")),
        ("look", request(Method::HEAD, "")),
        ("long-poll", request(Method::GET, "?offset=-1&live=long-poll")),
        ("sse", request(Method::GET, "?offset=-1&live=sse")),
        ("append", json(request(Method::POST, "")).body("[1]")),
        (
            "append of another type",
            request(Method::POST, "").header("content-type", "a/b").body("x"),
        ),
        (
            "append as a producer",
            json(request(Method::POST, ""))
                .header("producer-id", "p")
                .header("producer-epoch", "0")
                .header("producer-seq", "0")
                .body("[1]"),
        ),
        ("close", request(Method::POST, "").header("stream-closed", "true")),
        ("delete", request(Method::DELETE, "")),
        ("fork", fork.header("stream-forked-from", name)),
        ("fork by its path", ours.header("stream-forked-from", path.as_str())),
    ];
    let mut tried = Vec::new();
    for (what, request) in requests {
        tried.push((what.to_owned(), Response::of(&Answer::of(request).await, name)));
    }
    let tab = Tab::open(http).await;
    for offset in [None, Some("-1"), Some("now"), Some("0001_0000000000000001")] {
        let body = json!({ "sessionId": tab.session, "streamId": name, "offset": offset });
        let answer = http.json(Method::POST, "/v1/subscriptions", &body).await;
        tried.push((format!("a session at {offset:?}"), Response::of(&answer, name)));
    }
    for path in ["/v1/ws".to_owned(), tab.socket()] {
        let mut socket = WebSocket::connect(http, &path).await;
        socket.hears("hello").await;
        for offset in [None, Some("-1"), Some("0001_0000000000000001")] {
            let wanted = json!([{ "query_id": "q", "stream": name, "offset": offset }]);
            socket.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
            let error = socket.hears("error").await.to_string().replace(name, "NAME");
            let told = Response { status: 0, headers: Vec::new(), body: error };
            tried.push((format!("a WebSocket at {offset:?}"), told));
        }
    }
    tried
}

/// I6: whatever a tenant does with the name of another's stream, the answer is the very same as for
/// a name that nobody has; and nothing happens to the stream.
async fn the_streams_of_another_tenant_are_not_there(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    let owners = [key_holder(admin, &json!({ "host": "acme" })).await, user(admin, "ada", "acme")];
    let strangers = [
        key_holder(admin, &json!({ "host": "globex" })).await,
        user(admin, "ada", "globex"),
        key_holder(admin, &json!({ "host": "globex", "hosts": ["initech", ""] })).await,
    ];
    let message = json!("of acme ".repeat(2_000));
    for (index, owner) in owners.iter().enumerate() {
        let [open, closed, hidden] =
            ["open", "closed", "hidden"].map(|state| format!("{state}/{index}"));
        for name in [&open, &closed, &hidden] {
            owner.create(name).await;
            owner.append(name, &message).await;
            // What was read lately is kept in memory, and must not be given to others from there.
            assert_eq!(owner.get(&format!("/v1/stream/{name}")).await.json(), json!([message]));
        }
        let close = owner.request(Method::POST, &format!("/v1/stream/{closed}"));
        let answer = Answer::of(close.header("stream-closed", "true")).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        // Kept for its fork only.
        let fork = owner.request(Method::PUT, &format!("/v1/stream/forks/{index}"));
        let answer = Answer::of(fork.header("stream-forked-from", &hidden)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let delete = owner.request(Method::DELETE, &format!("/v1/stream/{hidden}"));
        assert_eq!(Answer::of(delete).await.status, 204);

        for stranger in &strangers {
            let nothing = all_that_can_be_tried(stranger, "nobody/has-this").await;
            for (what, told) in &nothing {
                assert!(matches!(told.status, 404 | 0), "{what}: {}", told.status);
                let code = told.body.is_empty()
                    || ["stream_not_found", "fork_source_not_found"]
                        .iter()
                        .any(|code| told.body.contains(code));
                assert!(code, "{what}: {}", told.body);
            }
            for name in [&open, &closed, &hidden] {
                let tried = all_that_can_be_tried(stranger, name).await;
                for (tried, nothing) in tried.iter().zip(&nothing) {
                    assert_eq!(tried, nothing, "{name} to another tenant");
                }
            }
        }
        for name in [&open, &closed] {
            let answer = owner.get(&format!("/v1/stream/{name}")).await;
            assert_eq!(answer.json(), json!([message]), "{name} to its own");
        }
    }
}

/// I6: what cannot be kept from one who tries to make a stream is that the name is taken.
async fn a_name_of_another_tenant_is_taken_and_no_more_is_told(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    let acme = key_holder(admin, &json!({ "host": "acme" })).await;
    let globex = key_holder(admin, &json!({ "host": "globex" })).await;
    acme.create("name-a").await;
    acme.append("name-a", &json!(1)).await;
    let text = acme.request(Method::PUT, "/v1/stream/name-b").header("stream-closed", "true");
    let answer = Answer::of(text.header("content-type", "text/plain").body("b")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    admin.create("name-c").await;
    globex.create("own").await;
    let mut told = Vec::new();
    for name in ["name-a", "name-b", "name-c"] {
        let path = format!("/v1/stream/{name}");
        let put = |kind: &str| globex.request(Method::PUT, &path).header("content-type", kind);
        for request in [
            put("application/json"),
            put("text/plain"),
            put("application/json").body("[1]"),
            put("application/json").header("stream-closed", "true"),
            put("application/json").header("stream-ttl", "60"),
            put("application/json").header("stream-forked-from", "own"),
        ] {
            let answer = Answer::of(request).await;
            answer.problem(409, "stream_name_taken");
            told.push(Response::of(&answer, name));
        }
    }
    for one in &told {
        assert_eq!(*one, told[0], "all are told the same");
    }
    // Free again, and then the other's.
    let delete = acme.request(Method::DELETE, "/v1/stream/name-a");
    assert_eq!(Answer::of(delete).await.status, 204);
    globex.create("name-a").await;
    let answer = acme.request(Method::PUT, "/v1/stream/name-a");
    let answer = Answer::of(answer.header("content-type", "application/json")).await;
    answer.problem(409, "stream_name_taken");
}

/// The stream of entities that are no rows has what every tenant is told: it is there only for those who
/// reach all of them, whatever else is shared, and nobody writes to it.
async fn a_stream_of_entities_is_not_there_for_a_tenant(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    let call = match store {
        Store::Sqlite { .. } => "tidewire_invalidate",
        Store::Postgres { .. } => "tidewire.invalidate",
    };
    let told = json!({ "sql": format!("SELECT {call}('report', '7')") });
    assert_eq!(admin.json(Method::POST, "/v1/sql", &told).await.status, 200);
    let path = "/v1/stream/entity/report";
    tidewire_stories::eventually("who reaches everything reads it", async || {
        (admin.get(path).await.status == 200).then_some(())
    })
    .await;
    let tenant = key_holder(admin, &json!({ "host": "acme", "hosts": [""] })).await;
    for query in ["", "?offset=-1&format=events", "?offset=-1&live=sse"] {
        tenant.get(&format!("{path}{query}")).await.problem(404, "stream_not_found");
    }
    let fork = tenant.request(Method::PUT, "/v1/stream/fork");
    let answer = Answer::of(fork.header("stream-forked-from", "entity/report")).await;
    answer.problem(404, "fork_source_not_found");
    // Nor is a fork of someone else's, which is of no tenant.
    let fork = admin.request(Method::PUT, "/v1/stream/report-copy");
    let answer = Answer::of(fork.header("stream-forked-from", "entity/report")).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    for query in ["", "?offset=now", "?offset=-1&live=sse"] {
        let path = format!("/v1/stream/report-copy{query}");
        tenant.get(&path).await.problem(404, "stream_not_found");
    }
    assert_eq!(admin.get("/v1/stream/report-copy").await.status, 200);
    let mut socket = WebSocket::connect(&tenant, "/v1/ws").await;
    socket.hears("hello").await;
    let wanted = json!([{ "query_id": "q", "stream": "entity/report", "offset": "-1" }]);
    socket.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
    assert_eq!(socket.hears("error").await["code"], "stream_not_found");
    for name in ["entity", "entity/other"] {
        let put = tenant.request(Method::PUT, &format!("/v1/stream/{name}"));
        Answer::of(put).await.problem(403, "entity_stream_is_read_only");
    }
    let wakes = json!({ "type": "pull-wake", "streams": ["a"], "wake_stream": "entity/report" });
    let answer = admin.json(Method::PUT, "/v1/stream/__ds/subscriptions/s", &wakes).await;
    answer.problem(403, "entity_stream_is_read_only");
}

/// `hosts` adds tenants, `""` what is shared, `"*"` everything; who has no tenant is not bound.
async fn scopes_say_which_tenants_can_be_reached(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    admin.create("shared").await;
    for host in ["acme", "globex", "initech"] {
        key_holder(admin, &json!({ "host": host })).await.create(host).await;
    }
    for (members, reached) in [
        (json!({ "host": "acme" }), &["acme"][..]),
        (json!({ "host": "acme", "hosts": [] }), &["acme"]),
        (json!({ "host": "acme", "hosts": ["globex"] }), &["acme", "globex"]),
        (json!({ "host": "acme", "hosts": [""] }), &["acme", "shared"]),
        (json!({ "host": "acme", "hosts": ["*"] }), &["acme", "globex", "initech", "shared"]),
        (json!({}), &["acme", "globex", "initech", "shared"]),
    ] {
        let holder = key_holder(admin, &members).await;
        let mut socket = WebSocket::connect(&holder, "/v1/ws").await;
        socket.hears("hello").await;
        for stream in ["acme", "globex", "initech", "shared"] {
            let about = format!("{stream} with {members}");
            let answer = holder.get(&format!("/v1/stream/{stream}")).await;
            let wanted = json!({ "query_id": stream, "stream": stream });
            if reached.contains(&stream) {
                assert_eq!(answer.status, 200, "{about}: {}", answer.text());
                holder.append(stream, &json!("by a guest")).await;
                socket.subscribe(&wanted).await;
            } else {
                answer.problem(404, "stream_not_found");
                let message = json!({ "type": "subscribe", "subscriptions": [wanted] });
                socket.say(&message).await;
                let error = socket.hears_at_last("error").await;
                assert_eq!(error["code"], "stream_not_found", "{about}");
            }
        }
    }
}

/// Claims name the tenant, and stand in the scopes that the operator wrote.
async fn the_tenant_of_a_token_is_a_claim(store: Store) {
    let scopes = r#"{"streams": ["of/{host_id}/**", "of/{host_id}-{user_id}", "mine", "shared"],
        "can": ["read", "append"], "hosts": [""]}"#;
    let launch =
        launch(&store).set("TIDEWIRE_JWT_HOST_CLAIM", "org").set("TIDEWIRE_JWT_SCOPES", scopes);
    let server = launch.start().await;
    let admin = server.http();
    admin.create("shared").await;
    let issuer = Issuer::hs256(SECRET);
    let user = |claims: Value| admin.as_someone(Some(&issuer.token(&claims)));
    let ada = user(json!({ "sub": "ada", "org": "acme" }));
    let bob = user(json!({ "sub": "bob", "org": "globex" }));
    for stream in ["of/acme/plan", "of/acme-ada", "mine"] {
        ada.create(stream).await;
    }
    for stream in ["of/acme/plan", "of/acme-ada"] {
        bob.get(&format!("/v1/stream/{stream}")).await.problem(403, "forbidden");
    }
    bob.get("/v1/stream/mine").await.problem(404, "stream_not_found");
    for someone in [&ada, &bob] {
        assert_eq!(someone.get("/v1/stream/shared").await.status, 200, "what is shared");
    }
    // One without a tenant is not bound by one, nor has it any tenant's patterns.
    let free = user(json!({ "sub": "eve" }));
    free.get("/v1/stream/of/acme/plan").await.problem(403, "forbidden");
    // A tenant that would be a pattern, or two segments, is a name like any other.
    for org in ["*", "**", "acme/plan"] {
        let odd = user(json!({ "sub": "ada", "org": org }));
        odd.get("/v1/stream/of/acme/plan").await.problem(403, "forbidden");
        odd.get("/v1/stream/mine").await.problem(404, "stream_not_found");
    }
    // The scopes may say the tenant as well, but not another.
    let own = |host: &str| json!({ "streams": ["mine"], "host": host });
    let same = user(json!({ "sub": "ada", "org": "acme", "tidewire": own("acme") }));
    assert_eq!(same.get("/v1/stream/mine").await.status, 200);
    let other = user(json!({ "sub": "ada", "org": "acme", "tidewire": own("globex") }));
    other.get("/v1/stream/mine").await.problem(401, "unauthorized");
}

/// I6: the name that someone follows goes to another tenant, in the very next moment and on another
/// node. They are told that their stream is gone, and get nothing of the other.
async fn a_stream_made_again_by_another_tenant_is_not_delivered_to_the_first(store: Store) {
    let settings = [("TIDEWIRE_STREAMS_LONG_POLL_MS", "40000")];
    let nodes = Nodes::of(&store, &settings).await;
    let (near, far) = (nodes.http(0), nodes.http(nodes.https().len() - 1));
    let acme = key_holder(near, &json!({ "host": "acme" })).await;
    let globex = far.holder(&near.make_key(&scopes(&json!({ "host": "globex" }))).await);
    for round in 0..10 {
        let name = format!("doc/{round}");
        acme.create(&name).await;
        acme.append(&name, &json!("of acme")).await;
        let mut socket = WebSocket::connect(&acme, "/v1/ws").await;
        socket.hears("hello").await;
        socket.subscribe(&json!({ "query_id": "q", "stream": name, "offset": "-1" })).await;
        assert_eq!(socket.hears("event").await["payload"], "of acme");
        let tab = Tab::open(&acme).await;
        tab.subscribe_at(&name, "-1").await;
        let mut page = ServerSent::open(&acme, &tab.session, None).await;
        assert_eq!(page.events(1).await[0].message["payload"], "of acme");
        let tail = acme.tail(&name).await;
        let live = |how: &str| {
            let path = format!("/v1/stream/{name}?offset={tail}&live={how}");
            tokio::spawn(Answer::of(acme.request(Method::GET, &path)))
        };
        let (poll, stream) = (live("long-poll"), live("sse"));

        let path = format!("/v1/stream/{name}");
        let deleted = Answer::of(far.request(Method::DELETE, &path)).await;
        assert_eq!(deleted.status, 204, "{}", deleted.text());
        globex.create(&name).await;
        for _ in 0..5 {
            globex.append(&name, &json!("secret of globex")).await;
        }

        let ended = socket.hears("subscription_ended").await;
        assert_eq!(ended["reason"], "stream_deleted", "{ended}");
        let ended = page.hears("subscription_ended").await.message;
        assert_eq!(ended["reason"], "stream_deleted", "{ended}");
        // It may have asked a moment after the stream had gone.
        poll.await.expect("an answer").problem(404, "stream_not_found");
        let stream = stream.await.expect("an answer");
        assert!(!stream.text().contains("globex"), "{}", stream.text());
        socket.say(&json!({ "type": "ping" })).await;
        socket.hears("pong").await;
        let body = json!({ "sessionId": tab.session, "streamId": name, "offset": "-1" });
        let answer = acme.json(Method::POST, "/v1/subscriptions", &body).await;
        answer.problem(404, "stream_not_found");
        let globexs = globex.get(&path).await.json();
        assert_eq!(globexs, Value::from(vec!["secret of globex"; 5]), "to its own");
    }
}

/// I6: what a session followed before it slept is by its name; the pointer is of use to nobody.
async fn a_session_that_sleeps_does_not_wake_up_to_another_tenants_stream(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    let acme = key_holder(admin, &json!({ "host": "acme" })).await;
    let globex = key_holder(admin, &json!({ "host": "globex" })).await;
    for name in ["doc", "other"] {
        acme.create(name).await;
    }
    let tab = Tab::open(&acme).await;
    for name in ["doc", "other"] {
        tab.subscribe_at(name, "-1").await;
    }
    let delete = acme.request(Method::DELETE, "/v1/stream/doc");
    assert_eq!(Answer::of(delete).await.status, 204);
    globex.create("doc").await;
    let newest = globex.append("doc", &json!("secret of globex")).await;
    acme.append("other", &json!("of acme")).await;

    let mut page = ServerSent::open(&acme, &tab.session, None).await;
    let mut events = Vec::new();
    while events.is_empty() {
        let message = page.next().await.expect("a message").message;
        assert!(!message.to_string().contains("globex"), "{message}");
        match message["type"].as_str() {
            Some("event") => events.push(message),
            Some("error") => assert_eq!(message["code"], "stream_not_found", "{message}"),
            _ => {}
        }
    }
    assert_eq!(events[0]["streamId"], "other");
    drop(page);
    tab.heartbeat(&json!([{ "streamId": "doc", "lastOffset": newest }])).await;
    // The session of one tenant is no session to another, whoever knows its id.
    let offsets = format!("/v1/session-offsets/{}", tab.session);
    globex.get(&offsets).await.problem(404, "session_not_found");
    globex.get(&format!("/v1/live/{}", tab.session)).await.problem(404, "session_not_found");
    let body = json!({ "sessionId": tab.session, "streamId": "doc" });
    let answer = globex.json(Method::POST, "/v1/subscriptions", &body).await;
    answer.problem(404, "session_not_found");
}

/// I6: a subscription would tell of streams that are yet to come, whoever makes them.
async fn subscriptions_are_not_there_for_those_bound_to_a_tenant(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    admin.create("wake").await;
    let route = |id: &str| format!("/v1/stream/__ds/subscriptions/{id}");
    let config = json!({ "type": "pull-wake", "pattern": "doc/*", "wake_stream": "wake" });
    let made = admin.json(Method::PUT, &route("watch-1"), &config).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let free = key_holder(admin, &json!({})).await;
    assert_eq!(free.json(Method::PUT, &route("watch-2"), &config).await.status, 201, "not bound");
    for bound in [
        key_holder(admin, &json!({ "host": "acme" })).await,
        key_holder(admin, &json!({ "host": "acme", "hosts": [""] })).await,
        user(admin, "ada", "acme"),
    ] {
        let mut told = Vec::new();
        for id in ["watch-1", "watch-2", "watch-3"] {
            let route = route(id);
            let streams = json!({ "streams": ["doc/1"] });
            let worker = json!({ "worker": "w" });
            let answers = [
                bound.json(Method::PUT, &route, &config).await,
                bound.get(&route).await,
                bound.json(Method::POST, &format!("{route}/streams"), &streams).await,
                Answer::of(bound.request(Method::DELETE, &format!("{route}/streams/x"))).await,
                bound.json(Method::POST, &format!("{route}/claim"), &worker).await,
                Answer::of(bound.request(Method::DELETE, &route)).await,
            ];
            assert_eq!(
                answers.each_ref().map(|a| a.status),
                [403, 404, 403, 404, 404, 204],
                "{id}"
            );
            told.push(answers.map(|answer| Response::of(&answer, id)));
        }
        assert_eq!(told[0], told[2], "one that is there and one that is not");
        assert_eq!(told[1], told[2], "one that is there and one that is not");
    }
    assert_eq!(admin.get(&route("watch-1")).await.status, 200, "nothing has happened to it");
}

/// Whoever reads the log with SQL sees whose each event is.
async fn the_log_says_which_tenant_and_user_wrote(store: Store) {
    let server = start(&store).await;
    let admin = server.http();
    let name = "doc";
    let acme = key_holder(admin, &json!({ "host": "acme" })).await;
    acme.create(name).await;
    acme.append(name, &json!(1)).await;
    user(admin, "ada", "acme").append(name, &json!(2)).await;
    admin.append(name, &json!(3)).await;
    let guest = key_holder(admin, &json!({ "host": "globex", "hosts": ["acme"] })).await;
    guest.append(name, &json!(4)).await;
    let claims = json!({ "sub": "bob", "tidewire": scopes(&json!({})) });
    let bob = admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    bob.append(name, &json!(5)).await;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        store.actors(name).await,
        [
            (some("acme"), None),
            (some("acme"), some("ada")),
            (None, None),
            (some("globex"), None),
            (None, some("bob")),
        ]
    );
}
