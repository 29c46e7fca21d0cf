//! The outbox: what is inserted there is published, and what it says of that is true.

use serde_json::json;
use tidewire_capture::Source;

use super::{answer, capture_from, plan, refused, rows, start, value};
use crate::fixture::Fixture;

const INSERT: &str = r#"INSERT INTO outbox (table_name, operation, after_data)
    VALUES ('orders', 'INSERT', '{"id": 7, "total": 12345678901234567890.10}') RETURNING id"#;

async fn published_and_true(source: Source) {
    let mut fixture = start().await;
    fixture.run(&format!("BEGIN; {INSERT}; ROLLBACK")).await;
    let id = value(&fixture, INSERT).await;
    let state = format!(
        "SELECT processed, published_at IS NOT NULL, error_message, c_offset IS NOT NULL
         FROM outbox WHERE id = {id}"
    );
    assert_eq!(rows(&fixture, &state).await, [["f", "f", "", "f"]], "nobody captures yet");
    capture_from(&mut fixture, source).await;
    fixture.caught_up().await;
    assert_eq!(rows(&fixture, &state).await, [["t", "t", "", "t"]]);
    let log = fixture.log().await;
    let shown =
        log.iter().map(|e| (e.stream.as_str(), e.control.as_deref(), e.operation.as_deref()));
    let expected = [("table/orders", Some("create"), None), ("table/orders", None, Some("INSERT"))];
    assert_eq!(shown.collect::<Vec<_>>(), expected, "once, and the stream is made");
    assert_eq!(log[1].after, Some(json!({"id": 7, "total": 12_345_678_901_234_567_890.10})));

    // With the others of its transaction, in their order, and the same in both modes.
    fixture
        .run(
            "CREATE TABLE tasks (id int PRIMARY KEY, owner text);
        SELECT tidewire.watch('tasks', entity => 'task', user_column => 'owner')",
        )
        .await;
    fixture
        .run(
            r#"BEGIN; SELECT tidewire.set_actor('ann', 'acme'); INSERT INTO tasks VALUES (1, 'bob');
        INSERT INTO outbox (table_name, operation, before_data, after_data, host_id) VALUES
            ('orders', 'UPDATE', '{"id": 7}', '{"id": 8}', 'other'),
            ('tasks', 'DELETE', '{"id": 1, "owner": "eve"}', NULL, NULL);
        INSERT INTO tasks VALUES (2, 'bob'); COMMIT"#,
        )
        .await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let tail: Vec<_> = log[log.len() - 4..]
        .iter()
        .map(|e| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (e.stream.clone(), text(&e.operation), text(&e.entity_id), text(&e.host), text(&e.user))
        })
        .collect();
    let event = |stream: &str, operation: &str, entity: &str, host: &str, user: &str| {
        let parts = [stream, operation, entity, host, user].map(ToOwned::to_owned);
        let [stream, operation, entity, host, user] = parts;
        (stream, operation, entity, host, user)
    };
    let expected = [
        event("table/tasks", "INSERT", "1", "acme", "bob"),
        event("table/orders", "UPDATE", "", "other", "ann"),
        event("table/tasks", "DELETE", "1", "acme", "eve"),
        event("table/tasks", "INSERT", "2", "acme", "bob"),
    ];
    assert_eq!(tail, expected);
    let ends: Vec<bool> = log[log.len() - 4..].iter().map(|event| event.tx_last).collect();
    assert_eq!(ends, [false, false, false, true]);
    assert!(log[log.len() - 4..].iter().all(|e| e.txid == log[log.len() - 1].txid));

    // What was captured is in it too, each under one number, in the log's order.
    let all = "SELECT count(*), count(DISTINCT id), bool_and(processed),
        bool_and(published_at >= created_at - interval '1 s') FROM outbox";
    assert_eq!(rows(&fixture, all).await, [["5", "5", "t", "t"]]);
    let left = "SELECT count(*) FROM tidewire.staging";
    assert_eq!(value(&fixture, left).await, "0");
    fixture.tear_down().await;
}

#[tokio::test]
async fn an_insert_is_published_by_the_sequencer() {
    published_and_true(Source::Outbox).await;
}

#[tokio::test]
async fn an_insert_is_published_by_the_reader_of_the_write_ahead_log() {
    published_and_true(Source::Wal).await;
}

#[tokio::test]
async fn what_cannot_be_published_says_why() {
    let mut fixture = start().await;
    fixture
        .run(
            "ALTER TABLE tidewire.log ADD CONSTRAINT no_bad_ones
        CHECK (after_data ->> 'id' <> '13')",
        )
        .await;
    capture_from(&mut fixture, Source::Outbox).await;
    let id = value(&fixture, &INSERT.replace("\"id\": 7", "\"id\": 13")).await;
    let said = format!(
        "SELECT coalesce(error_message LIKE '%no_bad_ones%', false)
        AND NOT processed AND published_at IS NULL FROM outbox WHERE id = {id}"
    );
    fixture.until(&said).await;
    fixture.until("SELECT count(*) = 1 FROM tidewire.dead_letters").await;
    fixture.until(&said).await;
    // It can be withdrawn, and then it was never there.
    assert_eq!(answer(&fixture, &format!("DELETE FROM outbox WHERE id = {id}")).await.1, 1);
    assert_eq!(value(&fixture, "SELECT count(*) FROM outbox").await, "0");
    fixture.tear_down().await;
}

#[tokio::test]
async fn nothing_can_be_made_untrue() {
    let mut fixture = start().await;
    let id = value(&fixture, INSERT).await;
    let mark = format!(
        "UPDATE outbox SET processed = true, published_at = now() WHERE id = {id}
         RETURNING processed, published_at"
    );
    assert_eq!(rows(&fixture, &mark).await, [["f", ""]], "it waits, whoever says otherwise");
    capture_from(&mut fixture, Source::Outbox).await;
    fixture.caught_up().await;
    let mark = format!("UPDATE outbox SET processed = false WHERE id = {id} RETURNING processed");
    assert_eq!(value(&fixture, &mark).await, "t");
    for (sql, code) in [
        (format!("UPDATE outbox SET after_data = '{{}}' WHERE id = {id}"), "0A000"),
        (format!("DELETE FROM outbox WHERE id = {id}"), "0A000"),
        (insert("'orders', 'TRUNCATE', NULL, NULL"), "23514"),
        (insert("'orders', 'INSERT', NULL, NULL"), "23514"),
        (insert("'orders', 'DELETE', NULL, NULL"), "23514"),
        (insert("'orders', 'UPDATE', '{}', NULL"), "23514"),
        (insert("NULL, 'INSERT', '{}', NULL"), "23502"),
        (insert("'orders', NULL, '{}', NULL"), "23502"),
        (insert("'a//b', 'INSERT', '{}', NULL"), "22023"),
        (
            "INSERT INTO outbox (table_name, operation, after_data, processed)
            VALUES ('orders', 'INSERT', '{}', true)"
                .to_owned(),
            "23514",
        ),
    ] {
        let (found, said) = refused(&fixture, &sql).await;
        assert_eq!(found, code, "{sql}: {said}");
    }
    fixture.tear_down().await;
}

fn insert(values: &str) -> String {
    format!("INSERT INTO outbox (table_name, operation, after_data, before_data) VALUES ({values})")
}

/// Times are in the session's zone, so that they compare with now().
#[tokio::test]
async fn times_are_the_sessions_own() {
    let fixture = start().await;
    fixture.run("SET TimeZone = 'Asia/Tokyo'").await;
    value(&fixture, INSERT).await;
    let recent = "SELECT count(*) FROM outbox
        WHERE created_at BETWEEN now() - interval '1 hour' AND now() + interval '1 minute'";
    assert_eq!(value(&fixture, recent).await, "1");
    fixture
        .run(
            "INSERT INTO api_keys (name, key_hash, expires_at)
        VALUES ('k', repeat('ab', 32), '2030-01-01 09:00')",
        )
        .await;
    let expires = "SELECT expires_at AT TIME ZONE 'UTC' FROM tidewire.api_keys";
    assert_eq!(value(&fixture, expires).await, "2030-01-01 00:00:00");
    fixture.run("UPDATE api_keys SET is_active = false WHERE name = 'k'").await;
    let key = "SELECT is_active, expires_at, scopes FROM api_keys";
    assert_eq!(rows(&fixture, key).await, [["f", "2030-01-01 09:00:00", r#"{"tables": ["*"]}"#]]);
    assert_eq!(answer(&fixture, "DELETE FROM api_keys WHERE id = 1").await.1, 1);
    fixture.tear_down().await;
}

#[tokio::test]
async fn asking_uses_the_indexes() {
    let fixture = start().await;
    fixture
        .run(
            "INSERT INTO tidewire.log (c_offset, stream_id, append_id, table_name, operation,
            after_data, outbox_id, published_at)
        SELECT n, 'table/t' || n % 100, n, 't' || n % 100, 'INSERT', '{}', n, now()
        FROM generate_series(1, 50000) AS n;
        ANALYZE tidewire.log; ANALYZE tidewire.staging; ANALYZE tidewire.dead_letters",
        )
        .await;
    let waiting =
        plan(&fixture, "SELECT * FROM outbox WHERE processed = FALSE ORDER BY id LIMIT 100");
    assert!(!waiting.await.contains("log_"), "what waits is not in the log");
    for sql in [
        "SELECT * FROM outbox WHERE id = 17",
        "SELECT * FROM outbox WHERE id > 17 ORDER BY id LIMIT 100",
        "SELECT * FROM outbox WHERE table_name = 't7' AND processed ORDER BY id LIMIT 100",
        "SELECT * FROM outbox_message_t WHERE c_offset BETWEEN 1 AND 100",
        "SELECT * FROM outbox_message_t WHERE c_offset > 7 ORDER BY c_offset LIMIT 100",
        "SELECT next_offset FROM log_counter WHERE id = 1",
    ] {
        let plan = plan(&fixture, sql).await;
        assert!(!plan.contains("Seq Scan on log_"), "{sql}:\n{plan}");
    }
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_was_captured_keeps_its_number() {
    for source in [Source::Outbox, Source::Wal] {
        let mut fixture: Fixture = start().await;
        fixture
            .run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')")
            .await;
        capture_from(&mut fixture, source).await;
        fixture.caught_up().await;
        fixture.run("INSERT INTO orders SELECT generate_series(1, 20)").await;
        fixture.caught_up().await;
        let ordered = "SELECT count(*), bool_and(rising) FROM (
            SELECT id > lag(id, 1, 0::bigint) OVER (ORDER BY c_offset) AS rising FROM outbox
        ) AS ids";
        assert_eq!(rows(&fixture, ordered).await, [["20", "t"]], "{source:?}");
        fixture.tear_down().await;
    }
}
