//! Someone who may read a table sends what takes a database long, or for ever: others are served meanwhile,
//! and nothing is left out (I5, I9).

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Launch, Metrics, QueryTab, Server, Store, WebSocket, on_both_stores};

use crate::table_subscriptions::connect;

on_both_stores!(
    endless_queries_of_one_key_hold_up_nobody_else,
    endless_statements_of_one_key_hold_up_nobody_else,
    what_is_searched_and_looked_for_is_bounded,
    a_long_text_is_searched_apart_and_nothing_is_left_out,
    one_caller_has_so_many_patterns_on_a_table,
);

const KEY: &str = "story-5d20b7ce91f84a63";
/// Far more than there are places of any kind.
const ENDLESS: usize = 12;

async fn notes(server: &Server) {
    run(server.http(), "CREATE TABLE notes (id INTEGER PRIMARY KEY, owner TEXT, text TEXT)").await;
    watch(server.http(), &json!({ "table": "notes" })).await;
    run(server.http(), "INSERT INTO notes VALUES (1, 'ann', 'tea'), (2, 'bob', 'a')").await;
}

async fn reader(server: &Server, can: &[&str]) -> Http {
    let scopes = json!({ "tables": ["notes"], "can": can });
    server.http().holder(&server.http().make_key(&scopes).await)
}

/// That nothing is answered of what a client asked for. It is asked after others have got their answers, so
/// it is no matter of time.
async fn has_no_answer(socket: &mut WebSocket) {
    socket.say(&json!({ "type": "ping" })).await;
    loop {
        let next = socket.next().await;
        match next["type"].as_str() {
            Some("pong") => return,
            Some("progress") => {}
            _ => panic!("the endless queries are not at work any more: {next}"),
        }
    }
}

/// A SELECT that comes to no end. On PostgreSQL one that fills no disk.
fn endless(store: &Store, number: usize) -> String {
    match store {
        Store::Postgres { .. } => format!(
            "SELECT count(*) + {number} AS n FROM notes, generate_series(1, 1000000) AS a, \
             generate_series(1, 1000000) AS b WHERE notes.id = 1"
        ),
        Store::Sqlite { .. } => format!(
            "WITH RECURSIVE n(x) AS (SELECT {number} UNION ALL SELECT x + 1 FROM n) \
             SELECT max(x) AS m FROM n, notes WHERE notes.id = 1"
        ),
    }
}

/// Ends what the server was stopped amid: PostgreSQL would go on with it.
async fn end_all(store: &Store, server: Server) {
    if matches!(store, Store::Postgres { .. }) {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%generate_series%'";
        run(server.http(), end).await;
    }
    server.kill();
}

async fn endless_queries_of_one_key_hold_up_nobody_else(store: Store) {
    let server = Launch::serve(&store, KEY)
        .set("TIDEWIRE_QUERIES_TIMEOUT_MS", "120000")
        .set("TIDEWIRE_QUERIES_COST_MAX", "0")
        .start()
        .await;
    notes(&server).await;
    let (greedy, other) = (reader(&server, &["read"]).await, reader(&server, &["read"]).await);
    let mut working = connect(&greedy).await;
    let subscription =
        |number: usize| json!({ "query_id": number.to_string(), "sql": endless(&store, number) });
    let subscriptions: Vec<Value> = (0..ENDLESS).map(subscription).collect();
    working.say(&json!({ "type": "subscribe", "subscriptions": subscriptions })).await;
    has_no_answer(&mut working).await;
    for round in 0..3 {
        let mut tab = QueryTab::open(&other).await;
        let plain =
            json!({ "query_id": "plain", "sql": "SELECT id FROM notes WHERE owner = 'ann'" });
        tab.follow(&plain).await;
        let again = "SELECT upper(text) AS t FROM notes WHERE id = 1";
        tab.follow(&json!({ "query_id": "again", "sql": again })).await;
        let text = format!("tea-{round}");
        run(server.http(), &format!("UPDATE notes SET text = '{text}' WHERE id = 1")).await;
        tab.until("again", &[json!({ "t": text.to_uppercase() })]).await;
        has_no_answer(&mut working).await;
    }
    end_all(&store, server).await;
}

async fn endless_statements_of_one_key_hold_up_nobody_else(store: Store) {
    let server = Launch::serve(&store, KEY).set("TIDEWIRE_SQL_TIMEOUT_MS", "120000").start().await;
    notes(&server).await;
    let greedy = reader(&server, &["read", "sql"]).await;
    let other = reader(&server, &["read", "sql"]).await;
    let mut working = tokio::task::JoinSet::new();
    for number in 0..ENDLESS {
        let (greedy, sql) = (greedy.clone(), endless(&store, number));
        working.spawn(async move {
            greedy.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await.status
        });
    }
    for _ in 0..5 {
        let rows = run(&other, "SELECT id FROM notes ORDER BY id").await;
        assert_eq!(rows["row_count"], 2, "{rows}");
        let mut tab = QueryTab::open(&other).await;
        let sql = "SELECT upper(text) AS t FROM notes WHERE id = 1";
        tab.follow(&json!({ "query_id": "q", "sql": sql })).await;
    }
    assert!(working.try_join_next().is_none(), "the endless statements are not at work any more");
    working.abort_all();
    end_all(&store, server).await;
}

/// What a query answers with: its rows, or the code of the error.
async fn ask(tab: &mut QueryTab, number: usize, sql: &str) -> Result<Value, String> {
    let error = |error: Value| error["code"].as_str().unwrap_or_default().to_owned();
    ask_why(tab, number, sql).await.map_err(error)
}

/// The same, with the whole error.
async fn ask_why(tab: &mut QueryTab, number: usize, sql: &str) -> Result<Value, Value> {
    let query_id = format!("q{number}");
    tab.ask(&[json!({ "query_id": query_id, "sql": sql })]).await;
    loop {
        let message = tab.hear().await;
        if message["query_id"] == query_id.as_str() && message["type"] == "error" {
            return Err(message);
        }
        let entry = &message["subscriptions"][0];
        if entry["query_id"] == query_id.as_str() {
            return Ok(entry["initial_results"].clone());
        }
    }
}

async fn what_is_searched_and_looked_for_is_bounded(store: Store) {
    let is_postgres = matches!(store, Store::Postgres { .. });
    let server = Launch::serve(&store, KEY).start().await;
    notes(&server).await;
    let http = reader(&server, &["read"]).await;
    let mut tab = QueryTab::open(&http).await;
    // 2^21 characters of what was one.
    let long = "WITH RECURSIVE d(x) AS (SELECT text FROM notes WHERE id = 2 UNION ALL \
                SELECT x || x FROM d WHERE length(x) < 2000000) SELECT";
    let wild = "%a".repeat(150);
    let mut refused = vec![
        format!("SELECT id FROM notes WHERE text LIKE '{wild}'"),
        format!("SELECT replace(text, '{wild}', '') AS t FROM notes"),
        format!("{long} count(*) AS n FROM d WHERE x LIKE '%b%'"),
        format!("{long} count(*) AS n FROM d WHERE replace(x, 'b', 'c') = 'd'"),
        format!("{long} count(*) AS n FROM d WHERE ltrim(x, 'ba') = 'd'"),
        format!("{long} count(*) AS n FROM d, notes WHERE notes.text LIKE d.x"),
        format!("{long} count(*) AS n FROM d, notes WHERE replace(notes.text, d.x, '') = 'd'"),
    ];
    if is_postgres {
        refused.extend([
            format!("{long} max(strpos(x, 'b')) AS n FROM d"),
            format!("{long} max(position(x IN 'b')) AS n FROM d"),
            format!("{long} max(length(translate(x, 'a', 'b'))) AS n FROM d"),
            format!("{long} count(*) AS n FROM d WHERE btrim('a', x) = 'b' OR x ~ 'b'"),
            format!("{long} max(cardinality(string_to_array(x, 'b'))) AS n FROM d"),
            format!("{long} count(*) AS n FROM d WHERE string_to_array(left(x, 1000000), NULL) && string_to_array('b,c', ',')"),
            format!("SELECT strpos(string_agg(x, ''), 'b') AS n FROM ({long} x FROM d) AS q"),
        ]);
    }
    for (number, sql) in refused.iter().enumerate() {
        let answer = ask(&mut tab, number, sql).await;
        assert_eq!(answer, Err("predicate_too_large".to_owned()), "{sql}");
    }
    let none = "SELECT id FROM notes WHERE id = 1 AND";
    let mut taken = vec![
        (format!("{none} text || owner LIKE '%' || owner"), json!([{ "id": 1 }])),
        (format!("{none} replace(text || '-', '-', owner) = 'teaann'"), json!([{ "id": 1 }])),
        (
            format!("{none} lower(text) LIKE 't%' AND text NOT LIKE owner || '%'"),
            json!([{ "id": 1 }]),
        ),
        (
            "SELECT owner || '!' AS o, count(*) AS n FROM notes WHERE id = 1 GROUP BY owner || '!'"
                .to_owned(),
            json!([{ "o": "ann!", "n": 1 }]),
        ),
        // A text of 500,000 characters is not cut off anywhere.
        (
            format!(
                "{} max(length(replace(x, 'a', 'bb'))) AS n FROM d",
                long.replace("2000000", "500000")
            ),
            json!([{ "n": 1 << 20 }]),
        ),
    ];
    if is_postgres {
        taken.extend([
            (
                "SELECT strpos(text || owner, 'ann') AS n FROM notes WHERE id = 1".to_owned(),
                json!([{ "n": 4 }]),
            ),
            (
                "SELECT replace(string_agg(text, '+' ORDER BY id), '+', '-') AS t FROM notes"
                    .to_owned(),
                json!([{ "t": "tea-a" }]),
            ),
            (
                "SELECT replace(text || 'x', 'x', 'y') AS t FROM notes WHERE id = 1 \
              GROUP BY replace(text || 'x', 'x', 'y') ORDER BY replace(text || 'x', 'x', 'y')"
                    .to_owned(),
                json!([{ "t": "teay" }]),
            ),
            (
                format!("{none} string_to_array(text || ',b', ',') && ARRAY['b']"),
                json!([{ "id": 1 }]),
            ),
            (format!("{none} (text || '  ') LIKE 'tea  '"), json!([{ "id": 1 }])),
            (
                format!("{none} trim(BOTH owner FROM text || 'n') ~ ('^t' || 'e$')"),
                json!([{ "id": 1 }]),
            ),
        ]);
    }
    for (number, (sql, expected)) in taken.into_iter().enumerate() {
        assert_eq!(ask(&mut tab, 100 + number, &sql).await, Ok(expected), "{sql}");
    }
}

/// Each limit of what grows is reached in PostgreSQL, and the error says which; up to it all is answered.
#[tokio::test(flavor = "multi_thread")]
async fn what_grows_is_bounded_and_the_error_says_by_what() {
    const VALUE: &str = "a computed value has more than 1 MiB";
    const NUMBER: &str = "a computed number has more than about a thousand digits";
    const GATHERED: &str = "aggregates have gathered more than 64 MiB";
    const PATTERN: &str = "a computed pattern has more than 256 characters";
    const MANY: &str = "more than 200 values are computed";
    const TEXT: &str = "a computed text has more than 1,048,576 characters";
    let store = Store::postgres().await;
    let server = Launch::serve(&store, KEY)
        .set("TIDEWIRE_QUERIES_TIMEOUT_MS", "60000")
        .set("TIDEWIRE_QUERIES_COST_MAX", "0")
        .start()
        .await;
    notes(&server).await;
    let mib = "INSERT INTO notes SELECT 3, 'cem', repeat('x', 1048576)";
    run(server.http(), mib).await;
    run(server.http(), "ALTER TABLE notes ADD COLUMN path jsonpath").await;
    let paths = "UPDATE notes SET path = ('$ ? (@ like_regex \"^t' || repeat('e*', id * 60) || '\")')::jsonpath";
    run(server.http(), paths).await;
    let http = reader(&server, &["read"]).await;
    let mut tab = QueryTab::open(&http).await;
    // What was one character, doubled up to a length.
    let doubled = |first: &str, chars: usize| {
        format!(
            "WITH RECURSIVE d(x) AS (SELECT {first} FROM notes WHERE id = 2 UNION ALL \
             SELECT x || x FROM d WHERE length(x) < {chars}) SELECT"
        )
    };
    let (half, digits) = (doubled("text", 500_000), |chars| doubled("length(text)::text", chars));
    // So many texts of half a MiB.
    let times =
        |count: usize| format!("FROM d, generate_series(1, {count}) AS g WHERE length(x) > 500000");
    let many = |call: &str, count: usize| vec![format!("length({call})"); count].join(" + ");
    let concat = format!("concat({})", ["text"; 16].join(", "));
    let chain = ["text"; 8].join(" || ");
    let cases = [
        (format!("{half} json_array_length(json_agg(x)) AS n {}", times(200)), Err(GATHERED)),
        (format!("{half} json_array_length(json_agg(left(x, 1000))) AS n {}", times(200)), Ok(200)),
        (
            format!(
                "{half} max(cardinality(a)) AS n FROM (SELECT array_agg(x) OVER () AS a {}) AS q",
                times(200)
            ),
            Err(GATHERED),
        ),
        (
            format!(
                "{half} max(cardinality(a)) AS n FROM (SELECT array_agg(left(x, 9)) OVER () AS a {}) AS q",
                times(9)
            ),
            Ok(9),
        ),
        (
            format!("{half} max(jsonb_array_length(jsonb_build_array(x, x))) AS n FROM d"),
            Err(VALUE),
        ),
        (format!("{half} max(jsonb_array_length(jsonb_build_array(x, 1))) AS n FROM d"), Ok(2)),
        (
            "SELECT scale(power(2.5, 9000 + id)) AS n FROM notes WHERE id = 1".to_owned(),
            Err(NUMBER),
        ),
        ("SELECT sign(power(2.5, 9 + id)) AS n FROM notes WHERE id = 1".to_owned(), Ok(1)),
        (format!("{} sign(max(x::numeric)) AS n FROM d", digits(5_000)), Err(NUMBER)),
        (format!("{} sign(max(x::numeric)) AS n FROM d", digits(500)), Ok(1)),
        // A path as it is stored: of 137 characters, and of 377.
        (
            "SELECT id AS n FROM notes WHERE id = 1 AND jsonb_path_exists(to_jsonb(text), path)"
                .to_owned(),
            Ok(1),
        ),
        ("SELECT id AS n FROM notes WHERE id = 1 AND to_jsonb(text) @? path".to_owned(), Ok(1)),
        (
            "SELECT id AS n FROM notes WHERE id = 3 AND to_jsonb(owner) @? path".to_owned(),
            Err(PATTERN),
        ),
        // A stored text in very many places of a row.
        (format!("SELECT {} AS n FROM notes WHERE id = 3", many(&concat, 50)), Err(TEXT)),
        (format!("SELECT {} AS n FROM notes WHERE id = 3", many(&chain, 20)), Err(TEXT)),
        (format!("SELECT {} AS n FROM notes WHERE id = 3", many(&chain, 100)), Err(MANY)),
        (format!("SELECT {} AS n FROM notes WHERE id = 3", many(&concat, 4)), Ok(64 << 20)),
        (format!("SELECT {} AS n FROM notes WHERE id = 1", many(&concat, 50)), Ok(50 * 16 * 3)),
    ];
    for (number, (sql, expected)) in cases.into_iter().enumerate() {
        let shown: String = sql.chars().take(300).collect();
        match (ask_why(&mut tab, number, &sql).await, expected) {
            (Ok(rows), Ok(expected)) => {
                let n = &rows[0]["n"];
                let n = n.as_i64().or_else(|| n.as_str()?.parse().ok());
                assert_eq!(n, Some(expected), "{shown}");
            }
            (Err(error), Err(expected)) => {
                assert_eq!(error["code"], "predicate_too_large", "{shown}: {error}");
                assert!(error.to_string().contains(expected), "{shown}: {error}");
            }
            (answer, _) => panic!("{shown}: {answer:?}"),
        }
    }
}

/// Texts of more than 64 KiB are told as `notify` when they are pushed, and of a query only the id is asked.
async fn a_long_text_is_searched_apart_and_nothing_is_left_out(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    notes(&server).await;
    let mut socket = connect(http).await;
    let rows = json!({ "query_id": "rows", "table": "notes", "where": "text LIKE '%needle%'" });
    socket.subscribe(&rows).await;
    let mut tab = QueryTab::open(http).await;
    let sql = "SELECT id FROM notes WHERE text LIKE '%needle%'";
    let count = "SELECT count(*) AS n FROM notes WHERE text LIKE '%needle%'";
    assert_eq!(tab.follow(&json!({ "query_id": "filter", "sql": sql })).await["plan"], "filter");
    assert_eq!(
        tab.follow(&json!({ "query_id": "count", "sql": count })).await["plan"],
        "aggregate"
    );
    let catch_ups = async || Metrics::read(http).await.get("live_catch_ups_total");
    let before = catch_ups().await;
    let long = "hay ".repeat(30_000);
    for (id, text) in [
        (10, "a needle".to_owned()),
        (11, long.clone()),
        (12, format!("{long} needle")),
        (13, "hay".to_owned()),
        (14, "needles".to_owned()),
    ] {
        run(http, &format!("INSERT INTO notes VALUES ({id}, 'ann', '{text}')")).await;
    }
    run(http, "UPDATE notes SET text = 'short' WHERE id = 12").await;
    run(http, "INSERT INTO notes VALUES (15, 'ann', 'the last needle')").await;
    let mut seen = Vec::new();
    while seen.last() != Some(&json!(["INSERT", 15])) {
        let message = socket.next().await;
        match message["type"].as_str() {
            Some("notify") => seen.push(json!(["notify"])),
            Some("cdc_event") => {
                seen.push(json!([message["operation"], message["data"]["id"]]));
            }
            _ => {}
        }
    }
    let expected = [
        json!(["INSERT", 10]),
        json!(["notify"]),
        json!(["INSERT", 14]),
        json!(["notify"]),
        json!(["INSERT", 15]),
    ];
    assert_eq!(seen, expected);
    // Those that wait for others' events did not wait for the search: the store was read for this one apart.
    assert!(catch_ups().await > before, "a long text was searched where others wait");
    tab.until_as_run(http, "filter", sql, false).await;
    tab.until_as_run(http, "count", count, false).await;
}

async fn one_caller_has_so_many_patterns_on_a_table(store: Store) {
    let server = Launch::serve(&store, KEY).set("TIDEWIRE_QUERIES_PATTERNS_MAX", "3").start().await;
    notes(&server).await;
    let (http, other) = (reader(&server, &["read"]).await, reader(&server, &["read"]).await);
    let mut socket = connect(&http).await;
    let of = |query_id: &str, condition: &str| json!({ "query_id": query_id, "table": "notes", "where": condition });
    socket.subscribe(&of("two", "text LIKE 'a%' OR text LIKE 'b%'")).await;
    let mut tab = QueryTab::open(&http).await;
    let sql = "SELECT id FROM notes WHERE text LIKE 'c%'";
    tab.follow(&json!({ "query_id": "third", "sql": sql })).await;
    // No more, by whichever way; but one that a value tells apart, and another's.
    socket
        .say(&json!({ "type": "subscribe", "subscriptions": [of("more", "text LIKE 'd%'")] }))
        .await;
    assert_eq!(socket.hears("error").await["code"], "too_many_patterns");
    assert_eq!(
        ask(&mut tab, 1, "SELECT id FROM notes WHERE text LIKE 'e%'").await,
        Err("too_many_patterns".to_owned())
    );
    let path = "/v1/stream/table/notes?offset=-1&live=sse&where=text%20LIKE%20%27d%25%27";
    http.get(path).await.problem(429, "too_many_patterns");
    assert!(ask(&mut tab, 2, "SELECT id FROM notes WHERE text LIKE 'e%' AND id = 1").await.is_ok());
    connect(&other).await.subscribe(&of("theirs", "text LIKE 'd%'")).await;
    // Those that are given up leave room.
    socket.say(&json!({ "type": "unsubscribe", "query_ids": ["two"] })).await;
    socket.hears("subscription_ended").await;
    socket.subscribe(&of("more", "text LIKE 'd%'")).await;
}

/// PostgreSQL does not stop in the middle of this, whatever it is told: the place is not given to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_cannot_be_stopped_keeps_its_place() {
    let store = Store::postgres().await;
    let server = Launch::serve(&store, KEY)
        .set("TIDEWIRE_SQL_TIMEOUT_MS", "300")
        .set("TIDEWIRE_POSTGRES_SQL_CONNECTIONS", "3")
        .set("TIDEWIRE_POSTGRES_CONNECT_TIMEOUT_MS", "1500")
        .start()
        .await;
    notes(&server).await;
    let greedy = reader(&server, &["read", "sql"]).await;
    let sql = "SELECT string_to_array(repeat('a,', 40000), ',') && string_to_array(repeat('b,', 40000), ',') AS unstoppable";
    for _ in 0..4 {
        let answer = greedy.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await;
        assert_ne!(answer.status, 200, "{}", answer.text());
    }
    let running = "SELECT count(*) AS n FROM pg_stat_activity WHERE state = 'active' \
                   AND query LIKE '%AS unstoppable' AND pid <> pg_backend_pid()";
    let running = run(server.http(), running).await["rows"][0]["n"].clone();
    assert_eq!(running, 2, "its share of the places, and no more");
    server.kill();
}
