//! That messages are those of the protocol, and that what is written by hand says the same as the struct.

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::Value;

use tidewire_store::{Epoch, Offset, Position};

use super::*;

const PROTOCOL: &str = include_str!("../../../../PROTOCOL.md");

fn offset(number: u64) -> Offset {
    Position::new(number).in_epoch(Epoch::FIRST)
}

fn value(text: &[u8]) -> Value {
    serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn of<M: ServerMessage>(message: &M) -> Value {
    value(message.text().as_bytes())
}

fn put(write: impl FnOnce(&mut BytesMut)) -> Value {
    let mut out = BytesMut::new();
    write(&mut out);
    value(&out)
}

#[test]
fn the_protocol_has_exactly_these_messages() {
    let section = PROTOCOL.split("\n## 22. Messages\n").nth(1).expect("section 22");
    let section = section.split("\n## ").next().unwrap_or_default();
    let from_server = section.split("### From the server\n").nth(1).expect("the server's part");
    let mut described: Vec<&str> = from_server
        .lines()
        .filter_map(|line| line.strip_prefix("**`")?.split_once("`**").map(|(name, _)| name))
        .collect();
    let mut known = NAMES.to_vec();
    described.sort_unstable();
    known.sort_unstable();
    assert_eq!(described, known);
}

/// That an example of the protocol is a message, word by word.
fn has(message: &Value) {
    let blocks = PROTOCOL.split("```json").skip(1);
    let texts = blocks.filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
    let mut examples = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    assert!(examples.any(|example| example == *message), "the protocol does not show {message}");
}

#[test]
fn the_protocol_shows_messages_as_they_are() {
    let names = Names::new("doc", "doc-123");
    has(&of(&Hello { connection_id: "5f0c2a9e41d7b386", node: "n1", session: Some("tws_7bHq") }));
    let event = Event { names: &names, offset: offset(42), payload: Payload::Json(r#"{"x": 1}"#) };
    has(&of(&event));
    has(&of(&Notify { names: &names, offset: offset(43) }));
    has(&of(&Gap { names: &names, from: offset(43), to: offset(10_043) }));
    has(&of(&Progress { query_id: None, offset: offset(50) }));
    has(&of(&Pong {}));
    has(&of(&Closing { reason: "shutting_down", reconnect_in_ms: 731 }));
    has(&of(&SubscriptionEnded {
        query_id: "doc",
        stream_id: Some("doc-123"),
        reason: "stream_closed",
        what: None,
    }));
    has(&of(&SchemaChanged {
        query_id: "doc",
        stream_id: "table/orders",
        what: "column note was added (text)",
        offset: offset(44),
    }));
    has(&of(&SubscriptionCreated {
        subscriptions: vec![Created {
            query_id: "doc",
            live_id: "5f0c2a9e41d7b386-doc".to_owned(),
            offset: Some(offset(41)),
            reset: false,
            of: CreatedOf::Stream { stream_id: "doc-123", content_type: "application/json" },
        }],
    }));
    let problem = crate::refusal::not_found();
    has(&value(problem.message(Some("doc")).as_bytes()));
}

#[test]
fn the_protocol_shows_messages_of_entities_as_they_are() {
    has(&of(&SubscriptionCreated {
        subscriptions: vec![Created {
            query_id: "entity/project",
            live_id: "5f0c2a9e41d7b386-entity/project".to_owned(),
            offset: Some(offset(41)),
            reset: false,
            of: CreatedOf::Entities {
                stream_id: "entity/project",
                entity_code: "project",
                entities: 2,
            },
        }],
    }));
    has(&of(&Invalidate {
        query_id: "entity/project",
        payload: InvalidatedEntities {
            entity_code: "project",
            changes: vec![InvalidatedEntity { entity_id: "7", action: "UPDATE" }],
        },
        offset: offset(44),
    }));
}

#[test]
fn the_protocol_shows_messages_of_queries_as_they_are() {
    has(&of(&SubscriptionCreated {
        subscriptions: vec![Created {
            query_id: "open",
            live_id: "5f0c2a9e41d7b386-open".to_owned(),
            offset: Some(offset(41)),
            reset: false,
            of: CreatedOf::Query {
                etag: "a903ce8579b95a1b",
                columns: Json::from(
                    r#"[{"name":"id","type":"int4"},{"name":"total","type":"int4"}]"#,
                ),
                plan: "filter",
                more: false,
                row_count: Some(1),
                initial_results: Some(Json::from(r#"[{"id":1,"total":5}]"#)),
            },
        }],
    }));
    let rows = Json::from(r#"[{"id":2,"total":50}]"#);
    has(&of(&InitialBatch { query_id: "open", part: 1, more: false, rows }));
    has(&of(&Change {
        query_id: Some("open"),
        change_type: "UPDATE",
        rows: vec![Json::from(r#"{"id":1,"total":6}"#)],
        old_rows: Some(vec![Json::from(r#"{"id":1,"total":5}"#)]),
        from: Vec::new(),
        at: Vec::new(),
        offset: Some(offset(42)),
        part: 0,
        more: false,
        txid: Some(801),
    }));
}

#[test]
fn the_protocol_shows_changes_of_rows_as_they_are() {
    let row = CdcEvent {
        event_id: 46,
        table_name: "orders",
        operation: "UPDATE",
        data: Some(Json::from(r#"{"id":7,"total":15.00}"#)),
        before: Some(Json::from(r#"{"id":7,"total":12.50}"#)),
        left: false,
        entity_code: Some("order"),
        entity_id: Some("7"),
        timestamp: "2026-11-15T12:00:00.000Z",
        version: 1,
        offset: offset(46),
        txid: Some(801),
        tx_last: Some(true),
    };
    has(&of(&row));
    let of_subscription = CdcEvent {
        data: Some(Json::from(r#"{"id":7,"total":150.00,"status":"open"}"#)),
        before: Some(Json::from(r#"{"id":7,"total":120.50,"status":"open"}"#)),
        entity_code: None,
        ..row
    };
    let mut written = BytesMut::new();
    of_subscription.put(&mut written);
    let rest = written.strip_prefix(CdcEvent::BEGINNING).expect("the beginning");
    let names = Names::new("open", "table/orders");
    has(&put(|out| CdcEvent::put_named(out, &names, rest)));
}

/// A row as a database writes it.
fn row(id: u32, text: &str) -> String {
    serde_json::json!({ "id": id, "text": text }).to_string()
}

proptest! {
    #[test]
    fn events_by_hand_are_those_of_the_structs(
        query_id in ".{0,20}",
        stream in ".{0,20}",
        text in ".{0,40}",
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        number in 0u64..1 << 50,
    ) {
        let names = Names::new(&query_id, &stream);
        let json = serde_json::json!({ "a": [text, number] }).to_string();
        let payloads = [Payload::Json(&json), Payload::Text(&text), Payload::Bytes(&bytes)];
        for payload in payloads {
            let event = Event { names: &names, offset: offset(number), payload };
            prop_assert_eq!(put(|out| event.put(out)), of(&event));
        }
        let notify = Notify { names: &names, offset: offset(number) };
        prop_assert_eq!(put(|out| notify.put(out)), of(&notify));
    }

    #[test]
    fn changes_of_rows_by_hand_are_those_of_the_struct(
        table in ".{0,20}",
        text in ".{0,20}",
        number in 0u64..1 << 50,
        has in any::<[bool; 6]>(),
    ) {
        let (before, after) = (row(1, &text), row(2, &text));
        let event = CdcEvent {
            event_id: number,
            table_name: &table,
            operation: "UPDATE",
            data: has[0].then(|| Json::from(&*after)),
            before: has[1].then(|| Json::from(&*before)),
            left: has[2],
            entity_code: has[3].then_some(&*text),
            entity_id: has[4].then_some(&*text),
            timestamp: "2026-11-15T12:00:00.000Z",
            version: 1,
            offset: offset(number),
            txid: has[5].then_some(801),
            tx_last: has[5].then_some(has[0]),
        };
        let mut written = BytesMut::new();
        event.put(&mut written);
        prop_assert_eq!(value(&written), of(&event));
        let mut named = of(&event);
        named["query_id"] = text.clone().into();
        let rest = written.strip_prefix(CdcEvent::BEGINNING).expect("the beginning");
        let names = Names::new(&text, "table/t");
        prop_assert_eq!(put(|out| CdcEvent::put_named(out, &names, rest)), named);
    }

    #[test]
    fn results_by_hand_are_those_of_the_structs(
        query_id in ".{0,20}",
        texts in proptest::collection::vec(".{0,10}", 1..5),
        part in 0usize..9,
        has in any::<[bool; 5]>(),
    ) {
        let rows: Vec<String> = (0..).zip(&texts).map(|(id, text)| row(id, text)).collect();
        let all = format!("[{}]", rows.join(","));
        let json = || rows.iter().map(|row| Json::from(&**row)).collect::<Vec<_>>();
        let batch = InitialBatch { query_id: &query_id, part, more: has[0], rows: Json::from(&*all) };
        prop_assert_eq!(value(batch.written().as_bytes()), of(&batch));
        let change = Change {
            query_id: Some(&query_id),
            change_type: "UPDATE",
            rows: json(),
            old_rows: has[1].then(json),
            from: if has[2] { vec![3, 1] } else { Vec::new() },
            at: if has[3] { vec![2, 0] } else { Vec::new() },
            offset: has[4].then(|| offset(7)),
            part,
            more: has[0],
            txid: has[1].then_some(-5),
        };
        let written = Change::named(&query_id, &change.rest());
        prop_assert_eq!(value(written.as_bytes()), of(&change));
        let created = || Created {
            query_id: &query_id,
            live_id: format!("c-{query_id}"),
            offset: has[4].then(|| offset(7)),
            reset: has[0],
            of: CreatedOf::Query {
                etag: "e",
                columns: Json::from(r#"[{"name":"id","type":"integer"}]"#),
                plan: "filter",
                more: has[1],
                row_count: has[2].then_some(rows.len()),
                initial_results: has[2].then(|| Json::from(&*all)),
            },
        };
        let message = || SubscriptionCreated { subscriptions: vec![created()] };
        prop_assert_eq!(value(message().written().as_bytes()), of(&message()));
    }
}
