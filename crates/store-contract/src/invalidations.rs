//! What becomes of entities: rows of tables that are watched as such, and what SQL says of others.

use std::sync::Arc;

use super::Opener;
use super::rows::{self, problem, run, watch_as};
use super::test_store::{EVERYTHING, TestStore};
use tidewire_store::entity::{
    ENTITY_ID_BYTES_MAX, EntityAction, EntityChange, EntityPage, EntityPast,
};
use tidewire_store::offset::Position;
use tidewire_store::watch::NewWatch;

fn change(code: &str, id: &str, action: EntityAction) -> EntityChange {
    let (code, id) = (code.to_owned(), Some(id.to_owned()));
    EntityChange { code, id, was: None, action, host_id: None }
}

use EntityAction::{Create, Delete, Update};

/// What became of entities, as someone sees it who follows the log and wants no payloads.
async fn followed(store: &TestStore) -> Vec<EntityChange> {
    let nothing = Arc::new(|_: &str| false);
    let log = store.follow(Position::START, EVERYTHING, nothing).await.expect("the log");
    assert!(log.iter().all(|event| event.row.is_none() && event.payload.is_none()));
    log.into_iter().filter_map(|event| event.entity).collect()
}

/// The same, read from the log's end in memory, and again from the disk.
async fn followed_twice(store: TestStore, data: &dyn Opener) -> Vec<EntityChange> {
    let changes = followed(&store).await;
    let store = store.reopen(data).await;
    assert_eq!(followed(&store).await, changes, "after a restart");
    changes
}

async fn watch_projects(store: &TestStore) {
    run(store, "CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT)").await;
    watch_as(
        store,
        NewWatch {
            table: "projects".to_owned(),
            entity_code: Some("project".to_owned()),
            ..NewWatch::default()
        },
    )
    .await;
}

/// What SQL says of an entity is a document in the stream of its kind, in the order of saying.
pub async fn what_sql_says_of_an_entity_is_in_the_log(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    run(&store, "SELECT tidewire.invalidate('project', '7')").await;
    let more = "SELECT tidewire.invalidate('project', 'a \"b\" é', 'DELETE');
        SELECT tidewire.invalidate('task', '7', 'CREATE')";
    run(&store, more).await;
    let documents = [
        r#"{"entityCode":"project","entityId":"7","action":"UPDATE"}"#,
        r#"{"entityCode":"project","entityId":"a \"b\" é","action":"DELETE"}"#,
    ];
    assert_eq!(store.texts("entity/project").await, documents);
    assert_eq!(store.texts("entity/task").await.len(), 1);
    assert_eq!(store.view("entity/task").await.state.content_type, "application/json");
    let expected = [
        change("project", "7", Update),
        change("project", "a \"b\" é", Delete),
        change("task", "7", Create),
    ];
    assert_eq!(followed_twice(store, data).await, expected);
}

/// What a transaction says of an entity goes with it.
pub async fn what_is_undone_is_not_said_of_an_entity(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    run(&store, "CREATE TABLE one (id INTEGER PRIMARY KEY); INSERT INTO one VALUES (1)").await;
    problem(&store, "SELECT tidewire.invalidate('p', '1'); INSERT INTO one VALUES (1)").await;
    run(&store, "SELECT tidewire.invalidate('p', '2')").await;
    assert_eq!(followed(&store).await, [change("p", "2", Update)]);
}

/// A row of a table that is watched as an entity is one. Of other tables none is.
pub async fn changes_of_rows_are_changes_of_entities(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    watch_projects(&store).await;
    rows::orders(&store).await;
    rows::watch(&store, "orders").await;
    run(&store, "INSERT INTO projects VALUES (1, 'a'), (2, 'b')").await;
    run(&store, "INSERT INTO orders VALUES (1, 'a', 1)").await;
    run(&store, "UPDATE projects SET name = 'c' WHERE id = 1").await;
    run(&store, "DELETE FROM projects WHERE id = 2").await;
    let expected = [("1", Create), ("2", Create), ("1", Update), ("2", Delete)]
        .map(|(id, action)| change("project", id, action));
    assert_eq!(followed_twice(store, data).await, expected);
}

/// Where an UPDATE changes the key, the change names both ids, and is found by either.
pub async fn an_entity_that_gets_another_id_is_told_by_both(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    watch_projects(&store).await;
    run(&store, "CREATE TABLE pairs (a INTEGER, b TEXT, c TEXT, PRIMARY KEY (a, b))").await;
    let pairs = NewWatch {
        table: "pairs".to_owned(),
        entity_code: Some("pair".to_owned()),
        ..NewWatch::default()
    };
    watch_as(&store, pairs).await;
    run(&store, "INSERT INTO projects VALUES (1, 'a'); INSERT INTO pairs VALUES (1, 'x', 'y')")
        .await;
    let before = store.log_tip().await;
    run(&store, "UPDATE projects SET id = 5").await;
    run(&store, "UPDATE pairs SET c = 'z'; UPDATE pairs SET b = 'w'").await;
    let moved = |code: &str, was: &str, id: &str| EntityChange {
        was: Some(was.to_owned()),
        ..change(code, id, Update)
    };
    let project = moved("project", "1", "5");
    for id in ["1", "5"] {
        let found = store.entity_changes("project", &[id.to_owned()], before, 10).await;
        let found: Vec<_> =
            found.expect("changes").changes.into_iter().map(|past| past.change).collect();
        assert_eq!(found, std::slice::from_ref(&project), "by {id}");
    }
    let both = ["1".to_owned(), "5".to_owned()];
    let found = store.entity_changes("project", &both, before, 10).await.expect("changes").changes;
    assert_eq!(found.len(), 1, "one event is found once: {found:?}");
    let pair = moved("pair", r#"[1, "x"]"#, r#"[1, "w"]"#);
    let mut log = followed_twice(store, data).await.split_off(2);
    // SQLite writes arrays without the space.
    for change in &mut log {
        for id in [&mut change.id, &mut change.was].into_iter().flatten() {
            *id = id.replace(",\"", ", \"");
        }
    }
    assert_eq!(log, [project, change("pair", r#"[1, "x"]"#, Update), pair]);
}

/// TRUNCATE, which only PostgreSQL has, is a change of all entities of the kind.
pub async fn a_truncated_table_is_told_for_all_its_entities(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    if store.backend() == "SQLite" {
        return;
    }
    watch_projects(&store).await;
    run(&store, "INSERT INTO projects VALUES (1, 'a')").await;
    let before = store.log_tip().await;
    run(&store, "TRUNCATE projects").await;
    let all = EntityChange { id: None, ..change("project", "", Delete) };
    let found = store.entity_changes("project", &["9".to_owned()], before, 10).await;
    let found: Vec<_> =
        found.expect("changes").changes.into_iter().map(|past| past.change).collect();
    assert_eq!(found, std::slice::from_ref(&all));
    assert_eq!(followed_twice(store, data).await, [change("project", "1", Create), all]);
}

/// A change is its tenant's, but the stream of a kind is of no tenant: all share it.
pub async fn changes_of_entities_know_their_tenant(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    watch_projects(&store).await;
    let sql = "SELECT tidewire.set_actor('u', 'h'); SELECT tidewire.invalidate('p', '1');
        INSERT INTO projects VALUES (1, 'a')";
    run(&store, sql).await;
    assert_eq!(store.view("entity/p").await.state.host_id, None);
    let of_host = |change| EntityChange { host_id: Some("h".to_owned()), ..change };
    let expected = [of_host(change("p", "1", Update)), of_host(change("project", "1", Create))];
    assert_eq!(followed_twice(store, data).await, expected);
}

/// Rows whose key is too long to be subscribed to, or missing, are captured all the same.
pub async fn what_nobody_can_subscribe_to_is_no_entity(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let long = "x".repeat(ENTITY_ID_BYTES_MAX + 1);
    // Noise that no index could make smaller.
    let noise = "SELECT group_concat(hex(randomblob(8)), '') AS noise FROM n";
    let noise = match store.backend() {
        "SQLite" => noise,
        _ => "SELECT string_agg(md5(random()::text || x::text), '') AS noise FROM n",
    };
    run(&store, "CREATE TABLE named (name TEXT PRIMARY KEY, n INTEGER)").await;
    run(&store, "CREATE TABLE keyless (name TEXT, n INTEGER)").await;
    for table in ["named", "keyless"] {
        let (table, entity_code) = (table.to_owned(), Some("thing".to_owned()));
        watch_as(&store, NewWatch { table, entity_code, ..NewWatch::default() }).await;
    }
    let before = store.log_tip().await;
    run(&store, &format!("INSERT INTO named VALUES ('{long}', 1), ('short', 1)")).await;
    run(&store, &format!("UPDATE named SET name = 'now short' WHERE name = '{long}'")).await;
    let noisy = format!(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400)
         INSERT INTO keyless SELECT noise, 1 FROM ({noise}) AS made"
    );
    run(&store, &noisy).await;
    run(&store, "UPDATE keyless SET n = 2").await;
    let log = store.log_after(before).await;
    assert_eq!(log.iter().filter(|event| event.row.is_some()).count(), 5, "all are in the log");
    let expected = [change("thing", "short", Create), change("thing", "now short", Update)];
    assert_eq!(followed_twice(store, data).await, expected);
}

/// What became of some entities is read in order and page by page, and of others nothing.
pub async fn what_became_of_entities_is_found(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    watch_projects(&store).await;
    let many = "INSERT INTO projects VALUES (1, 'a'), (2, 'a'), (3, 'a');
        UPDATE projects SET name = 'b'; SELECT tidewire.invalidate('project', '3', 'DELETE');
        SELECT tidewire.invalidate('project', '2'); SELECT tidewire.invalidate('task', '2')";
    run(&store, many).await;
    let wanted = ["3".to_owned(), "1".to_owned(), "9".to_owned(), "x".repeat(5_000)];
    let read = async |after, most| {
        let found = store.entity_changes("project", &wanted, after, most).await;
        found.unwrap_or_else(|error| panic!("what became of entities: {error}"))
    };
    let EntityPage { changes: all, next } = read(Position::START, 100).await;
    assert_eq!(next, None, "that was all");
    let told: Vec<_> = all
        .iter()
        .map(|past| (past.change.id.as_deref().unwrap_or(""), past.change.action))
        .collect();
    let expected = [("1", Create), ("3", Create), ("1", Update), ("3", Update), ("3", Delete)];
    assert_eq!(told, expected);
    let streams: Vec<_> = all.iter().map(|past| past.stream.as_str()).collect();
    let rows = "table/projects";
    assert_eq!(streams, [rows, rows, rows, rows, "entity/project"]);
    assert!(all.is_sorted_by_key(|past| past.position));
    let mut pages: Vec<EntityPast> = Vec::new();
    let mut after = Some(Position::START);
    while let Some(from) = after {
        let page = read(from, 2).await;
        pages.extend(page.changes);
        after = page.next;
    }
    assert_eq!(pages, all);
    let last = all[all.len() - 1].position;
    assert_eq!(read(last, 100).await, EntityPage::default());
    let none = store.entity_changes("nothing", &wanted, Position::START, 9).await;
    assert_eq!(none.expect("nothing"), EntityPage::default());
}

/// Nothing is told of what cannot be an entity, or of what cannot become of one.
pub async fn what_is_no_entity_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let long = "x".repeat(ENTITY_ID_BYTES_MAX + 1);
    for arguments in [
        "'p', '1', 'update'".to_owned(),
        "'p', '1', ''".to_owned(),
        "'p', '1', NULL".to_owned(),
        "'p', NULL".to_owned(),
        "NULL, '1'".to_owned(),
        "'', '1'".to_owned(),
        "'a//b', '1'".to_owned(),
        "'..', '1'".to_owned(),
        "'p', ''".to_owned(),
        format!("'p', '{long}'"),
        format!("'{long}', '1'"),
    ] {
        problem(&store, &format!("SELECT tidewire.invalidate({arguments})")).await;
    }
    assert_eq!(followed(&store).await, []);
}
