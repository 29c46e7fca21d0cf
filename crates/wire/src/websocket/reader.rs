//! What clients send: from bytes as they arrive to whole messages.
//!
//! The reader takes no socket and keeps no buffer while nothing is half-read. A client that breaks
//! the rules is told by the close code which one. Messages are taken out one by one, because each may change
//! how large the next may be: those of a client that has not said who it is are short.

use bytes::{Buf, Bytes, BytesMut};

use super::CloseCode;
use super::deflate::{Unreadable, inflate};
use super::frame::{CONTROL_BYTES_MAX, FIN, Opcode, RSV1};

/// Something a client said.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    Text(Bytes),
    Ping(Bytes),
    Pong,
    Close,
}

/// A broken rule: the code to close with, and a word why.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub code: CloseCode,
    pub why: &'static str,
}

fn protocol(why: &'static str) -> Violation {
    Violation { code: CloseCode::PROTOCOL, why }
}

const TOO_BIG: Violation =
    Violation { code: CloseCode::TOO_BIG, why: "the message is over live.message_bytes_max" };

/// Bytes of a message from a client that has not said who it is: a token, which has 8 KiB at most, and what
/// is around it.
pub(crate) const STRANGER_MESSAGE_BYTES_MAX: usize = 12 << 10;

const TOO_BIG_FOR_STRANGERS: Violation = Violation {
    code: CloseCode::TOO_BIG,
    why: "the first message is auth, and has at most 12 KiB; longer ones may follow it",
};

/// One connection's incoming side.
#[derive(Debug)]
pub struct Reader {
    /// Bytes of a frame that is not whole yet.
    partial: BytesMut,
    /// A message of which not all frames are there.
    message: Option<Fragments>,
    deflate: bool,
    message_bytes_max: usize,
    /// The client has not said who it is.
    of_stranger: bool,
}

#[derive(Debug)]
struct Fragments {
    compressed: bool,
    data: BytesMut,
}

struct Header {
    fin: bool,
    compressed: bool,
    opcode: Opcode,
    mask: [u8; 4],
    payload_bytes: usize,
    header_bytes: usize,
}

impl Reader {
    /// One for a client that has not said who it is.
    pub fn new(deflate: bool, message_bytes_max: usize) -> Reader {
        let (partial, message) = (BytesMut::new(), None);
        Reader { partial, message, deflate, message_bytes_max, of_stranger: true }
    }

    /// The client has said who it is.
    pub fn admit(&mut self) {
        self.of_stranger = false;
    }

    fn bytes_max(&self) -> usize {
        match self.of_stranger {
            true => self.message_bytes_max.min(STRANGER_MESSAGE_BYTES_MAX),
            false => self.message_bytes_max,
        }
    }

    fn too_big(&self) -> Violation {
        if self.of_stranger { TOO_BIG_FOR_STRANGERS } else { TOO_BIG }
    }

    /// Memory that it takes.
    pub fn held_bytes(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.data.capacity());
        self.partial.capacity() + message
    }

    /// Forgets what is half-read. After a broken rule nobody knows where the next frame begins.
    pub fn forget(&mut self) {
        self.partial = BytesMut::new();
        self.message = None;
    }

    /// Takes bytes as they came.
    pub fn take(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
    }

    /// The next thing the client said, if all of it is there.
    pub fn take_next(&mut self) -> Result<Option<Incoming>, Violation> {
        while let Some(header) = self.header()? {
            let whole = header.header_bytes + header.payload_bytes;
            if self.partial.len() < whole {
                return Ok(None);
            }
            self.partial.advance(header.header_bytes);
            let mut payload = self.partial.split_to(header.payload_bytes);
            unmask(&mut payload, header.mask);
            if let Some(said) = self.frame(&header, payload)? {
                return Ok(Some(said));
            }
        }
        if self.partial.is_empty() {
            // Idle connections hold no memory.
            self.partial = BytesMut::new();
        }
        Ok(None)
    }

    /// The next frame's header, if it is there.
    fn header(&self) -> Result<Option<Header>, Violation> {
        let [first, second, rest @ ..] = &self.partial[..] else { return Ok(None) };
        let opcode = Opcode::of(first & 0x0F).ok_or(protocol("there is no such opcode"))?;
        let compressed = first & RSV1 != 0;
        if first & 0x30 != 0 || (compressed && !self.deflate) {
            return Err(protocol("a reserved bit is set"));
        }
        if second & 0x80 == 0 {
            return Err(protocol("a client's frames must be masked"));
        }
        let (length, length_bytes) = match second & 0x7F {
            126 => match rest {
                [a, b, ..] => (u64::from(u16::from_be_bytes([*a, *b])), 2),
                _ => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8),
                None => return Ok(None),
            },
            length => (u64::from(length), 0),
        };
        let fin = first & FIN != 0;
        if opcode.is_control() && (!fin || compressed || length > CONTROL_BYTES_MAX as u64) {
            return Err(protocol("a control frame is whole, short and not compressed"));
        }
        let payload_bytes = usize::try_from(length).unwrap_or(usize::MAX);
        let so_far = self.message.as_ref().map_or(0, |message| message.data.len());
        if payload_bytes > self.bytes_max().saturating_sub(so_far) && !opcode.is_control() {
            return Err(self.too_big());
        }
        let Some(mask) = rest.get(length_bytes..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(None);
        };
        let header_bytes = 2 + length_bytes + 4;
        Ok(Some(Header { fin, compressed, opcode, mask: *mask, payload_bytes, header_bytes }))
    }

    fn frame(&mut self, header: &Header, payload: BytesMut) -> Result<Option<Incoming>, Violation> {
        match header.opcode {
            Opcode::Ping => return Ok(Some(Incoming::Ping(payload.freeze()))),
            Opcode::Pong => return Ok(Some(Incoming::Pong)),
            Opcode::Close => return close(&payload).map(Some),
            Opcode::Binary => {
                let why = "messages are JSON in text frames";
                return Err(Violation { code: CloseCode::UNSUPPORTED, why });
            }
            Opcode::Text if self.message.is_some() => {
                return Err(protocol("a message begins inside another"));
            }
            Opcode::Text => {
                let compressed = header.compressed;
                self.message = Some(Fragments { compressed, data: payload });
            }
            Opcode::Continuation if header.compressed => {
                return Err(protocol("only a message's first frame says that it is compressed"));
            }
            Opcode::Continuation => match &mut self.message {
                Some(message) => message.data.extend_from_slice(&payload),
                None => return Err(protocol("there is no message to continue")),
            },
        }
        match self.message.take_if(|_| header.fin) {
            Some(message) => self.whole(message).map(Some),
            None => Ok(None),
        }
    }

    fn whole(&self, message: Fragments) -> Result<Incoming, Violation> {
        let data = if message.compressed {
            inflate(&message.data, self.bytes_max()).map_err(|error| match error {
                Unreadable::TooLarge => self.too_big(),
                Unreadable::NotDeflate => protocol("the message is not deflated as it says"),
            })?
        } else {
            message.data.freeze()
        };
        if std::str::from_utf8(&data).is_err() {
            return Err(Violation { code: CloseCode::NOT_TEXT, why: "the text is not UTF-8" });
        }
        Ok(Incoming::Text(data))
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    for (byte, mask) in payload.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

fn close(payload: &[u8]) -> Result<Incoming, Violation> {
    let legal = match payload {
        [] => true,
        [_] => false,
        [a, b, reason @ ..] => {
            let code = u16::from_be_bytes([*a, *b]);
            matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
                && std::str::from_utf8(reason).is_ok()
        }
    };
    if legal { Ok(Incoming::Close) } else { Err(protocol("the close frame is not right")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::deflate::Deflater;
    use super::*;

    /// A frame as a client sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..=125 => frame.push(0x80 | u8::try_from(short).expect("short")),
            long => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(long).expect("in 16 bits").to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn read(deflate: bool, bytes: &[u8]) -> Result<Vec<Incoming>, Violation> {
        let mut reader = Reader::new(deflate, 1_000);
        reader.admit();
        reader.take(bytes);
        all(&mut reader)
    }

    fn all(reader: &mut Reader) -> Result<Vec<Incoming>, Violation> {
        let mut out = Vec::new();
        while let Some(said) = reader.take_next()? {
            out.push(said);
        }
        Ok(out)
    }

    fn text(text: &str) -> Incoming {
        Incoming::Text(Bytes::copy_from_slice(text.as_bytes()))
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_they_are_cut(
            messages in proptest::collection::vec("[a-zé]{0,300}", 1..5),
            cuts in proptest::collection::vec(1usize..50, 1..20),
        ) {
            let mut wire = Vec::new();
            for message in &messages {
                let middle = (0..=message.len() / 2).rev().find(|at| message.is_char_boundary(*at));
                let (head, tail) = message.as_bytes().split_at(middle.unwrap_or(0));
                wire.extend(frame(0x01, head));
                wire.extend(frame(0x89, b"between"));
                wire.extend(frame(0x80, tail));
            }
            let mut reader = Reader::new(false, 1_000);
            let (mut out, mut rest) = (Vec::new(), &wire[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                reader.take(now);
                out.extend(all(&mut reader).expect("within the rules"));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            out.retain(|incoming| !matches!(incoming, Incoming::Ping(_)));
            prop_assert_eq!(out, messages.iter().map(|m| text(m)).collect::<Vec<_>>());
            prop_assert_eq!(reader.partial.capacity(), 0, "nothing is kept");
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(true, &bytes);
        }
    }

    #[test]
    fn a_compressed_message_is_read() {
        let message = "tide ".repeat(50);
        let compressed = Deflater::default().compress(message.as_bytes()).expect("it shrinks");
        assert_eq!(read(true, &frame(0xC1, &compressed)), Ok(vec![text(&message)]));
        let refused = read(false, &frame(0xC1, &compressed)).expect_err("not agreed on");
        assert_eq!(refused.code, CloseCode::PROTOCOL);
    }

    #[test]
    fn each_broken_rule_has_its_code() {
        let unmasked = [0x81, 1, b'x'];
        for (bytes, code) in [
            (unmasked.to_vec(), 1002),
            (frame(0x83, b""), 1002),
            (frame(0xA1, b""), 1002),
            (frame(0x80, b""), 1002),
            (frame(0x09, b""), 1002),
            (frame(0x88, b"x"), 1002),
            (frame(0x88, &999u16.to_be_bytes()), 1002),
            ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), 1002),
            (frame(0x82, b"bytes"), 1003),
            (frame(0x81, &[0xFF]), 1007),
            (frame(0x81, &[b'x'; 1_001]), 1009),
            ([frame(0x01, &[b'x'; 600]), frame(0x80, &[b'x'; 600])].concat(), 1009),
        ] {
            assert_eq!(read(false, &bytes).expect_err("refused").code, CloseCode(code));
        }
    }

    #[test]
    fn a_frame_that_is_too_large_is_refused_by_its_header() {
        let header = [0x81, 0x80 | 127, 0xFF, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(read(false, &header), Err(TOO_BIG));
    }

    /// What one client may make the server keep is little until it has said who it is, also where it
    /// announces more than it sends, cuts it into frames, or compresses it.
    #[test]
    fn a_stranger_s_message_is_short() {
        let announced = [0x81, 0x80 | 126, 0xFF, 0xFF];
        let half = vec![b'x'; STRANGER_MESSAGE_BYTES_MAX / 2 + 1];
        let cut = [frame(0x01, &half), frame(0x80, &half)].concat();
        let long = "x".repeat(STRANGER_MESSAGE_BYTES_MAX + 1);
        let compressed = Deflater::default().compress(long.as_bytes()).expect("it shrinks");
        for bytes in [announced.to_vec(), cut, frame(0xC1, &compressed)] {
            let mut reader = Reader::new(true, 1 << 20);
            reader.take(&bytes);
            assert_eq!(all(&mut reader), Err(TOO_BIG_FOR_STRANGERS));
        }
    }

    /// A client may send all it has to say at once, its credential first.
    #[test]
    fn what_follows_a_credential_may_be_long() {
        let long = "x".repeat(STRANGER_MESSAGE_BYTES_MAX + 1);
        let mut reader = Reader::new(false, 1 << 20);
        reader.take(&[frame(0x81, b"auth"), frame(0x81, long.as_bytes())].concat());
        assert_eq!(reader.take_next(), Ok(Some(text("auth"))));
        reader.admit();
        assert_eq!(reader.take_next(), Ok(Some(text(&long))));
        assert_eq!(reader.take_next(), Ok(None));
        assert_eq!(reader.held_bytes(), 0, "nothing is kept");
    }

    #[test]
    fn closing_is_heard() {
        assert_eq!(read(false, &frame(0x88, &1000u16.to_be_bytes())), Ok(vec![Incoming::Close]));
        assert_eq!(read(false, &frame(0x88, b"")), Ok(vec![Incoming::Close]));
    }
}
