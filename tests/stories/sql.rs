//! Someone who is trusted with the database sends it SQL: what comes back, what is refused, and where
//! it went wrong.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::watch;
use tidewire_stories::{Answer, Http, Launch, Store, on_both_stores};

on_both_stores!(
    several_statements_are_one_transaction,
    values_come_back_with_every_digit,
    an_error_says_where_it_is,
    a_result_has_its_limits,
    what_a_request_leaves_behind_is_gone,
    mistakes_with_parameters_are_told,
);

mod on_postgres_alone {
    /// I4: whatever a request sets, a value that it answers has the one form, or there is no answer.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_setting_changes_the_form_of_a_value() {
        super::no_setting_changes_the_form_of_a_value(super::Store::postgres().await).await;
    }
}

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

async fn no_setting_changes_the_form_of_a_value(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    let types = "CREATE TYPE span AS (since timestamptz, word text); CREATE DOMAIN day AS date; \
        CREATE TYPE days AS RANGE (subtype = date); CREATE TABLE kept (id int)";
    run(http, types).await;
    let moment = "'2024-02-29 23:30:00+00'::timestamptz";
    let styled = [
        ("DateStyle = 'German, DMY'", "'2024-02-29'::date".to_owned()),
        ("DateStyle = 'SQL'", "'2024-02-29'::day".to_owned()),
        ("DateStyle = 'Postgres'", "'2024-02-29 12:00'::timestamp".to_owned()),
        ("DateStyle = 'German'", "daterange('2024-02-28', '2024-02-29')".to_owned()),
        ("DateStyle = 'German'", "'[2024-02-28,2024-02-29)'::days".to_owned()),
        ("TimeZone = 'Asia/Tokyo'", moment.to_owned()),
        ("TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", moment.to_owned()),
        ("TimeZone = 'Asia/Tokyo'", format!("ARRAY[{moment}]")),
        ("TimeZone = 'Asia/Tokyo'", format!("tstzrange({moment}, NULL)")),
        ("TimeZone = 'Asia/Tokyo'", format!("ROW({moment}, 'x')::span")),
        ("TimeZone = 'Asia/Tokyo'", format!("ROW({moment}, 'x')")),
        ("IntervalStyle = 'iso_8601'", "'1 day 2 hours'::interval".to_owned()),
        ("extra_float_digits = -10", "0.1::float8 + 0.2::float8".to_owned()),
        ("extra_float_digits = 0", "point(0.1, 0.2)".to_owned()),
        ("bytea_output = 'escape'", "'\\x00ff'::bytea".to_owned()),
        ("client_encoding = 'LATIN1'", "chr(228)".to_owned()),
        ("client_encoding = 'LATIN1'", "chr(195) || chr(164)".to_owned()),
    ];
    for (setting, value) in &styled {
        let plain = run(http, &format!("SELECT {value} AS v")).await["rows"].clone();
        let scope = ["SET", "SET LOCAL"];
        for set in scope {
            let text = format!("INSERT INTO kept VALUES (1); {set} {setting}; SELECT {value} AS v");
            let problem = sql(http, &json!({ "sql": text })).await.problem(400, "sql_refused");
            let name =
                setting.split([' ', '=']).next().expect("a name").replace("TIME", "TimeZone");
            let said = problem["detail"].as_str().expect("a text");
            assert!(said.contains(&name), "{text}: {said}");
        }
        // What is set beside what is answered, and in a function.
        if let Some((name, word)) = setting.split_once(" = ") {
            let word = word.trim_matches('\'');
            let beside = format!("SELECT {value} AS v, set_config('{name}', '{word}', true)");
            sql(http, &json!({ "sql": beside })).await.problem(400, "sql_refused");
            let body = format!(
                "CREATE OR REPLACE FUNCTION f() RETURNS int SET {name} = '{word}' \
                LANGUAGE sql AS 'SELECT 1'; SELECT {value} AS v, f()"
            );
            assert_eq!(run(http, &body).await["rows"][0]["v"], plain[0]["v"], "{setting}");
        }
        // It is the next request's business no more than that of a value of which it says nothing.
        assert_eq!(run(http, &format!("SELECT {value} AS v")).await["rows"], plain, "{setting}");
        if !setting.starts_with("client") {
            let text =
                format!("SET {setting}; SELECT 1 AS v, true AS w, '{{\"a\": 1}}'::jsonb AS j");
            let row = json!({ "v": 1, "w": true, "j": { "a": 1 } });
            assert_eq!(run(http, &text).await["rows"], json!([row]), "{text}");
        }
    }
    // It holds for what is computed.
    let text =
        format!("SET TIME ZONE 'Asia/Tokyo'; SELECT to_char({moment}, 'YYYY-MM-DD HH24') AS v");
    assert_eq!(run(http, &text).await["rows"][0]["v"], "2024-03-01 08");
    let text = format!(
        "SET TimeZone = 'Asia/Tokyo'; CREATE TABLE d AS SELECT {moment}::date AS v; \
        SET TimeZone = 'UTC'; SELECT v, {moment} AS m FROM d"
    );
    let row = json!({ "v": "2024-03-01", "m": "2024-02-29T23:30:00+00:00" });
    assert_eq!(run(http, &text).await["rows"], json!([row]));
    let kept = run(http, "SELECT count(*) AS v FROM kept").await;
    assert_eq!(kept["rows"][0]["v"], 0, "what is refused is undone");
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

/// By statements and by live queries.
async fn mistakes_with_parameters_are_told(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)").await;
    watch(http, &json!({ "table": "orders" })).await;
    let mistakes: &[(&str, Value, &[&str])] = match store {
        Store::Sqlite { .. } => &[
            (
                "SELECT id FROM orders WHERE id = ANY($1)",
                json!([[1]]),
                &["json_each($1)", "IN ($1, $2)"],
            ),
            ("SELECT id FROM orders WHERE id <> ALL($1)", json!([[1]]), &["json_each($1)"]),
        ],
        Store::Postgres { .. } => &[
            ("SELECT id FROM orders WHERE id = ?", json!([1]), &["$1, $2 on PostgreSQL, not ?"]),
            ("SELECT id FROM orders WHERE id = ?1", json!([1]), &["$1, $2 on PostgreSQL, not ?"]),
            ("SELECT id FROM orders WHERE id = $1", json!(["ann"]), &["$1 is a string"]),
            ("SELECT id FROM orders WHERE id = $1", json!([{ "a": 1 }]), &["$1 is an object"]),
            (
                "SELECT id FROM orders WHERE name = 'x' AND id = $1",
                json!([[7]]),
                &["$1 is an array"],
            ),
        ],
    };
    for (select, params, hints) in mistakes {
        for text in [(*select).to_owned(), format!("EXPLAIN LIVE {select}")] {
            let answer = sql(http, &json!({ "sql": text, "params": params })).await;
            assert_eq!(answer.status, 400, "{text}: {}", answer.text());
            let hint = answer.json()["hint"].as_str().expect("a hint").to_owned();
            for part in *hints {
                assert!(hint.contains(part), "{text}: {part:?} is not in {hint:?}");
            }
        }
    }
    for (text, params) in
        [("SELECT id FROM orders WHERE id = $2", json!([1])), ("SELECT id FROM orders", json!([1]))]
    {
        let text = format!("EXPLAIN LIVE {text}");
        let problem = sql(http, &json!({ "sql": text, "params": params })).await;
        let problem = problem.problem(400, "query_parameter");
        assert!(
            problem["hint"].as_str().expect("a hint").contains("a value for each"),
            "{problem}"
        );
    }
    if let Store::Postgres { .. } = store {
        // A value stands in a live query as what it is.
        let text = "EXPLAIN LIVE SELECT id FROM orders WHERE name = $1";
        let problem = sql(http, &json!({ "sql": text, "params": [5] })).await;
        let problem = problem.problem(400, "sql_syntax");
        assert!(problem["hint"].as_str().expect("a hint").contains("$1::text"), "{problem}");
        let insert = "INSERT INTO orders (name, id) VALUES ($1, $2)";
        let problem = sql(http, &json!({ "sql": insert, "params": ["x", 1.5] })).await;
        let problem = problem.problem(400, "sql_failed");
        let hint = problem["hint"].as_str().expect("a hint");
        assert!(hint.contains("$2 is a number") && hint.contains("int4"), "{problem}");
    }
    // What the hint says works.
    if let Store::Sqlite { .. } = store {
        run(http, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')").await;
        let select = "SELECT id FROM orders WHERE id IN (SELECT value FROM json_each($1))";
        let read = sql(http, &json!({ "sql": select, "params": [[2, 3]] })).await.json();
        assert_eq!(read["rows"], json!([{ "id": 2 }]));
        let explained = json!({ "sql": format!("EXPLAIN LIVE {select}"), "params": [[2, 3]] });
        assert_eq!(sql(http, &explained).await.status, 200);
    }
}
