//! The least of RFC 6455 that measures correctly: the handshake by hand, and frames told apart by
//! their lengths. No compression is offered.
//!
//! A client must mask what it sends and should do so with unpredictable keys, which protects proxies
//! from hostile pages. There are neither here, so the key is zero and the payload stays as it is.

use anyhow::{Result, bail};

/// The example of RFC 6455, so that the bare loop can answer with a constant.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const HEADER_BYTES_MAX: usize = 10;
const MASKED: u8 = 0x80;

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

pub(crate) fn upgrade_request(path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n\r\n"
    )
    .into_bytes()
}

/// The answer to [`upgrade_request`].
pub(crate) fn upgrade_answer() -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {ACCEPT}\r\n\r\n"
    )
    .into_bytes()
}

pub(crate) fn client_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(opcode, payload, MASKED)
}

pub(crate) fn server_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(opcode, payload, 0)
}

pub(crate) fn pong(ping: &[u8]) -> Vec<u8> {
    client_frame(PONG, ping)
}

fn frame(opcode: u8, payload: &[u8], masked: u8) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => frame.push(masked | length),
        (_, Ok(length)) => {
            frame.push(masked | 126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(masked | 127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    if masked != 0 {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(payload);
    frame
}

/// What a server's bytes hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A part of a message: of one frame, and whole unless a read has cut it.
    Data(&'a [u8]),
    /// To be answered with [`pong`].
    Ping(&'a [u8]),
    Close(&'a [u8]),
}

/// Where a connection's flow of frames stands.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    in_payload: bool,
    payload_left: u64,
    /// The payload of a control frame so far, which is at most 125 bytes long.
    control: Vec<u8>,
}

impl Frames {
    /// Hands over what `bytes` hold, piece by piece.
    pub(crate) fn scan(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        while !bytes.is_empty() {
            if !self.in_payload {
                bytes = self.read_header(bytes)?;
                if !self.in_payload {
                    break;
                }
            }
            let left = usize::try_from(self.payload_left).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(left.min(bytes.len()));
            bytes = rest;
            self.payload_left -= piece.len() as u64;
            self.in_payload = self.payload_left > 0;
            self.hand_over(piece, &mut take)?;
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        piece: &[u8],
        take: &mut impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        let opcode = self.header[0] & 0x0f;
        if opcode < CLOSE {
            return if piece.is_empty() { Ok(()) } else { take(Piece::Data(piece)) };
        }
        self.control.extend_from_slice(piece);
        if self.in_payload {
            return Ok(());
        }
        let control = std::mem::take(&mut self.control);
        match opcode {
            PING => take(Piece::Ping(&control)),
            CLOSE => take(Piece::Close(&control)),
            _ => Ok(()),
        }
    }

    /// Takes header bytes from the front of `bytes` and returns the rest; with the header whole,
    /// the payload begins, even if it is empty.
    fn read_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        for (index, &byte) in bytes.iter().enumerate() {
            self.header[self.header_bytes] = byte;
            self.header_bytes += 1;
            if let Some(length) = payload_length(&self.header[..self.header_bytes])? {
                (self.header_bytes, self.in_payload, self.payload_left) = (0, true, length);
                return Ok(&bytes[index + 1..]);
            }
        }
        Ok(&[])
    }
}

/// `None` while the header is incomplete.
fn payload_length(header: &[u8]) -> Result<Option<u64>> {
    let Some(&second) = header.get(1) else {
        return Ok(None);
    };
    if second & MASKED != 0 {
        bail!("the server masked a frame");
    }
    let length_bytes = match second {
        126 => 2,
        127 => 8,
        _ => return Ok(Some(u64::from(second))),
    };
    let Some(bytes) = header.get(2..2 + length_bytes) else {
        return Ok(None);
    };
    Ok(Some(bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_told_apart_wherever_they_are_cut() -> Result<()> {
        let payloads = [0, 1, 125, 126, 300, 65_535, 65_536].map(|length| vec![b'x'; length]);
        let mut flow = Vec::new();
        for payload in &payloads {
            flow.extend_from_slice(&server_frame(TEXT, payload));
            flow.extend_from_slice(&server_frame(PING, b"ping"));
            flow.extend_from_slice(&server_frame(PING, b""));
        }
        let data_bytes: usize = payloads.iter().map(Vec::len).sum();
        for piece_bytes in [1, 2, 3, 7, 1000, flow.len()] {
            let (mut frames, mut data, mut pings) = (Frames::default(), 0, Vec::new());
            for piece in flow.chunks(piece_bytes) {
                frames.scan(piece, |piece| {
                    match piece {
                        Piece::Data(bytes) => data += bytes.len(),
                        Piece::Ping(bytes) => pings.push(bytes.len()),
                        Piece::Close(_) => bail!("nothing was closed"),
                    }
                    Ok(())
                })?;
            }
            assert_eq!(data, data_bytes, "pieces of {piece_bytes}");
            assert_eq!(pings, [4, 0].repeat(payloads.len()), "pieces of {piece_bytes}");
        }
        Ok(())
    }

    #[test]
    fn a_clients_frame_is_masked_with_a_key_that_changes_nothing() {
        assert_eq!(client_frame(TEXT, b"hi"), b"\x81\x82\0\0\0\0hi");
    }
}
