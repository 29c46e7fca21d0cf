//! `tidewire consume --webhook`: signed batches for a web service.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tidewire_stories::port::free_port;
use tidewire_stories::{Launch, Process, Store, eventually, on_both_stores};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{ONE, Shop, stop};

on_both_stores!(a_web_service_gets_signed_batches, the_answer_says_what_becomes_of_the_events);

const SECRET: &str = "a secret that both of them know";

/// A request as it arrived.
#[derive(Debug, Clone)]
struct Request {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Request {
    fn batch(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn is_signed(&self) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let tag = BASE64_STANDARD.decode(self.signature.strip_prefix("v1,").expect("version 1"));
        let signed = format!("{}.{}.{}", self.id, self.timestamp, self.body);
        let verified = hmac::verify(&key, signed.as_bytes(), &tag.expect("base64"));
        assert!(verified.is_ok(), "the signature does not fit: {self:?}");
    }
}

/// What it answers, in turn; the last for ever.
type Answers = Vec<(u16, &'static str)>;

#[derive(Debug, Clone, Default)]
struct Heard {
    requests: Arc<Mutex<Vec<Request>>>,
    answers: Arc<Mutex<Answers>>,
}

/// A web service. Unreachable when dropped.
struct Service {
    heard: Heard,
    url: String,
    _server: JoinSet<()>,
}

impl Service {
    async fn start(answers: Answers) -> Service {
        let heard = Heard { answers: Arc::new(Mutex::new(answers)), ..Heard::default() };
        let router = Router::new().route("/hook", post(take)).with_state(heard.clone());
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("a free port");
        let mut server = JoinSet::new();
        server.spawn(async move {
            axum::serve(listener, router).await.expect("a listener that works");
        });
        Service { heard, url: format!("http://127.0.0.1:{port}/hook"), _server: server }
    }

    fn requests(&self) -> Vec<Request> {
        self.heard.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn take(
    State(heard): State<Heard>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, &'static str) {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let request = Request {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body,
    };
    heard.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let mut answers = heard.answers.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, text) = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
    (StatusCode::from_u16(status).expect("a status"), text)
}

fn consume(shop: &Shop, url: &str, secret: &str) -> Process {
    let launch = Launch::command("consume").with(ONE.iter().copied()).with(["--webhook", url]);
    shop.spawn(launch.set("TIDEWIRE_WEBHOOK_SECRET", secret).set("no_proxy", "127.0.0.1"))
}

async fn a_web_service_gets_signed_batches(store: Store) {
    let server = Launch::dev(&store).start().await;
    let shop = Shop::open(server.http(), &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    shop.jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    // It is away for a moment, and says the second time what it thinks of that.
    let service = Service::start(vec![(503, ""), (200, "thank you")]).await;
    let process = consume(&shop, &service.url, SECRET);
    shop.nothing_is_left().await;
    stop(process).await;
    let requests = service.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    for request in &requests {
        request.is_signed();
        let batch = request.batch();
        assert_eq!(batch.get("token"), None, "the lease is nobody else's");
        let users = batch["groups"].as_array().expect("groups").iter();
        let users: Vec<&Value> = users.map(|group| &group["user_id"]).collect();
        assert_eq!(users, ["ann", "bob"]);
        let text = |name: &str| batch[name].as_str().expect("an offset").to_owned();
        assert_eq!(request.id, format!("mail:0:{}:{}", text("from"), text("to")));
    }
    assert_eq!(requests[0].id, requests[1].id, "the same on repetition");

    // The secret must be there, and be one; and it is not shown.
    for secret in ["", "too short"] {
        let ended = consume(&shop, &service.url, secret).ended().await;
        assert_eq!(ended.code, Some(1), "{}", ended.said);
        assert!(ended.said.contains("TIDEWIRE_WEBHOOK_SECRET"), "{}", ended.said);
        assert!(secret.is_empty() || !ended.said.contains(secret), "{}", ended.said);
    }
}

async fn the_answer_says_what_becomes_of_the_events(store: Store) {
    let server = Launch::dev(&store).start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"], "max_attempts": 1 });
    let shop = Shop::open(server.http(), &wish).await;
    let of_ann = r#"{"failed": [{"host_id": "acme", "user_id": "ann", "error": "she is out"}]}"#;
    let answers = vec![(200, of_ann), (200, ""), (422, "no such thing"), (204, "")];
    let service = Service::start(answers).await;
    let process = consume(&shop, &service.url, SECRET);
    shop.jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    shop.nothing_is_left().await;
    shop.jobs.add(&[(3, "acme", "eve")]).await;
    eventually("two letters", async || {
        (shop.jobs.letters("state=dead").await.len() == 2).then_some(())
    })
    .await;
    shop.nothing_is_left().await;
    stop(process).await;
    let letters = shop.jobs.letters("state=dead").await;
    let told: Vec<(&str, &str)> = letters
        .iter()
        .map(|letter| {
            let user = letter["event"]["user_id"].as_str().expect("a user");
            (user, letter["error"].as_str().expect("an error"))
        })
        .collect();
    assert_eq!(told[0], ("ann", "she is out"));
    assert_eq!(told[1].0, "eve");
    assert!(told[1].1.ends_with("answered 422: no such thing"), "{told:?}");
}
