//! Events with their offsets: the catch-up read behind [`live`](crate::live), also useful by itself.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::follow::ReadFrom;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the log.
    pub offset: String,
    /// What it carries; see [`Event::is_json`].
    pub payload: Bytes,
    /// Whether the payload is JSON, exactly as it was appended; a text stream's message is a JSON
    /// string. Otherwise it is the bytes that were appended.
    pub is_json: bool,
}

/// Part of a stream, as events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Where to read on.
    pub next_offset: String,
    /// There was nothing more.
    pub up_to_date: bool,
    /// There never will be.
    pub closed: bool,
}

impl Event {
    /// The event of a stream that holds no JSON: its text came as a JSON string, and is taken out of
    /// it. What came otherwise stays as it is.
    pub(crate) fn unquoted(self) -> Event {
        let inner = self.payload.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        let payload = match inner {
            Some(plain) if !plain.contains(&b'\\') => Some(self.payload.slice_ref(plain)),
            Some(_) => serde_json::from_slice::<String>(&self.payload).ok().map(Bytes::from),
            None => None,
        };
        match payload {
            Some(payload) => Event { payload, is_json: false, ..self },
            None => self,
        }
    }
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    offset: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
    encoding: Option<String>,
}

impl Client {
    /// Reads what follows `from` with every event's own offset, up to what the server gives at
    /// once.
    pub async fn read_events(
        &self,
        stream: &str,
        from: &ReadFrom,
    ) -> Result<EventPage, ClientError> {
        self.read_events_where(stream, from, None).await
    }

    /// The same of a table's stream, of rows that satisfy a condition.
    pub async fn read_events_where(
        &self,
        stream: &str,
        from: &ReadFrom,
        filter: Option<&str>,
    ) -> Result<EventPage, ClientError> {
        let mut url = self.address().stream(stream)?;
        url.query_pairs_mut()
            .append_pair("offset", from.as_offset())
            .append_pair("format", "events");
        if let Some(filter) = filter {
            url.query_pairs_mut().append_pair("where", filter);
        }
        let response = self.get(url).await?;
        let next_offset = answer::next_offset(&response)?;
        let up_to_date = answer::flag(&response, "stream-up-to-date");
        let closed = answer::flag(&response, "stream-closed");
        let body = response.bytes().await.map_err(|source| self.no_answer(source))?;
        Ok(EventPage { events: split(&body)?, next_offset, up_to_date, closed })
    }
}

fn split(body: &Bytes) -> Result<Vec<Event>, ClientError> {
    let entries: Vec<Entry<'_>> = serde_json::from_slice(body)
        .map_err(|error| not_understood(format!("not an array of events: {error}")))?;
    let event = |entry: Entry<'_>| {
        let (payload, is_json) = payload(body, entry.payload, entry.encoding.as_deref())?;
        Ok(Event { offset: entry.offset.into_owned(), payload, is_json })
    };
    entries.into_iter().map(event).collect()
}

/// A payload out of the text it came in: JSON shares the text's memory, other bytes are decoded.
/// The flag says which it is.
pub(crate) fn payload(
    text: &Bytes,
    raw: &RawValue,
    encoding: Option<&str>,
) -> Result<(Bytes, bool), ClientError> {
    match encoding {
        None => Ok((text.slice_ref(raw.get().as_bytes()), true)),
        Some("base64") => {
            let string: Cow<'_, str> = serde_json::from_str(raw.get())
                .map_err(|error| not_understood(format!("no string of base64: {error}")))?;
            let bytes = BASE64_STANDARD
                .decode(&*string)
                .map_err(|error| not_understood(format!("no base64: {error}")))?;
            Ok((Bytes::from(bytes), false))
        }
        Some(other) => Err(not_understood(format!("no known encoding: {other}"))),
    }
}

fn not_understood(what: String) -> ClientError {
    ClientError::NotUnderstood(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_text_and_base64_becomes_bytes() {
        let body = Bytes::from_static(
            br#"[{"offset":"1","payload":{"n": 1.10}},{"offset":"2","payload":"aGk=","encoding":"base64"}]"#,
        );
        let json = Bytes::from_static(br#"{"n": 1.10}"#);
        let expected = [
            Event { offset: "1".into(), payload: json, is_json: true },
            Event { offset: "2".into(), payload: Bytes::from_static(b"hi"), is_json: false },
        ];
        assert_eq!(split(&body).expect("events"), expected);
    }

    #[test]
    fn text_is_taken_out_of_its_quotes() {
        for (came, expected, is_json) in [
            (r#""plain""#, "plain", false),
            (r#""a \"b\"\n\u00e9""#, "a \"b\"\n\u{e9}", false),
            ("\"\"", "", false),
            (r#"{"n":1}"#, r#"{"n":1}"#, true),
        ] {
            let payload = Bytes::copy_from_slice(came.as_bytes());
            let event = Event { offset: "1".into(), payload, is_json: true }.unquoted();
            assert_eq!((&*event.payload, event.is_json), (expected.as_bytes(), is_json), "{came}");
        }
    }

    #[test]
    fn what_cannot_be_decoded_is_not_understood() {
        for body in [
            r#"{}"#,
            r#"[{"offset":"1","payload":"?","encoding":"base64"}]"#,
            r#"[{"offset":"1","payload":1,"encoding":"base64"}]"#,
            r#"[{"offset":"1","payload":"","encoding":"rot13"}]"#,
        ] {
            let refused = split(&Bytes::from_static(body.as_bytes()));
            assert!(matches!(refused, Err(ClientError::NotUnderstood(_))), "{body}: {refused:?}");
        }
    }
}
