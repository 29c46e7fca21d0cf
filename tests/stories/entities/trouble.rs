//! Someone has rows of subscriptions locked, and a table does not carry its code any more.

use serde_json::json;
use tidewire_stories::postgres::Sql;
use tidewire_stories::{Issuer, Nodes, Store, eventually, on_both_stores};

use super::ids;
use super::page::{self, EntityPage, SECRET, SETTINGS, projects, run, user};

on_both_stores!(what_came_from_a_table_one_may_not_read_stays_untold);

/// A person leaves a transaction open in which they removed a tab's rows. That tab goes, and its rows
/// with it as soon as they can; everyone else subscribes as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_is_in_nobody_elses_way() {
    let store = Store::postgres().await;
    let Store::Postgres { url } = &store else { unreachable!("it is PostgreSQL") };
    let nodes = Nodes::start(1, &store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 3).await;
    let (mut goes, mut stays) =
        (EntityPage::open(&user(http, "ann")).await, EntityPage::open(&user(http, "bob")).await);
    for tab in [&mut goes, &mut stays] {
        tab.subscribe("project", &["1"]).await;
    }
    let person = Sql::connect(url).await.expect("a connection");
    let id = goes.connection_id.clone();
    let delete = "DELETE FROM tidewire.rxdb_subscription WHERE connection_id";
    person.batch_execute(&format!("BEGIN; {delete} = '{id}'")).await.expect("it is removed");
    drop(goes);
    for round in 0..20 {
        let mut tab = EntityPage::open(&user(http, &format!("user{round}"))).await;
        tab.ask("project", &["1", "2"]).await;
        let answer = tab.socket.next().await;
        assert_eq!(answer["type"], "subscription_created", "{answer}");
    }
    stays.subscribe("project", &["3"]).await;
    person.batch_execute("ROLLBACK").await.expect("it ends");
    let left =
        async || (store.count("rxdb_subscription", "user_id <> 'bob'").await == 0).then_some(());
    eventually("those who went are forgotten", left).await;
    assert_eq!(store.count("rxdb_subscription", "user_id = 'bob'").await, 2);
}

/// Who is told of the past is decided by the stream that it is in, as it is of what happens.
async fn what_came_from_a_table_one_may_not_read_stays_untold(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 1).await;
    run(http, "CREATE TABLE secret_projects (id INTEGER PRIMARY KEY, name TEXT)").await;
    page::watch(http, &json!({ "table": "secret_projects", "entity": "project" })).await;
    run(http, "INSERT INTO secret_projects VALUES (2, 'x')").await;
    http.client().unwatch("secret_projects").await.expect("it was watched");
    let last = run(http, "INSERT INTO projects VALUES (3, 'y')").await;
    let claims = json!({ "sub": "one", "tidewire": { "tables": ["projects"] } });
    let one = http.as_someone(Some(&Issuer::hs256(SECRET).token(&claims)));
    for (holder, expected) in [(user(http, "both"), vec!["1", "2", "3"]), (one, vec!["1", "3"])] {
        let mut tab = EntityPage::open(&holder).await;
        let wanted = json!({
            "query_id": "p", "entity_code": "project", "entity_ids": ["1", "2", "3"],
            "offset": "-1", "min_offset": last["offset"],
        });
        tab.socket.subscribe(&wanted).await;
        assert_eq!(ids(&tab.told_until("3").await), expected);
    }
}
