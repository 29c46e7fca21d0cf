//! One connection, read from its beginning to its end, and every event on it noted as it came:
//! nothing is asked for again and nothing deduplicated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::event_source::EventSource;
use crate::follower::is_exact;
use crate::http::Http;
use crate::transcript::Transcript;
use crate::wait::eventually;
use crate::wire::Wire;

/// Someone who reads one connection that follows one stream. Hangs up when dropped.
#[derive(Debug)]
pub struct Witness {
    start: String,
    seen: Arc<Mutex<Seen>>,
    _task: JoinSet<()>,
}

/// Where messages come from, either way.
#[derive(Debug)]
pub enum Connection {
    WebSocket(Wire),
    EventSource(EventSource),
}

impl Connection {
    /// The next message. `None` when the connection is over.
    pub async fn next(&mut self) -> Option<Value> {
        match self {
            Connection::WebSocket(wire) => wire.next().await,
            Connection::EventSource(response) => response.next().await,
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    events: Vec<(String, Bytes)>,
    /// What came that should not have, or that the connection has ended.
    wrong: Option<String>,
}

impl Witness {
    /// Over a WebSocket, from the stream's start.
    pub async fn web_socket(http: &Http, stream: &str) -> Witness {
        let mut wire = Wire::open(http, "/v1/ws").await;
        let start = wire.subscribe(stream, "-1").await;
        Witness::of(start, Connection::WebSocket(wire))
    }

    /// By server-sent events of a session of its own, from the stream's start.
    pub async fn event_source(http: &Http, stream: &str) -> Witness {
        let session = http.open_session().await;
        let start = http.follow(&session, stream, "-1").await;
        let response = EventSource::open(http, &session, None).await;
        Witness::of(start, Connection::EventSource(response))
    }

    fn of(start: String, mut connection: Connection) -> Witness {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(message) = connection.next().await {
                lock(&shared).note(&message);
            }
            lock(&shared).wrong.get_or_insert("the connection has ended".to_owned());
        });
        Witness { start, seen, _task: task }
    }

    /// Waits until all that the stream has after its start has come over this one connection, and
    /// checks that nothing else has.
    pub async fn has_all_of(&self, transcript: &Transcript) {
        let last = transcript.events().last().map_or("", |event| &event.offset);
        eventually(&format!("a witness gets all of {}", transcript.stream()), async || {
            let seen = lock(&self.seen);
            if let Some(wrong) = &seen.wrong {
                panic!("to one who follows {}: {wrong}", transcript.stream());
            }
            let newest = seen.events.last().map_or(&self.start, |(offset, _)| offset);
            (newest.as_str() >= last).then_some(())
        })
        .await;
        let seen = lock(&self.seen);
        is_exact(transcript.stream(), &self.start, &seen.events, transcript.events());
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn note(&mut self, message: &Value) {
        match message["type"].as_str() {
            Some("event") => {
                let offset = message["offset"].as_str().expect("an offset").to_owned();
                self.events.push((offset, message["payload"].to_string().into()));
            }
            Some("hello" | "subscription_created" | "progress") => {}
            _ => self.wrong = Some(message.to_string()),
        }
    }
}
