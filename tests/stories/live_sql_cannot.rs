//! What live SQL cannot do, tried one by one with a key that may see little (I6, I9): write, call what
//! reaches past the tables, read another table, a hidden column or a hidden row, or learn of them by an
//! error or by the time that an index takes.

use serde_json::{Value, json};
use tidewire_stories::{Http, Launch, Store, WebSocket, eventually, on_both_stores};

use crate::table_subscriptions::{connect, orders, run};

on_both_stores!(
    live_sql_cannot_write_or_reach_past_the_tables,
    live_sql_cannot_name_what_is_hidden,
    live_sql_cannot_learn_of_hidden_rows,
    live_sql_is_told_of_changes_that_it_may_see,
);

const KEY: &str = "story-2c7d95e01ab84f36";
/// Parts of everything that the key must never get to see.
const HIDDEN: [&str; 3] = ["hush", "rich", "o-ann"];

/// Attempts at more than reading, in both dialects.
const ATTEMPTS: &[&str] = &[
    "INSERT INTO orders (id) VALUES (9)",
    "UPDATE orders SET total = 1",
    "DELETE FROM orders",
    "DROP TABLE orders",
    "CREATE TABLE mine (a INTEGER)",
    "SELECT id FROM orders; DELETE FROM orders",
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
    "WITH made AS (INSERT INTO orders (id) VALUES (9) RETURNING id) SELECT id FROM made",
    "SELECT id INTO mine FROM orders",
    "SELECT id FROM orders FOR UPDATE",
    "EXPLAIN SELECT id FROM orders",
    "SELECT load_extension('evil')",
    "SELECT readfile('key') AS a FROM orders",
    "SELECT random() AS a FROM orders",
    "SELECT * FROM hidden",
    "SELECT o.id FROM orders AS o JOIN hidden AS h ON h.id = o.id",
    "SELECT id FROM orders WHERE id IN (SELECT id FROM hidden)",
    "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM hidden)",
    "SELECT (SELECT count(*) FROM hidden) AS n FROM orders",
    "WITH h AS (SELECT * FROM hidden) SELECT id FROM h",
    "SELECT id FROM orders UNION SELECT id FROM hidden",
    "SELECT * FROM unwatched",
    "SELECT * FROM nothing",
];

const OF_POSTGRES: &[&str] = &[
    "SELECT query_to_xml('SELECT secret FROM orders', true, false, '') AS a",
    "SELECT id FROM orders WHERE query_to_xml('DELETE FROM orders', true, false, '') IS NULL",
    "SELECT table_to_xml('orders', true, false, '') AS a",
    "SELECT pg_advisory_lock(4711) AS a",
    "SELECT pg_try_advisory_lock(4711) AS a FROM orders",
    "SELECT set_config('role', 'postgres', false) AS a",
    "SELECT current_setting('data_directory') AS a",
    "SELECT pg_read_file('postgresql.conf') AS a",
    "SELECT pg_ls_dir('.') AS a",
    "SELECT pg_sleep(60) AS a",
    "SELECT id FROM orders WHERE pg_sleep(60) IS NULL",
    "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t(a int)",
    "SELECT lo_import('x') AS a",
    "SELECT nextval('s') AS a",
    "SELECT pg_terminate_backend(1) AS a",
    "SELECT * FROM pg_catalog.pg_authid",
    "SELECT * FROM pg_class",
    "SELECT relname FROM pg_catalog.pg_class",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM tidewire.log",
    "SELECT * FROM tidewire.api_keys",
    "SELECT 'orders'::regclass AS a",
    "SELECT id FROM public.hidden",
    "TABLE hidden",
    "SELECT id FROM ONLY hidden",
    "COPY orders TO PROGRAM 'true'",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "SET ROLE postgres",
    "SELECT pg_catalog.pg_sleep(60) AS a",
    "SELECT \"pg_sleep\"(60) AS a",
    "SELECT id FROM orders OPERATOR(pg_catalog.=) 1",
    "SELECT id FROM orders WHERE id OPERATOR(pg_catalog.=) 1",
    "SELECT U&'\\0061' AS a",
];

const OF_SQLITE: &[&str] = &[
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM log",
    "SELECT * FROM tidewire_api_keys",
    "SELECT * FROM main.log",
    "SELECT * FROM pragma_table_info('orders')",
    "PRAGMA table_info(orders)",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'copy.db'",
    "SELECT writefile('x', 'y') AS a",
    "SELECT * FROM dbstat",
];

/// Attempts to name a column that may not be seen, with `{}` for it.
const NAMING: &[&str] = &[
    "SELECT {} FROM orders",
    "SELECT o.{} FROM orders AS o",
    "SELECT id FROM orders WHERE {} IS NOT NULL",
    "SELECT id FROM orders ORDER BY {}",
    "SELECT id FROM orders ORDER BY {} LIMIT 1",
    "SELECT count({}) AS n FROM orders",
    "SELECT {}, count(*) AS n FROM orders GROUP BY {}",
    "SELECT count(*) AS n FROM orders HAVING max({}) > 'a'",
    "SELECT a.id FROM orders AS a JOIN orders AS b USING ({})",
    "SELECT a.id FROM orders AS a JOIN orders AS b ON a.{} = b.{}",
    "SELECT id FROM orders WHERE id IN (SELECT id FROM orders WHERE {} = 'a')",
    "SELECT (SELECT max({}) FROM orders) AS m",
    "WITH o AS (SELECT {} FROM orders) SELECT * FROM o",
    "SELECT rank() OVER (ORDER BY {}) AS r FROM orders",
    "SELECT CASE WHEN {} = 'a' THEN 1 END AS a FROM orders",
];

/// A key that sees two columns of cheap orders.
async fn narrow(server: &tidewire_stories::Server) -> Http {
    let admin = server.http();
    orders(admin).await;
    for table in ["hidden", "unwatched"] {
        run(admin, &format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, word TEXT)")).await;
        run(admin, &format!("INSERT INTO {table} VALUES (1, 'hush-0')")).await;
    }
    let watch = json!({ "table": "hidden" });
    let answer = admin.json(reqwest::Method::POST, "/v1/watch", &watch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let rows = "INSERT INTO orders VALUES (1, 'o-ann', '7', 1, 'hush-1'), (2, 'o-ann', 'rich-2', 200, 'hush-2'), \
                (3, 'o-ann', '8', 3, 'hush-3')";
    run(admin, rows).await;
    let scopes = json!({
        "tables": ["orders"], "can": ["read"], "columns": { "orders": ["id", "status"] },
        "rows": { "orders": "total < 100" },
    });
    admin.holder(&admin.make_key(&scopes).await)
}

/// What comes back for a query: `error` or `subscription_created`.
async fn ask(socket: &mut WebSocket, number: usize, sql: &str) -> Value {
    let query_id = format!("q{number}");
    let message = json!({
        "type": "subscribe", "subscriptions": [{ "query_id": query_id, "sql": sql }],
    });
    socket.say(&message).await;
    loop {
        let message = socket.next().await;
        let is_answer = message["query_id"] == query_id.as_str()
            || message["subscriptions"][0]["query_id"] == query_id.as_str();
        if is_answer {
            let text = message.to_string();
            for hidden in HIDDEN {
                assert!(!text.contains(hidden), "{sql} shows {hidden}: {text}");
            }
            return message;
        }
    }
}

async fn refused(socket: &mut WebSocket, number: usize, sql: &str) -> Value {
    let message = ask(socket, number, sql).await;
    assert_eq!(message["type"], "error", "{sql} is taken: {message}");
    message
}

/// The rows of a query that is taken.
async fn rows(socket: &mut WebSocket, number: usize, sql: &str) -> Value {
    let message = ask(socket, number, sql).await;
    assert_eq!(message["type"], "subscription_created", "{sql}: {message}");
    message["subscriptions"][0]["initial_results"].clone()
}

fn is_postgres(store: &Store) -> bool {
    matches!(store, Store::Postgres { .. })
}

async fn live_sql_cannot_write_or_reach_past_the_tables(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = narrow(&server).await;
    let mut socket = connect(&http).await;
    let own = if is_postgres(&store) { OF_POSTGRES } else { OF_SQLITE };
    for (number, sql) in ATTEMPTS.iter().chain(own).enumerate() {
        refused(&mut socket, number, sql).await;
    }
    let count = run(server.http(), "SELECT count(*) AS n, sum(total) AS t FROM orders").await;
    assert_eq!(count["rows"][0], json!({ "n": 3, "t": 204 }), "nothing was written: {count}");
    if is_postgres(&store) {
        let locks =
            "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711";
        assert_eq!(run(server.http(), locks).await["rows"][0], json!({ "n": 0 }));
    }
    // A name that is not there and one that may not be known are answered alike.
    let (hidden, nothing) = (
        refused(&mut socket, 900, "SELECT * FROM hidden").await,
        refused(&mut socket, 901, "SELECT * FROM absent").await,
    );
    assert_eq!(hidden["code"], nothing["code"], "{hidden} and {nothing}");
}

async fn live_sql_cannot_name_what_is_hidden(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = narrow(&server).await;
    let mut socket = connect(&http).await;
    for (number, sql) in NAMING.iter().enumerate() {
        let secret = refused(&mut socket, number, &sql.replace("{}", "secret")).await;
        let absent = refused(&mut socket, 100 + number, &sql.replace("{}", "zebras")).await;
        assert_eq!(secret["code"], absent["code"], "{sql}: {secret} and {absent}");
        let message = |it: &Value| it["message"].as_str().unwrap_or_default().to_owned();
        let alike = message(&secret).replace("secret", "zebras");
        assert_eq!(alike, message(&absent), "{sql}");
    }
    let star = rows(&mut socket, 200, "SELECT * FROM orders WHERE id = 1").await;
    assert_eq!(star, json!([{ "id": 1, "status": "7" }]), "all columns are those that are seen");
    let whole = "SELECT id FROM orders AS a NATURAL JOIN orders AS b";
    let natural = ask(&mut socket, 201, whole).await;
    assert!(!natural.to_string().contains("secret"), "{natural}");
    if is_postgres(&store) {
        let whole = ask(&mut socket, 202, "SELECT row_to_json(o) AS r FROM orders AS o").await;
        let text = whole.to_string();
        assert!(!text.contains("total") && !text.contains("hush"), "{text}");
    } else {
        refused(&mut socket, 203, "SELECT rowid FROM hidden").await;
    }
}

async fn live_sql_cannot_learn_of_hidden_rows(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = narrow(&server).await;
    let mut socket = connect(&http).await;
    let seen = json!([{ "id": 1 }, { "id": 3 }]);
    let none = json!([]);
    let zero = "SELECT id FROM orders WHERE \
                CASE WHEN status LIKE 'r%' THEN 1 / (id - 2) ELSE 1 END = 1 ORDER BY id";
    for (number, (sql, expected)) in [
        ("SELECT count(*) AS n FROM orders", json!([{ "n": 2 }])),
        ("SELECT max(status) AS m FROM orders", json!([{ "m": "8" }])),
        ("SELECT id FROM orders ORDER BY id", seen.clone()),
        ("SELECT id FROM orders ORDER BY id DESC LIMIT 2 OFFSET 1", json!([{ "id": 1 }])),
        ("SELECT id FROM orders WHERE status LIKE 'r%'", none.clone()),
        ("SELECT a.id FROM orders AS a JOIN orders AS b ON b.status LIKE 'r%'", none.clone()),
        ("SELECT b.id FROM orders AS a LEFT JOIN orders AS b ON b.id = a.id + 1 AND a.id = 1 \
          WHERE a.id = 1", json!([{ "id": null }])),
        ("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM orders AS p WHERE p.id = 2)", none.clone()),
        ("SELECT (SELECT count(*) FROM orders AS p WHERE p.id = 2) AS n FROM orders AS o WHERE o.id = 1",
            json!([{ "n": 0 }])),
        ("WITH o AS (SELECT * FROM orders) SELECT count(*) AS n FROM o", json!([{ "n": 2 }])),
        ("SELECT id FROM orders UNION SELECT id FROM orders WHERE id = 2 ORDER BY id", seen.clone()),
        (zero, seen.clone()),
        // Of the rows that are seen every status is a number.
        ("SELECT id FROM orders WHERE CAST(status AS integer) > 0 ORDER BY id", seen.clone()),
        ("SELECT o.id FROM orders AS o JOIN orders AS p ON CAST(p.status AS integer) = 8 \
          ORDER BY o.id", seen.clone()),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(rows(&mut socket, number, sql).await, expected, "{sql}");
    }
    // An error that depends on rows says nothing of them.
    let failing = [
        "SELECT id FROM orders WHERE 1 / (id - 3) > 0",
        "SELECT CAST(status || 'x' AS integer) AS n FROM orders",
    ];
    for (number, sql) in failing.iter().enumerate() {
        let answer = ask(&mut socket, 500 + number, sql).await.to_string();
        assert!(!answer.contains("8x") && !answer.contains("7x"), "{sql}: {answer}");
    }
}

/// How long a look into an index takes tells how much is there. So what a caller asks for is not looked up in
/// one where there are rows that it may not see. (The database counts its looks; nothing is timed here.)
#[tokio::test(flavor = "multi_thread")]
async fn live_sql_cannot_learn_of_hidden_rows_by_the_time_of_an_index() {
    let store = Store::postgres().await;
    let server = Launch::serve(&store, KEY).start().await;
    let (http, admin) = (narrow(&server).await, server.http());
    run(admin, "CREATE INDEX by_status ON orders (status)").await;
    let hidden = "INSERT INTO orders SELECT n, 'o-ann', 'rich-' || n % 100, 200, 'hush' \
                  FROM generate_series(1000, 9000) AS n";
    run(admin, hidden).await;
    run(admin, "ANALYZE orders").await;
    let counts = async || {
        let sql = "SELECT (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'orders') AS scans, \
                   (SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'by_status') AS looks";
        let row = run(admin, sql).await["rows"][0].clone();
        let count = |name: &str| row[name].as_i64().expect("a number");
        (count("scans"), count("looks"))
    };
    let (scans, looks) = counts().await;
    assert_eq!(looks, 0);
    let mut socket = connect(&http).await;
    let mut number = 0;
    for value in ["rich-7", "absent"] {
        for select in [
            format!("SELECT id FROM orders WHERE status = '{value}'"),
            format!("SELECT id FROM orders WHERE status = '{value}' ORDER BY id LIMIT 5"),
            format!(
                "SELECT status, count(*) AS n FROM orders WHERE status = '{value}' GROUP BY status"
            ),
            format!("SELECT upper(status) AS u FROM orders WHERE status = '{value}'"),
        ] {
            assert_eq!(rows(&mut socket, number, &select).await, json!([]), "{select}");
            number += 1;
        }
    }
    let all_read = async || (counts().await.0 >= scans + 8).then_some(());
    eventually("eight reads of the whole table are counted", all_read).await;
    assert_eq!(counts().await.1, 0, "an index was looked into for what a narrow key asks for");
    // Who sees all rows is served by the index.
    let mut open = connect(admin).await;
    rows(&mut open, 100, "SELECT id FROM orders WHERE status = 'absent'").await;
    eventually("a look into the index is counted", async || (counts().await.1 > 0).then_some(()))
        .await;
}

async fn live_sql_is_told_of_changes_that_it_may_see(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = narrow(&server).await;
    let mut socket = connect(&http).await;
    for (number, sql) in [
        "SELECT id, status FROM orders",
        "SELECT id, status FROM orders ORDER BY id LIMIT 10",
        "SELECT max(status) AS m, count(*) AS n FROM orders",
        "SELECT a.id, b.status FROM orders AS a JOIN orders AS b ON b.id = a.id",
    ]
    .iter()
    .enumerate()
    {
        rows(&mut socket, number, sql).await;
    }
    let work = "UPDATE orders SET secret = 'hush-4'; \
        UPDATE orders SET status = 'rich-9' WHERE id = 2; \
        INSERT INTO orders VALUES (4, 'o-ann', 'rich-4', 400, 'hush-4'); \
        UPDATE orders SET total = 500, status = 'rich-1' WHERE id = 1; \
        DELETE FROM orders WHERE id = 4; \
        INSERT INTO orders VALUES (5, 'o-ann', '9', 5, 'hush-5')";
    run(server.http(), work).await;
    let mut last = [false; 4];
    while last.iter().any(|told| !told) {
        let message = socket.next().await;
        let text = message.to_string();
        for hidden in HIDDEN {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        if message["type"] == "change" && text.contains("\"9\"") {
            let number = message["query_id"].as_str().and_then(|id| id[1..].parse::<usize>().ok());
            last[number.expect("a query of these")] = true;
        }
    }
}
