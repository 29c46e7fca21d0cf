//! Changes of rows as clients see them: `cdc_event` objects.
//!
//! Rendered once, where events come in from the store, so that the stream of a table is read, waited
//! for and pushed like any other.

use bytes::{BufMut, Bytes, BytesMut};

use tidewire_store::{Epoch, Event, Position, RowChange, TailEvent};

use crate::hub::encode::put_json_string;
use crate::wire::clock::moment;

/// The version of the object's shape.
const VERSION: &str = "1";

/// Room for all of it but the row itself.
const FRAME_BYTES: usize = 320;

/// Gives an event that is the change of a row its document.
pub(crate) fn render_event(event: &mut Event, epoch: Epoch) {
    if let Some(row) = &event.row {
        event.payload = document(row, event.position, epoch, false);
    }
}

/// Gives an event that is the change of a row its document.
pub(crate) fn render_tail_event(event: &mut TailEvent, epoch: Epoch) {
    if let Some(row) = &event.row {
        event.payload = Some(document(row, event.position, epoch, false));
    }
}

/// What every document begins with.
pub(crate) const BEGINNING: &[u8] = br#"{"type":"cdc_event","#;

/// The document of a change. The images are JSON already and go in as they are. A row that has `left` is
/// still there, though not among those that are wanted.
pub(crate) fn document(row: &RowChange, position: Position, epoch: Epoch, left: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(FRAME_BYTES + row.bytes());
    out.put_slice(BEGINNING);
    out.put_slice(br#""eventId":""#);
    out.put_slice(position.number().to_string().as_bytes());
    out.put_slice(br#"","tableName":"#);
    put_json_string(&mut out, &row.table);
    out.put_slice(br#","operation":""#);
    out.put_slice(row.operation.as_str().as_bytes());
    out.put_slice(br#"","data":"#);
    out.put_slice(row.after.as_deref().unwrap_or(b"null"));
    if let Some(before) = &row.before {
        out.put_slice(br#","before":"#);
        out.put_slice(before);
    }
    if left {
        out.put_slice(br#","left":true"#);
    }
    for (name, value) in [("entityCode", &row.entity_code), ("entityId", &row.entity_id)] {
        if let Some(value) = value {
            put_member(&mut out, name);
            put_json_string(&mut out, value);
        }
    }
    put_member(&mut out, "timestamp");
    put_json_string(&mut out, &moment(row.created_at_ms));
    put_member(&mut out, "version");
    out.put_slice(VERSION.as_bytes());
    put_member(&mut out, "offset");
    put_json_string(&mut out, &position.in_epoch(epoch).to_string());
    if let Some(txid) = row.txid {
        put_member(&mut out, "txid");
        out.put_slice(txid.to_string().as_bytes());
        put_member(&mut out, "txLast");
        out.put_slice(if row.tx_last { b"true" } else { b"false" });
    }
    out.put_u8(b'}');
    out.freeze()
}

fn put_member(out: &mut BytesMut, name: &str) {
    out.put_slice(b",\"");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
}

#[cfg(test)]
mod tests {
    use tidewire_store::Operation;

    use super::*;

    fn change(operation: Operation) -> RowChange {
        RowChange {
            table: "Odd \"orders\"".to_owned(),
            operation,
            entity_code: Some("order".to_owned()),
            entity_id: Some("7".to_owned()),
            before: Some(Bytes::from_static(br#"{"id":7,"total":12345678901234567890.10}"#)),
            after: None,
            host_id: None,
            user_id: None,
            txid: Some(801),
            tx_last: true,
            created_at_ms: 1_700_000_000_123,
        }
    }

    #[test]
    fn a_change_is_shown_with_every_digit() {
        let document = document(
            &change(Operation::Delete),
            Position::new(12),
            Epoch::new(3).expect("an epoch"),
            false,
        );
        assert_eq!(
            std::str::from_utf8(&document).expect("text"),
            concat!(
                r#"{"type":"cdc_event","eventId":"12","tableName":"Odd \"orders\"","#,
                r#""operation":"DELETE","data":null,"#,
                r#""before":{"id":7,"total":12345678901234567890.10},"#,
                r#""entityCode":"order","entityId":"7","timestamp":"2023-11-14T22:13:20.123Z","#,
                r#""version":1,"offset":"0003_0000000000000012","txid":801,"txLast":true}"#,
            )
        );
    }
}
