//! Changes of rows as clients see them: `cdc_event` objects.
//!
//! Rendered once, where events come in from the store, so that the stream of a table is read, waited
//! for and pushed like any other.

use bytes::{Bytes, BytesMut};

use tidewire_store::{Epoch, Event, Position, RowChange, TailEvent};

use crate::messages::{CdcEvent, Json};
use tidewire_wire::clock::moment;

/// The version of the object's shape.
const VERSION: u32 = 1;

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

/// The document of a change. A row that has `left` is still there, though not among those that are wanted.
pub fn document(row: &RowChange, position: Position, epoch: Epoch, left: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(FRAME_BYTES + row.bytes());
    let event = CdcEvent {
        event_id: position.number(),
        table_name: &row.table,
        operation: row.operation.as_str(),
        data: row.after.as_deref().map(Json),
        before: row.before.as_deref().map(Json),
        left,
        entity_code: row.entity_code.as_deref(),
        entity_id: row.entity_id.as_deref(),
        timestamp: &moment(row.created_at_ms),
        version: VERSION,
        offset: position.in_epoch(epoch),
        txid: row.txid,
        tx_last: row.txid.map(|_| row.tx_last),
    };
    event.put(&mut out);
    out.freeze()
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
