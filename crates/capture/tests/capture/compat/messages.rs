//! The outbox of messages: the whole log as text, and publishing by inserting.

use tidewire_capture::Source;

use super::{capture_from, refused, rows, start, value};

async fn published(source: Source) {
    let mut fixture = start().await;
    let insert = "INSERT INTO outbox_message_t (c_offset, host_id, user_id, payload)
        VALUES (17, 'acme', 'ann', '{\"n\": 1}') RETURNING id, c_offset";
    let returned = rows(&fixture, insert).await;
    let [id, offset] = returned[0].as_slice() else { panic!("{returned:?}") };
    assert_eq!(offset, "", "it has none yet, whatever was asked for");
    let named = "INSERT INTO outbox_message_t (stream_id, payload) VALUES ('doc/1', '[2]')";
    fixture
        .run(&format!("BEGIN; SELECT tidewire.set_actor('bob', 'other'); {named}; COMMIT"))
        .await;
    capture_from(&mut fixture, source).await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
    fixture.run("INSERT INTO orders VALUES (5)").await;
    fixture.caught_up().await;
    let all = "SELECT stream_id, host_id, user_id, payload::jsonb FROM outbox_message_t
        WHERE c_offset > 0 ORDER BY c_offset";
    let change =
        r#"{"data": {"id": 5}, "before": null, "operation": "INSERT", "tableName": "orders"}"#;
    let expected = [
        ["outbox_message_t", "acme", "ann", r#"{"n": 1}"#],
        ["doc/1", "other", "bob", "[2]"],
        ["table/orders", "", "", change],
    ];
    assert_eq!(rows(&fixture, all).await, expected);
    let found = format!("SELECT c_offset > 0 FROM outbox_message_t WHERE id = {id}");
    assert_eq!(value(&fixture, &found).await, "t", "by the number that it had before");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_message_is_published_by_the_sequencer() {
    published(Source::Outbox).await;
}

#[tokio::test]
async fn a_message_is_published_by_the_reader_of_the_write_ahead_log() {
    published(Source::Wal).await;
}

#[tokio::test]
async fn what_is_no_json_is_refused_and_what_is_no_text_is_shown() {
    let fixture = start().await;
    let (code, _) = refused(&fixture, "INSERT INTO outbox_message_t (payload) VALUES ('no')").await;
    assert_eq!(code, "22P02");
    fixture.run(r"INSERT INTO tidewire.log (c_offset, stream_id, append_id, payload, content_type)
        VALUES (1, 'a', 1, '\xff00', 'application/octet-stream'), (2, 'a', 2, 'text', 'text/plain')")
        .await;
    let payloads = "SELECT payload FROM outbox_message_t ORDER BY c_offset";
    assert_eq!(rows(&fixture, payloads).await, [["/wA="], ["text"]]);
    fixture.tear_down().await;
}

#[tokio::test]
async fn the_counter_does_not_go_back() {
    let fixture = start().await;
    for sql in [
        "UPDATE log_counter SET next_offset = 0",
        "UPDATE log_counter SET id = 2",
        "INSERT INTO log_counter VALUES (2, 1)",
    ] {
        assert_eq!(refused(&fixture, sql).await.0, "0A000", "{sql}");
    }
    fixture.tear_down().await;
}
