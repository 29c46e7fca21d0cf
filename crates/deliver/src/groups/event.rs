//! Events as workers get them: one shape for batches and for letters.
//!
//! Written as text, because rows and payloads are JSON already, with every digit as the database has it.

use bytes::{BufMut, Bytes, BytesMut};

use tidewire_store::Epoch;
use tidewire_store::groups::GroupEvent;
use tidewire_store::stream::is_json;

use tidewire_hub::encode::{base64, is_text, put_json_string};
use tidewire_wire::clock::moment;

/// Writes a JSON string, or null.
pub(super) fn put_text(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_json_string(out, text),
        None => out.put_slice(b"null"),
    }
}

fn put_member(out: &mut BytesMut, name: &str, text: Option<&str>) {
    out.put_slice(b",\"");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
    put_text(out, text);
}

fn put_row(out: &mut BytesMut, name: &str, row: Option<&Bytes>) {
    out.put_slice(b",\"");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
    out.put_slice(row.map_or(b"null".as_slice(), |row| row));
}

/// Writes an event.
pub(super) fn put_event(out: &mut BytesMut, event: &GroupEvent, epoch: Epoch) {
    let offset = event.position.in_epoch(epoch);
    out.put_slice(format!("{{\"offset\":\"{offset}\"").as_bytes());
    put_member(out, "stream_id", Some(&event.stream));
    put_member(out, "host_id", event.host_id.as_deref());
    put_member(out, "user_id", event.user_id.as_deref());
    let txid = event.txid.map_or_else(|| "null".to_owned(), |txid| txid.to_string());
    out.put_slice(format!(",\"txid\":{txid},\"tx_last\":{}", event.tx_last).as_bytes());
    put_member(out, "created_at", Some(&moment(event.created_at_ms)));
    put_member(out, "trace_context", event.trace_context.as_deref());
    match &event.change {
        Some(change) => {
            put_member(out, "table_name", Some(&change.table));
            put_member(out, "operation", Some(change.operation.as_str()));
            put_member(out, "entity_code", change.entity_code.as_deref());
            put_member(out, "entity_id", change.entity_id.as_deref());
            put_row(out, "before_data", change.before.as_ref());
            put_row(out, "after_data", change.after.as_ref());
        }
        None => put_payload(out, event),
    }
    out.put_u8(b'}');
}

/// What is neither JSON nor text is in base64, and says so.
fn put_payload(out: &mut BytesMut, event: &GroupEvent) {
    put_member(out, "content_type", event.content_type.as_deref());
    let content_type = event.content_type.as_deref().unwrap_or_default();
    let payload = event.payload.as_deref().unwrap_or_default();
    match std::str::from_utf8(payload) {
        Ok(json) if is_json(content_type) && !json.is_empty() => {
            out.put_slice(b",\"payload\":");
            out.put_slice(json.as_bytes());
        }
        Ok(text) if is_text(content_type) => put_member(out, "payload", Some(text)),
        _ => {
            put_member(out, "payload", Some(&base64(payload)));
            put_member(out, "encoding", Some("base64"));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use tidewire_store::{Operation, Position, RowChange};

    use super::*;

    pub(in crate::groups) fn event() -> GroupEvent {
        GroupEvent {
            position: Position::new(41),
            append_id: Position::new(41),
            stream: "doc".to_owned(),
            host_id: Some("a\"b".to_owned()),
            user_id: None,
            txid: None,
            tx_last: true,
            created_at_ms: 0,
            trace_context: None,
            change: None,
            payload: None,
            content_type: None,
        }
    }

    fn written(event: &GroupEvent) -> String {
        let mut out = BytesMut::new();
        put_event(&mut out, event, Epoch::new(1).expect("an epoch"));
        String::from_utf8(out.to_vec()).expect("text")
    }

    fn read(event: &GroupEvent) -> Value {
        serde_json::from_str(&written(event)).expect("JSON")
    }

    #[test]
    fn rows_keep_every_digit() {
        let change = RowChange {
            table: "orders".to_owned(),
            operation: Operation::Insert,
            entity_code: None,
            entity_id: Some("7".to_owned()),
            before: None,
            after: Some(Bytes::from_static(b"{\"total\":12345678901234567890.10}")),
            host_id: None,
            user_id: None,
            txid: Some(801),
            tx_last: true,
            created_at_ms: 0,
        };
        let event = GroupEvent { change: Some(Arc::new(change)), txid: Some(801), ..event() };
        assert!(written(&event).contains(r#""after_data":{"total":12345678901234567890.10}"#));
        let read = read(&event);
        assert_eq!(read["txid"], 801);
        assert_eq!(read["before_data"], Value::Null);
        assert_eq!(read["host_id"], "a\"b");
        assert_eq!(read["created_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(read.get("payload"), None);
    }

    #[test]
    fn payloads_are_json_text_or_base64() {
        let with = |content_type: &str, payload: &'static [u8]| {
            let content_type = Some(content_type.to_owned());
            read(&GroupEvent {
                content_type,
                payload: Some(Bytes::from_static(payload)),
                ..event()
            })
        };
        assert_eq!(with("application/json", b"{\"n\":1}")["payload"], json!({ "n": 1 }));
        assert_eq!(with("text/plain", b"\"hi\"")["payload"], "\"hi\"");
        let bytes = with("application/octet-stream", b"\xff\x00");
        assert_eq!((&bytes["payload"], &bytes["encoding"]), (&json!("/wA="), &json!("base64")));
        assert_eq!(with("text/plain", b"\xff")["encoding"], "base64");
    }
}
