//! Events of streams, and what stands for them.

use bytes::{BufMut, BytesMut};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use tidewire_store::Offset;

use super::{Json, Names, put_shown, quoted, shown};
use crate::encode::base64;

/// One event.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    #[serde(flatten)]
    pub names: &'a Names,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
    #[serde(flatten)]
    pub payload: Payload<'a>,
}

impl Event<'_> {
    /// Writes the message.
    pub fn put(&self, out: &mut BytesMut) {
        put_head(out, "event", self.names, self.offset);
        out.put_slice(b",\"payload\":");
        self.payload.put(out);
        out.put_u8(b'}');
    }
}

/// An event's bytes, as they stand in a message.
#[derive(Debug, Clone, Copy)]
pub enum Payload<'a> {
    Json(&'a str),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    fn put(self, out: &mut BytesMut) {
        match self {
            Payload::Json(json) => out.put_slice(json.as_bytes()),
            Payload::Text(text) => out.put_slice(quoted(text).as_bytes()),
            Payload::Bytes(bytes) => {
                out.put_slice(quoted(&base64(bytes)).as_bytes());
                out.put_slice(b",\"encoding\":\"base64\"");
            }
        }
    }
}

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        match self {
            Payload::Json(json) => members.serialize_entry("payload", &Json::from(*json))?,
            Payload::Text(text) => members.serialize_entry("payload", text)?,
            Payload::Bytes(bytes) => {
                members.serialize_entry("payload", &base64(bytes))?;
                members.serialize_entry("encoding", "base64")?;
            }
        }
        members.end()
    }
}

/// An event that is too large to push.
#[derive(Debug, Serialize)]
pub struct Notify<'a> {
    #[serde(flatten)]
    pub names: &'a Names,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
}

impl Notify<'_> {
    /// Writes the message.
    pub fn put(&self, out: &mut BytesMut) {
        put_head(out, "notify", self.names, self.offset);
        out.put_u8(b'}');
    }
}

/// Events that were not sent.
#[derive(Debug, Serialize)]
pub struct Gap<'a> {
    #[serde(flatten)]
    pub names: &'a Names,
    #[serde(serialize_with = "shown")]
    pub from: Offset,
    #[serde(serialize_with = "shown")]
    pub to: Offset,
}

fn put_head(out: &mut BytesMut, kind: &str, names: &Names, offset: Offset) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",");
    out.put_slice(names.both().as_bytes());
    out.put_slice(b",\"offset\":\"");
    put_shown(out, offset);
    out.put_u8(b'"');
}
