//! Someone who is trusted with the database sends it SQL: what comes back, what is refused, and where
//! it went wrong.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::{Answer, Http, Launch, Store, on_both_stores};

on_both_stores!(
    several_statements_are_one_transaction,
    values_come_back_with_every_digit,
    an_error_says_where_it_is,
    a_result_has_its_limits,
    what_a_request_leaves_behind_is_gone,
);

async fn sql(http: &Http, document: &Value) -> Answer {
    http.json(Method::POST, "/v1/sql", document).await
}

/// Runs SQL that must succeed.
async fn run(http: &Http, text: &str) -> Value {
    let answer = sql(http, &json!({ "sql": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{text}");
    answer.json()
}

/// I4: all of it is kept, or none.
async fn several_statements_are_one_transaction(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let made =
        run(http, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await;
    assert_eq!(made["row_count"], 2, "{made}");
    assert_eq!((&made["columns"], &made["rows"]), (&json!([]), &json!([])), "{made}");
    assert!(made["offset"].is_string(), "a write has its place: {made}");
    let text = "DELETE FROM t; INSERT INTO t VALUES (7), (7)";
    let problem = sql(http, &json!({ "sql": text })).await.problem(409, "sql_constraint");
    assert!(problem["detail"].as_str().expect("a text").contains("statement 2"), "{problem}");
    let read = run(http, "SELECT id, id AS id FROM t ORDER BY id").await;
    assert_eq!(read["rows"], json!([{ "id": 1, "id_2": 1 }, { "id": 2, "id_2": 2 }]));
    assert_eq!(read["columns"][1]["name"], "id_2");
    for text in ["BEGIN", "SELECT 1; COMMIT", "ROLLBACK"] {
        sql(http, &json!({ "sql": text })).await.problem(400, "sql_refused");
    }
}

/// As text: a parser of JSON might round them.
async fn values_come_back_with_every_digit(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let body = r#"{"sql": "SELECT CAST($1 AS BIGINT) AS big, CAST($2 AS TEXT) AS word, $3 AS none",
        "params": [9223372036854775807, "it's; 'fine'", null]}"#;
    let request = http.request(Method::POST, "/v1/sql").header("content-type", "application/json");
    let answer = Answer::of(request.body(body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let rows = r#""rows":[{"big":9223372036854775807,"word":"it's; 'fine'","none":null}]"#;
    assert!(answer.text().contains(rows), "{}", answer.text());
    let several = json!({ "sql": "SELECT 1; SELECT $1", "params": [1] });
    sql(http, &several).await.problem(400, "sql_params");
    for (text, params) in [("SELECT $1", json!([])), ("SELECT 1", json!([1]))] {
        sql(http, &json!({ "sql": text, "params": params })).await.problem(400, "sql_params");
    }
    if matches!(store, Store::Postgres { .. }) {
        types_of_postgres(http).await;
    }
}

/// Whatever a value's type, it comes back as `to_jsonb` writes it.
async fn types_of_postgres(http: &Http) {
    run(
        http,
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN price AS numeric(20, 4); \
        CREATE TYPE pair AS (a int, b text)",
    )
    .await;
    for (expression, canonical) in [
        ("12345678901234567890.10::numeric", None),
        ("'NaN'::numeric", None),
        ("1e20::float8", None),
        ("0.1::float4", None),
        ("'infinity'::float8", None),
        ("true", None),
        ("'2024-02-29 12:00:00.5+02'::timestamptz", None),
        ("'2024-02-29 12:00:00'::timestamp", None),
        ("'0044-03-15 12:00:00+00 BC'::timestamptz", None),
        ("'infinity'::timestamptz", None),
        ("'2024-02-29'::date", None),
        ("'12:00'::time", None),
        ("'1 day 2 hours'::interval", None),
        ("'a \"b\" \\ ü'::text", None),
        ("'{\"a\": [1, 2.50]}'::jsonb", None),
        ("'ok'::mood", None),
        ("'12.5'::price", None),
        ("ARRAY[1, NULL, 3]", None),
        ("ARRAY[['a,b', 'NULL'], ['\"', '']]", None),
        ("ARRAY['2024-02-29 12:00:00+00'::timestamptz]", None),
        ("ARRAY['ok'::mood]", None),
        ("ROW(1, 'x, \"y\"')::pair", None),
        ("ARRAY[ROW(1, NULL)::pair]", None),
        ("'8a2f0c9e-0000-4000-8000-000000000001'::uuid", None),
        ("'127.0.0.1'::inet", None),
        ("int4range(1, 5)", None),
        ("'\\x00ff'::bytea", Some("\"AP8=\"")),
    ] {
        let read =
            run(http, &format!("SELECT {expression} AS v, to_jsonb({expression})::text AS j"))
                .await;
        let text = canonical.unwrap_or_else(|| read["rows"][0]["j"].as_str().expect("a text"));
        let answer = sql(http, &json!({ "sql": format!("SELECT {expression} AS v") })).await;
        let rows = answer.text();
        let (_, rows) = rows.split_once(r#""rows":[{"v":"#).expect("rows");
        let (value, _) = rows.split_once(r#"}],"row_count""#).expect("the end");
        // Spaces between tokens do not count; digits do.
        let flat = |json: &str| json.replace(": ", ":").replace(", ", ",");
        assert_eq!(flat(value), flat(text), "{expression}");
    }
}

async fn an_error_says_where_it_is(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    for (text, position) in
        [("SELECT 'äöü' AS a; SELEKT 2", 20), ("SELECT nothing_of_that_name", 8)]
    {
        let problem = sql(http, &json!({ "sql": text })).await.problem(400, "sql_syntax");
        assert_eq!(problem["position"], position, "{text}: {problem}");
        assert!(problem["hint"].is_string(), "{problem}");
    }
    sql(http, &json!({ "sql": " -- nothing" })).await.problem(400, "sql_syntax");
    sql(http, &json!({ "statement": "SELECT 1" })).await.problem(400, "invalid_request");
    Answer::of(http.request(Method::GET, "/v1/sql")).await.problem(405, "method_not_allowed");
}

async fn a_result_has_its_limits(store: Store) {
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_SQL_ROWS_MAX", "2")
        .set("TIDEWIRE_SQL_BYTES_MAX", "100")
        .set("TIDEWIRE_SQL_TIMEOUT_MS", "300");
    let server = launch.start().await;
    let http = server.http();
    assert_eq!(run(http, "SELECT 1 UNION ALL SELECT 2").await["row_count"], 2);
    let three = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3";
    let problem = sql(http, &json!({ "sql": three })).await.problem(413, "sql_too_large");
    assert!(problem["hint"].is_string(), "{problem}");
    let long = format!("SELECT '{}'", "x".repeat(100));
    sql(http, &json!({ "sql": long })).await.problem(413, "sql_too_large");
    let endless =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) FROM c";
    sql(http, &json!({ "sql": endless })).await.problem(504, "sql_timeout");
    assert_eq!(run(http, "SELECT 1 AS one").await["rows"], json!([{ "one": 1 }]), "it goes on");
}

/// Nobody finds what another's request has left in the session.
async fn what_a_request_leaves_behind_is_gone(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_POSTGRES_SQL_CONNECTIONS", "1").start().await;
    let http = server.http();
    run(http, "CREATE TABLE kept (id INTEGER)").await;
    if matches!(store, Store::Postgres { .. }) {
        run(
            http,
            "CREATE TEMPORARY TABLE passing (id int); SELECT set_config('search_path', 'x', false)",
        )
        .await;
        sql(http, &json!({ "sql": "SELECT * FROM passing" })).await.problem(400, "sql_syntax");
        run(http, "PREPARE p AS SELECT 1").await;
        sql(http, &json!({ "sql": "EXECUTE p" })).await;
        for _ in 0..3 {
            let with_params = json!({ "sql": "SELECT $1::int / $2::int AS q", "params": [1, 0] });
            sql(http, &with_params).await.problem(400, "sql_failed");
        }
        let zone = run(http, "SET TimeZone = 'Asia/Tokyo'; SELECT 1").await;
        assert_eq!(zone["row_count"], 1);
        assert_eq!(run(http, "SHOW TimeZone").await["rows"][0]["TimeZone"], "UTC");
    }
    run(http, "SELECT * FROM kept").await;
}
