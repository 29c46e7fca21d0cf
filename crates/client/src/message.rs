//! Splits a body into messages.
//!
//! In JSON mode a body is an array whose elements are the messages. In every other mode it is one message of bytes,
//! because the protocol keeps no boundaries there.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::error::ClientError;

/// The content type whose bodies are arrays of messages.
pub const JSON: &str = "application/json";

/// Whether `content_type`, with or without parameters, is JSON mode.
pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON)
}

/// The messages of a body. JSON messages come back exactly as they were appended.
pub fn split(json: bool, body: Bytes) -> Result<Vec<Bytes>, ClientError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    if !json {
        return Ok(vec![body]);
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(&body).map_err(|error| {
        ClientError::NotUnderstood(format!("not an array of messages: {error}"))
    })?;
    Ok(messages.into_iter().map(|message| body.slice_ref(message.get().as_bytes())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_messages_keep_every_digit_and_space() {
        let body = Bytes::from_static(br#"[{"n": 12345678901234567890.10},"a",[ ]]"#);
        let messages = split(true, body).expect("an array");
        assert_eq!(messages, [&br#"{"n": 12345678901234567890.10}"#[..], br#""a""#, b"[ ]"]);
    }

    #[test]
    fn other_bodies_are_one_message_and_empty_ones_none() {
        assert_eq!(split(false, Bytes::from_static(b"[1]")).expect("bytes"), [&b"[1]"[..]]);
        assert!(split(false, Bytes::new()).expect("nothing").is_empty());
        assert!(split(true, Bytes::from_static(b"[]")).expect("nothing").is_empty());
    }

    #[test]
    fn what_is_not_an_array_is_not_understood() {
        let refused = split(true, Bytes::from_static(b"{}"));
        assert!(matches!(refused, Err(ClientError::NotUnderstood(_))), "{refused:?}");
    }

    #[test]
    fn parameters_do_not_change_the_mode() {
        assert!(is_json("Application/JSON; charset=utf-8"));
        assert!(!is_json("application/jsonl"));
    }
}
