//! Somebody runs SQL, rightly and wrongly, by every way there is, while everything is written into the log: what
//! they asked is their own business. Unless the operator asks for it.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::postgres::Sql;
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Http, Launch, QueryTab, Secrets, Store, on_both_stores};

on_both_stores!(no_line_has_what_users_ask, a_setting_writes_down_what_users_ask);

const ADMIN_KEY: &str = "story-9c41d7b3865f0a2e";

async fn sql(http: &Http, document: &Value) -> u16 {
    http.json(Method::POST, "/v1/sql", document).await.status
}

async fn no_line_has_what_users_ask(store: Store) {
    let launch = Launch::serve(&store, ADMIN_KEY).set("TIDEWIRE_LOG", "trace");
    let server = launch.start().await;
    let http = server.http();
    let mut secrets = Secrets::default();
    let mut asked = |what: &str| {
        let word = format!("asked_{}_5f0a2e9c41d7b386", what.replace(' ', "_"));
        secrets.text(what, &word);
        word
    };
    run(http, "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)").await;
    watch(http, &json!({ "table": "notes" })).await;
    let text = format!("INSERT INTO notes VALUES (1, '{}')", asked("a text"));
    assert_eq!(sql(http, &json!({ "sql": text })).await, 200);
    let insert = "INSERT INTO notes VALUES ($1, $2)";
    let written = json!({ "sql": insert, "params": [2, asked("a parameter")] });
    assert_eq!(sql(http, &written).await, 200);
    let read = "SELECT id FROM notes WHERE body = $1";
    assert_eq!(sql(http, &json!({ "sql": read, "params": [asked("a read")] })).await, 200);
    for wrong in [
        json!({ "sql": format!("SELEKT '{}'", asked("a wrong word")) }),
        json!({ "sql": format!("SELECT {} FROM notes", asked("a column")) }),
        json!({ "sql": insert, "params": [1, asked("a key that is taken")] }),
        json!({ "sql": "SELECT CAST($1 AS INTEGER) / 0, abs($2)", "params": [1, asked("a number")] }),
        json!({ "sql": "SELECT $1", "params": [1, asked("one too many")] }),
        json!({ "sql": format!("EXPLAIN LIVE SELECT '{}' FROM nothing", asked("a plan")) }),
        json!({ "sql": format!("KILL LIVE QUERY '{}'", asked("a query to end")) }),
    ] {
        sql(http, &wrong).await;
    }
    if matches!(store, Store::Postgres { .. }) {
        let notice = asked("a notice");
        let raise = format!("DO $$ BEGIN RAISE NOTICE '{notice}'; RAISE WARNING 'x'; END $$");
        assert_eq!(sql(http, &json!({ "sql": raise })).await, 200);
    }
    let mut tab = QueryTab::open(http).await;
    let live = format!("SELECT id FROM notes WHERE body = '{}'", asked("a live query"));
    tab.follow(&json!({ "query_id": "q", "sql": live })).await;
    let with_params = json!({
        "query_id": "p", "sql": "SELECT id FROM notes WHERE body = $1", "params": [asked("a live parameter")],
    });
    tab.socket.say(&json!({ "type": "subscribe", "subscriptions": [with_params] })).await;
    let broken =
        json!({ "query_id": "b", "sql": format!("SELECT {} FROM", asked("a broken query")) });
    tab.socket.say(&json!({ "type": "subscribe", "subscriptions": [broken] })).await;
    tab.hear_until("error").await;
    let said = server.stop().await.said;
    assert!(said.contains("ran SQL"), "it says nothing of what it does: {said}");
    secrets.are_not_in("what the server wrote", &said);
}

async fn a_setting_writes_down_what_users_ask(store: Store) {
    let launch = Launch::serve(&store, ADMIN_KEY).set("TIDEWIRE_SQL_LOG_STATEMENTS", "true");
    let server = launch.start().await;
    let asked =
        json!({ "sql": "SELECT CAST($1 AS TEXT) AS asked_out_loud", "params": ["and_with_this"] });
    assert_eq!(sql(server.http(), &asked).await, 200);
    let said = server.stop().await.said;
    let line = said.lines().find(|line| line.contains("ran SQL")).unwrap_or_default();
    assert!(line.contains("asked_out_loud") && line.contains("and_with_this"), "{said}");
}

/// Whoever may run SQL is then trusted with the whole machine: that should be known.
#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_is_warned_of_and_an_ordinary_role_is_not() {
    let warning = "the database role is a superuser";
    let store = Store::postgres().await;
    let Store::Postgres { url } = &store else { panic!("it is PostgreSQL") };
    let sql = Sql::connect(url).await.expect("a connection");
    let is_superuser: bool = sql
        .query_one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user", &[])
        .await
        .expect("a row")
        .get(0);
    let said = Launch::serve(&store, ADMIN_KEY).start().await.stop().await.said;
    assert_eq!(said.contains(warning), is_superuser, "{said}");

    let ordinary = Store::postgres().await;
    let Store::Postgres { url } = &ordinary else { panic!("it is PostgreSQL") };
    let mut url = reqwest::Url::parse(url).expect("a URL");
    let name = url.path().trim_start_matches('/').to_owned();
    let role = format!("owner_{}", uuid::Uuid::new_v4().simple());
    let owner = format!("CREATE ROLE {role} LOGIN; ALTER DATABASE {name} OWNER TO {role}");
    sql.batch_execute(&owner).await.expect("a role");
    url.set_username(&role).expect("a URL with a host");
    url.set_password(None).expect("a URL with a host");
    let store = Store::postgres_at(url.to_string());
    let said = Launch::serve(&store, ADMIN_KEY).start().await.stop().await.said;
    assert!(!said.contains(warning), "{said}");
}
