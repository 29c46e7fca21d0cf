//! Tabs subscribe to entities, rows change by plain SQL, and exactly the tabs that subscribe are told.

#[path = "entities/page.rs"]
mod page;
#[path = "entities/rights.rs"]
mod rights;
#[path = "entities/trouble.rs"]
mod trouble;

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;
use tidewire_client::Update;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Http, Launch, Metrics, Nodes, Store, WebSocket, eventually, on_both_stores,
};

use page::{EntityPage, SETTINGS, projects, run, user};

on_both_stores!(
    one_update_reaches_exactly_the_subscribed_tabs_once_each,
    ids_add_up_and_go_one_by_one_or_all_at_once,
    a_tab_that_was_away_is_told_once_of_what_it_missed,
    sql_subscribes_a_connection_and_ends_it,
    a_slow_tab_is_told_of_the_last_only,
    what_is_not_a_row_is_told_by_sql_as_well,
    an_emptied_table_and_a_new_key_are_told,
    limits_have_names_and_the_rest_of_a_message_goes_on,
    those_who_run_it_see_who_subscribes,
);

/// What a node that dies leaves behind, the others remove.
#[tokio::test(flavor = "multi_thread")]
async fn the_subscriptions_of_a_dead_node_are_swept() {
    let store = Store::postgres().await;
    let mut settings = SETTINGS.to_vec();
    settings.push(("TIDEWIRE_NODE_LEASE_MS", "1000"));
    let mut nodes = Nodes::start(2, &store, &settings).await;
    projects(nodes.http(0), 3).await;
    let mut stays = EntityPage::open(&user(nodes.http(0), "ann")).await;
    let mut goes = EntityPage::open(&user(nodes.http(1), "ann")).await;
    for tab in [&mut stays, &mut goes] {
        tab.subscribe("project", &["1", "2"]).await;
    }
    assert_eq!(store.count("rxdb_subscription", "1 = 1").await, 4);
    nodes.kill(1);
    let swept = async || (store.count("rxdb_subscription", "1 = 1").await == 2).then_some(());
    eventually("its rows are gone", swept).await;
    run(nodes.http(0), "UPDATE projects SET name = 'n' WHERE id = 2").await;
    assert_eq!(ids(&stays.told_until("2").await), ["2"]);
}

/// Invariant 3: three nodes with users on each, and every tab's received set against the log.
async fn one_update_reaches_exactly_the_subscribed_tabs_once_each(store: Store) {
    const TABS: usize = 12;
    let nodes = Nodes::of(&store, &SETTINGS).await;
    projects(nodes.http(0), 30).await;
    let mut tabs = Vec::new();
    for number in 0..TABS {
        let http = nodes.http(number % nodes.https().len());
        let mut tab = EntityPage::open(&user(http, &format!("user{}", number / 2))).await;
        // Some overlap, some do not, and all wait for the last.
        let ids: Vec<String> = (1..=20).filter(|id| id % (1 + number % 4) == 0).map(text).collect();
        tab.subscribe("project", &ids).await;
        tab.subscribe("project", &[text(30)]).await;
        tabs.push((tab, ids));
    }
    let update = "UPDATE projects SET name = 'once' WHERE id <= 25";
    match store {
        Store::Sqlite { .. } => _ = run(nodes.http(0), update).await,
        Store::Postgres { .. } => store.tamper(update).await,
    }
    let last = run(nodes.http(0), "UPDATE projects SET name = 'done' WHERE id = 30").await;
    let last = last["offset"].as_str().expect("a place");
    let log = nodes.http(0).get(&format!("/v1/stream/table/projects?min_offset={last}")).await;
    let log = log.json();
    let updates = log.as_array().expect("events").iter().filter(|e| e["operation"] == "UPDATE");
    let updated: Vec<&str> = updates.map(|e| e["entityId"].as_str().expect("an id")).collect();
    assert_eq!(updated.len(), 26, "25 at once, and the last");
    for (tab, ids) in &mut tabs {
        let told = tab.told_until("30").await;
        let mut expected: Vec<&str> =
            updated.iter().copied().filter(|id| ids.iter().any(|own| own == id)).collect();
        expected.push("30");
        expected.sort_unstable();
        let mut received: Vec<&str> = told.iter().map(|change| change.id.as_str()).collect();
        received.sort_unstable();
        assert_eq!(received, expected, "what the log has of its own, once each");
        assert!(told.iter().all(|change| change.action == "UPDATE"), "{told:?}");
        assert!(told.iter().all(|change| *change.offset <= *last), "{told:?} up to {last}");
    }
}

async fn ids_add_up_and_go_one_by_one_or_all_at_once(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 5).await;
    let mut tab = EntityPage::open(&user(nodes.https().last().expect("one"), "ann")).await;
    let created = tab.subscribe("project", &["1", "2"]).await;
    assert_eq!(created["query_id"], "entity/project", "{created}");
    assert_eq!(created["entityCode"], "project", "{created}");
    assert_eq!(created["entities"], 2, "{created}");
    let created = tab.subscribe("project", &["2", "3"]).await;
    assert_eq!((&created["entities"], &created["reset"]), (&json!(3), &json!(false)), "{created}");
    let rows = |condition: &'static str| store.count("rxdb_subscription", condition);
    assert_eq!(rows("entity_code = 'project' AND user_id = 'ann'").await, 3, "as the store has it");
    run(http, "UPDATE projects SET name = 'a' WHERE id IN (1, 3, 4)").await;
    let told = tab.told_until("3").await;
    assert_eq!(ids(&told), ["1", "3"]);

    tab.unsubscribe("project", Some(&["1", "3"])).await;
    eventually("two rows are gone", async || (rows("1 = 1").await == 1).then_some(())).await;
    run(http, "UPDATE projects SET name = 'b' WHERE id IN (1, 3)").await;
    run(http, "DELETE FROM projects WHERE id = 2").await;
    let told = tab.told_until("2").await;
    assert_eq!((ids(&told), &*told[0].action), (vec!["2"], "DELETE"));
    tab.unsubscribe("project", None).await;
    let ended = tab.socket.hears("subscription_ended").await;
    assert_eq!(ended["query_id"], "entity/project", "{ended}");
    assert_eq!(ended["reason"], "unsubscribed", "{ended}");
    eventually("no row is left", async || (rows("1 = 1").await == 0).then_some(())).await;
    tab.unsubscribe("project", None).await;
    let error = tab.socket.hears("error").await;
    assert_eq!(error["code"], "no_such_subscription", "{error}");

    // A connection takes along what it subscribed to.
    tab.subscribe("project", &["4", "5"]).await;
    assert_eq!(rows("1 = 1").await, 2);
    drop(tab);
    eventually("it is forgotten", async || (rows("1 = 1").await == 0).then_some(())).await;
}

async fn a_tab_that_was_away_is_told_once_of_what_it_missed(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 6).await;
    let ann = user(nodes.https().last().expect("one"), "ann");
    let mut tab = EntityPage::open(&ann).await;
    let wanted =
        json!({ "query_id": "p", "entity_code": "project", "entity_ids": ["1", "2", "3"] });
    let created = tab.socket.subscribe(&wanted).await;
    let since = created["offset"].clone();
    run(http, "UPDATE projects SET name = 'seen' WHERE id = 1").await;
    let told = tab.told_until("1").await;
    drop(tab);
    run(http, "UPDATE projects SET name = 'missed' WHERE id IN (1, 2, 4)").await;
    let gone = run(http, "DELETE FROM projects WHERE id = 2").await;

    let mut tab = EntityPage::open(&ann).await;
    let mut again = wanted.clone();
    (again["offset"], again["min_offset"]) =
        (told[0].offset.clone().into(), gone["offset"].clone());
    let created = tab.socket.subscribe(&again).await;
    assert_eq!(created["offset"], *told[0].offset, "{created}");
    run(http, "UPDATE projects SET name = 'live' WHERE id = 3").await;
    let told = tab.told_until("3").await;
    let actions: Vec<(&str, &str)> = told.iter().map(|c| (&*c.id, &*c.action)).collect();
    assert_eq!(actions, [("1", "UPDATE"), ("2", "DELETE"), ("3", "UPDATE")], "each once");

    // The same name again is begun anew, from where the client says.
    let mut anew = wanted.clone();
    anew["offset"] = since;
    let created = tab.socket.subscribe(&anew).await;
    assert_eq!(created["reset"], true, "{created}");
    assert_eq!(ids(&tab.told_until("3").await), ["1", "2", "3"]);
    let mut wrong = wanted.clone();
    wrong["offset"] = "0001_0000000000999999".into();
    tab.socket.say(&json!({ "type": "subscribe", "subscriptions": [wrong] })).await;
    let error = tab.socket.hears("error").await;
    assert_eq!((&error["code"], &error["query_id"]), (&json!("offset_beyond_tip"), &json!("p")));
}

/// What SQL does to the table of subscriptions is done to the connection, as far as it may.
async fn sql_subscribes_a_connection_and_ends_it(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 4).await;
    let mut tab = EntityPage::open(&user(nodes.https().last().expect("one"), "ann")).await;
    let id = tab.connection_id.clone();
    let insert = async |code: &str, entities: &[&str]| {
        let row = |entity: &&str| format!("('{id}', '{code}', '{entity}')");
        let rows: Vec<String> = entities.iter().map(row).collect();
        let columns = "connection_id, entity_code, entity_id";
        let values = rows.join(", ");
        store
            .tamper(&format!("INSERT INTO {{}}rxdb_subscription ({columns}) VALUES {values}"))
            .await;
    };
    let delete = async |condition: &str| {
        store.tamper(&format!("DELETE FROM {{}}rxdb_subscription WHERE {condition}")).await;
    };
    let rows = |condition: &'static str| store.count("rxdb_subscription", condition);
    insert("project", &["1", "2"]).await;
    let created = tab.socket.hears("subscription_created").await;
    let entry = &created["subscriptions"][0];
    assert_eq!((&entry["entityCode"], &entry["entities"]), (&json!("project"), &json!(2)));
    run(http, "UPDATE projects SET name = 'a' WHERE id <= 3").await;
    assert_eq!(ids(&tab.told_until("2").await), ["1", "2"]);
    // They are the node's from then on, and not nobody's, which would be swept some day.
    let taken_up = async || (rows("node_id IS NOT NULL").await == 2).then_some(());
    eventually("the node has taken them up", taken_up).await;

    // What it may not be told of is refused, and what the client itself asks for comes to it.
    insert("secret", &["1"]).await;
    let error = tab.socket.hears("error").await;
    assert_eq!(
        (&error["code"], &error["query_id"]),
        (&json!("forbidden"), &json!("entity/secret"))
    );
    let created = tab.subscribe("project", &["3"]).await;
    assert_eq!(created["entities"], 3, "{created}");
    // What is refused is so each time that the node looks, for as long as it is there.
    delete("entity_code = 'secret' OR entity_id <> '3'").await;
    insert("project", &["4"]).await;
    let created = tab.socket.hears_at_last("subscription_created").await;
    assert_eq!(created["subscriptions"][0]["entities"], 2, "{created}");
    run(http, "UPDATE projects SET name = 'b' WHERE id <= 4").await;
    assert_eq!(ids(&tab.told_until("4").await), ["3", "4"]);
    delete(&format!("connection_id = '{id}'")).await;
    let ended = tab.socket.hears("subscription_ended").await;
    assert_eq!(ended["reason"], "unsubscribed", "{ended}");
}

/// What waits is no more than what is subscribed to, and there is no gap.
async fn a_slow_tab_is_told_of_the_last_only(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    // Ids so long that a socket does not take many.
    let text = match store {
        Store::Sqlite { .. } => "printf('%0500d', n)",
        Store::Postgres { .. } => "lpad(n::text, 500, '0')",
    };
    run(http, "CREATE TABLE long (id TEXT PRIMARY KEY, v INTEGER)").await;
    page::watch(http, &json!({ "table": "long", "entity": "long" })).await;
    let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 400)";
    let insert = match store {
        Store::Sqlite { .. } => format!("{numbers} INSERT INTO long SELECT {text}, 0 FROM numbers"),
        Store::Postgres { .. } => {
            format!("INSERT INTO long SELECT {text}, 0 FROM generate_series(1, 400) AS g (n)")
        }
    };
    run(http, &insert).await;
    let ids: Vec<String> = (1..=400).map(|n| format!("{n:0500}")).collect();
    let socket = WebSocket::connect_narrow(http, "/v1/ws").await;
    let mut tab = EntityPage::greeted(socket).await;
    tab.subscribe("long", &ids).await;
    const ROUNDS: u64 = 30;
    for round in 1..=ROUNDS {
        run(http, &format!("UPDATE long SET v = {round}")).await;
    }
    run(http, &format!("DELETE FROM long WHERE id = '{}'", ids[399])).await;
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    let mut last = BTreeMap::new();
    while last.get(&ids[399]).is_none_or(|action| action != "DELETE") {
        for change in tab.next().await {
            *told.entry(change.id.clone()).or_default() += 1;
            last.insert(change.id, change.action);
        }
    }
    assert_eq!(told.len(), 400, "of each");
    let messages: u64 = told.values().sum();
    assert!(messages < ROUNDS * 400, "{messages} is everything, and nothing was told together");
}

async fn what_is_not_a_row_is_told_by_sql_as_well(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    let call = match store {
        Store::Sqlite { .. } => "tidewire_invalidate",
        Store::Postgres { .. } => "tidewire.invalidate",
    };
    let scopes = json!({ "tables": [], "streams": ["entity/report"] });
    let holder = nodes.https().last().expect("one").holder(&http.make_key(&scopes).await);
    let mut tab = EntityPage::open(&holder).await;
    tab.subscribe("report", &["7", "8"]).await;
    run(http, &format!("SELECT {call}('report', '9')")).await;
    run(http, &format!("SELECT {call}('report', '8', 'CREATE')")).await;
    let told = tab.told_until("8").await;
    assert_eq!((ids(&told), &*told[0].action), (vec!["8"], "CREATE"));
    // What was rolled back is told to nobody.
    let failed = json!({ "sql": format!("SELECT {call}('report', '7'); SELECT nonsense") });
    assert_ne!(http.json(Method::POST, "/v1/sql", &failed).await.status, 200);
    run(http, &format!("SELECT {call}('report', '8')")).await;
    assert_eq!(ids(&tab.told_until("8").await), ["8"]);
}

async fn an_emptied_table_and_a_new_key_are_told(store: Store) {
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    projects(http, 4).await;
    let mut tab = EntityPage::open(http).await;
    tab.subscribe("project", &["1", "2", "9"]).await;
    run(http, "UPDATE projects SET id = 9 WHERE id = 1").await;
    let told = tab.told_until("9").await;
    let mut actions: Vec<(&str, &str)> = told.iter().map(|c| (&*c.id, &*c.action)).collect();
    actions.sort_unstable();
    assert_eq!(actions, [("1", "DELETE"), ("9", "UPDATE")], "under its former id it is gone");
    if matches!(store, Store::Postgres { .. }) {
        run(http, "TRUNCATE projects").await;
        let mut told = Vec::new();
        while told.len() < 3 {
            told.extend(tab.next().await);
        }
        let mut gone = ids(&told);
        gone.sort_unstable();
        assert_eq!(gone, ["1", "2", "9"]);
        assert!(told.iter().all(|change| change.action == "DELETE"), "{told:?}");
    }
}

async fn limits_have_names_and_the_rest_of_a_message_goes_on(store: Store) {
    let server = Launch::dev(&store).set("TIDEWIRE_LIVE_ENTITIES_MAX", "3").start().await;
    let http = server.http();
    let inserted = projects(http, 5).await;
    let mut tab = EntityPage::open(http).await;
    // It begins after the rows were made, so that nothing is told of that.
    let subscription = |query_id: &str, ids: &[&str]| {
        json!({
            "query_id": query_id, "entity_code": "project", "entity_ids": ids,
            "min_offset": inserted,
        })
    };
    let message = json!({ "type": "subscribe", "subscriptions": [
        subscription("many", &["1", "2", "3", "4"]),
        subscription("none", &[]),
        subscription("", &["1"]),
        subscription("few", &["1", "2"]),
    ] });
    tab.socket.say(&message).await;
    let mut codes = Vec::new();
    let created = loop {
        let message = tab.socket.next().await;
        if message["type"] == "subscription_created" {
            break message;
        }
        codes.push(message["code"].as_str().expect("a code").to_owned());
    };
    codes.sort_unstable();
    assert_eq!(codes, ["invalid_entities", "invalid_query_id", "too_many_entities"]);
    assert_eq!(created["subscriptions"][0]["query_id"], "few", "{created}");
    tab.ask("project", &["3", "4"]).await;
    let error = tab.socket.hears("error").await;
    assert_eq!(error["code"], "too_many_entities", "{error}");
    assert!(error["message"].as_str().expect("words").contains("live.entities_max"), "{error}");
    tab.subscribe("project", &["3"]).await;
    // Two subscriptions of one connection may name the same: the row is there for as long as one does.
    tab.socket.say(&json!({ "type": "unsubscribe", "query_ids": ["few"] })).await;
    tab.socket.hears("subscription_ended").await;
    tab.socket.subscribe(&subscription("also", &["3", "4"])).await;
    tab.unsubscribe("project", None).await;
    tab.socket.hears("subscription_ended").await;
    let rows = async || {
        (store.count("rxdb_subscription", "entity_id IN ('3', '4')").await == 2
            && store.count("rxdb_subscription", "1 = 1").await == 2)
            .then_some(())
    };
    eventually("the other's rows are left", rows).await;
    for wrong in [
        json!({ "type": "SUBSCRIBE" }),
        json!({ "type": "SUBSCRIBE", "payload": { "entityCode": 1 } }),
    ] {
        tab.socket.say(&wrong).await;
        assert_eq!(tab.socket.hears("error").await["code"], "malformed_message", "{wrong}");
    }
}

async fn those_who_run_it_see_who_subscribes(store: Store) {
    let nodes = Nodes::of(&store, &SETTINGS).await;
    let http = nodes.http(0);
    projects(http, 5).await;
    let mut ann = EntityPage::open(&user(nodes.https().last().expect("one"), "ann")).await;
    let mut bob = EntityPage::open(&user(http, "bob")).await;
    ann.subscribe("project", &["1", "2", "3"]).await;
    bob.subscribe("project", &["3"]).await;
    let stats = http.get("/v1/entities/stats").await.json();
    let all = json!({ "entityCode": "project", "subscriptions": 4, "entities": 3, "users": 2 });
    assert_eq!(stats, json!({ "entities": [all] }));
    let stats = http.get("/v1/entities/stats?user_id=ann").await.json();
    let own = json!({ "entityCode": "project", "subscriptions": 3, "entities": 3, "users": 1 });
    assert_eq!(stats, json!({ "entities": [own], "user_id": "ann" }));
    let ended = nodes.command(0, "entities").with(["--user", "ann", "--json"]).run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(ended.said.contains(r#""entityCode":"project","subscriptions":3"#), "{}", ended.said);
    let last = nodes.https().last().expect("one");
    let expected = if nodes.https().len() == 1 { 4.0 } else { 3.0 };
    Metrics::shows(last, "live_entities", expected).await;
    run(http, "UPDATE projects SET name = 'n' WHERE id = 1").await;
    ann.told_until("1").await;
    Metrics::reaches(last, "live_invalidations_total", 1.0).await;
}

fn text(number: usize) -> String {
    number.to_string()
}

fn ids(told: &[page::Change]) -> Vec<&str> {
    told.iter().map(|change| change.id.as_str()).collect()
}

/// A program that subscribes by the Rust client goes on where it was when its node dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_loses_its_node_misses_nothing() {
    let store = Store::postgres().await;
    let mut nodes = Nodes::start(2, &store, &SETTINGS).await;
    projects(nodes.http(1), 5).await;
    let mut live = nodes.http(0).client().live(nodes.from(0)).expect("a connection");
    live.subscribe_entities("p", "project", ["1", "2", "3"], None).expect("a subscription");
    let mut told = Vec::new();
    let mut stood = 0;
    while !told.contains(&("3".to_owned(), "DELETE".to_owned())) {
        let update = within_patience("an update", live.next()).await.expect("it goes on");
        match update.expect("it goes on") {
            Update::Created { resumed, .. } => {
                assert_eq!(resumed, stood > 0);
                stood += 1;
                if stood == 1 {
                    nodes.kill(0);
                    let update = "UPDATE projects SET name = 'missed' WHERE id <> 3";
                    run(nodes.http(1), update).await;
                } else {
                    run(nodes.http(1), "DELETE FROM projects WHERE id = 3").await;
                }
            }
            Update::Invalidated { changes, .. } => {
                told.extend(changes.into_iter().map(|c| (c.entity_id, c.action)));
            }
            Update::Problem { problem, .. } => panic!("{problem:?}"),
            _ => {}
        }
    }
    let told: Vec<(&str, &str)> = told.iter().map(|(id, action)| (&**id, &**action)).collect();
    assert_eq!(told, [("1", "UPDATE"), ("2", "UPDATE"), ("3", "DELETE")]);
    live.close().await.expect("a farewell");
}

/// The seed's behaviour, for those who want it: the newest connection of a user stays.
mod one_at_a_time {
    use super::*;

    on_both_stores!(a_new_connection_closes_the_older_wherever_it_is);

    async fn a_new_connection_closes_the_older_wherever_it_is(store: Store) {
        let mut settings = SETTINGS.to_vec();
        settings.push(("TIDEWIRE_LIVE_SINGLE_CONNECTION_PER_USER", "true"));
        let nodes = Nodes::of(&store, &settings).await;
        let http = nodes.http(0);
        projects(http, 3).await;
        let mut bob = EntityPage::open(&user(http, "bob")).await;
        bob.subscribe("project", &["1"]).await;
        let key: Http = http.clone();
        let mut keyed = [EntityPage::open(&key).await, EntityPage::open(&key).await];
        let mut older = EntityPage::open(&user(http, "ann")).await;
        older.subscribe("project", &["1"]).await;
        for node in nodes.https().iter().rev().chain(nodes.https()) {
            let mut newer = EntityPage::open(&user(node, "ann")).await;
            let farewell = older.socket.closed().await;
            assert_eq!((farewell.code, &*farewell.reason), (4000, "New connection"));
            newer.subscribe("project", &["1"]).await;
            older = newer;
        }
        // Others are not concerned, nor are those who are no users.
        run(http, "UPDATE projects SET name = 'n' WHERE id = 1").await;
        assert_eq!(ids(&bob.told_until("1").await), ["1"]);
        assert_eq!(ids(&older.told_until("1").await), ["1"]);
        for tab in &mut keyed {
            tab.socket.say(&json!({ "type": "ping" })).await;
            tab.socket.hears("pong").await;
        }
        let rows = async || (store.count("rxdb_subscription", "1 = 1").await == 2).then_some(());
        eventually("those that went took their rows along", rows).await;
    }
}
