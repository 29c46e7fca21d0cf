//! Who subscribes to which entity.

use super::Opener;
use super::control::said;
use super::sessions::LONG_MS;
use super::test_store::TestStore;
use tidewire_store::entity::{
    ENTITY_ID_BYTES_MAX, EntityCount, EntityEdit, EntitySubscription, SWEPT_MAX,
};
use tidewire_store::error::StoreError;

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// An edit by node `n`, for user `u`.
fn subscribe(connection: &str, code: &str, of: &[&str]) -> EntityEdit {
    by("u", "n", connection, code, of)
}

fn by(user: &str, node: &str, connection: &str, code: &str, of: &[&str]) -> EntityEdit {
    EntityEdit::Subscribe(EntitySubscription {
        user_id: user.to_owned(),
        host_id: None,
        connection_id: connection.to_owned(),
        node_id: node.to_owned(),
        code: code.to_owned(),
        ids: ids(of),
    })
}

fn unsubscribe(connection: &str, code: &str, of: Option<&[&str]>) -> EntityEdit {
    let (connection_id, code) = (connection.to_owned(), code.to_owned());
    EntityEdit::Unsubscribe { connection_id, code, ids: of.map(ids) }
}

fn disconnect(connection: &str) -> EntityEdit {
    EntityEdit::Disconnect { connection_id: connection.to_owned() }
}

impl TestStore {
    async fn edits(&self, edits: &[EntityEdit]) {
        self.edit_entities(edits.to_vec()).await.expect("subscriptions can be changed");
    }

    /// What a connection subscribes to, as one text: `project 1 2, task 7`.
    async fn subscribed_to(&self, connection: &str) -> String {
        let codes = self.entities_of(connection).await.expect("subscriptions can be read");
        let code = |(code, ids): (String, Vec<String>)| format!("{code} {}", ids.join(" "));
        codes.into_iter().map(code).collect::<Vec<_>>().join(", ")
    }

    async fn counts(&self, user: Option<&str>) -> Vec<EntityCount> {
        self.entity_counts(user).await.expect("subscriptions can be counted")
    }

    async fn sweeps(&self, stale_ms: u64) -> u64 {
        self.sweep_entities(stale_ms).await.expect("subscriptions can be swept")
    }
}

/// That a connection's subscriptions changed.
fn changed(connection: &str) -> (String, String) {
    said("entities_changed", &format!(r#"{{"connection_id":"{connection}"}}"#))
}

/// What is told, with the spaces left out that one database writes and the other does not.
async fn told(
    store: &TestStore,
    cursor: &mut tidewire_store::ControlCursor,
) -> Vec<(String, String)> {
    let told = store.is_told(cursor).await;
    told.into_iter().map(|(kind, body)| (kind, body.replace(' ', ""))).collect()
}

/// Subscriptions add up, and end one by one, by kind, or all at once.
pub async fn a_connection_subscribes_to_entities(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    assert_eq!(store.subscribed_to("c").await, "");
    store.edits(&[subscribe("c", "project", &["2", "1"])]).await;
    store.edits(&[subscribe("c", "project", &["2", "10"]), subscribe("c", "task", &["é"])]).await;
    assert_eq!(store.subscribed_to("c").await, "project 1 10 2, task é");
    store.edits(&[unsubscribe("c", "project", Some(&["2", "7"]))]).await;
    assert_eq!(store.subscribed_to("c").await, "project 1 10, task é");
    store.edits(&[unsubscribe("c", "project", None)]).await;
    assert_eq!(store.subscribed_to("c").await, "task é");
    store.edits(&[disconnect("c"), disconnect("unknown")]).await;
    assert_eq!(store.subscribed_to("c").await, "");
    store.edits(&[]).await;
}

/// A later edit of a batch sees what an earlier one did.
pub async fn edits_are_made_in_their_order(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let some = Some(&["1"][..]);
    store.edits(&[subscribe("c", "p", &["1", "2"]), unsubscribe("c", "p", some)]).await;
    assert_eq!(store.subscribed_to("c").await, "p 2");
    store.edits(&[unsubscribe("c", "p", some), subscribe("c", "p", &["1"])]).await;
    assert_eq!(store.subscribed_to("c").await, "p 1 2");
    store.edits(&[unsubscribe("c", "p", None), subscribe("c", "p", &["3"])]).await;
    assert_eq!(store.subscribed_to("c").await, "p 3");
    store.edits(&[subscribe("c", "q", &["1"]), disconnect("c"), subscribe("c", "p", &["4"])]).await;
    assert_eq!(store.subscribed_to("c").await, "p 4");
}

/// A batch is of many connections, and each has only its own part of it.
pub async fn one_connections_edits_leave_the_others_alone(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let edits: Vec<_> = ["a", "b", "c", "d"].map(|c| subscribe(c, "p", &["1", "2"])).into();
    store.edits(&edits).await;
    let some = Some(&["1"][..]);
    store.edits(&[disconnect("a"), unsubscribe("b", "p", None), unsubscribe("c", "p", some)]).await;
    let mut left = Vec::new();
    for connection in ["a", "b", "c", "d"] {
        left.push(store.subscribed_to(connection).await);
    }
    assert_eq!(left, ["", "", "p 2", "p 1 2"]);
}

/// One edit that cannot be made takes the others of its batch along.
pub async fn edits_are_made_all_or_none(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.edits(&[subscribe("c", "p", &["1"])]).await;
    let long = "x".repeat(ENTITY_ID_BYTES_MAX + 1);
    let edits = vec![disconnect("c"), subscribe("d", "p", &["1", &long])];
    let too_long = store.edit_entities(edits).await;
    assert!(matches!(too_long, Err(StoreError::Broken { .. })), "{too_long:?}");
    assert_eq!(store.subscribed_to("c").await, "p 1");
    assert_eq!(store.subscribed_to("d").await, "");
    let fits = "y".repeat(ENTITY_ID_BYTES_MAX);
    store.edits(&[subscribe("d", "p", &[&fits])]).await;
    assert_eq!(store.subscribed_to("d").await, format!("p {fits}"));
}

/// Counts are of subscriptions, of the entities among them and of the users.
pub async fn subscriptions_are_counted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    assert_eq!(store.counts(None).await, []);
    store
        .edits(&[
            by("ann", "n", "a", "project", &["1", "2"]),
            by("ann", "n", "b", "project", &["1"]),
            by("bob", "n", "c", "project", &["1", "3"]),
            by("bob", "n", "c", "task", &["1"]),
        ])
        .await;
    let count = |user: Option<&str>, code: &str, subscriptions, entities, users| EntityCount {
        user_id: user.map(ToOwned::to_owned),
        code: code.to_owned(),
        subscriptions,
        entities,
        users,
    };
    let all = [count(None, "project", 5, 3, 2), count(None, "task", 1, 1, 1)];
    assert_eq!(store.counts(None).await, all);
    let ann = Some("ann");
    assert_eq!(store.counts(ann).await, [count(ann, "project", 3, 2, 1)]);
    assert_eq!(store.counts(Some("nobody")).await, []);
}

/// SQL may subscribe a connection, and nodes are told which one.
pub async fn what_sql_changes_is_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    let table = "tidewire.rxdb_subscription";
    let insert = |rows: &str| {
        format!("INSERT INTO {table} (connection_id, entity_code, entity_id) VALUES {rows}")
    };
    let both = vec![changed("a"), changed("b")];
    for (statement, expected) in [
        (insert("('a', 'p', '1'), ('a', 'p', '2'), ('b', 'p', '1')"), both.clone()),
        (insert("('a', 'q', '1')"), vec![changed("a")]),
        (insert("('a', 'q', '1') ON CONFLICT DO NOTHING"), vec![]),
        (format!("DELETE FROM {table} WHERE entity_id = '2'"), vec![changed("a")]),
        (format!("UPDATE {table} SET connection_id = 'b' WHERE entity_code = 'q'"), both.clone()),
        (format!("DELETE FROM {table} WHERE connection_id = 'nobody'"), vec![]),
    ] {
        data.run_sql(&statement).await;
        // In whatever order the database finds them.
        let mut found = told(&store, &mut cursor).await;
        found.sort();
        assert_eq!(found, expected, "{statement}");
    }
    assert_eq!(store.subscribed_to("a").await, "p 1");
    assert_eq!(store.subscribed_to("b").await, "p 1, q 1");
    data.run_sql(&format!("DELETE FROM {table}")).await;
    let mut found = told(&store, &mut cursor).await;
    found.sort();
    assert_eq!(found, both);
}

/// A statement or a transaction over many connections tells of each of them once, in whatever order its
/// rows come.
pub async fn a_connection_is_told_of_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    let table = "tidewire.rxdb_subscription";
    let rows: Vec<String> =
        (0..50).map(|n| format!("('{}', 'p', '{n}')", ["a", "b"][n % 2])).collect();
    let rows = rows.join(", ");
    let mut names = async |what: &str| {
        let mut told = told(&store, &mut cursor).await;
        told.sort_by_key(|message| format!("{message:?}"));
        assert_eq!(told, [changed("a"), changed("b")], "{what}");
    };
    let columns = "(connection_id, entity_code, entity_id)";
    data.run_sql(&format!("INSERT INTO {table} {columns} VALUES {rows}")).await;
    names("rows that alternate are added").await;
    data.run_sql(&format!("UPDATE {table} SET user_id = 'u'")).await;
    names("they are updated").await;
    data.run_sql(&format!("DELETE FROM {table} WHERE entity_code = 'p'")).await;
    names("they are removed").await;
    // SQLite's opener runs one statement at a time.
    if store.backend() == "SQLite" {
        return;
    }
    let statements = format!(
        "INSERT INTO {table} {columns} VALUES {rows}; DELETE FROM {table} WHERE entity_id = '1';
         DELETE FROM {table}"
    );
    data.run_sql(&format!("BEGIN; {statements}; COMMIT")).await;
    names("a transaction does it all").await;
}

/// What nodes write themselves is no news to them; after it SQL is heard again.
pub async fn what_nodes_change_is_not_told(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut cursor = store.listens().await;
    store.edits(&[subscribe("a", "p", &["1", "2", "3"]), subscribe("b", "p", &["1"])]).await;
    store.edits(&[unsubscribe("a", "p", Some(&["1"]))]).await;
    store.edits(&[disconnect("b")]).await;
    assert_eq!(store.sweeps(LONG_MS).await, 2, "the node is not known to live");
    assert_eq!(told(&store, &mut cursor).await, []);
    let sql = "INSERT INTO tidewire.rxdb_subscription (connection_id, entity_code, entity_id)
        VALUES ('a', 'p', '9')";
    data.run_sql(sql).await;
    assert_eq!(told(&store, &mut cursor).await, [changed("a")]);
}

/// What SQL subscribed becomes the node's when that subscribes the same, and lives with it.
pub async fn a_node_takes_up_what_sql_subscribed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    let sql = "INSERT INTO tidewire.rxdb_subscription
        (connection_id, entity_code, entity_id, subscribed_at)
        VALUES ('c', 'p', '1', to_timestamp(1)), ('c', 'p', '2', to_timestamp(1))";
    data.run_sql(sql).await;
    store.edits(&[subscribe("c", "p", &["1"])]).await;
    assert_eq!(store.sweeps(LONG_MS).await, 1);
    assert_eq!(store.subscribed_to("c").await, "p 1");
}

/// All that SQL subscribed a connection to becomes the node's that serves it, and nothing else does.
pub async fn a_node_adopts_what_sql_subscribed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    let sql = "INSERT INTO tidewire.rxdb_subscription
        (connection_id, entity_code, entity_id, subscribed_at)
        VALUES ('c', 'p', '1', to_timestamp(1)), ('c', 'q', '2', to_timestamp(1)),
               ('other', 'p', '1', to_timestamp(1))";
    data.run_sql(sql).await;
    let mut cursor = store.listens().await;
    let adopt = |connection: &str| {
        let (connection_id, node_id) = (connection.to_owned(), "n".to_owned());
        EntityEdit::Adopt { connection_id, node_id }
    };
    store.edits(&[adopt("c"), adopt("unknown")]).await;
    assert_eq!(told(&store, &mut cursor).await, [], "it is no news");
    assert_eq!(store.sweeps(LONG_MS).await, 1);
    assert_eq!(store.subscribed_to("c").await, "p 1, q 2");
    assert_eq!(store.subscribed_to("other").await + &store.subscribed_to("unknown").await, "");
    store.edits(&[adopt("c"), disconnect("c")]).await;
    assert_eq!(store.subscribed_to("c").await, "");
}

/// The subscriptions of nodes whose lease has ended go, and of those that never had one.
pub async fn subscriptions_of_dead_nodes_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("alive", LONG_MS).await;
    store.renews_node("dead", 0).await;
    for node in ["alive", "dead", "unknown"] {
        store.edits(&[by("u", node, node, "p", &["1", "2"])]).await;
    }
    assert_eq!(store.sweeps(LONG_MS).await, 4);
    assert_eq!(store.subscribed_to("alive").await, "p 1 2");
    assert_eq!(store.subscribed_to("dead").await + &store.subscribed_to("unknown").await, "");
    assert_eq!(store.sweeps(LONG_MS).await, 0);
}

/// What SQL subscribed and no node took up goes when it is old.
pub async fn stale_subscriptions_of_no_node_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let sql = "INSERT INTO tidewire.rxdb_subscription
        (connection_id, entity_code, entity_id, subscribed_at)
        VALUES ('old', 'p', '1', to_timestamp(1))";
    data.run_sql(sql).await;
    let sql = "INSERT INTO tidewire.rxdb_subscription (connection_id, entity_code, entity_id)
        VALUES ('young', 'p', '1')";
    data.run_sql(sql).await;
    assert_eq!(store.sweeps(LONG_MS).await, 1);
    assert_eq!(store.subscribed_to("old").await, "");
    assert_eq!(store.subscribed_to("young").await, "p 1");
}

/// All go that are to go, though a transaction removes a limited number.
pub async fn many_subscriptions_are_swept_a_piece_at_a_time(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let many = SWEPT_MAX + 1;
    let all: Vec<String> = (0..many).map(|id| id.to_string()).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    store.edits(&[subscribe("c", "p", &all)]).await;
    assert_eq!(usize::try_from(store.sweeps(LONG_MS).await).ok(), Some(many));
    assert_eq!(store.counts(None).await, []);
}

/// They are there until their connection's node is known to be gone.
pub async fn subscriptions_to_entities_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.edits(&[subscribe("c", "p", &["1"])]).await;
    let store = store.reopen(data).await;
    assert_eq!(store.subscribed_to("c").await, "p 1");
}
