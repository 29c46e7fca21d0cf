//! Bodies and header values: between bytes on the wire and messages in the log.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use bytes::{BufMut, Bytes, BytesMut};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::value::RawValue;

use tidewire_store::stream::is_json;
use tidewire_store::{Event, Offset};

use tidewire_access::options::Limits;
use tidewire_access::problem::Problem;

/// Cuts a body into messages: the elements of a JSON array, a JSON value, or the bytes as they are.
/// The messages share the body's memory.
pub fn messages(content_type: &str, body: Bytes, limits: &Limits) -> Result<Vec<Bytes>, Problem> {
    if !is_json(content_type) {
        return Ok(vec![body]);
    }
    let text = std::str::from_utf8(&body).map_err(|_| invalid_json("it is not UTF-8"))?;
    if !text.trim_start().starts_with('[') {
        let value: &RawValue =
            serde_json::from_str(text).map_err(|error| invalid_json(&error.to_string()))?;
        return Ok(vec![body.slice_ref(value.get().as_bytes())]);
    }
    let values: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| invalid_json(&error.to_string()))?;
    if values.len() > limits.messages_per_append_max {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_many_messages",
            format!(
                "the array has {} elements; limits.messages_per_append_max is {}",
                values.len(),
                limits.messages_per_append_max
            ),
            "send several smaller appends",
        ));
    }
    Ok(values.into_iter().map(|value| body.slice_ref(value.get().as_bytes())).collect())
}

fn invalid_json(why: &str) -> Problem {
    Problem::bad_request(
        "invalid_json",
        format!("the body is not JSON: {why}"),
        "send one JSON value, or an array of them",
    )
}

/// Events as the body of a read: a JSON array, or the bytes one after the other.
pub fn body(json: bool, events: &[Event]) -> Bytes {
    if let ([event], false) = (events, json) {
        return event.payload.clone();
    }
    let size: usize = events.iter().map(|event| event.payload.len() + 1).sum();
    let mut body = BytesMut::with_capacity(size + 2);
    put_body(&mut body, json, events);
    body.freeze()
}

/// Writes what [`body`] returns.
pub(crate) fn put_body(body: &mut BytesMut, json: bool, events: &[Event]) {
    if json {
        body.put_u8(b'[');
    }
    for (index, event) in events.iter().enumerate() {
        if json && index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(&event.payload);
    }
    if json {
        body.put_u8(b']');
    }
}

/// Events with their offsets: `[{"offset": …, "payload": …}]`. What is neither JSON nor text is in
/// base64, and says so.
pub fn events_body(
    content_type: &str,
    events: &[Event],
    offset: impl Fn(&Event) -> Offset,
) -> Bytes {
    let mut body = BytesMut::with_capacity(events.len() * 64);
    body.put_u8(b'[');
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(format!("{{\"offset\":\"{}\",\"payload\":", offset(event)).as_bytes());
        match std::str::from_utf8(&event.payload) {
            Ok(json) if is_json(content_type) => body.put_slice(json.as_bytes()),
            Ok(text) if is_text(content_type) => put_json_string(&mut body, text),
            _ => {
                put_json_string(&mut body, &base64(&event.payload));
                body.put_slice(b",\"encoding\":\"base64\"");
            }
        }
        body.put_u8(b'}');
    }
    body.put_u8(b']');
    body.freeze()
}

pub fn put_json_string(body: &mut BytesMut, text: &str) {
    body.put_slice(serde_json::Value::from(text).to_string().as_bytes());
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Whether a content type can be carried in SSE as it is.
pub fn is_text(content_type: &str) -> bool {
    is_json(content_type)
        || content_type.trim_start().get(..5).is_some_and(|s| s.eq_ignore_ascii_case("text/"))
}

/// Whether a text looks like `type/subtype`, with parameters or without.
pub fn is_media_type(text: &str) -> bool {
    let bare = text.split(';').next().unwrap_or_default().trim();
    let token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    bare.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

pub fn invalid_content_type() -> Problem {
    Problem::bad_request(
        "invalid_content_type",
        "the Content-Type is not a media type",
        "write it like application/json or text/plain; charset=utf-8",
    )
}

/// Sets a header whose value is known to be plain.
pub fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Bytes that a name keeps in a path: the unreserved ones of RFC 3986, and `/`.
const KEPT_IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A stream's name as part of a URL.
pub fn path(name: &str) -> String {
    utf8_percent_encode(name, KEPT_IN_PATHS).to_string()
}

/// Undoes the percent-encoding of a path. A `%` without two hexadecimal digits stands for itself, and a text that
/// would not be UTF-8 stays as it is.
pub fn decode_path(text: &str) -> String {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map_or_else(|_| text.to_owned(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(body: &'static str) -> Result<Vec<Bytes>, &'static str> {
        messages(
            "application/json; charset=utf-8",
            Bytes::from_static(body.as_bytes()),
            &Limits::default(),
        )
        .map_err(|problem| problem.code())
    }

    #[test]
    fn an_array_is_cut_one_level_deep_and_keeps_the_text_of_its_elements() {
        assert_eq!(
            cut(" [1.0, [2,3] ,{\"a\": 1}] ").expect("valid"),
            ["1.0", "[2,3]", "{\"a\": 1}"]
        );
        assert_eq!(cut("{\"n\":12345678901234567890}").expect("valid").len(), 1);
        assert_eq!(cut("[]").expect("valid").len(), 0);
        assert_eq!(cut("[1,"), Err("invalid_json"));
        assert_eq!(cut("{} {}"), Err("invalid_json"));
    }

    #[test]
    fn names_survive_the_way_through_a_url() {
        for name in ["doc/1", "a b/ü", "100%", "%41"] {
            assert_eq!(decode_path(&path(name)), name);
        }
        assert_eq!(path("a b/ü~-._+%"), "a%20b/%C3%BC~-._%2B%25");
    }

    #[test]
    fn what_is_no_percent_encoding_stays_as_it_is() {
        for text in ["100%", "%zz", "%+5", "%4", "a+b", "%FF%41", "%C3"] {
            assert_eq!(decode_path(text), text);
        }
        assert_eq!(decode_path("%C3%BC%2b%2F"), "ü+/");
    }
}
