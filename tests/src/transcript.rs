//! What a stream holds, as it is read with `?format=events`.

use serde_json::Value;

use crate::http::Http;
use crate::wait::eventually;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub offset: String,
    pub payload: Value,
}

impl Event {
    /// The place in the log that the offset names.
    pub fn position(&self) -> u64 {
        let digits = self.offset.split_once('_').map(|(_, digits)| digits);
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{:?} is no offset", self.offset))
    }
}

/// A stream as read so far. Offsets rise strictly.
#[derive(Debug, Clone)]
pub struct Transcript {
    stream: String,
    events: Vec<Event>,
    next: String,
}

impl Transcript {
    /// Nothing read yet.
    pub fn new(stream: &str) -> Transcript {
        Transcript { stream: stream.to_owned(), events: Vec::new(), next: "-1".to_owned() }
    }

    /// All of a stream, read from its start.
    pub async fn read(http: &Http, stream: &str) -> Transcript {
        let mut transcript = Transcript::new(stream);
        transcript.read_on(http).await;
        transcript
    }

    /// Reads on to the stream's end. A server that asks for patience gets it.
    pub async fn read_on(&mut self, http: &Http) {
        loop {
            let path = format!("/v1/stream/{}?offset={}&format=events", self.stream, self.next);
            let answer = eventually("the stream can be read", async || {
                let answer = http.get(&path).await;
                (answer.status != 503).then_some(answer)
            })
            .await;
            assert_eq!(answer.status, 200, "GET {path}: {}", answer.text());
            for event in events(&answer.json()) {
                self.push(event);
            }
            self.next = answer.next_offset();
            if answer.header("stream-up-to-date") == Some("true") {
                return;
            }
        }
    }

    fn push(&mut self, event: Event) {
        if let Some(last) = self.events.last() {
            assert!(
                last.offset < event.offset,
                "offsets do not rise in {}: {} comes before {}",
                self.stream,
                last.offset,
                event.offset
            );
        }
        self.events.push(event);
    }

    /// The stream's name.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// What was read.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Checks that what was read earlier is all still there, unchanged, in what is read now.
    pub fn is_kept_in(&self, later: &Transcript) {
        assert!(
            later.events.starts_with(&self.events),
            "{}: events that were read once have changed or gone",
            self.stream
        );
    }
}

/// The events in an answer to `?format=events`.
pub fn events(body: &Value) -> Vec<Event> {
    let event = |event: &Value| Event {
        offset: event["offset"]
            .as_str()
            .unwrap_or_else(|| panic!("no offset in {event}"))
            .to_owned(),
        payload: event["payload"].clone(),
    };
    let array = body.as_array();
    array.unwrap_or_else(|| panic!("not an array of events: {body}")).iter().map(event).collect()
}
