//! The statements that the documents print: each runs as it is, and does what it says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use tidewire_capture::Source;

use super::{answer, capture_from, rows, start, value};
use crate::fixture::Fixture;

/// The statements by their names, and which of them were run.
struct Statements {
    texts: BTreeMap<&'static str, &'static str>,
    run: RefCell<BTreeSet<&'static str>>,
}

impl Statements {
    fn of_documents() -> Statements {
        let pieces = include_str!("statements.sql").split("\n--- ").skip(1);
        let texts = pieces.map(|piece| piece.split_once('\n').expect("a name and a statement"));
        Statements { texts: texts.collect(), run: RefCell::default() }
    }

    fn text(&self, name: &str) -> &'static str {
        let (name, text) = self.texts.get_key_value(name).unwrap_or_else(|| panic!("no {name}"));
        self.run.borrow_mut().insert(name);
        text
    }

    async fn rows(&self, fixture: &Fixture, name: &str) -> Vec<Vec<String>> {
        rows(fixture, self.text(name)).await
    }

    async fn value(&self, fixture: &Fixture, name: &str) -> String {
        value(fixture, self.text(name)).await
    }

    async fn changed(&self, fixture: &Fixture, name: &str) -> u64 {
        answer(fixture, self.text(name)).await.1
    }

    fn all_were_run(&self) {
        let missing: Vec<_> =
            self.texts.keys().filter(|name| !self.run.borrow().contains(*name)).collect();
        assert!(missing.is_empty(), "these were not run: {missing:?}");
    }
}

const ANN: &str = "11111111-1111-4111-8111-111111111111";
const BOB: &str = "22222222-2222-4222-8222-222222222222";
const FIRST: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const SECOND: &str = "aaaaaaaa-0000-4000-8000-000000000002";
const THIRD: &str = "aaaaaaaa-0000-4000-8000-000000000003";

#[tokio::test]
async fn every_printed_statement_runs_and_does_what_it_says() {
    let mut fixture = start().await;
    let statements = Statements::of_documents();
    subscriptions(&fixture, &statements).await;
    changes(&mut fixture, &statements).await;
    offsets(&fixture, &statements).await;
    statements.all_were_run();
    fixture.tear_down().await;
}

async fn subscriptions(fixture: &Fixture, statements: &Statements) {
    let count = async || value(fixture, "SELECT count(*) FROM tidewire.rxdb_subscription").await;
    assert_eq!(statements.value(fixture, "subscribe").await, "2");
    assert_eq!(statements.value(fixture, "subscribe").await, "2", "again is no error");
    assert_eq!(statements.value(fixture, "subscribe by the service").await, "2");
    assert_eq!(count().await, "4");
    let subscribers = statements.rows(fixture, "subscribers of one").await;
    assert_eq!(subscribers, [[ANN, "conn-123"], [BOB, "conn-456"]]);
    let several = statements.rows(fixture, "subscribers of several").await;
    let both = |a: &str, b: &str| format!("{{{a},{b}}}");
    let expected =
        [[ANN, "conn-123", &both(FIRST, SECOND)], [BOB, "conn-456", &both(FIRST, THIRD)]];
    assert_eq!(several, expected);
    assert_eq!(statements.rows(fixture, "subscriptions of a user").await, [["project", "2"]]);
    assert_eq!(statements.rows(fixture, "distribution").await, [["project", "4", "2", "3"]]);
    // The size of a view: see COMPAT.md.
    assert_eq!(statements.value(fixture, "size").await, "0 bytes");

    assert_eq!(statements.value(fixture, "stale").await, "0", "they are young");
    fixture
        .run(
            "UPDATE app.rxdb_subscription SET subscribed_at = now() - interval '25 hours'
        WHERE connection_id = 'conn-456'",
        )
        .await;
    assert_eq!(statements.value(fixture, "stale by the service").await, "2");
    assert_eq!(statements.value(fixture, "subscribe by the service").await, "2");

    assert_eq!(statements.value(fixture, "unsubscribe").await, "2");
    assert_eq!(statements.value(fixture, "unsubscribe").await, "0");
    assert_eq!(statements.value(fixture, "unsubscribe by the service").await, "1");
    assert_eq!(statements.changed(fixture, "unsubscribe from a kind").await, 1);
    assert_eq!(count().await, "0");
    statements.value(fixture, "subscribe").await;
    statements.value(fixture, "subscribe by the service").await;
    assert_eq!(statements.value(fixture, "disconnect").await, "2");
    assert_eq!(statements.value(fixture, "disconnect by the service").await, "2");
    assert_eq!(count().await, "0");
}

async fn changes(fixture: &mut Fixture, statements: &Statements) {
    fixture
        .run(&format!(
            "INSERT INTO app.logging (id, entity_code, entity_id, action) VALUES
        ('bbbbbbbb-0000-4000-8000-000000000001', 'project', '{FIRST}', 1),
        ('bbbbbbbb-0000-4000-8000-000000000002', 'project', '{SECOND}', 3),
        ('bbbbbbbb-0000-4000-8000-000000000003', 'task', '{THIRD}', 4),
        ('bbbbbbbb-0000-4000-8000-000000000004', 'task', '{THIRD}', 0)"
        ))
        .await;
    let expected = [["project", FIRST, "1"], ["project", SECOND, "3"], ["task", THIRD, "4"]];
    let mut pending = statements.rows(fixture, "pending changes").await;
    pending.sort();
    assert_eq!(pending, expected);
    let claimed = statements.rows(fixture, "claim changes").await;
    let claimed: BTreeSet<Vec<String>> =
        claimed.into_iter().map(|mut row| row.split_off(1)).collect();
    assert_eq!(claimed.into_iter().collect::<Vec<_>>(), expected);
    assert!(statements.rows(fixture, "claim changes").await.is_empty(), "all are claimed");
    assert_eq!(statements.changed(fixture, "mark changes").await, 1);
    let states = "SELECT sync_status, sync_processed_ts IS NOT NULL FROM app.logging ORDER BY id";
    let expected = [["sent", "t"], ["processing", "f"], ["processing", "f"], ["ignored", "f"]];
    assert_eq!(rows(fixture, states).await, expected);

    capture_from(fixture, Source::Outbox).await;
    fixture.caught_up().await;
    let expected = [["sent", "t"], ["sent", "t"], ["sent", "t"], ["ignored", "f"]];
    assert_eq!(rows(fixture, states).await, expected, "whatever was said before");
    let told = "SELECT stream_id, entity_code, entity_id, entity_action,
            convert_from(payload, 'UTF8')::jsonb ->> 'action'
        FROM tidewire.log WHERE entity_code IS NOT NULL ORDER BY c_offset";
    let expected = [
        ["entity/project", "project", FIRST, "UPDATE", "UPDATE"],
        ["entity/project", "project", SECOND, "DELETE", "DELETE"],
        ["entity/task", "task", THIRD, "CREATE", "CREATE"],
    ];
    assert_eq!(rows(fixture, told).await, expected);
}

async fn offsets(fixture: &Fixture, statements: &Statements) {
    let tip: i64 = fixture.number("SELECT max(c_offset) FROM tidewire.log").await;
    assert_eq!(statements.changed(fixture, "the counter's row").await, 0, "it is there already");
    assert_eq!(statements.value(fixture, "reserve offsets").await, (tip + 1).to_string());
    assert_eq!(statements.value(fixture, "reserve offsets").await, (tip + 1).to_string());
    fixture
        .run(
            "INSERT INTO consumer_offsets (group_id, topic_id, partition_id)
        VALUES ('user-query-group', 1, 0)",
        )
        .await;
    let tip = tip.to_string();
    assert_eq!(statements.rows(fixture, "claim offsets").await, [["1", &tip]]);
    fixture
        .run(
            "INSERT INTO outbox_message_t (host_id, user_id, payload)
        VALUES ('acme', 'ann', '{\"n\": 1}')",
        )
        .await;
    fixture.until("SELECT count(*) = 0 FROM tidewire.staging").await;
    let claimed = statements.rows(fixture, "claim offsets").await;
    let [start, end] = claimed[0].as_slice() else { panic!("{claimed:?}") };
    let fetch = format!(
        "SELECT host_id, user_id, payload::jsonb -> 'n' FROM outbox_message_t
        WHERE c_offset BETWEEN {start} AND {end} AND abs(hashtext(host_id::text)) % 1 = 0"
    );
    assert_eq!(rows(fixture, &fetch).await, [["acme", "ann", "1"]]);
    let next = "SELECT next_offset = (SELECT next_offset FROM log_counter) FROM consumer_offsets";
    assert_eq!(value(fixture, next).await, "t");
}
