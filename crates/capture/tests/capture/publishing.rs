//! Documents published in users' transactions, and what becomes of those that cannot be.

use bytes::Bytes;
use tidewire_store::{Answer, Append, Command, Create, Log as _};

use crate::fixture::{Fixture, Logged};

fn documents(log: &[Logged]) -> Vec<(&str, &str)> {
    log.iter()
        .filter_map(|event| Some((event.stream.as_str(), event.payload.as_deref()?)))
        .collect()
}

async fn make(fixture: &Fixture, stream: &str, content_type: &str) {
    let create = Create {
        stream: stream.to_owned(),
        content_type: Some(content_type.to_owned()),
        lifetime: None,
        messages: Vec::new(),
        closed: false,
        fork: None,
        actor: tidewire_store::Actor::default(),
    };
    let made = fixture.store.submit(Command::Create(Box::new(create))).await.expect("a stream");
    assert!(matches!(made, Answer::Created { new: true, .. }), "{made:?}");
}

async fn close(fixture: &Fixture, stream: &str) {
    let close = Append {
        stream: stream.to_owned(),
        content_type: None,
        messages: Vec::<Bytes>::new(),
        close: true,
        seq: None,
        producer: None,
        actor: tidewire_store::Actor::default(),
        trace_context: None,
    };
    fixture.store.submit(Command::Append(close)).await.expect("the stream is closed");
}

#[tokio::test]
async fn a_document_is_published_with_its_transaction_or_not_at_all() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
    let commits = r#"BEGIN; SELECT tidewire.set_actor('ann', 'acme');
        INSERT INTO orders VALUES (1); SELECT tidewire.publish('doc/1', '{"n": 1.50}');
        INSERT INTO orders VALUES (2); SELECT tidewire.publish('doc/1', '2'); COMMIT"#;
    fixture.run("BEGIN; SELECT tidewire.publish('doc/1', '0'); ROLLBACK").await;
    fixture.run(commits).await;
    fixture.run("SELECT tidewire.publish('doc/1', '3')").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let expected = [("doc/1", r#"{"n": 1.50}"#), ("doc/1", "2"), ("doc/1", "3")];
    assert_eq!(documents(&log), expected);
    let story: Vec<_> = log[1..]
        .iter()
        .map(|event| (event.stream.as_str(), event.control.as_deref(), event.tx_last))
        .collect();
    let expected = [
        ("table/orders", None, false),
        ("doc/1", Some("create"), false),
        ("doc/1", None, false),
        ("table/orders", None, false),
        ("doc/1", None, true),
        ("doc/1", None, true),
    ];
    assert_eq!(story, expected, "in their place, and the missing stream is made");
    assert!(log[1..6].iter().all(|event| event.txid == log[1].txid), "one transaction");
    let offsets: Vec<i64> = log.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, (1..=7).collect::<Vec<_>>());
    assert_eq!((log[3].user.as_deref(), log[3].host.as_deref()), (Some("ann"), Some("acme")));
    fixture.tear_down().await;
}

#[tokio::test]
async fn wrong_names_and_payloads_are_refused_at_once() {
    let fixture = Fixture::start_without_capture().await;
    for (call, said) in [
        ("publish('table/orders', '1')", "streams under table/ hold"),
        ("publish('table', '1')", "streams under table/ hold"),
        ("publish('', '1')", "'' is not a name"),
        ("publish('a//b', '1')", "'a//b' is not a name"),
        ("publish('a/../b', '1')", "is not a name"),
        ("publish('/a', '1')", "is not a name"),
        ("publish(E'a\\nb', '1')", "is not a name"),
        ("publish('__ds/x', '1')", "is not a name"),
        ("publish(repeat('x', 2000), '1')", "has 2000 bytes"),
        ("publish('a', to_jsonb(repeat('x', 17000000)))", "the payload has 17000002 bytes"),
        ("publish('a', NULL)", "one of them is null"),
    ] {
        let refused = fixture.sql.batch_execute(&format!("SELECT tidewire.{call}")).await;
        let refused = refused.expect_err(call).as_db_error().cloned().expect("it is said why");
        assert!(refused.message().contains(said), "{call}: {}", refused.message());
        assert!(refused.hint().is_some(), "{call} has no hint");
    }
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.staging").await, 0);
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_cannot_be_published_is_set_aside_and_the_rest_goes_on() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
    make(&fixture, "closed", "application/json").await;
    close(&fixture, "closed").await;
    make(&fixture, "text", "text/plain").await;
    let mixed = "BEGIN; INSERT INTO orders VALUES (1); SELECT tidewire.publish('text', '1');
        INSERT INTO orders VALUES (2); SELECT tidewire.publish('closed', '1'); COMMIT;
        SELECT tidewire.publish('open', '1')";
    fixture.run(mixed).await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    assert_eq!(documents(&log), [("open", "1")]);
    let rows: Vec<bool> =
        log.iter().filter(|e| e.operation.is_some()).map(|event| event.tx_last).collect();
    assert_eq!(rows, [false, true], "the last that is left ends the transaction");
    fixture.until("SELECT count(*) = 2 FROM tidewire.dead_letters").await;
    let why = "SELECT string_agg(error_message, '; ' ORDER BY id) FROM tidewire.dead_letters";
    let why = fixture.text(why).await;
    assert_eq!(
        why,
        "the stream text takes text/plain, and not application/json; the stream closed is closed"
    );
    let attempts = "SELECT min(attempts)::bigint FROM tidewire.dead_letters";
    assert_eq!(fixture.number(attempts).await, 10);
    assert_eq!(fixture.number("SELECT count(*) FROM tidewire.staging").await, 0);
    let stats = tidewire_store::Watches::capture_stats(&*fixture.store).expect("statistics");
    assert_eq!((stats.failures, stats.dead), (20, 2));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_row_that_the_database_refuses_is_found_among_many() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
    fixture.caught_up().await;
    let refuse = "ALTER TABLE tidewire.log ADD CONSTRAINT no_bad_ones
        CHECK (entity_id <> '13' AND entity_id <> '130')";
    fixture.run(refuse).await;
    let mixed = "INSERT INTO orders VALUES (1); INSERT INTO orders VALUES (13);
        BEGIN; INSERT INTO orders SELECT generate_series(100, 150); COMMIT";
    fixture.run(mixed).await;
    fixture.caught_up().await;
    let story = fixture.changes().await;
    assert_eq!(story.len(), 1 + 50);
    let log = fixture.log().await;
    assert!(log.last().is_some_and(|event| event.tx_last), "the transaction has its end");
    fixture.until("SELECT count(*) = 2 FROM tidewire.dead_letters").await;
    let why = fixture.text("SELECT error_message FROM tidewire.dead_letters LIMIT 1").await;
    assert!(why.contains("no_bad_ones"), "{why}");
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_failed_is_published_once_nothing_stands_in_its_way() {
    let mut options = crate::fixture::quick("a");
    options.attempts_max = 1_000;
    let fixture = Fixture::start_with(options).await;
    make(&fixture, "doc", "text/plain").await;
    fixture.run("SELECT tidewire.publish('doc', '1')").await;
    fixture.until("SELECT count(*) = 1 FROM tidewire.staging WHERE attempts > 0").await;
    let delete =
        Command::Delete { stream: "doc".to_owned(), actor: tidewire_store::Actor::default() };
    fixture.store.submit(delete).await.expect("the stream is deleted");
    fixture.until("SELECT count(*) = 0 FROM tidewire.staging").await;
    let log = fixture.log().await;
    assert_eq!(documents(&log), [("doc", "1")]);
    fixture.tear_down().await;
}
