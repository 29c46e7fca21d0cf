//! A tab that subscribes to entities, and the tables that they are rows of.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{Http, Issuer, WebSocket};

/// Of tokens of end users.
pub(crate) const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// End users read all rows of these tables.
const READ: &str =
    "[tables]\nprojects.read = \"true\"\nsecret_projects.read = \"true\"\nnotes.read = \"true\"\n";

pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("TIDEWIRE_JWT_SECRET", SECRET), ("tidewire.toml", READ)];

/// Runs SQL, and waits until what it did is in the log.
pub(crate) async fn run(http: &Http, text: &str) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    answer.json()
}

pub(crate) async fn watch(http: &Http, document: &Value) {
    let answer = http.json(Method::POST, "/v1/watch", document).await;
    assert_eq!(answer.status, 200, "{document}: {}", answer.text());
}

/// A table whose rows are projects, with ids from 1. Returns the offset by which all are there.
pub(crate) async fn projects(http: &Http, count: usize) -> Value {
    run(http, "CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT)").await;
    watch(http, &json!({ "table": "projects", "entity": "project" })).await;
    let rows: Vec<String> = (1..=count).map(|id| format!("({id}, 'new')")).collect();
    run(http, &format!("INSERT INTO projects VALUES {}", rows.join(", "))).await["offset"].take()
}

/// An end user who may read all tables.
pub(crate) fn user(http: &Http, name: &str) -> Http {
    let claims = json!({ "sub": name, "tidewire": { "tables": ["*"] } });
    http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// What a tab was told of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) id: String,
    pub(crate) action: String,
    pub(crate) offset: String,
}

/// A tab.
#[derive(Debug)]
pub(crate) struct EntityPage {
    pub(crate) socket: WebSocket,
    pub(crate) connection_id: String,
}

impl EntityPage {
    pub(crate) async fn open(http: &Http) -> EntityPage {
        EntityPage::greeted(WebSocket::connect(http, "/v1/ws").await).await
    }

    pub(crate) async fn greeted(mut socket: WebSocket) -> EntityPage {
        let hello = socket.hears("hello").await;
        let connection_id = hello["connection_id"].as_str().expect("an id").to_owned();
        EntityPage { socket, connection_id }
    }

    /// Asks to be told of some.
    pub(crate) async fn ask(&mut self, code: &str, ids: &[impl AsRef<str>]) {
        let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        let payload = json!({ "entityCode": code, "entityIds": ids });
        self.socket.say(&json!({ "type": "SUBSCRIBE", "payload": payload })).await;
    }

    /// The same, and waits until it is certain. Returns the confirmation's entry.
    pub(crate) async fn subscribe(&mut self, code: &str, ids: &[impl AsRef<str>]) -> Value {
        self.ask(code, ids).await;
        let created = self.socket.hears_at_last("subscription_created").await;
        created["subscriptions"][0].clone()
    }

    pub(crate) async fn unsubscribe(&mut self, code: &str, ids: Option<&[&str]>) {
        let mut payload = json!({ "entityCode": code });
        if let Some(ids) = ids {
            payload["entityIds"] = json!(ids);
        }
        self.socket.say(&json!({ "type": "UNSUBSCRIBE", "payload": payload })).await;
    }

    /// What the next message tells.
    pub(crate) async fn next(&mut self) -> Vec<Change> {
        let message = self.socket.hears("INVALIDATE").await;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let change = |change: &Value| Change {
            id: text(&change["entityId"]),
            action: text(&change["action"]),
            offset: text(&message["offset"]),
        };
        let changes = message["payload"]["changes"].as_array().expect("changes");
        assert!(!changes.is_empty(), "{message} tells nothing");
        changes.iter().map(change).collect()
    }

    /// All that is told up to the first word of an entity.
    pub(crate) async fn told_until(&mut self, id: &str) -> Vec<Change> {
        let mut told = Vec::new();
        while told.iter().all(|change: &Change| change.id != id) {
            told.extend(self.next().await);
        }
        told
    }
}
