//! Which events the changes of rows become.

use serde_json::json;

use crate::fixture::{Fixture, quick, reading};

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(operation, entity): &(&str, &str)| ((*operation).into(), (*entity).into());
    expected.iter().map(owned).collect()
}

#[tokio::test]
async fn changes_reach_the_log_with_both_images() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY, note text)").await;
    fixture.run("SELECT tidewire.watch('orders')").await;
    fixture.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')").await;
    fixture.run("UPDATE orders SET id = 3, note = 'c' WHERE id = 1; DELETE FROM orders").await;
    fixture.run("TRUNCATE orders").await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    assert_eq!(log[0].control.as_deref(), Some("create"));
    assert!(log.iter().all(|event| event.stream == "table/orders"));
    let offsets: Vec<i64> = log.iter().map(|event| event.offset).collect();
    assert_eq!(offsets, (1..=7).collect::<Vec<i64>>(), "there are no gaps");
    assert_eq!(log[3].before, Some(json!({"id": 1, "note": "a"})));
    assert_eq!(log[3].after, Some(json!({"id": 3, "note": "c"})));
    let expected = [
        ("INSERT", "1"),
        ("INSERT", "2"),
        ("UPDATE", "3"),
        ("DELETE", "2"),
        ("DELETE", "3"),
        ("TRUNCATE", ""),
    ];
    assert_eq!(fixture.changes().await, pairs(&expected));
    let last: Vec<bool> = log.iter().map(|event| event.tx_last).collect();
    assert_eq!(last, [true, false, true, false, false, true, true]);
    fixture.tear_down().await;
}

#[tokio::test]
async fn keys_are_found_or_given_or_the_whole_row() {
    let fixture = Fixture::start().await;
    let tables = r#"
        CREATE SCHEMA "Sa.les";
        CREATE TABLE "Sa.les"."My ""T""/1" (a int, "B" text, c int, PRIMARY KEY ("B", a));
        CREATE TABLE bare (x int, y text);
        CREATE TABLE given (x int, y text);
        SELECT tidewire.watch('"Sa.les"."My ""T""/1"');
        SELECT tidewire.watch('bare');
        SELECT tidewire.watch('given', ARRAY['y']);
        INSERT INTO "Sa.les"."My ""T""/1" VALUES (1, 'b', 2);
        INSERT INTO bare VALUES (1, 'z');
        INSERT INTO given VALUES (1, 'z');
    "#;
    fixture.run(tables).await;
    fixture.caught_up().await;
    let entities = fixture.changes().await;
    let expected =
        [("INSERT", r#"["b", 1]"#), ("INSERT", r#"{"x": 1, "y": "z"}"#), ("INSERT", "z")];
    assert_eq!(entities, pairs(&expected));
    let log = fixture.log().await;
    let odd = r#"table/"Sa.les"."My ""T""/1""#;
    assert_eq!(log[0].stream, odd);
    let name = log.iter().find_map(|event| event.table.clone());
    assert_eq!(name.as_deref(), Some(&odd["table/".len()..]));
    fixture.tear_down().await;
}

#[tokio::test]
async fn partitions_speak_as_the_table_they_are_part_of() {
    let fixture = Fixture::start().await;
    let table = "CREATE TABLE p (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
        CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (10);
        SELECT tidewire.watch('p');
        CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (10) TO (20)";
    fixture.run(table).await;
    fixture
        .run("INSERT INTO p VALUES (1, 'a'), (11, 'b'); INSERT INTO p_low VALUES (2, 'c')")
        .await;
    fixture.run("UPDATE p SET v = 'd' WHERE k = 1; UPDATE p SET k = 12 WHERE k = 1").await;
    fixture.run("SELECT tidewire.watch('p', NULL, 'part'); DELETE FROM p_high; TRUNCATE p").await;
    fixture.caught_up().await;
    let expected = [
        ("INSERT", "1"),
        ("INSERT", "11"),
        ("INSERT", "2"),
        ("UPDATE", "1"),
        ("DELETE", "1"),
        ("INSERT", "12"),
        ("DELETE", "11"),
        ("DELETE", "12"),
        ("TRUNCATE", ""),
    ];
    assert_eq!(fixture.changes().await, pairs(&expected));
    let log = fixture.log().await;
    assert!(log.iter().all(|event| event.stream == "table/p"));
    let codes: Vec<_> = log.iter().filter_map(|event| event.entity_code.as_deref()).collect();
    assert_eq!(codes, ["part", "part", "part"]);
    let refused = fixture.sql.batch_execute("SELECT tidewire.watch('p_low')").await;
    let refused = refused.expect_err("a partition");
    let hint = refused.as_db_error().and_then(|error| error.hint());
    assert_eq!(hint, Some("Watch the table it is a part of: public.p."));
    fixture.tear_down().await;
}

#[tokio::test]
async fn large_values_that_did_not_change_are_in_both_images() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE docs (id int PRIMARY KEY, body text, n int)").await;
    fixture.run("ALTER TABLE docs ALTER body SET STORAGE EXTERNAL").await;
    fixture.run("SELECT tidewire.watch('docs')").await;
    fixture.run("INSERT INTO docs VALUES (1, repeat('x', 100000), 0)").await;
    fixture.run("UPDATE docs SET n = 1; DELETE FROM docs").await;
    fixture.caught_up().await;
    for event in fixture.log().await.iter().filter(|event| event.operation.is_some()) {
        for image in [&event.before, &event.after].into_iter().flatten() {
            assert_eq!(image["body"].as_str().map(str::len), Some(100_000));
        }
    }
    fixture.tear_down().await;
}

#[tokio::test]
async fn the_size_of_a_change_is_that_of_what_is_not_compressed() {
    for options in [quick("a"), reading("a")] {
        let fixture = Fixture::start_begun(options).await;
        fixture.run("CREATE TABLE docs (id int PRIMARY KEY, body text)").await;
        fixture.run("SELECT tidewire.watch('docs')").await;
        fixture.run("INSERT INTO docs VALUES (1, repeat('x', 100000))").await;
        fixture.run("UPDATE docs SET id = 2; DELETE FROM docs; TRUNCATE docs").await;
        fixture.caught_up().await;
        let sizes = "SELECT array_agg(row_bytes / 100000 ORDER BY c_offset) = '{1, 2, 1, 0}'
                     FROM tidewire.log WHERE operation IS NOT NULL";
        fixture.until(sizes).await;
        fixture.tear_down().await;
    }
}

#[tokio::test]
async fn who_acts_comes_from_the_row_or_the_transaction() {
    let fixture = Fixture::start().await;
    let tables = "CREATE TABLE plain (id int PRIMARY KEY);
        CREATE TABLE owned (id int PRIMARY KEY, tenant text, who int);
        SELECT tidewire.watch('plain');
        SELECT tidewire.watch('owned', NULL, 'thing', 'tenant', 'who')";
    fixture.run(tables).await;
    let acts = "BEGIN; SELECT tidewire.set_actor('ann', 'acme');
        INSERT INTO plain VALUES (1); INSERT INTO owned VALUES (1, 'evil', 7); COMMIT;
        INSERT INTO plain VALUES (2); UPDATE owned SET tenant = NULL; DELETE FROM owned";
    fixture.run(acts).await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let actors: Vec<(Option<&str>, Option<&str>)> = log
        .iter()
        .filter(|event| event.operation.is_some())
        .map(|event| (event.host.as_deref(), event.user.as_deref()))
        .collect();
    let expected = [
        (Some("acme"), Some("ann")),
        (Some("evil"), Some("7")),
        (None, None),
        (None, Some("7")),
        (None, Some("7")),
    ];
    assert_eq!(actors, expected);
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_writer_needs_no_rights_on_tidewires_schema() {
    let fixture = Fixture::start().await;
    let role = format!("writer_{}", fixture.database.name);
    let make = format!(
        "CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders');
         CREATE ROLE {role}; GRANT INSERT, DELETE ON orders TO {role}; SET ROLE {role};
         INSERT INTO orders VALUES (1); DELETE FROM orders"
    );
    fixture.run(&make).await;
    for sql in ["SELECT tidewire.publish('a', '1')", "SELECT tidewire.watch('orders')"] {
        let refused = fixture.sql.batch_execute(sql).await.expect_err("no rights");
        let code = refused.code().expect("a code").code();
        assert_eq!(code, "42501", "{sql}");
    }
    fixture.run("RESET ROLE").await;
    fixture.caught_up().await;
    assert_eq!(fixture.changes().await.len(), 2);
    fixture.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_triggers_change_is_told_after_what_made_them_fire() {
    let mut options = crate::fixture::quick("a");
    options.batch_rows_max = 3;
    let fixture = Fixture::start_with(options).await;
    // Changing a key cascades to rows that the same statement has changed.
    let tree = "CREATE TABLE tree (id int PRIMARY KEY, parent int REFERENCES tree ON UPDATE CASCADE
            ON DELETE CASCADE);
        INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2);
        SELECT tidewire.watch('tree', ARRAY['id']);
        UPDATE tree SET id = id + 10";
    fixture.run(tree).await;
    fixture.caught_up().await;
    let log = fixture.log().await;
    let mut rows: std::collections::HashMap<i64, serde_json::Value> = [
        (1, json!({"id": 1, "parent": null})),
        (2, json!({"id": 2, "parent": 1})),
        (3, json!({"id": 3, "parent": 2})),
    ]
    .into();
    for event in log.iter().filter(|event| event.operation.is_some()) {
        let (before, after) = (event.before.clone().expect("it"), event.after.clone().expect("it"));
        let held = rows.remove(&before["id"].as_i64().expect("a key"));
        assert_eq!(held, Some(before), "at {}", event.offset);
        rows.insert(after["id"].as_i64().expect("a key"), after);
    }
    assert_eq!(rows[&13], json!({"id": 13, "parent": 12}));
    assert_eq!(rows[&12], json!({"id": 12, "parent": 11}));
    let expected = [("UPDATE", "11"), ("UPDATE", "12"), ("UPDATE", "13")];
    assert_eq!(fixture.changes().await[..3], pairs(&expected), "first the statement itself");
    fixture.run("DELETE FROM tree WHERE id = 11").await;
    fixture.caught_up().await;
    let deleted = [("DELETE", "11"), ("DELETE", "12"), ("DELETE", "13")];
    let story = fixture.changes().await;
    assert_eq!(story[story.len() - 3..], pairs(&deleted));
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_row_that_its_own_trigger_changes_again_has_both_changes_in_order() {
    let fixture = Fixture::start().await;
    let table = "CREATE TABLE c (id int PRIMARY KEY, n int DEFAULT 0);
        CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE c SET n = n + 1; RETURN NULL; END $$;
        SELECT tidewire.watch('c');
        CREATE TRIGGER aaa AFTER INSERT ON c FOR EACH ROW EXECUTE FUNCTION bump()";
    fixture.run(table).await;
    // The watch learns of the trigger.
    fixture.until("SELECT shape ->> 'company' = 'INSERT' FROM tidewire.watches").await;
    fixture.run("INSERT INTO c VALUES (1), (2)").await;
    fixture.caught_up().await;
    let expected = [
        ("INSERT", "1"),
        ("INSERT", "2"),
        ("UPDATE", "1"),
        ("UPDATE", "2"),
        ("UPDATE", "1"),
        ("UPDATE", "2"),
    ];
    assert_eq!(fixture.changes().await, pairs(&expected));
    assert_eq!(
        fixture.number("SELECT count(*) FROM tidewire.log WHERE control = 'schema'").await,
        0
    );
    fixture.tear_down().await;
}
