//! What readers of a stream are sent: `data` and `control` events as one piece, and comments.
//!
//! Every `data` event is followed by a `control` event that says where the reader now is. A frame
//! is the two together, so that a reader never holds data without its offset. It depends on the
//! events and on nothing of the reader but a cursor that is ahead of the clock: so the readers of a
//! stream share it.

use bytes::{BufMut, Bytes, BytesMut};

use tidewire_store::{Epoch, Event, Position};

use crate::cursor;
use crate::encode;
use crate::frames::{Dialect, Form};

/// Room for the length of a chunk in hexadecimal digits and the line's end.
const HEAD_BYTES: usize = 18;

/// A piece of a response that is sent whole.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    text: Bytes,
    /// The same memory with the head and the end of an HTTP/1.1 chunk around it.
    chunk: Bytes,
    /// The `streamCursor` in it.
    cursor: u64,
}

impl Frame {
    /// A text that is sent as it is.
    pub(crate) fn of(text: &str) -> Frame {
        let mut frame = Frame::begin(text.len());
        frame.put_slice(text.as_bytes());
        Frame::end(frame, 0)
    }

    fn begin(capacity: usize) -> BytesMut {
        let mut bytes = BytesMut::with_capacity(HEAD_BYTES + capacity + "\r\n".len());
        bytes.put_bytes(0, HEAD_BYTES);
        bytes
    }

    fn end(mut bytes: BytesMut, cursor: u64) -> Frame {
        let end = bytes.len();
        let head = format!("{:x}\r\n", end - HEAD_BYTES);
        let begin = HEAD_BYTES - head.len();
        bytes[begin..HEAD_BYTES].copy_from_slice(head.as_bytes());
        bytes.put_slice(b"\r\n");
        let whole = bytes.freeze();
        Frame { text: whole.slice(HEAD_BYTES..end), chunk: whole.slice(begin..), cursor }
    }

    /// The bytes for a response that is spoken to so.
    pub(crate) fn bytes(&self, dialect: Dialect) -> Bytes {
        match dialect {
            Dialect::Chunks => self.chunk.clone(),
            _ => self.text.clone(),
        }
    }
}

/// How far a frame brings its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// There is more.
    Partly,
    /// To the stream's end as it is.
    UpToDate,
    /// To the end of a closed stream: nothing comes after this.
    Closed,
}

/// How a reader of a stream is spoken to.
#[derive(Debug, Clone, Copy)]
pub struct ReaderFormat {
    epoch: Epoch,
    form: Form,
    /// The cursor that the client came with.
    cursor: Option<u64>,
}

impl ReaderFormat {
    pub fn new(epoch: Epoch, content_type: &str, client_cursor: Option<&str>) -> ReaderFormat {
        ReaderFormat { epoch, form: Form::of(content_type), cursor: cursor::parse(client_cursor) }
    }

    /// Whether data goes as base64.
    pub fn is_base64(&self) -> bool {
        self.form == Form::Base64
    }

    /// How readers of the same stream are spoken to who came without a cursor.
    pub(crate) fn common(self) -> ReaderFormat {
        ReaderFormat { cursor: None, ..self }
    }

    /// Whether the reader can be sent a frame that was made for all. One whose cursor is not behind
    /// the clock needs a greater one, which is its alone.
    pub fn takes(&self, common: &Frame) -> bool {
        self.cursor.is_none_or(|theirs| theirs < common.cursor)
    }

    /// Events, and that the reader then is at `offset`.
    pub fn frame(&self, events: &[Event], offset: Position, extent: Extent, now_ms: i64) -> Frame {
        let size: usize = events.iter().map(|event| event.payload.len() + 8).sum();
        let mut frame = Frame::begin(if self.is_base64() { size / 3 * 4 } else { size } + 192);
        if !events.is_empty() {
            frame.put_slice(b"event: data\n");
            self.put_data(&mut frame, &encode::body(self.form == Form::Json, events));
        }
        frame.put_slice(b"event: control\ndata:{\"streamNextOffset\":\"");
        frame.put_slice(offset.in_epoch(self.epoch).to_string().as_bytes());
        frame.put_u8(b'"');
        let cursor = cursor::next(self.cursor, now_ms, &mut rand::rng());
        if extent == Extent::Closed {
            frame.put_slice(b",\"streamClosed\":true");
        } else {
            frame.put_slice(format!(",\"streamCursor\":\"{cursor}\"").as_bytes());
            if extent == Extent::UpToDate {
                frame.put_slice(b",\"upToDate\":true");
            }
        }
        frame.put_slice(b"}\n\n");
        Frame::end(frame, cursor)
    }

    /// Writes the `data` lines of one event. Line breaks inside the data must each start a new
    /// `data:` line, or the text after them would be read as fields of the event.
    fn put_data(&self, frame: &mut BytesMut, body: &[u8]) {
        if self.is_base64() {
            frame.put_slice(b"data:");
            frame.put_slice(encode::base64(body).as_bytes());
            frame.put_slice(b"\n\n");
            return;
        }
        let mut rest = body;
        loop {
            frame.put_slice(b"data:");
            if rest.first() == Some(&b' ') {
                // The reader takes one space away.
                frame.put_u8(b' ');
            }
            let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                frame.put_slice(rest);
                frame.put_slice(b"\n\n");
                return;
            };
            frame.put_slice(&rest[..at]);
            frame.put_u8(b'\n');
            let crlf = rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n');
            rest = &rest[at + if crlf { 2 } else { 1 }..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first moment of interval 100.
    const NOW_MS: i64 = (1_728_432_000 + 100 * 20) * 1000;

    fn event(position: u64, payload: &'static [u8]) -> Event {
        let position = Position::new(position);
        Event { position, append_id: position, payload: Bytes::from_static(payload), row: None }
    }

    fn text(content_type: &str, events: &[Event], extent: Extent) -> String {
        let reader_format = ReaderFormat::new(Epoch::FIRST, content_type, None);
        let frame = reader_format.frame(events, Position::new(42), extent, NOW_MS);
        String::from_utf8(frame.bytes(Dialect::ServerSent).to_vec()).expect("text")
    }

    #[test]
    fn data_and_control_are_one_piece() {
        assert_eq!(
            text(
                "application/json",
                &[event(41, b"1"), event(42, b"{\"n\": 2}")],
                Extent::UpToDate
            ),
            "event: data\ndata:[1,{\"n\": 2}]\n\nevent: control\n\
             data:{\"streamNextOffset\":\"0001_0000000000000042\",\"streamCursor\":\"100\",\
             \"upToDate\":true}\n\n"
        );
    }

    #[test]
    fn a_control_event_says_how_far_the_reader_has_got() {
        let control = |members: &str| {
            format!(
                "event: control\ndata:{{\"streamNextOffset\":\"0001_0000000000000042\"{members}}}\n\n"
            )
        };
        for (extent, members) in [
            (Extent::Partly, ",\"streamCursor\":\"100\""),
            (Extent::UpToDate, ",\"streamCursor\":\"100\",\"upToDate\":true"),
            (Extent::Closed, ",\"streamClosed\":true"),
        ] {
            assert_eq!(text("text/plain", &[], extent), control(members));
        }
    }

    #[test]
    fn data_survives_the_rules_of_its_lines() {
        let data = |content_type: &str, payload: &'static [u8]| {
            let text = text(content_type, &[event(42, payload)], Extent::UpToDate);
            let (data, _) = text.split_once("event: control").expect("a control event");
            data.strip_prefix("event: data\n").expect("a data event").to_owned()
        };
        assert_eq!(data("text/plain", b"a\nb\r\nc\rd"), "data:a\ndata:b\ndata:c\ndata:d\n\n");
        assert_eq!(data("text/plain", b" a\n b"), "data:  a\ndata:  b\n\n");
        assert_eq!(data("application/octet-stream", &[0, 255, b'\n']), "data:AP8K\n\n");
    }

    #[test]
    fn a_chunk_is_the_text_with_its_length() {
        let reader_format = ReaderFormat::new(Epoch::FIRST, "text/plain", None);
        for frame in [
            reader_format.frame(&[event(1, b"x")], Position::new(1), Extent::Partly, 0),
            Frame::of(":\n\n"),
        ] {
            let text = frame.bytes(Dialect::ServerSent);
            let chunk = [format!("{:x}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat();
            assert_eq!(frame.bytes(Dialect::Chunks), chunk);
        }
    }

    #[test]
    fn a_cursor_that_is_ahead_of_the_clock_gets_a_frame_of_its_own() {
        let reader_format = |cursor| ReaderFormat::new(Epoch::FIRST, "text/plain", cursor);
        let frame = |reader_format: ReaderFormat| {
            reader_format.frame(&[], Position::START, Extent::Partly, NOW_MS)
        };
        let common = frame(reader_format(Some("5000")).common());
        for behind in [None, Some("99"), Some("junk")] {
            assert!(reader_format(behind).takes(&common), "{behind:?}");
        }
        for ahead in ["100", "5000"] {
            assert!(!reader_format(Some(ahead)).takes(&common), "{ahead}");
            let own = frame(reader_format(Some(ahead)));
            assert!(own.cursor > ahead.parse().expect("a number"), "{} after {ahead}", own.cursor);
            let text = String::from_utf8(own.text.to_vec()).expect("text");
            assert!(text.contains(&format!("\"streamCursor\":\"{}\"", own.cursor)), "{text}");
        }
    }
}
