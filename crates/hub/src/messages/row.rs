//! The change of a row of a watched table. PROTOCOL.md, section 25.

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use tidewire_store::Offset;

use super::{Json, Names, is_false, put_member, put_shown, quoted, shown};

/// The change of a row. Events of a table are such objects wherever they are read; a subscription puts its
/// name in.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CdcEvent<'a> {
    #[serde(serialize_with = "shown")]
    pub(crate) event_id: u64,
    pub table_name: &'a str,
    pub operation: &'a str,
    pub data: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Json<'a>>,
    /// The row is still there, though not among those that are wanted.
    #[serde(skip_serializing_if = "is_false")]
    pub left: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<&'a str>,
    pub timestamp: &'a str,
    /// Of the object's shape.
    pub version: u32,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_last: Option<bool>,
}

impl CdcEvent<'_> {
    /// What every object begins with.
    pub(crate) const BEGINNING: &'static [u8] = br#"{"type":"cdc_event","#;

    /// Writes the object. The images are JSON already and go in as they are.
    pub fn put(&self, out: &mut BytesMut) {
        out.put_slice(Self::BEGINNING);
        out.put_slice(br#""eventId":""#);
        put_shown(out, self.event_id);
        out.put_slice(br#"","tableName":"#);
        put_text(out, self.table_name);
        out.put_slice(br#","operation":""#);
        out.put_slice(self.operation.as_bytes());
        out.put_slice(br#"","data":"#);
        out.put_slice(self.data.map_or(b"null", |data| data.0));
        if let Some(before) = self.before {
            put_member(out, "before");
            out.put_slice(before.0);
        }
        if self.left {
            out.put_slice(br#","left":true"#);
        }
        for (name, value) in [("entityCode", self.entity_code), ("entityId", self.entity_id)] {
            if let Some(value) = value {
                put_member(out, name);
                put_text(out, value);
            }
        }
        put_member(out, "timestamp");
        put_text(out, self.timestamp);
        put_member(out, "version");
        put_shown(out, self.version);
        out.put_slice(br#","offset":""#);
        put_shown(out, self.offset);
        out.put_u8(b'"');
        if let Some(txid) = self.txid {
            put_member(out, "txid");
            put_shown(out, txid);
        }
        if let Some(tx_last) = self.tx_last {
            put_member(out, "txLast");
            put_shown(out, tx_last);
        }
        out.put_u8(b'}');
    }

    /// Writes an object that was written before, whose text goes on with `rest` after its beginning, with a
    /// subscription's name in it.
    pub(crate) fn put_named(out: &mut BytesMut, names: &Names, rest: &[u8]) {
        out.put_slice(Self::BEGINNING);
        out.put_slice(names.query_id().as_bytes());
        out.put_u8(b',');
        out.put_slice(rest);
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(quoted(text).as_bytes());
}
