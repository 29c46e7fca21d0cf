//! Parts of a row's image.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

use tidewire_query::Row;

use crate::encode::put_json_string;

/// The image with some columns only, in their order. What it does not have is left out.
pub(super) fn project(row: &Row<'_>, columns: &[Box<str>]) -> Bytes {
    let mut out = BytesMut::with_capacity(256);
    out.put_u8(b'{');
    for column in columns {
        let Some(value) = row.get(column) else { continue };
        if out.len() > 1 {
            out.put_u8(b',');
        }
        put_json_string(&mut out, column);
        out.put_u8(b':');
        out.put_slice(value.get().as_bytes());
    }
    out.put_u8(b'}');
    out.freeze()
}

/// A value as text, as keys and tenants are written: none if it is null.
pub(super) fn text(value: &RawValue) -> Option<String> {
    match value.get() {
        "null" => None,
        text if text.starts_with('"') => serde_json::from_str(text).ok(),
        text => Some(text.to_owned()),
    }
}
