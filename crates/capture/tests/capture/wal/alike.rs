//! The same work gives the same events, whichever source they come from (invariant 8).

use super::workload;
use crate::fixture::{Fixture, quick, reading};

/// The log as text, every digit as it is: marks left out, and what only one database can know.
async fn told(fixture: &Fixture) -> Vec<String> {
    fixture.caught_up().await;
    let sql = "SELECT jsonb_build_array(
            stream_id, control, operation, table_name, entity_code, entity_id, before_data,
            after_data, convert_from(payload, 'UTF8'), content_type, host_id, user_id, tx_last,
            dense_rank() OVER (ORDER BY first), entity_was, entity_action
        )::text
        FROM (SELECT *, min(c_offset) OVER (PARTITION BY txid) AS first FROM tidewire.log) AS log
        WHERE control IS DISTINCT FROM 'mark'
        ORDER BY c_offset";
    let rows = fixture.sql.query(sql, &[]).await.expect("the log can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Runs statements, each in a transaction, through both sources, and compares what came of them.
async fn compare(statements: &[String]) {
    let [outbox, wal] = through_both(statements).await;
    for (at, (by_triggers, by_wal)) in outbox.iter().zip(&wal).enumerate() {
        assert_eq!(by_triggers, by_wal, "event {at}: the outbox's is on the left");
    }
    assert_eq!(outbox.len(), wal.len(), "as many events");
}

async fn through_both(statements: &[String]) -> [Vec<String>; 2] {
    let mut logs = Vec::new();
    for options in [quick("a"), reading("a")] {
        let wal = options.source == tidewire_capture::Source::Wal;
        let fixture = Fixture::start_with(options).await;
        if wal {
            fixture.until("SELECT mode = 'wal' FROM tidewire.capture").await;
        }
        for sql in statements {
            fixture.run(sql).await;
        }
        logs.push(told(&fixture).await);
        fixture.tear_down().await;
    }
    let logs: [Vec<String>; 2] = logs.try_into().expect("two logs");
    assert!(logs[0].len() > statements.len() / 4, "worth comparing: {} events", logs[0].len());
    logs
}

fn owned(statements: &[&str]) -> Vec<String> {
    statements.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn every_common_type_is_written_alike() {
    compare(&owned(&[
        "CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"')",
        "CREATE TYPE place AS (x int, at timestamptz, note text)",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN blob AS bytea",
        "CREATE DOMAIN moods AS mood[]",
        "CREATE TABLE kinds (
            id bigint PRIMARY KEY, b boolean, s smallint, i integer, r real, d double precision,
            n numeric, n2 numeric(12, 4), t text, v varchar(20), c char(5), nm name, u uuid, j json,
            jb jsonb, da date, ti time, tz timetz, ts timestamp, tsz timestamptz, iv interval,
            by bytea, bl blob, m mood, p place, dm positive, ia int[], ta text[], na numeric[][],
            tsa timestamptz[], ja jsonb[], ba boolean[], bya bytea[], ma mood[], ms moods, pa place[],
            ip inet, ci cidr, mac macaddr, bi bit(3), vb varbit, r4 int4range, tr tstzrange,
            mr int4multirange, pt point, bx box, bxa box[], tv tsvector, x xml, mo money, o oid,
            rc regclass, iva interval[], dom_a positive[], g int GENERATED ALWAYS AS (i * 2) STORED,
            \"Odd \"\" name\" text, l pg_lsn, v2 int2vector
        )",
        "SELECT tidewire.watch('kinds')",
        "INSERT INTO kinds (id) VALUES (0)",
        "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'; SET IntervalStyle = 'iso_8601';
         SET extra_float_digits = 0; SET bytea_output = 'escape'",
        "INSERT INTO kinds VALUES (
            9223372036854775807, true, -32768, 1000000007, 1.1, 1e-7,
            123456789012345678901234567890.123456789000, 1.5, E'q\"\\\\\\n\\t\\u0001é😀', 'v', 'c', 'nm',
            'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\" : 1, \"a\":  2.50, \"b\":[]}',
            '{\"x\": 1.50, \"y\": null}', '2024-02-29', '23:59:59.5', '12:00:00+05:30',
            '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+09', '1 year 2 mons 3 days 04:05:06.7',
            '\\x00ff10abcdef', '\\x', 'it''s \"ok\"', ROW(1, '2024-01-01 00:00:00+09', 'a,\"b')::place,
            7, '{1,NULL,3}', ARRAY['a', 'NULL', '', NULL, 'x,y', '{\"}\\'], '{{1.10,2},{3,4}}',
            ARRAY['2024-02-29 12:34:56+09'::timestamptz], ARRAY['{\"k\": [1, 2]}'::jsonb, 'null'],
            '{t,f,NULL}', ARRAY['\\xdead'::bytea], ARRAY['sad'::mood, 'it''s \"ok\"'],
            ARRAY['sad'::mood], ARRAY[ROW(2, NULL, 'z')::place], '10.1.2.3/8', '10.0.0.0/8',
            '08:00:2b:01:02:03', B'101', B'11', '[1,5)', '[2024-01-01 00:00:00+09,)',
            '{[1,3),[7,9)}', '(1.5,2)', '(1,2),(0,0)', ARRAY['(1,2),(0,0)'::box, '(3,4),(1,1)'::box],
            'a fat cat', '<a>b &amp; c</a>', '$1,234.50', 42, 'kinds', '{\"1 day\",\"02:00:00\"}',
            '{1,2}', DEFAULT, 'odd', '16/B374D848', '1 2 3'
        )",
        "INSERT INTO kinds (id, r, d, n, da, ts, tsz, ia) VALUES
            (2, 'NaN', 'Infinity', 'NaN', 'infinity', '-infinity', 'infinity', '{}'),
            (3, '-Infinity', 1e300, 0.000000000000000000001, '0044-03-15 BC',
             '0044-03-15 10:00:00 BC', '0044-03-15 10:00:00+00 BC', '[2:3]={7,8}'),
            (4, 16777216, 0.1, 1e100, '10000-01-01', '10000-01-01', '1900-01-01', '{{1},{2}}')",
        "UPDATE kinds SET id = id + 10, i = 5, by = '\\x01' WHERE id < 5",
        "UPDATE kinds SET j = '[]', t = NULL",
        "DELETE FROM kinds",
    ]))
    .await;
}

/// What a statement calls changes rows after the statement has, and its events come after.
#[tokio::test]
async fn statements_within_statements_are_captured_alike() {
    compare(&owned(&[
        "CREATE TABLE o (id int PRIMARY KEY, n int)",
        "CREATE TABLE other (id int PRIMARY KEY, n int)",
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (id int PRIMARY KEY, note text,
            parent_id int REFERENCES parent ON UPDATE CASCADE ON DELETE SET NULL)",
        "SELECT tidewire.watch('o'), tidewire.watch('other'), tidewire.watch('parent'),
            tidewire.watch('child')",
        "CREATE FUNCTION bump(k int) RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN UPDATE o SET n = n + 100 WHERE id = k; RETURN k; END $$",
        "CREATE FUNCTION bump_twice(k int) RETURNS int LANGUAGE sql AS
            $$ UPDATE o SET n = n + 10 WHERE id = k RETURNING bump(id) $$",
        "CREATE FUNCTION away(k int) RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN DELETE FROM o WHERE id = k; RETURN k; END $$",
        "INSERT INTO o VALUES (1, 0) RETURNING bump(id)",
        "UPDATE o SET n = n + 1 WHERE id = 1 RETURNING bump(id)",
        "UPDATE o SET n = n + 1 WHERE id = 1 RETURNING bump_twice(id)",
        "INSERT INTO o VALUES (2, 0) RETURNING away(id)",
        "INSERT INTO o VALUES (1, 5), (3, 0), (1 + 3, 0) ON CONFLICT (id) DO UPDATE SET n = 9",
        "WITH a AS (INSERT INTO other VALUES (1, 1), (2, 2) RETURNING id),
              b AS (UPDATE o SET n = 7 WHERE id = 3 RETURNING id)
         INSERT INTO parent SELECT id FROM a",
        "BEGIN; UPDATE o SET n = 8 WHERE id = 3 RETURNING bump(id); UPDATE o SET n = n + 1 WHERE id = 3;
         SAVEPOINT s; UPDATE o SET n = 0 WHERE id = 3 RETURNING bump(id); ROLLBACK TO s;
         UPDATE o SET n = n + 1 WHERE id = 3; COMMIT",
        // Triggers that sort before ours.
        "CREATE FUNCTION early() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.n < 1000 THEN UPDATE o SET n = n + 1000 WHERE id = NEW.id; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER \"!a\" AFTER UPDATE ON o FOR EACH ROW EXECUTE FUNCTION early()",
        "CREATE TRIGGER \" b\" AFTER INSERT ON o FOR EACH ROW EXECUTE FUNCTION early()",
        "UPDATE o SET n = n - 1000 WHERE id = 1",
        "INSERT INTO o VALUES (10, 0)",
        "UPDATE o SET n = 1 WHERE id = 1 RETURNING bump(id)",
        // A cascade, and a trigger that changes the same row after it.
        "INSERT INTO child VALUES (1, 'a', 1)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE child SET note = note || '+' WHERE parent_id = NEW.id; RETURN NULL; END $$",
        "CREATE TRIGGER note AFTER UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION note()",
        "UPDATE parent SET id = 20 WHERE id = 1",
        "DELETE FROM parent",
    ]))
    .await;
}

#[tokio::test]
async fn every_shape_of_table_is_captured_alike() {
    compare(&owned(&[
        "CREATE SCHEMA \"Odd.Schema\"",
        "CREATE TABLE \"Odd.Schema\".\"a/b\" (k1 int, k2 text, v text, PRIMARY KEY (k2, k1))",
        "CREATE TABLE nokey (a int, b text)",
        "CREATE TABLE parent (id int PRIMARY KEY, v text)",
        "CREATE TABLE child (id int PRIMARY KEY,
            parent_id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE parts (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01')",
        "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2024-02-01') TO ('2024-03-01')",
        "CREATE TABLE owned (id int PRIMARY KEY, tenant text, owner text, big text)",
        "ALTER TABLE owned ALTER big SET STORAGE EXTERNAL",
        "SELECT tidewire.watch('\"Odd.Schema\".\"a/b\"')",
        "SELECT tidewire.watch('nokey')",
        "SELECT tidewire.watch('parent')",
        "SELECT tidewire.watch('child', entity => 'kid')",
        "SELECT tidewire.watch('parts')",
        "SELECT tidewire.watch('owned', host_column => 'tenant', user_column => 'owner')",
        "INSERT INTO \"Odd.Schema\".\"a/b\" VALUES (1, 'x', 'v'), (2, 'y', NULL)",
        "UPDATE \"Odd.Schema\".\"a/b\" SET k1 = k1 + 1",
        "INSERT INTO nokey VALUES (1, 'a'), (1, 'a'), (2, NULL)",
        "UPDATE nokey SET b = 'b' WHERE a = 1",
        "DELETE FROM nokey WHERE a = 2",
        "INSERT INTO parent VALUES (1, 'a'), (2, 'b'); INSERT INTO child VALUES (1, 1), (2, 1), (3, 2)",
        "UPDATE parent SET id = 10 WHERE id = 1",
        "DELETE FROM parent WHERE id = 10",
        "TRUNCATE parent CASCADE",
        "INSERT INTO parts VALUES (1, '2024-01-05', 'a'), (2, '2024-02-05', 'b')",
        "UPDATE parts SET v = 'c'",
        "DELETE FROM parts",
        "TRUNCATE parts",
        "INSERT INTO owned VALUES (1, 'acme', 'ann', repeat('x', 9000)), (2, NULL, NULL, 'short')",
        "UPDATE owned SET owner = 'bob'",
        "BEGIN; SELECT tidewire.set_actor('eve', 'evil'); UPDATE owned SET big = 'less';
         UPDATE parent SET v = 'x'; INSERT INTO parent VALUES (5, 'e'); TRUNCATE owned; TRUNCATE child;
         COMMIT",
        "BEGIN; SELECT tidewire.set_actor('ann', 'acme'); INSERT INTO parent VALUES (6, 'f');
         SAVEPOINT s; SELECT tidewire.set_actor('bob'); INSERT INTO parent VALUES (7, 'g');
         ROLLBACK TO s; INSERT INTO parent VALUES (8, 'h');
         SELECT tidewire.publish('doc-1', '{\"n\": 1.50}'); UPDATE parent SET v = 'i' WHERE id = 8;
         SELECT tidewire.publish('doc-2', '[]'); SELECT tidewire.set_actor(NULL);
         SELECT tidewire.publish('doc-1', '2'); DELETE FROM parent WHERE id = 6; COMMIT",
        "BEGIN; INSERT INTO parent VALUES (9, 'z'); SELECT tidewire.publish('doc-1', '3'); ROLLBACK",
        "SELECT tidewire.unwatch('nokey')",
        "INSERT INTO nokey VALUES (3, 'c')",
        "SELECT tidewire.watch('nokey', key_columns => '{a}')",
        "INSERT INTO nokey VALUES (4, 'd'); UPDATE nokey SET b = 'e' WHERE a = 4",
    ]))
    .await;
}

#[tokio::test]
async fn entities_are_told_alike() {
    compare(&owned(&[
        "CREATE TABLE one (id int PRIMARY KEY, at timestamptz)",
        "CREATE TABLE two (a int, b text, c json, PRIMARY KEY (a, b))",
        "CREATE TABLE none (a int)",
        "SELECT tidewire.watch('one', entity => 'thing')",
        "SELECT tidewire.watch('two', entity => 'pair', host_column => 'b')",
        "SELECT tidewire.watch('none', entity => 'row')",
        "INSERT INTO one VALUES (1, '2026-01-01 00:00+00'), (2, NULL)",
        "UPDATE one SET id = id + 10",
        "UPDATE one SET at = NULL",
        "INSERT INTO two VALUES (1, 'x', '{}'), (2, repeat('x', 1200), '{}')",
        "UPDATE two SET b = 'y', c = '1'",
        "UPDATE two SET a = 7 WHERE a = 1",
        "INSERT INTO none VALUES (1); UPDATE none SET a = 2; TRUNCATE none, one",
        "SELECT tidewire.set_actor('u', 'h'), tidewire.invalidate('thing', '1', 'CREATE')",
        "SELECT tidewire.invalidate('other', '2'); DELETE FROM two",
    ]))
    .await;
}

#[tokio::test]
async fn random_work_gives_the_same_events() {
    let [outbox, wal] = through_both(&workload::statements(20_260, 300)).await;
    let (outbox, wal) = (transactions(&outbox), transactions(&wal));
    for (at, (by_triggers, by_wal)) in outbox.iter().zip(&wal).enumerate() {
        let differ = by_triggers.iter().zip(by_wal).find(|(left, right)| left != right);
        let sizes = (by_triggers.len(), by_wal.len());
        assert!(differ.is_none() && sizes.0 == sizes.1, "transaction {at}: {sizes:?}, {differ:?}");
    }
    assert_eq!(outbox.len(), wal.len(), "as many transactions");
}

/// Events by transaction, each transaction's last marked as such and the others in order of their
/// text: a statement that changes many rows takes them as they lie on the disk, which is chance.
fn transactions(log: &[String]) -> Vec<Vec<String>> {
    let mut transactions: Vec<Vec<String>> = Vec::new();
    let mut ended = true;
    for event in log {
        if ended {
            transactions.push(Vec::new());
        }
        let mut columns: Vec<serde_json::Value> = serde_json::from_str(event).expect("an array");
        ended = columns.remove(12) == true;
        let transaction = transactions.last_mut().expect("one was begun");
        transaction.push(serde_json::Value::from(columns).to_string());
    }
    assert!(ended, "the last transaction has an end");
    for transaction in &mut transactions {
        transaction.sort();
    }
    transactions
}
