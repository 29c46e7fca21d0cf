//! The messages of a live connection, as PROTOCOL.md's section 22 has them.
//!
//! [`Request`] is what a client sends, [`Message`] what it gets. An event's payload is cut out of
//! the frame it came in, not copied.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::result::{ChangePart, RowText, texts};
use super::update::EntityChange;
use crate::error::{ClientError, Problem};
use crate::events::payload;
use crate::sql::SqlColumn;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    Subscribe { subscriptions: Vec<Subscribe> },
    Unsubscribe { query_ids: Vec<String> },
    Ack { offsets: Vec<Acked> },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Subscribe {
    pub(crate) query_id: String,
    /// Empty where a table, entities or a query are named instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) stream: String,
    #[serde(flatten)]
    pub(crate) table: Option<Rows>,
    #[serde(flatten)]
    pub(crate) entities: Option<Entities>,
    #[serde(flatten)]
    pub(crate) query: Option<Sql>,
    /// Nothing: where the session stands, else the stream's tail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<String>,
    /// What the log must have reached before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_offset: Option<String>,
}

/// The entities that a subscription is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entities {
    #[serde(rename = "entity_code")]
    pub(crate) code: String,
    #[serde(rename = "entity_ids")]
    pub(crate) ids: Vec<String>,
}

/// The query whose result a subscription is to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Sql {
    pub(crate) sql: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) params: Vec<serde_json::Value>,
    /// What the server said of the query when it was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
}

impl Subscribe {
    /// Bytes of its names.
    pub(crate) fn bytes(&self) -> usize {
        let of_rows = |rows: &Rows| rows.table.len() + rows.filter.as_ref().map_or(0, String::len);
        let of_entities =
            |of: &Entities| of.code.len() + of.ids.iter().map(String::len).sum::<usize>();
        let of_query = |of: &Sql| {
            of.sql.len() + of.params.iter().map(|value| value.to_string().len()).sum::<usize>()
        };
        self.query_id.len()
            + self.stream.len()
            + self.query.as_ref().map_or(0, of_query)
            + self.table.as_ref().map_or(0, of_rows)
            + self.entities.as_ref().map_or(0, of_entities)
    }
}

/// The rows of a table that a subscription is to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Rows {
    pub(crate) table: String,
    /// A condition; all rows if there is none.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
}

impl Rows {
    /// The stream that holds the table's changes.
    pub(crate) fn stream(&self) -> String {
        format!("table/{}", self.table)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Acked {
    /// Nothing: the offset is one of a `progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream_id: Option<String>,
    pub(crate) last_offset: String,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Hello {
        connection_id: String,
        node: String,
    },
    Created(Vec<Created<'a>>),
    Event {
        query_id: Cow<'a, str>,
        offset: Cow<'a, str>,
        payload: Bytes,
        is_json: bool,
    },
    Notify {
        query_id: Cow<'a, str>,
        offset: Cow<'a, str>,
    },
    Gap {
        query_id: Cow<'a, str>,
    },
    /// Of one query: that it is settled there.
    Progress {
        query_id: Option<Cow<'a, str>>,
        offset: Cow<'a, str>,
    },
    /// More of a query's first rows.
    Batch {
        query_id: Cow<'a, str>,
        rows: Vec<RowText>,
        more: bool,
    },
    /// A query's rows are others.
    Change {
        query_id: Cow<'a, str>,
        part: Box<ChangePart>,
    },
    Invalidate {
        query_id: Cow<'a, str>,
        offset: Cow<'a, str>,
        changed: Changed,
    },
    SchemaChanged {
        query_id: Cow<'a, str>,
        offset: Cow<'a, str>,
        what: String,
    },
    Ended {
        query_id: Cow<'a, str>,
        reason: String,
        what: Option<String>,
    },
    Problem {
        query_id: Option<Cow<'a, str>>,
        problem: Problem,
    },
    Closing {
        reason: String,
        reconnect_in: Duration,
    },
    /// A sign of life, or something this client does not know.
    Other,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Created<'a> {
    #[serde(borrow)]
    pub(crate) query_id: Cow<'a, str>,
    #[serde(borrow, rename = "streamId", default)]
    pub(crate) stream: Cow<'a, str>,
    /// What the stream holds, where the server says so.
    #[serde(rename = "contentType")]
    pub(crate) content_type: Option<String>,
    /// Nothing where a query's rows are not settled yet.
    #[serde(default)]
    pub(crate) offset: Option<Cow<'a, str>>,
    /// Of a query, and so is all that follows.
    pub(crate) live_id: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) columns: Option<Vec<SqlColumn>>,
    pub(crate) plan: Option<String>,
    #[serde(default)]
    pub(crate) reset: bool,
    #[serde(default)]
    pub(crate) more: bool,
    #[serde(default, deserialize_with = "texts")]
    pub(crate) initial_results: Vec<RowText>,
}

/// The payload of an `INVALIDATE`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    pub(crate) entity_code: String,
    pub(crate) changes: Vec<EntityChange>,
}

/// Text that is borrowed from the frame where it can be, also inside an option.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Every member of every message: a payload must not be parsed, and a tagged enum would do so.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    query_id: Option<Text<'a>>,
    #[serde(borrow)]
    offset: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    encoding: Option<Text<'a>>,
    what: Option<String>,
    #[serde(borrow)]
    subscriptions: Option<Vec<Created<'a>>>,
    reason: Option<String>,
    connection_id: Option<String>,
    node: Option<String>,
    code: Option<String>,
    message: Option<String>,
    hint: Option<String>,
    temporary: Option<bool>,
    reconnect_in_ms: Option<u64>,
    position: Option<usize>,
    #[serde(default)]
    more: bool,
    #[serde(default, deserialize_with = "texts")]
    rows: Vec<RowText>,
}

impl<'a> Message<'a> {
    pub(crate) fn parse(frame: &'a Bytes) -> Result<Message<'a>, ClientError> {
        let members: Members<'a> =
            serde_json::from_slice(frame).map_err(|error| not_understood(&error))?;
        members.into_message(frame)
    }
}

impl<'a> Members<'a> {
    fn into_message(self, frame: &Bytes) -> Result<Message<'a>, ClientError> {
        let missing = |what: &str| not_understood(&format!("a {} without {what}", self.kind));
        let query_id = || missing("query_id");
        let offset = || missing("offset");
        Ok(match &*self.kind {
            "event" => {
                let encoding = self.encoding.as_ref().map(|text| &*text.0);
                let raw = self.payload.ok_or_else(|| missing("payload"))?;
                let (payload, is_json) = payload(frame, raw, encoding)?;
                let query_id = self.query_id.ok_or_else(query_id)?.0;
                Message::Event {
                    query_id,
                    offset: self.offset.ok_or_else(offset)?.0,
                    payload,
                    is_json,
                }
            }
            "cdc_event" => Message::Event {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                offset: self.offset.ok_or_else(offset)?.0,
                payload: frame.clone(),
                is_json: true,
            },
            "notify" => Message::Notify {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                offset: self.offset.ok_or_else(offset)?.0,
            },
            "gap" => Message::Gap { query_id: self.query_id.ok_or_else(query_id)?.0 },
            "progress" => Message::Progress {
                query_id: self.query_id.map(|text| text.0),
                offset: self.offset.ok_or_else(offset)?.0,
            },
            "initial_batch" => Message::Batch {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                rows: self.rows,
                more: self.more,
            },
            "change" => Message::Change {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                part: serde_json::from_slice(frame).map_err(|error| not_understood(&error))?,
            },
            "INVALIDATE" => {
                let raw = self.payload.ok_or_else(|| missing("payload"))?;
                Message::Invalidate {
                    changed: serde_json::from_str(raw.get())
                        .map_err(|error| not_understood(&error))?,
                    query_id: self.query_id.ok_or_else(query_id)?.0,
                    offset: self.offset.ok_or_else(offset)?.0,
                }
            }
            "subscription_created" => {
                Message::Created(self.subscriptions.ok_or_else(|| missing("subscriptions"))?)
            }
            "schema_changed" => Message::SchemaChanged {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                offset: self.offset.ok_or_else(offset)?.0,
                what: self.what.unwrap_or_default(),
            },
            "subscription_ended" => Message::Ended {
                query_id: self.query_id.ok_or_else(query_id)?.0,
                reason: self.reason.unwrap_or_default(),
                what: self.what,
            },
            "error" => Message::Problem {
                query_id: self.query_id.map(|text| text.0),
                problem: Problem {
                    code: self.code,
                    title: None,
                    detail: self.message,
                    hint: self.hint,
                    temporary: self.temporary,
                    position: self.position,
                },
            },
            "hello" => Message::Hello {
                connection_id: self.connection_id.unwrap_or_default(),
                node: self.node.unwrap_or_default(),
            },
            "closing" => Message::Closing {
                reason: self.reason.unwrap_or_default(),
                reconnect_in: Duration::from_millis(self.reconnect_in_ms.unwrap_or_default()),
            },
            _ => Message::Other,
        })
    }
}

/// `null` is a payload like any other, and not its absence.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

fn not_understood(error: &dyn std::fmt::Display) -> ClientError {
    ClientError::NotUnderstood(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of PROTOCOL.md: those of one side, as the documentation marks them.
    fn examples(side: &str) -> Vec<String> {
        let protocol = include_str!("../../../../PROTOCOL.md");
        let fence = format!("```json {side}\n");
        let blocks = protocol.split(&fence).skip(1);
        blocks.map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn every_example_of_the_protocol_is_understood() {
        let mut known = 0;
        for example in examples("server") {
            let frame = Bytes::from(example.clone());
            let message = Message::parse(&frame).expect(&example);
            known += usize::from(message != Message::Other);
            assert!(message != Message::Other || example.contains("pong"), "{example}");
        }
        assert!(known >= 9, "{known} messages");
    }

    #[test]
    fn requests_look_like_the_examples_of_the_protocol() {
        let subscription = Subscribe {
            query: None,
            query_id: "doc".into(),
            stream: "doc-123".into(),
            table: None,
            entities: None,
            offset: Some("-1".into()),
            min_offset: None,
        };
        let entities = Entities { code: "project".into(), ids: vec!["7".into(), "8".into()] };
        let of_entities = Subscribe {
            query: None,
            table: None,
            query_id: "projects".into(),
            stream: String::new(),
            entities: Some(entities),
            offset: Some("0001_0000000000000041".into()),
            min_offset: None,
        };
        let requests = [
            Request::Subscribe { subscriptions: vec![of_entities] },
            Request::Subscribe { subscriptions: vec![subscription] },
            Request::Unsubscribe { query_ids: vec!["doc".into()] },
        ];
        let examples: Vec<serde_json::Value> = examples("client")
            .iter()
            .map(|example| serde_json::from_str(example).expect("JSON"))
            .collect();
        for request in requests {
            let json = serde_json::to_value(&request).expect("JSON");
            assert!(examples.contains(&json), "{json}");
        }
    }

    #[test]
    fn an_acknowledgement_names_its_stream_or_none() {
        let offsets = vec![
            Acked { stream_id: Some("doc-123".into()), last_offset: "42".into() },
            Acked { stream_id: None, last_offset: "40".into() },
        ];
        let json = serde_json::to_string(&Request::Ack { offsets }).expect("JSON");
        let expected = r#"{"type":"ack","offsets":[{"streamId":"doc-123","lastOffset":"42"},{"lastOffset":"40"}]}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn a_payload_is_the_text_that_was_appended_even_null() {
        for payload in ["null", r#"{"n": 1.10}"#, r#""text""#] {
            let text =
                format!(r#"{{"type":"event","query_id":"q","offset":"1","payload":{payload}}}"#);
            let frame = Bytes::from(text);
            let Ok(Message::Event { payload: got, is_json: true, .. }) = Message::parse(&frame)
            else {
                panic!("{payload}");
            };
            assert_eq!(got, payload.as_bytes());
        }
    }

    #[test]
    fn an_event_without_its_members_is_not_understood() {
        for text in [
            r#"{"type":"event","query_id":"q","offset":"1"}"#,
            r#"{"type":"event","query_id":"q","payload":1}"#,
            r#"{"type":"event","offset":"1","payload":1}"#,
            r#"{"offset":"1"}"#,
            "[]",
        ] {
            let frame = Bytes::from_static(text.as_bytes());
            let refused = Message::parse(&frame);
            assert!(matches!(refused, Err(ClientError::NotUnderstood(_))), "{text}: {refused:?}");
        }
    }

    #[test]
    fn the_change_of_a_row_is_an_event_as_it_stands() {
        let text = r#"{"type":"cdc_event","query_id":"q","data":{"n":1},"offset":"0001_0000000000000002"}"#;
        let frame = Bytes::from_static(text.as_bytes());
        let expected = Message::Event {
            query_id: "q".into(),
            offset: "0001_0000000000000002".into(),
            payload: frame.clone(),
            is_json: true,
        };
        assert_eq!(Message::parse(&frame).expect("a message"), expected);
        let rows = Rows { table: "orders".to_owned(), filter: Some("n > 1".to_owned()) };
        let (query_id, table) = ("q".to_owned(), Some(rows));
        let request = Subscribe {
            query: None,
            query_id,
            stream: String::new(),
            table,
            entities: None,
            offset: None,
            min_offset: None,
        };
        let json = serde_json::to_value(request).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({ "query_id": "q", "table": "orders", "where": "n > 1" })
        );
    }
}
