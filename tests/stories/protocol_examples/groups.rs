//! Section 30: every request is sent, and answered with the members and types of the text.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::examples::{Exchange, exchanges_of, shape};
use tidewire_stories::{Http, Launch, Store, on_both_stores};

on_both_stores!(what_the_protocol_says_of_groups_is_so);

/// The steps that are tried, in the order in which they make sense.
const STEPS: [&str; 13] = [
    "PUT /v1/groups/billing",
    "GET /v1/groups/billing",
    "GET /v1/groups",
    "POST /v1/groups/billing/change",
    "POST /v1/groups/billing/resume",
    "POST /v1/groups/billing/claim",
    "POST /v1/groups/billing/extend",
    "POST /v1/groups/billing/nack",
    "POST /v1/groups/billing/ack",
    "POST /v1/groups/billing/reset",
    "GET /v1/groups/billing/dead",
    "POST /v1/groups/billing/dead/redrive",
    "POST /v1/groups/billing/dead/drop",
];

async fn send(http: &Http, example: &Exchange, token: &Value) -> Value {
    let method: Method = example.method.parse().expect("a method");
    let mut body = example.body.clone();
    if body.get("token").is_some() {
        body["token"] = token.clone();
    }
    let answer = match method {
        Method::GET => http.get(&example.path).await,
        method => http.json(method, &example.path, &body).await,
    };
    let status = example.answer.as_ref().map_or(200, |(status, _)| *status);
    assert_eq!(answer.status, status, "{example:?}: {}", answer.text());
    answer.json()
}

async fn order(http: &Http, id: u32) {
    let sql = format!("INSERT INTO orders VALUES ({id}, 12.50, 'acme', 'ann')");
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
}

/// What may be null in one and a value in another, as the text's tables say.
fn gist(document: &Value) -> Value {
    const SOMETIMES_NULL: [&str; 14] = [
        "member",
        "moved_at",
        "lease_ms",
        "leased_to",
        "retry_in_ms",
        "trouble",
        "stopped",
        "barrier",
        "wanted_partitions",
        "lost_to",
        "txid",
        "lag_seconds",
        "next_after",
        "offset",
    ];
    match document {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match name.as_str() {
                "report" => (name.clone(), Value::Null),
                name if SOMETIMES_NULL.contains(&name) => (name.to_owned(), Value::Null),
                _ => (name.clone(), gist(value)),
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(elements) => elements.iter().take(1).map(gist).collect(),
        other => other.clone(),
    }
}

async fn what_the_protocol_says_of_groups_is_so(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let examples = exchanges_of("30. Consumer groups");
    let find = |step: &str| {
        let named = |example: &&Exchange| {
            let path = example.path.split('?').next().unwrap_or_default();
            format!("{} {path}", example.method) == step
        };
        examples.iter().find(named).unwrap_or_else(|| panic!("no example of {step}"))
    };
    for example in &examples {
        let path = example.path.split('?').next().unwrap_or_default();
        let step = format!("{} {path}", example.method);
        assert!(STEPS.contains(&step.as_str()), "an example that is not tried here: {step}");
    }
    let made = "CREATE TABLE orders (id INTEGER PRIMARY KEY, total NUMERIC, host TEXT, who TEXT); \
                CREATE TABLE invoices (order_id INTEGER, total NUMERIC)";
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": made })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let watch = json!({
        "table": "orders", "entity": "order", "host_column": "host", "user_column": "who",
    });
    assert_eq!(http.json(Method::POST, "/v1/watch", &watch).await.status, 200);
    order(http, 7).await;

    let mut token = Value::Null;
    for step in STEPS {
        let example = find(step);
        // What an earlier step has ended, or what this one needs to find.
        match step.rsplit('/').next() {
            Some("nack" | "ack") => token = claimed(http, token).await,
            // Letters; and for the second, those that are worked off again.
            Some(last @ ("dead" | "drop")) => {
                order(http, if last == "dead" { 8 } else { 9 }).await;
                token = claimed(http, Value::Null).await;
                bury(http, &token).await;
            }
            _ => {}
        }
        let answer = send(http, example, &token).await;
        if let Some(given) = answer.get("token") {
            token = given.clone();
        }
        if let Some((_, told)) = &example.answer {
            // Rows differ from table to table.
            let rows = |document: &Value| {
                let text = gist(document).to_string();
                let row = r#""after_data":{"#;
                match text.split_once(row) {
                    Some((before, after)) => {
                        let rest = after.split_once('}').map_or("", |(_, rest)| rest);
                        serde_json::from_str(&format!("{before}{row}}}{rest}")).expect("JSON")
                    }
                    None => gist(document),
                }
            };
            assert_eq!(shape(&rows(&answer)), shape(&rows(told)), "{step}: {answer}");
        }
        if step.ends_with("/nack") {
            token = Value::Null;
        }
    }
    server.stop().await;
}

/// The token of a batch: of the one in hand, or of the next.
async fn claimed(http: &Http, token: Value) -> Value {
    if !token.is_null() {
        return token;
    }
    let answer = http.json(Method::POST, "/v1/groups/billing/claim", &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["token"].clone()
}

async fn bury(http: &Http, token: &Value) {
    let failed = json!([{ "host_id": "acme", "user_id": "ann", "error": "no such customer", "verdict": "dead" }]);
    let nack = json!({ "token": token, "failed": failed });
    let answer = http.json(Method::POST, "/v1/groups/billing/nack", &nack).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
