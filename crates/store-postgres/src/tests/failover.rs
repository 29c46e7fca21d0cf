//! A database that is not the one the log was noted in: nothing is appended, and what then happens is
//! what `postgres.failover` says. A failover is played by noting another timeline; two real servers
//! are in the stories.

use futures_util::future::join_all;

use super::*;
use crate::options::Failover;
use crate::testing::fresh_database;
use crate::{Replaced, restore};
use tidewire_store::backup::RestoreOptions;
use tidewire_store::session::{Owner, SessionChange, Sessions};

/// As if the server had been promoted since.
const FAIL_OVER: &str = "UPDATE tidewire.log_epoch SET timeline = '000000FF'";

const NOTED: &str = "SELECT timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
    AND system_identifier = (SELECT system_identifier FROM pg_control_system())
    FROM tidewire.log_epoch";

async fn open_with(
    database: &TestDatabase,
    failover: Failover,
) -> Result<Arc<PostgresStore>, StoreError> {
    let options = PostgresOptions { failover, ..PostgresOptions::new(&database.url) };
    PostgresStore::open(options).await
}

async fn replaced(store: &PostgresStore) -> Replaced {
    tokio::time::timeout(DEADLINE, store.replaced()).await.expect("the store says so")
}

/// A connection that comes back slowly is a reason to ask again, and not an answer.
async fn is_refused(store: &PostgresStore) {
    let refused = async {
        loop {
            match append_text(store, "too much").await {
                Err(StoreError::Unavailable(_)) => {}
                answer => return answer,
            }
        }
    };
    let refused = tokio::time::timeout(DEADLINE, refused).await.expect("an answer");
    assert!(matches!(refused, Err(StoreError::Replaced(_))), "{refused:?}");
}

fn refusal(opened: Result<Arc<PostgresStore>, StoreError>) -> String {
    match opened {
        Err(StoreError::Refused(text)) => text,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn nothing_is_appended_after_a_failover_and_a_new_epoch_begins() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    append_text(&store, "kept").await.expect("an append");
    let opened =
        SessionChange::Open { session: "s".to_owned(), owner: Owner::default(), ttl_ms: 60_000 };
    store.change_sessions(vec![opened]).await.expect("a session");
    assert_eq!(database.run(NOTED).await, ["t"], "noted when the store was opened");
    database.run(FAIL_OVER).await;
    is_refused(&store).await;
    assert!(matches!(replaced(&store).await, Replaced::Reopen(_)));
    store.close().await;
    assert_eq!(database.run("SELECT count(*) FROM tidewire.log").await, ["2"]);

    let nodes: Vec<_> = join_all((0..3).map(|_| open(&database))).await;
    for node in &nodes {
        assert_eq!(node.epoch().number(), 2, "raised once, by whoever came first");
    }
    assert_eq!(database.run(NOTED).await, ["t"]);
    append_text(&nodes[0], "after").await.expect("an append");
    assert_eq!(texts(&nodes[1]).await, ["kept", "after"]);
    assert_eq!(nodes[2].session("s").await.expect("sessions can be read"), None);
    for node in nodes {
        node.close().await;
    }
    database.drop_database().await;
}

/// Where sessions survive, because something stands between: nothing but the append itself finds out.
#[tokio::test]
async fn an_epoch_that_another_node_has_raised_is_seen_by_an_append() {
    let database = fresh_database().await;
    let store = open_with_stream(&database).await;
    database.run("UPDATE tidewire.log_epoch SET epoch = 2").await;
    is_refused(&store).await;
    let Replaced::Reopen(why) = replaced(&store).await else { panic!("to be opened again") };
    assert!(why.contains("the log's epoch is 2, and was 1"), "{why}");
    store.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn an_operator_who_said_stop_is_asked() {
    let database = fresh_database().await;
    open_with_stream(&database).await.close().await;
    database.run(FAIL_OVER).await;
    let text = refusal(open_with(&database, Failover::Stop).await);
    assert!(text.contains("000000FF is noted") && text.contains("\"lossless\""), "{text}");
    let still = "SELECT epoch || ' ' || timeline FROM tidewire.log_epoch";
    assert_eq!(database.run(still).await, ["1 000000FF"]);
    database.drop_database().await;
}

#[tokio::test]
async fn an_operator_who_said_lossless_is_believed() {
    let database = fresh_database().await;
    let store = open_with(&database, Failover::Lossless).await.expect("the database opens");
    create(&store, commands::create("a")).await.expect("a stream is made");
    database.run(FAIL_OVER).await;
    append_text(&store, "after").await.expect("noted, and goes on");
    assert_eq!((store.epoch().number(), texts(&store).await), (1, vec!["after".to_owned()]));
    assert_eq!(database.run(NOTED).await, ["t"]);
    store.close().await;
    database.drop_database().await;
}

/// A copy by dump has another identifier, and tables with other numbers.
#[tokio::test]
async fn a_copy_in_another_cluster_begins_a_new_epoch_and_finds_its_tables() {
    let database = fresh_database().await;
    open(&database).await.close().await;
    database.run("CREATE TABLE seen (id int PRIMARY KEY); SELECT tidewire.watch('seen')").await;
    let elsewhere = "UPDATE tidewire.log_epoch SET system_identifier = 7;
        ALTER TABLE seen RENAME TO old; CREATE TABLE seen (id int PRIMARY KEY)";
    database.run(elsewhere).await;
    let store = open(&database).await;
    assert_eq!(store.epoch().number(), 2);
    let watched = "SELECT table_id = 'seen'::regclass FROM tidewire.watches";
    assert_eq!(database.run(watched).await, ["t"]);
    store.close().await;
    database.drop_database().await;
}

/// A disk that was put back to a snapshot, on the same timeline.
#[tokio::test]
async fn a_node_that_has_seen_more_than_there_is_stops_and_so_do_all() {
    let database = fresh_database().await;
    let (writer, reader) = (open_with_stream(&database).await, open(&database).await);
    append_text(&writer, "kept").await.expect("an append");
    append_text(&writer, "lost").await.expect("an append");
    database.run("DELETE FROM tidewire.log WHERE c_offset = 3").await;
    is_refused(&writer).await;
    let Replaced::Stop(text) = replaced(&writer).await else { panic!("to be opened again") };
    assert!(text.contains("tidewire restore --database"), "{text}");
    // The other one has not seen it, and would go on.
    is_refused(&reader).await;
    assert!(matches!(replaced(&reader).await, Replaced::Stop(_)));
    writer.close().await;
    reader.close().await;
    let text = refusal(open_with(&database, Failover::NewEpoch).await);
    assert!(text.contains("tidewire restore --database"), "started again, it stops again: {text}");

    let options = PostgresOptions::new(&database.url);
    let restored = restore(&options, &RestoreOptions::default()).await.expect("a restore");
    assert_eq!((restored.epoch.number(), restored.tip.number()), (2, 2));
    let store = open(&database).await;
    append_text(&store, "after").await.expect("an append");
    store.close().await;
    database.drop_database().await;
}

/// What a node has read counts too.
#[tokio::test]
async fn a_node_that_only_reads_has_seen_what_it_read() {
    let database = fresh_database().await;
    let (writer, reader) = (open_with_stream(&database).await, open(&database).await);
    append_text(&writer, "lost").await.expect("an append");
    let all = reader.follow(Position::START, EVERYTHING, Arc::new(|_: &str| true)).await;
    assert_eq!(all.expect("the log can be read").len(), 2);
    writer.close().await;
    database.run("DELETE FROM tidewire.log WHERE c_offset = 2").await;
    is_refused(&reader).await;
    assert!(matches!(replaced(&reader).await, Replaced::Stop(_)));
    reader.close().await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_database_from_before_is_noted_and_keeps_its_epoch() {
    let database = fresh_database().await;
    open_with_stream(&database).await.close().await;
    let before = "UPDATE tidewire.log_epoch SET timeline = NULL, system_identifier = NULL";
    database.run(before).await;
    let store = open_with(&database, Failover::Stop).await.expect("the database opens");
    assert_eq!((store.epoch().number(), database.run(NOTED).await.concat()), (1, "t".to_owned()));
    store.close().await;
    database.drop_database().await;
}

/// The identifier may be kept from a role; the timeline is any role's to ask.
#[tokio::test]
async fn what_a_role_may_not_ask_is_left_out() {
    let database = fresh_database().await;
    let role = format!("{}_owner", database.name);
    let rights = format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON DATABASE {} TO {role};
         REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
        database.name
    );
    database.run(&rights).await;
    let url = database.url.replace("postgres@", &format!("{role}@"));
    assert_ne!(url, database.url);
    let store = PostgresStore::open(PostgresOptions::new(&url)).await.expect("the database opens");
    create(&store, commands::create("a")).await.expect("a stream is made");
    append_text(&store, "x").await.expect("an append");
    let noted = "SELECT timeline IS NOT NULL AND system_identifier IS NULL FROM tidewire.log_epoch";
    assert_eq!(database.run(noted).await, ["t"]);
    database.run(FAIL_OVER).await;
    is_refused(&store).await;
    store.close().await;
    database.run(&format!("REASSIGN OWNED BY {role} TO postgres; DROP OWNED BY {role}")).await;
    database.run_on_server(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    database.drop_database().await;
}

/// Some engines take PostgreSQL's protocol, and its locks for a formality.
#[tokio::test]
async fn an_engine_whose_advisory_locks_do_nothing_is_refused() {
    let database = fresh_database().await;
    let pretend = "SET allow_system_table_mods = on;
        ALTER FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint) RENAME TO once_a_lock;
        CREATE FUNCTION pg_catalog.pg_try_advisory_xact_lock(bigint) RETURNS boolean
            LANGUAGE sql AS 'SELECT true'";
    database.run(pretend).await;
    let text = refusal(open_with(&database, Failover::NewEpoch).await);
    assert!(text.contains("two sessions of this server can hold the same advisory lock"), "{text}");
    assert_eq!(
        database.run("SELECT to_regnamespace('tidewire') IS NULL").await,
        ["t"],
        "nothing was made in it"
    );
    database.drop_database().await;
}
