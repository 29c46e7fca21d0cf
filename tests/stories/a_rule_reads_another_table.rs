//! Who may see a row is written in another table, and changes while queries are followed.

use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{Answer, Http, Issuer, Launch, QueryTab, Server, Store, on_both_stores};

on_both_stores!(
    a_change_of_membership_shows_and_hides_rows,
    what_a_rule_reads_is_not_shown_by_it,
    a_rule_over_a_table_that_is_not_watched_shows_nothing,
);

const KEY: &str = "story-2b90c6de174fa835";
const SECRET: &str = "a secret of HS256 that is longer than thirty-two bytes";

/// Notes are for the members of their project.
const RULE: &str = "EXISTS (SELECT 1 FROM members AS m \
    WHERE m.project = notes.project AND m.person = auth.user_id())";

async fn projects(store: &Store) -> Server {
    let rule = format!("[tables.notes]\nread = \"{RULE}\"\n");
    let launch = Launch::serve(store, KEY).set("TIDEWIRE_JWT_SECRET", SECRET);
    let server = launch.configured(&rule).start().await;
    let http = server.http();
    run(http, "CREATE TABLE notes (id INTEGER PRIMARY KEY, project TEXT, text TEXT)").await;
    run(http, "CREATE TABLE members (id INTEGER PRIMARY KEY, project TEXT, person TEXT)").await;
    watch(http, &json!({ "table": "notes" })).await;
    server
}

fn person(admin: &Http, name: &str) -> Http {
    let claims = json!({ "sub": name, "tidewire": { "tables": ["notes"] } });
    admin.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)))
}

/// I4 and I6: after every statement, each sees what the rule gives them, by queries that would be kept
/// by other plans without it.
async fn a_change_of_membership_shows_and_hides_rows(store: Store) {
    let server = projects(&store).await;
    let admin = server.http();
    watch(admin, &json!({ "table": "members" })).await;
    run(admin, "INSERT INTO notes VALUES (1, 'x', 'one'), (2, 'y', 'two'), (3, 'x', 'three')")
        .await;
    run(admin, "INSERT INTO members VALUES (1, 'x', 'ann')").await;
    let queries = [
        ("all", "SELECT id, text FROM {notes}", false),
        ("newest", "SELECT id FROM {notes} ORDER BY id DESC LIMIT 2", true),
        ("count", "SELECT project, count(*) AS n FROM {notes} GROUP BY project", false),
        ("pairs", "SELECT a.id AS a, b.id AS b FROM {notes} a, {notes} b WHERE a.id < b.id", false),
    ];
    let mut tabs = Vec::new();
    for name in ["ann", "bob"] {
        let mut tab = QueryTab::open(&person(admin, name)).await;
        let ask = |(id, sql, _): &(&str, &str, bool)| json!({ "query_id": id, "sql": sql.replace("{notes}", "notes") });
        tab.ask(&queries.iter().map(ask).collect::<Vec<Value>>()).await;
        tabs.push((name, tab));
    }
    let statements = [
        "SELECT 1",
        "INSERT INTO members VALUES (2, 'y', 'bob'), (3, 'y', 'ann')",
        "INSERT INTO notes VALUES (4, 'y', 'four')",
        "UPDATE members SET project = 'x' WHERE id = 2",
        "UPDATE notes SET project = 'y' WHERE id = 1",
        "UPDATE members SET person = 'cid' WHERE id = 1",
        "DELETE FROM members",
        "INSERT INTO members VALUES (9, 'y', 'bob')",
    ];
    for statement in statements {
        run(admin, statement).await;
        for (name, tab) in &mut tabs {
            let seen = RULE.replace("auth.user_id()", &format!("'{name}'"));
            let notes = format!("(SELECT * FROM notes WHERE {seen})");
            for (id, sql, ordered) in queries {
                // A subquery in FROM has a name.
                let sql = match id {
                    "pairs" => sql.replace("{notes}", &notes),
                    _ => sql.replace("{notes}", &format!("{notes} AS seen")),
                };
                tab.until_as_run(admin, id, &sql, ordered).await;
            }
        }
    }
    for (_, tab) in &tabs {
        assert_eq!(tab.entry("all")["plan"], "requery");
    }
}

/// I6: neither its table nor what it says is told; and what cannot keep it is refused.
async fn what_a_rule_reads_is_not_shown_by_it(store: Store) {
    let server = projects(&store).await;
    let admin = server.http();
    watch(admin, &json!({ "table": "members" })).await;
    run(admin, "INSERT INTO members VALUES (1, 'x', 'ann'), (2, 'x', 'hush-bob')").await;
    let ann = person(admin, "ann");
    let mut tab = QueryTab::open(&ann).await;
    let hidden = json!({ "query_id": "h", "sql": "SELECT n.id FROM notes n, members m" });
    tab.ask(&[hidden]).await;
    assert_eq!(tab.hear_until("error").await["code"], "forbidden");
    let table = json!({ "query_id": "t", "table": "notes" });
    tab.ask(&[table]).await;
    assert_eq!(tab.hear_until("error").await["code"], "rule_not_supported");
    let told = tab.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM notes" })).await;
    for hidden in ["members", "person", "hush-bob"] {
        assert!(!told.to_string().contains(hidden), "{told}");
    }
}

async fn a_rule_over_a_table_that_is_not_watched_shows_nothing(store: Store) {
    let server = projects(&store).await;
    let admin = server.http();
    let mut tab = QueryTab::open(&person(admin, "ann")).await;
    let notes = json!({ "query_id": "q", "sql": "SELECT id FROM notes" });
    tab.ask(std::slice::from_ref(&notes)).await;
    let error = tab.hear_until("error").await;
    assert_eq!(error["code"], "rule_not_supported", "{error}");
    assert!(error["message"].as_str().expect("a text").contains("not watched"), "{error}");
    assert!(!error.to_string().contains("members"), "{error}");
    // Once it is watched the rule can be kept; when it is no more, the query ends.
    watch(admin, &json!({ "table": "members" })).await;
    tab.follow(&notes).await;
    let gone = Answer::of(admin.request(Method::DELETE, "/v1/watch?table=members")).await;
    assert!(gone.status < 300, "{}", gone.text());
    let ended = tab.hear_until("subscription_ended").await;
    assert_eq!(ended["query_id"], "q", "{ended}");
    assert!(!ended.to_string().contains("members"), "{ended}");
}
