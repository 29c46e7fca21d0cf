//! Who is told of an entity: those who may read all tables that carry its code, and of a tenant's its own.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidewire_stories::{Issuer, Nodes, Store, eventually, on_both_stores};

use super::ids;
use super::page::{self, EntityPage, SETTINGS, projects, run, user};

on_both_stores!(whoever_may_not_read_the_tables_is_not_told, a_tenant_is_told_of_its_own,);

async fn whoever_may_not_read_the_tables_is_not_told(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 3).await;
    let refused = async |scopes: Value, code: &str| {
        let holder = http.holder(&http.make_key(&scopes).await);
        let mut tab = EntityPage::open(&holder).await;
        tab.ask("project", &["1"]).await;
        let error = tab.socket.hears("error").await;
        assert_eq!(error["code"], code, "{scopes}: {error}");
        assert_eq!(error["query_id"], "entity/project", "{error}");
    };
    refused(json!({ "tables": ["tasks"] }), "forbidden").await;
    refused(json!({ "tables": [], "streams": ["entity/**", "table/**"] }), "forbidden").await;
    let rows = json!({ "tables": ["projects"], "rows": { "projects": "id < 3" } });
    refused(rows, "rule_not_supported").await;

    // Another table that carries the code, after the subscription was allowed: what comes from there
    // is told to those who may read it.
    let both = user(http, "both");
    let claims = json!({ "sub": "one", "tidewire": { "tables": ["projects"] } });
    let one = http.as_someone(Some(&Issuer::hs256(page::SECRET).token(&claims)));
    let (mut both, mut one) = (EntityPage::open(&both).await, EntityPage::open(&one).await);
    for tab in [&mut both, &mut one] {
        tab.subscribe("project", &["1", "2", "3"]).await;
    }
    run(http, "CREATE TABLE secret_projects (id INTEGER PRIMARY KEY, name TEXT)").await;
    page::watch(http, &json!({ "table": "secret_projects", "entity": "project" })).await;
    run(http, "INSERT INTO secret_projects VALUES (2, 'x')").await;
    run(http, "UPDATE projects SET name = 'y' WHERE id = 1").await;
    assert_eq!(ids(&both.told_until("1").await), ["2", "1"]);
    assert_eq!(ids(&one.told_until("1").await), ["1"]);
    // It would not be allowed any more, as soon as the node has noticed.
    let refused = eventually("it is refused", async || {
        one.ask("project", &["3"]).await;
        let answer = one.socket.next().await;
        (answer["type"] == "error").then_some(answer)
    });
    assert_eq!(refused.await["code"], "forbidden");
}

async fn a_tenant_is_told_of_its_own(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    run(http, "CREATE TABLE notes (id INTEGER PRIMARY KEY, host TEXT)").await;
    let watched = json!({ "table": "notes", "entity": "note", "host_column": "host" });
    page::watch(http, &watched).await;
    run(
        http,
        "INSERT INTO notes VALUES (1, 'acme'), (2, 'bolt'), (3, NULL), (4, 'acme'), (5, 'bolt')",
    )
    .await;
    let mut tabs = BTreeMap::new();
    for host in ["acme", "bolt"] {
        let claims = json!({ "sub": "ann", "host_id": host, "tidewire": { "tables": ["notes"] } });
        let token = Issuer::hs256(page::SECRET).token(&claims);
        let mut tab =
            EntityPage::open(&nodes.https().last().expect("one").as_someone(Some(&token))).await;
        let wanted = json!({
            "query_id": "n", "entity_code": "note", "entity_ids": ["1", "2", "3", "4", "5"],
            "offset": "-1",
        });
        tab.socket.subscribe(&wanted).await;
        tabs.insert(host, tab);
    }
    run(http, "UPDATE notes SET host = host WHERE id < 4").await;
    run(http, "UPDATE notes SET host = host WHERE id > 3").await;
    for (host, own, last) in [("acme", "1", "4"), ("bolt", "2", "5")] {
        let tab = tabs.get_mut(host).expect("opened");
        // Of the past and of what happens: its own, and not what is of another tenant or of none.
        let mut told = tab.told_until(last).await;
        while !told.iter().any(|change| change.action == "UPDATE" && change.id == last) {
            told.extend(tab.told_until(last).await);
        }
        assert!(told.iter().all(|change| [own, last].contains(&&*change.id)), "{host}: {told:?}");
        assert!(told.iter().any(|change| change.id == own), "{host}: {told:?}");
    }
}
