//! Server-sent events out of a response that arrives in pieces.
//!
//! Lines end in `\n`, `\r\n` or `\r`, and any of them may be cut anywhere by the network, even
//! between `\r` and `\n`. Fields the protocol does not use (`id`, comments) are read over.

use std::time::Duration;

/// Bytes an event may take before the connection is given up: far more than a server sends at once,
/// and far less than would hurt the process.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// One event. Several `data` lines are joined by `\n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its type; `message` where the server names none.
    pub name: String,
    /// What it carries.
    pub data: String,
}

/// An event grew past what a client holds in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {EVENT_BYTES_MAX} bytes")]
pub struct TooLarge;

/// Reads events out of pieces. `line.len() + data.len() <= EVENT_BYTES_MAX`, plus one piece.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    /// The last piece ended in `\r`, so a `\n` at the start of the next one ends no line.
    after_cr: bool,
    retry: Option<Duration>,
}

impl Parser {
    /// The events that this piece completes.
    pub fn push(&mut self, mut piece: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        if self.after_cr && !piece.is_empty() {
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
            self.after_cr = false;
        }
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&piece[..end]);
            let line = std::mem::take(&mut self.line);
            events.extend(self.end_line(&String::from_utf8_lossy(&line)));
            let rest = &piece[end + 1..];
            self.after_cr = piece[end] == b'\r' && rest.is_empty();
            piece =
                if piece[end] == b'\r' { rest.strip_prefix(b"\n").unwrap_or(rest) } else { rest };
        }
        self.line.extend_from_slice(piece);
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held > EVENT_BYTES_MAX { Err(TooLarge) } else { Ok(events) }
    }

    /// How long the server last asked clients to wait before they come back.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn end_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "retry" => {
                self.retry = value.parse().map(Duration::from_millis).ok().or(self.retry);
            }
            _ => {}
        }
        None
    }

    /// An event without data is no event.
    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        Some(Event { name: if name.is_empty() { "message".to_owned() } else { name }, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "retry: 250\n\n: a comment\nevent: data\ndata:[\ndata: {\"a\":\"ü\"}\r\n\
                          data:]\r\n\r\nid: 7\revent:control\rdata: {}\r\r\nevent: data\n\ndata\n\n";

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    fn expected() -> [Event; 3] {
        [event("data", "[\n{\"a\":\"ü\"}\n]"), event("control", "{}"), event("message", "")]
    }

    #[test]
    fn events_are_the_same_wherever_the_network_cuts() {
        for size in 1..SAMPLE.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in SAMPLE.as_bytes().chunks(size) {
                events.extend(parser.push(piece).expect("small events"));
            }
            assert_eq!(events, expected(), "in pieces of {size}");
            assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
        }
    }

    #[test]
    fn an_event_without_its_blank_line_is_held_back() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"event: data\ndata: 1\n"), Ok(vec![]));
        assert_eq!(parser.push(b"\n"), Ok(vec![event("data", "1")]));
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; EVENT_BYTES_MAX];
        assert_eq!(parser.push(&piece), Ok(vec![]));
        assert_eq!(parser.push(b"x"), Err(TooLarge));
    }
}
