//! Messages as bytes for the wire: JSON in WebSocket frames, plain or compressed, or in server-sent events.
//!
//! What a message says depends on the event and on the client's name for its subscription, and on
//! nothing else of the connection: so its bytes are made once and shared.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use tidewire_store::stream::is_json;
use tidewire_store::{Epoch, Event, Offset, Position};

use crate::encode::is_text;
use crate::messages::{self, CdcEvent, Gap, Names, Payload, ServerMessage as _, put_shown};
use crate::tail::Chunk;
use tidewire_wire::websocket::deflate::Deflater;
use tidewire_wire::websocket::{CloseCode, frame};

/// How a connection is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// WebSocket frames.
    Frames,
    /// WebSocket frames, compressed where that helps.
    DeflatedFrames,
    /// Server-sent events.
    ServerSent,
    /// Server-sent events in the chunks of an HTTP/1.1 body.
    Chunks,
}

impl Dialect {
    /// How many there are.
    pub(crate) const COUNT: usize = 4;

    /// Whether one cursor stands for all that was sent, so that it must come in the log's order.
    pub(crate) fn has_one_cursor(self) -> bool {
        matches!(self, Dialect::ServerSent | Dialect::Chunks)
    }

    /// The question whether the client is there, or what keeps the way to it open.
    pub(crate) fn ping(self) -> Bytes {
        match self {
            Dialect::Frames | Dialect::DeflatedFrames => frame::ping(),
            Dialect::ServerSent => Bytes::from_static(b":\n\n"),
            Dialect::Chunks => Bytes::from_static(b"3\r\n:\n\n\r\n"),
        }
    }

    /// The last there is to be.
    pub(crate) fn close(self, code: CloseCode, reason: &str) -> Bytes {
        match self {
            Dialect::Frames | Dialect::DeflatedFrames => frame::close(code, reason),
            Dialect::ServerSent | Dialect::Chunks => self.ping(),
        }
    }

    /// When to come back, for a client that does so by itself.
    pub(crate) fn retry(self, wait_ms: u64) -> Option<Bytes> {
        let retry = format!("retry: {wait_ms}\n");
        match self {
            Dialect::Frames | Dialect::DeflatedFrames => None,
            Dialect::ServerSent => Some(retry.into()),
            Dialect::Chunks => Some(format!("{:x}\r\n{retry}\r\n", retry.len()).into()),
        }
    }
}

/// How a stream's payloads stand in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Text,
    Base64,
    /// JSON that is the change of a row and stands for itself: the message has no payload.
    Change,
}

impl Form {
    pub(crate) fn of(content_type: &str) -> Form {
        if is_json(content_type) {
            Form::Json
        } else if is_text(content_type) {
            Form::Text
        } else {
            Form::Base64
        }
    }
}

/// What all messages of a subscription have in common.
#[derive(Debug, Clone)]
pub struct Envelope {
    names: Names,
    epoch: Epoch,
    /// Events with more payload than this are announced, not pushed.
    notify_bytes: usize,
    form: Form,
}

impl Envelope {
    pub fn new(
        query_id: &str,
        stream: &str,
        epoch: Epoch,
        notify_bytes: usize,
        form: Form,
    ) -> Envelope {
        Envelope { names: Names::new(query_id, stream), epoch, notify_bytes, form }
    }

    /// Writes an event as a JSON text.
    fn put_message(&self, out: &mut BytesMut, event: &Event) {
        let (names, offset) = (&self.names, event.position.in_epoch(self.epoch));
        if event.payload.len() > self.notify_bytes {
            return messages::Notify { names, offset }.put(out);
        }
        if let Form::Change = self.form
            && let Some(rest) = event.payload.strip_prefix(CdcEvent::BEGINNING)
        {
            return CdcEvent::put_named(out, names, rest);
        }
        let payload = match (self.form, std::str::from_utf8(&event.payload)) {
            (Form::Json | Form::Change, Ok(json)) => Payload::Json(json),
            (Form::Text, Ok(text)) => Payload::Text(text),
            _ => Payload::Bytes(&event.payload),
        };
        messages::Event { names, offset, payload }.put(out);
    }

    /// Events as one run of bytes for the wire.
    pub fn encode(
        &self,
        dialect: Dialect,
        events: &[Event],
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let payload: usize = events.iter().map(|event| event.payload.len()).sum();
        let mut out =
            BytesMut::with_capacity(payload + events.len() * (self.names.both().len() + 96));
        let mut message = BytesMut::with_capacity(256);
        for event in events {
            message.clear();
            self.put_message(&mut message, event);
            let position = Some(event.position.in_epoch(self.epoch));
            put(&mut out, dialect, &message, position, deflater);
        }
        out.freeze()
    }

    /// A chunk as bytes for the wire, made once whoever asks.
    pub(crate) fn encode_shared(
        &self,
        dialect: Dialect,
        query_id: &Arc<str>,
        chunk: &Chunk,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let messages = chunk.messages(query_id, self.form == Form::Change);
        messages.of(dialect, || self.encode(dialect, &chunk.events, deflater))
    }

    /// The message that stands for events which were not sent.
    pub(crate) fn gap(&self, from: Position, to: Position) -> String {
        let (from, to) = (from.in_epoch(self.epoch), to.in_epoch(self.epoch));
        Gap { names: &self.names, from, to }.text()
    }
}

/// Writes one message in a connection's dialect. `position` is where it stands in the log, if it
/// does.
pub fn put(
    out: &mut BytesMut,
    dialect: Dialect,
    message: &[u8],
    position: Option<Offset>,
    deflater: &mut Option<Deflater>,
) {
    match dialect {
        Dialect::Frames => frame::put_text(out, message),
        Dialect::DeflatedFrames => {
            match deflater.get_or_insert_with(Deflater::default).compress(message) {
                Some(compressed) => frame::put_compressed_text(out, &compressed),
                None => frame::put_text(out, message),
            }
        }
        Dialect::ServerSent => put_server_sent(out, message, position),
        Dialect::Chunks => put_chunk(out, message, position),
    }
}

/// Writes a server-sent event as a chunk.
fn put_chunk(out: &mut BytesMut, message: &[u8], position: Option<Offset>) {
    use std::fmt::Write as _;
    let id_bytes = position.map_or(0, |_| "id: \n".len() + OFFSET_BYTES);
    // Writing into memory cannot fail.
    let _ = write!(out, "{:x}\r\n", id_bytes + "data: \n\n".len() + message.len());
    put_server_sent(out, message, position);
    out.put_slice(b"\r\n");
}

/// Bytes of an offset's text.
const OFFSET_BYTES: usize = 21;

fn put_server_sent(out: &mut BytesMut, message: &[u8], position: Option<Offset>) {
    if let Some(position) = position {
        out.put_slice(b"id: ");
        put_shown(out, position);
        out.put_u8(b'\n');
    }
    out.put_slice(b"data: ");
    // In JSON a line break stands only between tokens, where a space means the same; in SSE it would
    // end the field.
    if message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        let flat =
            message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
        out.extend(flat);
    } else {
        out.put_slice(message);
    }
    out.put_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(form: Form) -> Envelope {
        Envelope::new("q\"1", "doc-1", Epoch::FIRST, 20, form)
    }

    fn event(payload: &[u8]) -> Event {
        let position = Position::new(42);
        Event { position, append_id: position, payload: Bytes::copy_from_slice(payload), row: None }
    }

    fn message(form: Form, payload: &[u8]) -> serde_json::Value {
        let mut out = BytesMut::new();
        envelope(form).put_message(&mut out, &event(payload));
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn payloads_stand_in_json_by_their_type() {
        let json = message(Form::Json, b"{\"x\": 1}");
        assert_eq!(json["query_id"], "q\"1");
        assert_eq!(json["streamId"], "doc-1");
        assert_eq!(json["offset"], "0001_0000000000000042");
        assert_eq!(json["payload"], serde_json::json!({ "x": 1 }));
        assert_eq!(message(Form::Text, b"a \"b\"\n")["payload"], "a \"b\"\n");
        let bytes = message(Form::Base64, &[0, 255]);
        assert_eq!((&bytes["payload"], &bytes["encoding"]), (&"AP8=".into(), &"base64".into()));
    }

    #[test]
    fn a_change_of_a_row_stands_for_itself() {
        let payload = br#"{"type":"cdc_event","eventId":"42","data":{"x": 1}}"#;
        let envelope = Envelope::new("q", "table/t", Epoch::FIRST, 100, Form::Change);
        let mut out = BytesMut::new();
        envelope.put_message(&mut out, &event(payload));
        let expected = r#"{"type":"cdc_event","query_id":"q","eventId":"42","data":{"x": 1}}"#;
        assert_eq!(std::str::from_utf8(&out).expect("text"), expected);
    }

    #[test]
    fn large_payloads_are_announced() {
        let large = message(Form::Text, &[b'x'; 21]);
        assert_eq!((&large["type"], large.get("payload")), (&"notify".into(), None));
        assert_eq!(message(Form::Text, &[b'x'; 20])["type"], "event");
    }

    #[test]
    fn a_line_break_in_json_does_not_end_a_server_sent_event() {
        let form = envelope(Form::Json);
        let sent = form.encode(Dialect::ServerSent, &[event(b"{\n\"x\":\r1}")], &mut None);
        let text = std::str::from_utf8(&sent).expect("text");
        assert!(text.starts_with("id: 0001_0000000000000042\ndata: {"), "{text}");
        assert_eq!(text.matches('\n').count(), 3);
        assert!(text.ends_with("}\n\n"));
    }

    #[test]
    fn a_chunk_has_the_length_it_says() {
        let one = [event(b"{\"x\":1}")];
        let form = envelope(Form::Json);
        let plain = form.encode(Dialect::ServerSent, &one, &mut None);
        let chunk = form.encode(Dialect::Chunks, &one, &mut None);
        let expected = [format!("{:x}\r\n", plain.len()).as_bytes(), &plain, b"\r\n"].concat();
        assert_eq!(chunk, expected);
        let mut out = BytesMut::new();
        put(&mut out, Dialect::Chunks, b"{}", None, &mut None);
        assert_eq!(&out[..], b"a\r\ndata: {}\n\n\r\n");
    }

    #[test]
    fn several_events_are_several_frames() {
        let small = event(b"1");
        let sent = envelope(Form::Json).encode(Dialect::Frames, &[small.clone(), small], &mut None);
        let length = usize::from(sent[1]) + 2;
        assert_eq!(sent.len(), 2 * length);
        assert_eq!(sent[..length], sent[length..]);
    }
}
