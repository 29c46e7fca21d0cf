//! Frames as a server sends them: whole messages, not masked.

use bytes::{BufMut, Bytes, BytesMut};

use super::CloseCode;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    pub(super) fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xA => Opcode::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xA,
        }
    }

    pub(super) fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// The last frame of a message.
pub(super) const FIN: u8 = 0x80;
/// The message is compressed.
pub(super) const RSV1: u8 = 0x40;
/// The most that a control frame carries.
pub(super) const CONTROL_BYTES_MAX: usize = 125;

fn put_header(out: &mut BytesMut, first: u8, length: usize) {
    out.put_u8(first);
    match length {
        #[expect(clippy::cast_possible_truncation, reason = "at most 125")]
        0..=125 => out.put_u8(length as u8),
        #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
        126..=0xFFFF => {
            out.put_u8(126);
            out.put_u16(length as u16);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(length as u64);
        }
    }
}

/// Writes a text message.
pub fn put_text(out: &mut BytesMut, payload: &[u8]) {
    put_header(out, FIN | Opcode::Text.bits(), payload.len());
    out.put_slice(payload);
}

/// Writes a text message that is compressed already.
pub fn put_compressed_text(out: &mut BytesMut, compressed: &[u8]) {
    put_header(out, FIN | RSV1 | Opcode::Text.bits(), compressed.len());
    out.put_slice(compressed);
}

/// The question whether the other side is there.
pub fn ping() -> Bytes {
    Bytes::from_static(&[FIN | 0x9, 0])
}

/// The answer to a ping, which repeats what the ping said.
pub fn pong(payload: &[u8]) -> Bytes {
    control(Opcode::Pong, payload)
}

/// The last frame, with a reason that is cut to what fits.
pub fn close(code: CloseCode, reason: &str) -> Bytes {
    let mut end = reason.len().min(CONTROL_BYTES_MAX - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut payload = Vec::with_capacity(end + 2);
    payload.extend_from_slice(&code.0.to_be_bytes());
    payload.extend_from_slice(&reason.as_bytes()[..end]);
    control(Opcode::Close, &payload)
}

fn control(opcode: Opcode, payload: &[u8]) -> Bytes {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    let mut out = BytesMut::with_capacity(payload.len() + 2);
    put_header(&mut out, FIN | opcode.bits(), payload.len());
    out.put_slice(payload);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form() {
        for (length, header) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xFF, 0xFF]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut frame = BytesMut::new();
            put_text(&mut frame, &vec![b'x'; length]);
            assert_eq!(frame[..header.len()], header, "{length}");
            assert_eq!(frame.len(), header.len() + length);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let frame = close(CloseCode::GOING_AWAY, &"é".repeat(100));
        assert_eq!(frame[0], 0x88);
        assert_eq!(usize::from(frame[1]), frame.len() - 2);
        assert_eq!(&frame[2..4], 1001u16.to_be_bytes());
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
    }
}
