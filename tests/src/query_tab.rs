//! A client that follows live queries, and keeps their results by what it is told and nothing else.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::Http;
use crate::websocket::WebSocket;

/// A connection and the results of the queries that it follows.
#[derive(Debug)]
pub struct QueryTab {
    pub socket: WebSocket,
    pub connection_id: String,
    results: HashMap<String, Followed>,
}

/// A query's result, as it was told.
#[derive(Debug, Default)]
struct Followed {
    rows: Vec<Value>,
    /// The entry of its last `subscription_created`.
    entry: Value,
    offset: Option<String>,
    /// Parts of a transaction that is not complete.
    parts: Vec<Value>,
    is_whole: bool,
}

/// Runs SQL, and waits until what it did is in the log.
pub async fn run(http: &Http, text: &str) -> Value {
    let answer = http.json(Method::POST, "/v1/sql", &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    answer.json()
}

/// Has a table watched.
pub async fn watch(http: &Http, document: &Value) {
    let answer = http.json(Method::POST, "/v1/watch", document).await;
    assert_eq!(answer.status, 200, "{document}: {}", answer.text());
}

impl QueryTab {
    pub async fn open(http: &Http) -> QueryTab {
        QueryTab::greeted(WebSocket::connect(http, "/v1/ws").await).await
    }

    /// One who has room for next to nothing.
    pub async fn open_narrow(http: &Http) -> QueryTab {
        QueryTab::greeted(WebSocket::connect_narrow(http, "/v1/ws").await).await
    }

    async fn greeted(mut socket: WebSocket) -> QueryTab {
        let hello = socket.hears("hello").await;
        let connection_id = hello["connection_id"].as_str().expect("an id").to_owned();
        QueryTab { socket, connection_id, results: HashMap::new() }
    }

    /// Asks for queries, in one message.
    pub async fn ask(&mut self, subscriptions: &[Value]) {
        let message = json!({ "type": "subscribe", "subscriptions": subscriptions });
        self.socket.say(&message).await;
    }

    /// Follows a query, and waits until it has begun. Returns what was said of it.
    pub async fn follow(&mut self, subscription: &Value) -> Value {
        let query_id = subscription["query_id"].as_str().expect("a name").to_owned();
        self.results.remove(&query_id);
        self.ask(std::slice::from_ref(subscription)).await;
        loop {
            let message = self.hear().await;
            assert_ne!(message["type"], "error", "{message}");
            if let Some(followed) = self.results.get(&query_id).filter(|f| f.is_whole) {
                return followed.entry.clone();
            }
        }
    }

    /// Takes in the next message, and returns it.
    pub async fn hear(&mut self) -> Value {
        let message = self.socket.next().await;
        self.take(&message);
        message
    }

    /// Reads on to a message of a type.
    pub async fn hear_until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.hear().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// Reads on until a result is as it should be.
    pub async fn until(&mut self, query_id: &str, expected: &[Value]) {
        while self.sorted(query_id) != sorted(expected.to_vec()) {
            self.hear_no_error().await;
        }
    }

    async fn hear_no_error(&mut self) {
        let message = self.hear().await;
        assert_ne!(message["type"], "error", "{message}");
    }

    /// Reads on until a result is that of the same SELECT, run by hand: in its order if it has one.
    pub async fn until_as_run(&mut self, http: &Http, query_id: &str, select: &str, ordered: bool) {
        let expected = run(http, select).await["rows"].as_array().expect("rows").clone();
        if ordered {
            while self.rows(query_id) != expected {
                self.hear_no_error().await;
            }
        } else {
            self.until(query_id, &expected).await;
        }
    }

    /// The rows of a result.
    pub fn rows(&self, query_id: &str) -> &[Value] {
        self.results.get(query_id).map(|followed| followed.rows.as_slice()).unwrap_or_default()
    }

    fn sorted(&self, query_id: &str) -> Vec<Value> {
        sorted(self.rows(query_id).to_vec())
    }

    /// Where the result stands in the log, if that was told.
    pub fn offset(&self, query_id: &str) -> Option<&str> {
        self.results.get(query_id)?.offset.as_deref()
    }

    /// What was said of a query when it last began.
    pub fn entry(&self, query_id: &str) -> &Value {
        self.results.get(query_id).map_or(&Value::Null, |followed| &followed.entry)
    }

    /// What another connection has of a query.
    pub fn inherit(&mut self, other: &mut QueryTab, query_id: &str) {
        let followed = other.results.remove(query_id).expect("a result");
        self.results.insert(query_id.to_owned(), followed);
    }

    fn take(&mut self, message: &Value) {
        match message["type"].as_str() {
            Some("subscription_created") => {
                for entry in message["subscriptions"].as_array().expect("an array") {
                    self.begin(entry);
                }
            }
            Some("initial_batch") => {
                let Some(followed) = self.followed(message) else { return };
                followed.rows.extend(list(&message["rows"]));
                followed.is_whole = message["more"] == false;
            }
            Some("change") => {
                let Some(followed) = self.followed(message) else { return };
                assert!(followed.is_whole, "a change amid the first rows: {message}");
                assert_eq!(message["part"], followed.parts.len(), "{message}");
                followed.parts.push(message.clone());
                if message["more"] == false {
                    followed.apply();
                }
            }
            Some("progress") if message.get("query_id").is_some() => {
                let offset = message["offset"].as_str().map(ToOwned::to_owned);
                if let Some(followed) = self.followed(message) {
                    followed.offset = offset;
                }
            }
            _ => {}
        }
    }

    /// What a message is about, unless that was given up to be followed anew.
    fn followed(&mut self, message: &Value) -> Option<&mut Followed> {
        self.results.get_mut(message["query_id"].as_str().expect("a name"))
    }

    fn begin(&mut self, entry: &Value) {
        let query_id = entry["query_id"].as_str().expect("a name").to_owned();
        let followed = self.results.entry(query_id).or_default();
        followed.entry = entry.clone();
        followed.offset = entry["offset"].as_str().map(ToOwned::to_owned);
        followed.is_whole = entry["more"] == false;
        followed.parts.clear();
        // Who goes on keeps what it has.
        if entry.get("initial_results").is_some() {
            followed.rows = list(&entry["initial_results"]);
        }
    }
}

impl Followed {
    /// Does what a transaction did.
    fn apply(&mut self) {
        for part in std::mem::take(&mut self.parts) {
            let rows = list(&part["rows"]);
            match part["change_type"].as_str() {
                Some("DELETE") => self.remove(&rows, &part),
                Some("UPDATE") => {
                    self.remove(&list(&part["old_rows"]), &part);
                    self.insert(rows, &part);
                }
                Some("INSERT") => self.insert(rows, &part),
                _ => panic!("no such change: {part}"),
            }
            if let Some(offset) = part["offset"].as_str() {
                let goes_on = self.offset.as_deref().is_none_or(|known| known < offset)
                    || self.offset.as_deref() == Some(offset);
                assert!(goes_on, "an offset that goes back from {:?}: {part}", self.offset);
            }
            self.offset = part["offset"].as_str().map(ToOwned::to_owned);
        }
    }

    fn remove(&mut self, rows: &[Value], part: &Value) {
        let Some(from) = part["from"].as_array() else {
            for row in rows {
                let place = self.rows.iter().position(|known| known == row);
                self.rows
                    .swap_remove(place.unwrap_or_else(|| panic!("not there: {row} of {part}")));
            }
            return;
        };
        let mut from: Vec<(usize, &Value)> = places(from).zip(rows).collect();
        from.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        for (place, row) in from {
            assert_eq!(self.rows.remove(place), *row, "{part}");
        }
    }

    fn insert(&mut self, rows: Vec<Value>, part: &Value) {
        let Some(at) = part["at"].as_array() else { return self.rows.extend(rows) };
        let mut at: Vec<(usize, Value)> = places(at).zip(rows).collect();
        at.sort_by_key(|(place, _)| *place);
        for (place, row) in at {
            self.rows.insert(place, row);
        }
    }
}

fn places(of: &[Value]) -> impl Iterator<Item = usize> {
    of.iter().map(|place| place.as_u64().and_then(|n| usize::try_from(n).ok()).expect("a place"))
}

fn list(of: &Value) -> Vec<Value> {
    of.as_array().expect("rows").clone()
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(ToString::to_string);
    rows
}
