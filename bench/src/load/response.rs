//! The least HTTP/1.1 response parsing that measures correctly: status, body framing, and the two
//! Durable Streams headers a reader follows.
//!
//! The load generator shares its cores with the server under test, so whatever is spent here is
//! taken from the server: no allocation, no header map, one pass over the head.

use std::ops::Range;

use anyhow::{Context, Result, bail};

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// What a response's head says. Offsets are into the bytes that were parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    pub(crate) next_offset: Option<Range<usize>>,
    pub(crate) up_to_date: bool,
    /// Length of the head with its blank line; the body starts here.
    pub(crate) len: usize,
}

/// Parses the head at the start of `bytes`; `None` while its blank line has not arrived.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let status = status_of(bytes)?;
    let mut head = Head {
        status,
        framing: Framing::Length(0),
        next_offset: None,
        up_to_date: false,
        len: end + 4,
    };
    let mut line_start = memchr::memchr(b'\n', bytes).map_or(head.len, |newline| newline + 1);
    while line_start < end {
        let line_end = memchr::memchr(b'\r', &bytes[line_start..])
            .map_or(end, |carriage_return| line_start + carriage_return);
        read_header(bytes, line_start..line_end, &mut head)?;
        line_start = line_end + 2;
    }
    if matches!(status, 204 | 304) {
        head.framing = Framing::Length(0);
    }
    Ok(Some(head))
}

fn status_of(bytes: &[u8]) -> Result<u16> {
    let digits = bytes.get(9..12).context("a response shorter than its status line")?;
    if !bytes.starts_with(b"HTTP/1.1 ") || !digits.iter().all(u8::is_ascii_digit) {
        bail!(
            "not an HTTP/1.1 response: {:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(40)])
        );
    }
    Ok(digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

fn read_header(bytes: &[u8], line: Range<usize>, head: &mut Head) -> Result<()> {
    let text = &bytes[line.clone()];
    let Some(colon) = memchr::memchr(b':', text) else {
        bail!("a header line without a colon");
    };
    let (name, value) = (&text[..colon], text[colon + 1..].trim_ascii());
    // Lengths first: they tell the four names of interest apart from nearly all others without
    // comparing.
    match name.len() {
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length = std::str::from_utf8(value)?.parse().context("content-length")?;
            head.framing = Framing::Length(length);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => head.framing = Framing::Chunked,
        17 if name.eq_ignore_ascii_case(b"stream-up-to-date") => {
            head.up_to_date = value.eq_ignore_ascii_case(b"true");
        }
        18 if name.eq_ignore_ascii_case(b"stream-next-offset") => {
            let leading = text.len() - colon - 1 - text[colon + 1..].trim_ascii_start().len();
            let start = line.start + colon + 1 + leading;
            head.next_offset = Some(start..start + value.len());
        }
        _ => {}
    }
    Ok(())
}

/// The status and total length of the response at the start of `bytes`; `None` while it is
/// incomplete.
pub(crate) fn complete(bytes: &[u8]) -> Result<Option<(u16, usize)>> {
    let Some(head) = parse_head(bytes)? else {
        return Ok(None);
    };
    let end = match head.framing {
        Framing::Length(length) => Some(head.len + length).filter(|end| *end <= bytes.len()),
        Framing::Chunked => end_of_chunks(bytes, head.len)?,
    };
    Ok(end.map(|end| (head.status, end)))
}

fn end_of_chunks(bytes: &[u8], mut at: usize) -> Result<Option<usize>> {
    loop {
        let Some(line) = memchr::memmem::find(&bytes[at.min(bytes.len())..], b"\r\n") else {
            return Ok(None);
        };
        let size = chunk_size(&bytes[at..at + line])?;
        at += line + 2 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// An unwelcome answer in one line: its status line and the end of its body.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const BODY_CHARS_MAX: usize = 160;
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let body = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let status = head.lines().next().unwrap_or_default();
    format!("{status}: {}", body.chars().take(BODY_CHARS_MAX).collect::<String>())
}

/// A chunk's size from its line, without extensions.
pub(crate) fn chunk_size(line: &[u8]) -> Result<usize> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    usize::from_str_radix(std::str::from_utf8(digits)?, 16).context("chunk size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_two_pieces_is_not_parsed_early() -> Result<()> {
        let response = b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 0001_7\r\n\r\n";
        assert_eq!(complete(&response[..30])?, None);
        assert_eq!(complete(response)?, Some((204, response.len())));
        Ok(())
    }

    #[test]
    fn the_next_offset_is_found_whatever_its_case_and_padding() -> Result<()> {
        let response =
            b"HTTP/1.1 200 OK\r\nstream-next-OFFSET:   42_1 \r\nstream-up-to-date: true\r\n\r\n";
        let head = parse_head(response)?.context("complete")?;
        let range = head.next_offset.context("an offset")?;
        assert_eq!(&response[range], b"42_1");
        assert!(head.up_to_date);
        Ok(())
    }

    #[test]
    fn a_body_with_a_length_ends_where_it_says() -> Result<()> {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1";
        assert_eq!(complete(&response[..response.len() - 9])?, None);
        assert_eq!(complete(response)?, Some((200, response.len() - 8)));
        Ok(())
    }

    #[test]
    fn a_chunked_body_ends_after_its_zero_chunk() -> Result<()> {
        let response =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for cut in 0..response.len() {
            assert_eq!(complete(&response[..cut])?, None, "cut at {cut}");
        }
        assert_eq!(complete(response)?, Some((200, response.len())));
        Ok(())
    }
}
