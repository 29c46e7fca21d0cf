//! The message that is fanned out: 128 bytes of JSON, the same on every server; or a row with the same in it,
//! where a table is followed.
//!
//! It carries its number, and one marker byte that occurs nowhere else in what a server sends
//! around it (HTTP heads, chunk sizes, envelopes, offsets; in a WebSocket frame's header it may,
//! but that is parsed away). So a delivery is counted by one SIMD scan with no parsing, whatever
//! the server wraps it in, and a marker can never be cut in two.

use std::io::Write;

pub(crate) const MARKER: u8 = b'~';
pub(crate) const MESSAGE_BYTES: usize = 128;
/// The digits of the number, which end at the marker.
pub(crate) const NUMBER_BYTES: usize = 10;

/// Appends message `number` to `out`.
pub(crate) fn write(number: u64, out: &mut Vec<u8>) {
    const HEAD: &str = r#"{"number":""#;
    const MIDDLE: &str = r#"~","text":""#;
    const FILLER: usize = MESSAGE_BYTES - HEAD.len() - NUMBER_BYTES - MIDDLE.len() - 2;
    out.extend_from_slice(HEAD.as_bytes());
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number:010}");
    out.extend_from_slice(MIDDLE.as_bytes());
    out.extend_from_slice(&[b'x'; FILLER]);
    out.extend_from_slice(b"\"}");
}

/// Message `number` as the values of a row of three columns: a number, and two texts.
pub(crate) fn row(number: u64) -> String {
    format!("({number}, '{number:010}~', '{:x<87}')", "")
}

/// Finds the markers in a flow of bytes and reads the number before each, also where a read has cut
/// it in two.
#[derive(Debug, Default)]
pub(crate) struct NumberReader {
    /// The last bytes of the flow so far.
    tail: [u8; NUMBER_BYTES],
}

impl NumberReader {
    /// Calls `found` with the number of each message whose marker is in `bytes`: `None` where there
    /// are no digits before it.
    pub(crate) fn read(&mut self, bytes: &[u8], mut found: impl FnMut(Option<u64>)) {
        for at in memchr::memchr_iter(MARKER, bytes) {
            found(number(&self.before(bytes, at)));
        }
        self.tail = self.before(bytes, bytes.len());
    }

    /// The bytes of the flow that end before `bytes[end]`.
    fn before(&self, bytes: &[u8], end: usize) -> [u8; NUMBER_BYTES] {
        let mut last = [0; NUMBER_BYTES];
        let from_bytes = end.min(NUMBER_BYTES);
        let from_tail = NUMBER_BYTES - from_bytes;
        last[..from_tail].copy_from_slice(&self.tail[from_bytes..]);
        last[from_tail..].copy_from_slice(&bytes[end - from_bytes..end]);
        last
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_size_and_one_marker_and_is_json() {
        let mut message = Vec::new();
        write(42, &mut message);
        assert_eq!(message.len(), MESSAGE_BYTES);
        assert_eq!(memchr::memchr_iter(MARKER, &message).count(), 1);
        let json: serde_json::Value = serde_json::from_slice(&message).expect("JSON");
        assert_eq!(json["number"], "0000000042~");
    }

    #[test]
    fn numbers_are_read_wherever_the_flow_is_cut() {
        let mut flow = b"something before".to_vec();
        for number in [7, 123_456, 9_999_999_999] {
            write(number, &mut flow);
        }
        for piece_bytes in 1..=flow.len() {
            let (mut reader, mut numbers) = (NumberReader::default(), Vec::new());
            for piece in flow.chunks(piece_bytes) {
                reader.read(piece, |number| numbers.push(number));
            }
            assert_eq!(
                numbers,
                [Some(7), Some(123_456), Some(9_999_999_999)],
                "pieces of {piece_bytes}"
            );
        }
    }
}
