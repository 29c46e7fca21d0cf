//! permessage-deflate without context takeover: each message by itself, so that one compression
//! serves everybody.

use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What a sync flush ends with, and the wire leaves out (RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// Messages shorter than this are sent as they are: they would hardly shrink.
pub(crate) const WORTH_BYTES_MIN: usize = 128;

/// Fast, because every message passes through it while somebody waits.
const LEVEL: u32 = 3;

/// Compresses messages one at a time. Large (a window and its tables), so there is one for many.
#[derive(Debug)]
pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Deflater {
        Deflater(Compress::new(Compression::new(LEVEL), false))
    }
}

impl Deflater {
    /// The message compressed, unless that does not make it smaller.
    pub fn compress(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        if message.len() < WORTH_BYTES_MIN {
            return None;
        }
        self.0.reset();
        let mut out = Vec::with_capacity(message.len());
        // Output that does not fit where the input did is of no use: the capacity is the bound.
        self.0.compress_vec(message, &mut out, FlushCompress::Sync).ok()?;
        let whole = self.0.total_in() == message.len() as u64 && out.ends_with(&TAIL);
        whole.then(|| {
            out.truncate(out.len() - TAIL.len());
            out
        })
    }
}

/// Why a message could not be made of what was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    NotDeflate,
    TooLarge,
}

/// How much room is made at a time.
const STEP_BYTES: usize = 4 << 10;

/// Decompresses a message of at most `bytes_max`.
pub(super) fn inflate(compressed: &[u8], bytes_max: usize) -> Result<Bytes, Unreadable> {
    let mut inflater = Decompress::new(false);
    let mut out = Vec::new();
    for input in [compressed, &TAIL] {
        let mut input = input;
        loop {
            if out.len() == out.capacity() {
                out.reserve(STEP_BYTES.max(out.len()));
            }
            let (taken, given) = (inflater.total_in(), out.len());
            let status = inflater
                .decompress_vec(input, &mut out, FlushDecompress::Sync)
                .map_err(|_| Unreadable::NotDeflate)?;
            if out.len() > bytes_max {
                return Err(Unreadable::TooLarge);
            }
            let taken = usize::try_from(inflater.total_in() - taken).unwrap_or(input.len());
            input = &input[taken..];
            let room_left = out.len() < out.capacity();
            match status {
                Status::StreamEnd => return Ok(out.into()),
                _ if input.is_empty() && room_left => break,
                _ if taken == 0 && out.len() == given && room_left => {
                    return Err(Unreadable::NotDeflate);
                }
                _ => {}
            }
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(message in "[a-d]{128,5000}") {
            let compressed = Deflater::default().compress(message.as_bytes()).expect("it shrinks");
            prop_assert!(compressed.len() < message.len());
            let back = inflate(&compressed, 5_000).expect("deflate");
            prop_assert_eq!(&back[..], message.as_bytes());
        }

        #[test]
        fn any_bytes_are_inflated_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = inflate(&bytes, 10_000);
        }
    }

    #[test]
    fn a_deflater_can_be_used_again() {
        let mut deflater = Deflater::default();
        let message = "tide ".repeat(100);
        let first = deflater.compress(message.as_bytes());
        assert_eq!(deflater.compress(message.as_bytes()), first, "no context is taken over");
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let bomb = Deflater::default().compress(&vec![0; 10 << 20]).expect("it shrinks");
        assert!(bomb.len() < 100_000);
        assert_eq!(inflate(&bomb, 1 << 20), Err(Unreadable::TooLarge));
    }

    #[test]
    fn noise_is_sent_as_it_is() {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..1_000).map(|_| noise()).collect();
        assert_eq!(Deflater::default().compress(&noise), None);
    }
}
