//! A stream by `live=sse`, one response: read as fast as the story wants, or not at all.

use std::collections::VecDeque;

use reqwest::{Method, Response};
use serde_json::Value;
use tidewire_client::sse;

use crate::http::Http;
use crate::transcript::Event;

/// Before the first event, as a reader of an empty stream is told.
pub const START: &str = "0001_0000000000000000";

/// A response as it grows. Dropping it ends the connection.
#[derive(Debug)]
pub struct StreamSource {
    response: Response,
    parser: sse::Parser,
    held: Vec<Value>,
    arrived: VecDeque<Batch>,
}

/// Messages, and where the reader is after them.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub messages: Vec<Value>,
    pub control: Value,
}

impl Batch {
    /// Where the reader is.
    pub fn offset(&self) -> &str {
        let offset = self.control["streamNextOffset"].as_str();
        offset.unwrap_or_else(|| panic!("no streamNextOffset in {}", self.control))
    }
}

impl StreamSource {
    /// `GET /v1/stream/{stream}?live=sse`, after an offset.
    pub async fn open(http: &Http, stream: &str, offset: &str) -> StreamSource {
        let path = format!("/v1/stream/{stream}?live=sse&offset={offset}");
        let response = http.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "GET {path}");
        StreamSource {
            response,
            parser: sse::Parser::default(),
            held: Vec::new(),
            arrived: VecDeque::new(),
        }
    }

    /// What comes next, however long that takes. `None`: the response has ended, in order.
    pub async fn next(&mut self) -> Option<Batch> {
        loop {
            if let Some(batch) = self.arrived.pop_front() {
                return Some(batch);
            }
            let piece = self.response.chunk().await.expect("a response that ends in order")?;
            for event in self.parser.push(&piece).expect("events of a sensible size") {
                let data: Value = serde_json::from_str(&event.data).expect("JSON");
                match (event.name.as_str(), data) {
                    ("data", Value::Array(messages)) => self.held.extend(messages),
                    ("control", control) => {
                        let messages = std::mem::take(&mut self.held);
                        self.arrived.push_back(Batch { messages, control });
                    }
                    (name, data) => panic!("an event of an unknown kind: {name} {data}"),
                }
            }
        }
    }
}

/// Checks that a reader got what a stream holds after a start, from the first on, each message once
/// and in order, and that it was told where it was after each batch. It need not have got to the
/// stream's end.
pub fn is_exact(stream: &str, start: &str, batches: &[Batch], expected: &[Event]) {
    let mut after = expected.iter().filter(|event| event.offset.as_str() > start);
    let mut offset = start;
    for batch in batches {
        for message in &batch.messages {
            let event = after.next();
            let event = event.unwrap_or_else(|| panic!("{stream} has no {message} after {offset}"));
            assert_eq!(*message, event.payload, "the message at {} of {stream}", event.offset);
            offset = &event.offset;
        }
        assert_eq!(batch.offset(), offset, "where a reader of {stream} is");
    }
}
