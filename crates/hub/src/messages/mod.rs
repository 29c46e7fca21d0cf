//! The server's messages over live connections: one struct a message. PROTOCOL.md, section 22, is the source.
//!
//! [`ServerMessage::text`] is a message's JSON. Messages that go out by the million, or hold rows that are JSON
//! already, are written by hand besides (`put`): beside the struct, and a test holds the two equal.
//!
//! - [`connection`]: of a connection as a whole; [`subscription`]: of what one follows
//! - [`event`]: events of streams; [`row`]: changes of rows; [`result`]: changes of a live query's result;
//!   [`invalidate`]: entities that changed
//! - [`problem`]: what went wrong

mod connection;
mod event;
mod invalidate;
mod problem;
mod result;
mod row;
mod subscription;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

pub use connection::{Closing, Hello, Pong, Progress};
pub use event::{Event, Gap, Notify, Payload};
pub use invalidate::{Invalidate, InvalidatedEntities, InvalidatedEntity};
pub use problem::{AsMessage, Error};
pub use result::{Change, InitialBatch};
pub use row::CdcEvent;
pub use subscription::{Created, CreatedOf, SchemaChanged, SubscriptionCreated, SubscriptionEnded};

/// A message of the server.
pub trait ServerMessage: Serialize {
    /// Its `type`.
    const TYPE: &'static str;

    /// As JSON.
    fn text(&self) -> String {
        #[derive(Serialize)]
        struct Tagged<'a, M: ?Sized> {
            r#type: &'static str,
            #[serde(flatten)]
            message: &'a M,
        }
        // There is no key that is not a text, and nothing else can fail.
        serde_json::to_string(&Tagged { r#type: Self::TYPE, message: self }).unwrap_or_default()
    }
}

macro_rules! server_messages {
    ($($message:ty => $name:literal,)+) => {
        /// All there are.
        #[cfg(test)]
        pub(crate) const NAMES: &[&str] = &[$($name),+];

        $(impl ServerMessage for $message {
            const TYPE: &'static str = $name;
        })+
    };
}

server_messages! {
    Hello<'_> => "hello",
    SubscriptionCreated<'_> => "subscription_created",
    Event<'_> => "event",
    CdcEvent<'_> => "cdc_event",
    Notify<'_> => "notify",
    Gap<'_> => "gap",
    Invalidate<'_> => "INVALIDATE",
    Progress<'_> => "progress",
    SchemaChanged<'_> => "schema_changed",
    SubscriptionEnded<'_> => "subscription_ended",
    Change<'_> => "change",
    InitialBatch<'_> => "initial_batch",
    Error<'_> => "error",
    Pong => "pong",
    Closing => "closing",
}

/// A subscription's names, written once for all of its messages: `"query_id":"…","streamId":"…"`.
#[derive(Debug, Clone)]
pub struct Names {
    text: Arc<str>,
    /// Up to where that is the `query_id`.
    query_id_bytes: usize,
}

impl Names {
    pub fn new(query_id: &str, stream: &str) -> Names {
        let mut text = format!("\"query_id\":{}", quoted(query_id));
        let query_id_bytes = text.len();
        text.push_str(&format!(",\"streamId\":{}", quoted(stream)));
        Names { text: text.into(), query_id_bytes }
    }

    /// Both.
    pub fn both(&self) -> &str {
        &self.text
    }

    /// The `query_id` alone.
    pub fn query_id(&self) -> &str {
        &self.text[..self.query_id_bytes]
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&format!("{{{}}}", self.text)).map_err(S::Error::custom)?;
        members.serialize(serializer)
    }
}

/// A text that is JSON already.
#[derive(Debug, Clone, Copy)]
pub struct Json<'a>(pub(crate) &'a [u8]);

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Json<'a> {
        Json(text.as_bytes())
    }
}

impl Serialize for Json<'_> {
    /// Reads it once more: messages with many rows are written by hand.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// A value as the text it is shown as.
fn shown<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The same, or `null`.
fn shown_or_null<S: Serializer>(
    value: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A text as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes a value as it is shown.
pub(crate) fn put_shown(out: &mut BytesMut, value: impl Display) {
    use std::fmt::Write as _;
    // Writing into memory cannot fail.
    let _ = write!(out, "{value}");
}

/// Writes `,"name":`.
fn put_member(out: &mut BytesMut, name: &str) {
    out.put_slice(b",\"");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
}
