//! Values of every common type travel in one form, whatever settings their writer has.

use serde_json::{Value, json};

use crate::stage::Stage;

/// Settings under which values look unlike the canonical form.
const ODD_SETTINGS: &str = "SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY';
    SET IntervalStyle = 'iso_8601'; SET extra_float_digits = -10; SET bytea_output = 'escape'";

/// The after image of the only row that was inserted into a table of one column.
async fn image_of(column: &str, value: &str) -> String {
    let stage = Stage::set().await;
    stage.run("CREATE TYPE mood AS ENUM ('sad', 'glad')").await;
    stage.run("CREATE DOMAIN picture AS bytea").await;
    stage.run(&format!("CREATE TABLE v (value {column})")).await;
    stage.run("SELECT tidewire.watch('v')").await;
    stage.run(ODD_SETTINGS).await;
    stage.run(&format!("INSERT INTO v VALUES ({value})")).await;
    stage.caught_up().await;
    let image = "SELECT (after_data -> 'value')::text FROM tidewire.log WHERE operation = 'INSERT'";
    let image = stage.text(image).await;
    stage.strike().await;
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
