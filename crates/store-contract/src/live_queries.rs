//! The list of live queries.

use super::Opener;
use super::test_store::{TestStore, eventually};
use tidewire_store::queries::{LiveQueryEdit, LiveQueryRow};

/// Longer than any test.
const LONG_MS: u64 = 600_000;

fn row(connection: &str, query: &str, node: &str) -> LiveQueryRow {
    LiveQueryRow {
        live_id: format!("{connection}-{query}"),
        connection_id: connection.to_owned(),
        query_id: query.to_owned(),
        user_id: "alice".to_owned(),
        query: "SELECT * FROM messages".to_owned(),
        node: node.to_owned(),
        plan: "filter".to_owned(),
        user_agent: Some("a browser".to_owned()),
        address: None,
    }
}

fn open(connection: &str, query: &str, node: &str) -> LiveQueryEdit {
    LiveQueryEdit::Open(row(connection, query, node))
}

fn close(live_id: &str) -> LiveQueryEdit {
    LiveQueryEdit::Close { live_id: live_id.to_owned() }
}

fn disconnect(connection: &str) -> LiveQueryEdit {
    LiveQueryEdit::Disconnect { connection_id: connection.to_owned() }
}

fn count(live_id: &str, changes: u64, lag_ms: Option<u64>) -> LiveQueryEdit {
    let (live_id, plan) = (live_id.to_owned(), "requery".to_owned());
    LiveQueryEdit::Count { live_id, changes, lag_ms, queue_depth: 3, plan }
}

impl TestStore {
    async fn lists(&self, edits: Vec<LiveQueryEdit>) {
        self.edit_live_queries(edits).await.expect("the list can be changed");
    }

    async fn finds(&self, live_id: &str) -> Option<LiveQueryRow> {
        self.live_query(live_id).await.expect("the list can be read")
    }
}

/// What people see of the list.
async fn listed(data: &dyn Opener) -> Vec<String> {
    data.run_sql("SELECT live_id FROM tidewire.live_query ORDER BY live_id").await
}

/// A query is listed until it is followed no more.
pub async fn a_query_is_listed_while_it_is_followed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.lists(vec![open("c", "a", "n"), open("c", "b-1", "n"), open("d", "a", "n")]).await;
    assert_eq!(store.finds("c-b-1").await, Some(row("c", "b-1", "n")));
    assert_eq!(listed(data).await, ["c-a", "c-b-1", "d-a"]);
    store.lists(vec![close("c-a"), close("not there")]).await;
    assert_eq!(store.finds("c-a").await, None);
    store.lists(vec![disconnect("c"), disconnect("not there")]).await;
    assert_eq!(listed(data).await, ["d-a"]);
    store.lists(Vec::new()).await;
}

/// What comes later holds, within one batch too.
pub async fn edits_of_the_list_are_made_in_their_order(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    let edits = vec![
        open("c", "a", "n"),
        count("c-a", 5, None),
        close("c-a"),
        open("c", "a", "n"),
        count("c-a", 1, Some(7)),
        count("c-a", 1, None),
        open("c", "b", "n"),
        close("c-b"),
        open("d", "a", "n"),
        disconnect("d"),
        open("d", "b", "n"),
    ];
    store.lists(edits).await;
    assert_eq!(listed(data).await, ["c-a", "d-b"]);
    let counted = "SELECT changes FROM tidewire.live_query WHERE live_id = 'c-a'";
    assert_eq!(data.run_sql(counted).await, ["2"]);
    let lag = "SELECT lag_ms FROM tidewire.live_query WHERE live_id = 'c-a'";
    assert_eq!(data.run_sql(lag).await, ["7"]);
}

/// Changes are counted, and what was counted stays when a node says again what it has.
pub async fn changes_of_a_query_are_counted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.lists(vec![open("c", "a", "n")]).await;
    store.lists(vec![count("c-a", 2, Some(40)), count("not there", 1, None)]).await;
    store.lists(vec![count("c-a", 3, None)]).await;
    store.lists(vec![open("c", "a", "n")]).await;
    let of = async |column: &str| {
        let sql = format!("SELECT {column} FROM tidewire.live_query");
        data.run_sql(&sql).await.join(" ")
    };
    assert_eq!((of("changes").await, of("lag_ms").await), ("5".to_owned(), "40".to_owned()));
    assert_eq!((of("queue_depth").await, of("plan").await), ("3".to_owned(), "filter".to_owned()));
    assert_eq!(of("CASE WHEN updated_at >= created_at THEN 'later' END").await, "later");
}

/// A dead node's queries are gone with its lease, and then from the table.
pub async fn queries_of_dead_nodes_are_swept(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    store.renews_node("short", 1).await;
    let many = (0..2_500).map(|number| open("c", &number.to_string(), "short"));
    store.lists(many.collect()).await;
    store.lists(vec![open("d", "a", "n"), open("e", "a", "never there")]).await;
    let gone = || async { store.finds("c-7").await.is_none().then_some(()) };
    eventually("the lease ends", gone).await;
    assert_eq!(listed(data).await, ["d-a"]);
    assert_eq!(store.finds("e-a").await, None);
    assert_eq!(store.sweep_live_queries().await.expect("a sweep"), 2_501);
    assert_eq!(store.sweep_live_queries().await.expect("a sweep"), 0);
    let kept = data.run_sql("SELECT live_id FROM tidewire.live_queries").await;
    assert_eq!(kept, ["d-a"]);
}

/// Whatever clients call themselves and their queries can be listed.
pub async fn odd_names_are_listed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.renews_node("n", LONG_MS).await;
    let odd = "it's \"odd\" \\ {a,b} \u{0} ünï";
    let user_agent = Some(odd.to_owned());
    store.lists(vec![LiveQueryEdit::Open(LiveQueryRow { user_agent, ..row("c", odd, "n") })]).await;
    let live_id = format!("c-{odd}");
    assert!(store.finds(&live_id).await.is_some());
    store.lists(vec![count(&live_id, 1, None), close(&live_id)]).await;
    assert_eq!(store.finds(&live_id).await, None);
}
