//! Values of every common type travel in one form, whatever settings their writer has.

use serde_json::{Value, json};
use tidewire_store::{Actor, Sql as _, SqlLimits, Statements};

use crate::fixture::Fixture;

/// Settings under which values look unlike the canonical form.
const ODD_SETTINGS: &str = "SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY';
    SET IntervalStyle = 'iso_8601'; SET extra_float_digits = -10; SET bytea_output = 'escape'";

/// The after image of the only row that was inserted into a table of one column.
async fn image_of(column: &str, value: &str) -> String {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TYPE mood AS ENUM ('sad', 'glad')").await;
    fixture.run("CREATE DOMAIN picture AS bytea").await;
    fixture.run(&format!("CREATE TABLE v (value {column})")).await;
    fixture.run("SELECT tidewire.watch('v')").await;
    fixture.run(ODD_SETTINGS).await;
    fixture.run(&format!("INSERT INTO v VALUES ({value})")).await;
    fixture.caught_up().await;
    let image = "SELECT (after_data -> 'value')::text FROM tidewire.log WHERE operation = 'INSERT'";
    let image = fixture.text(image).await;
    fixture.tear_down().await;
    image
}

#[tokio::test]
async fn numbers_keep_every_digit() {
    let many = "12345678901234567890.123456789012345678901234567890";
    assert_eq!(image_of("numeric", many).await, many);
    assert_eq!(image_of("bigint", "9223372036854775807").await, "9223372036854775807");
    assert_eq!(image_of("double precision", "0.1::float8 + 0.2").await, "0.30000000000000004");
    assert_eq!(image_of("real", "0.1::real").await, "0.1");
    assert_eq!(image_of("numeric", "'NaN'").await, "\"NaN\"");
}

#[tokio::test]
async fn times_do_not_show_the_writers_zone() {
    let moment = "'2024-02-29 12:00:00.123456+00'";
    assert_eq!(image_of("timestamptz", moment).await, "\"2024-02-29T12:00:00.123456+00:00\"");
    let array = image_of("timestamptz[]", &format!("ARRAY[{moment}::timestamptz]")).await;
    assert_eq!(array, "[\"2024-02-29T12:00:00.123456+00:00\"]");
    assert_eq!(image_of("date", "'2024-02-29'").await, "\"2024-02-29\"");
    assert_eq!(image_of("interval", "'1 day 2 hours'").await, "\"1 day 02:00:00\"");
    let range = image_of("tstzrange", "'[2024-01-01 00:00+00,2024-01-02 00:00+00)'").await;
    let range: Value = range.parse().expect("JSON");
    assert_eq!(range, json!("[\"2024-01-01 00:00:00+00\",\"2024-01-02 00:00:00+00\")"));
}

#[tokio::test]
async fn bytes_are_base64_without_line_breaks() {
    let long = image_of("bytea", "decode(repeat('00ff', 100), 'hex')").await;
    assert_eq!(long.len(), 2 + 268, "{long}");
    assert!(!long.contains("\\n"), "{long}");
    assert_eq!(image_of("bytea", r"'\xdeadbeef'").await, "\"3q2+7w==\"");
    assert_eq!(image_of("bytea", "''").await, "\"\"");
    assert_eq!(image_of("bytea", "NULL").await, "null");
    assert_eq!(image_of("picture", r"'\xdeadbeef'").await, "\"3q2+7w==\"");
}

#[tokio::test]
async fn the_rest_is_as_to_jsonb_has_it() {
    assert_eq!(image_of("mood", "'glad'").await, "\"glad\"");
    let uuid = "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'";
    assert_eq!(image_of("uuid", uuid).await, "\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"");
    assert_eq!(
        image_of("json", r#"'{"b":1.50,"a":[true,null]}'"#).await,
        r#"{"a": [true, null], "b": 1.50}"#
    );
    let with_nul = image_of("json", r#"'{"a":"x\u0000\u0000","b":"\\u0000"}'"#).await;
    assert_eq!(with_nul, "{\"a\": \"x\u{fffd}\u{fffd}\", \"b\": \"\\\\u0000\"}");
    assert_eq!(image_of("integer[]", "'{{1,2},{3,NULL}}'").await, "[[1, 2], [3, null]]");
    assert_eq!(image_of("mood[]", "'{sad}'").await, "[\"sad\"]");
    assert_eq!(image_of("text", r"E'\t\\ ü \u2028'").await, "\"\\t\\\\ ü \u{2028}\"");
    assert_eq!(image_of("boolean", "true").await, "true");
}

/// What a result of SQL has is what events have, also of types whose text is not their JSON.
#[tokio::test]
async fn results_of_sql_have_the_form_of_events() {
    let fixture = Fixture::start().await;
    fixture
        .run("CREATE EXTENSION hstore; CREATE DOMAIN document AS json;
              CREATE TYPE pair AS (j json, h hstore, n numeric);
              CREATE TABLE v (id int PRIMARY KEY, j json, ja json[], d document, h hstore, ha hstore[], p pair,
                  pa pair[], jb jsonb, n numeric);
              SELECT tidewire.watch('v')")
        .await;
    fixture
        .run(
            r#"INSERT INTO v VALUES (1, '{"b": 1e2, "a": 1.50, "a": -0, "c": "\u00e9\u0000"}',
                ARRAY['1.0E+3', '[0.10e1, 12345678901234567890123]']::json[], ' [ 1E400 ] ',
                'x=>1, y=>NULL', ARRAY['k=>"a,b"', NULL]::hstore[], ROW('1e1', 'q=>2', 1.50)::pair,
                ARRAY[ROW('{"z":1e0}', NULL, 2)]::pair[], '{"b": 1e2}', 1e2);
                INSERT INTO v (id) VALUES (2)"#,
        )
        .await;
    fixture.caught_up().await;
    let columns = ["j", "ja", "d", "h", "ha", "p", "pa", "jb", "n"];
    let statements = Statements {
        sql: format!("SELECT {} FROM v ORDER BY id", columns.join(", ")),
        params: Vec::new(),
        actor: Actor::default(),
        limits: SqlLimits { timeout_ms: 60_000, rows_max: 10, bytes_max: 1 << 20 },
    };
    let answer = fixture.store.run_sql(statements).await.expect("an answer");
    for (row, id) in answer.rows.iter().zip(1..) {
        for (value, column) in row.iter().zip(columns) {
            let image = format!(
                "SELECT (after_data -> '{column}')::text FROM tidewire.log
                 WHERE operation = 'INSERT' AND entity_id = '{id}'"
            );
            assert_eq!(value.get(), fixture.text(&image).await, "{column} of row {id}");
        }
    }
    fixture.tear_down().await;
}
