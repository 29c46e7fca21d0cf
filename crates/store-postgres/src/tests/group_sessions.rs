//! The sessions that batches are worked off in: what is sent in them, what breaks them, and what else happens to
//! the rows of partitions meanwhile.

use super::groups::{LIMITS, begun, claim, ended, holdings, note, up_to, wish, work};
use super::relay::Relay;
use super::*;
use crate::PostgresWork;
use crate::groups::PostgresGroups;
use tidewire_store::backup::RestoreOptions;
use tidewire_store::groups::{Begun, GroupError, MemberKind, MemberReport, SharedGroups, Start};
use tidewire_store::retention::{Retention, RetentionRules};

async fn worker(url: &str) -> SharedGroups {
    PostgresGroups::connect(url, 1).await.expect("a worker")
}

/// The statements of a handler's batch, without what sessions begin with.
fn batch(said: Vec<String>) -> Vec<String> {
    said.into_iter().filter(|said| said.starts_with('Q') || said == "B").collect()
}

#[tokio::test]
async fn an_empty_batch_is_two_round_trips_and_sets_no_savepoint() {
    let (database, store, _) = begun(1).await;
    let relay = Relay::to(&database.url).await;
    let groups = worker(&relay.url).await;
    work(&groups).await.finish(&up_to(3)).await.expect("a commit");
    let at = claim(&groups).await;
    relay.said();
    // Each answer is held back until the pipeline's last statement was sent: who waited for one would wait
    // for ever.
    let both = async {
        relay.hold("Q BEGIN", "B");
        let Begun::Work(mut work) = groups.begin(&at).await.expect("a claim") else {
            panic!("it is free")
        };
        work.enter(true);
        work.enter(true);
        relay.hold("B", "Q COMMIT");
        work.finish(&up_to(5)).await.expect("a commit");
    };
    tokio::time::timeout(DEADLINE, both).await.expect("one pipeline each");
    let begin = "Q BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
    assert_eq!(batch(relay.said()), [begin, "B", "B", "Q COMMIT"]);
    ended(database, store).await;
}

#[tokio::test]
async fn a_savepoint_goes_with_the_statement_behind_it() {
    let (database, store, _) = begun(1).await;
    let relay = Relay::to(&database.url).await;
    let groups = worker(&relay.url).await;
    let mut held = work(&groups).await;
    let insert = "INSERT INTO ledger VALUES ($1)";
    let prepared = PostgresWork::of(held.as_mut())
        .expect("PostgreSQL")
        .prepared(insert)
        .await
        .expect("prepared");
    relay.said();
    relay.hold("Q", "B");
    let both = async {
        for key in ["a", "b"] {
            held.enter(true);
            let client =
                PostgresWork::of(held.as_mut()).expect("PostgreSQL").client().expect("a session");
            client.execute(&prepared, &[&key]).await.expect("a row");
        }
    };
    tokio::time::timeout(DEADLINE, both).await.expect("one pipeline each");
    let next = "Q RELEASE SAVEPOINT tidewire_key; SAVEPOINT tidewire_key";
    assert_eq!(batch(relay.said()), ["Q SAVEPOINT tidewire_key", "B", next, "B"]);
    relay.let_go();
    held.undo().await.expect("a savepoint");
    held.finish(&up_to(5)).await.expect("a commit");
    assert_eq!(database.run("SELECT note FROM ledger").await, ["a"]);
    ended(database, store).await;
}

#[tokio::test]
async fn a_handler_cannot_use_the_name_of_our_savepoints() {
    let (database, store, groups) = begun(1).await;
    let mut held = work(&groups).await;
    held.enter(true);
    for sql in ["SAVEPOINT tidewire_key", "release Tidewire_Key", "ROLLBACK TO \"tidewire_key\""] {
        let refused = held.sql(sql, &[], LIMITS).await.expect_err("refused");
        assert!(refused.to_string().contains("is not the handler's"), "{refused}");
    }
    held.sql("SAVEPOINT mine; SELECT 1; ROLLBACK TO mine", &[], LIMITS).await.expect("theirs");
    held.finish(&up_to(3)).await.expect("a commit");
    ended(database, store).await;
}

/// A claim whose statement began before a change and whose lock came after it. (It waits here for the lock, to
/// be sure of the order.)
#[tokio::test]
async fn a_claim_that_waited_sees_the_newest_row() {
    let (database, store, groups) = begun(1).await;
    let (changing, claiming) = (database.connect().await, database.connect().await);
    let reset = "BEGIN; UPDATE tidewire.consumer_offsets SET generation = 7, next_offset = 50";
    changing.batch_execute(reset).await.expect("a change");
    let text = crate::query::sql!("group_claim").replace("SKIP LOCKED", "");
    let waits = "SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let change = async {
        while database.run(waits).await.is_empty() {}
        changing.batch_execute("COMMIT").await.expect("a commit");
    };
    let claimed = async { claiming.query_one(&text, &[&"g", &0i32]).await.expect("a row") };
    let (row, ()) = tokio::join!(claimed, change);
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (50, 7));
    assert_eq!(holdings(&groups).await.partition.generation, 7);
    ended(database, store).await;
}

#[tokio::test]
async fn a_frozen_member_loses_its_session_and_nothing_happens_twice() {
    let (database, store, groups) = begun(1).await;
    let mut frozen = work(&groups).await;
    frozen.enter(false);
    note(&mut frozen, "frozen").await;
    let client =
        PostgresWork::of(frozen.as_mut()).expect("PostgreSQL").client().expect("a session");
    let told = client
        .query_one("SELECT current_setting('idle_in_transaction_session_timeout')", &[])
        .await
        .expect("a setting");
    assert_eq!(told.get::<_, &str>(0), "35s", "five more than the work may take");
    // What the server does after that time.
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a number").get(0);
    database.run(&format!("SELECT pg_terminate_backend({pid}, 30000)")).await;
    let mut other = work(&groups).await;
    other.enter(false);
    note(&mut other, "other").await;
    other.finish(&up_to(11)).await.expect("a commit");
    let late = frozen.finish(&up_to(11)).await.expect_err("its session is gone");
    assert!(late.temporary() && matches!(late, GroupError::Transient(_)), "{late:?}");
    assert_eq!(database.run("SELECT note FROM ledger").await, ["other"]);
    ended(database, store).await;
}

#[tokio::test]
async fn sessions_that_were_killed_while_idle_are_replaced() {
    let (database, store, groups) = begun(1).await;
    work(&groups).await.finish(&up_to(3)).await.expect("a commit");
    let at = claim(&groups).await;
    database.run(super::outages::KILL_ALL).await;
    let Begun::Work(again) = groups.begin(&at).await.expect("another session") else {
        panic!("it is free")
    };
    again.finish(&up_to(5)).await.expect("a commit");
    ended(database, store).await;
}

#[tokio::test]
async fn an_advance_writes_its_row_beside_the_old_one() {
    const BATCHES: u64 = 300;
    let (database, store, groups) = begun(1).await;
    for batch in 0..BATCHES {
        work(&groups).await.finish(&up_to(batch + 2)).await.expect("a commit");
    }
    // Sessions tell what they counted when they end.
    store.close().await;
    let counted = "SELECT n_tup_hot_upd FROM pg_stat_all_tables
        WHERE relid = 'tidewire.consumer_offsets'::regclass AND n_tup_upd >= 300";
    let told = async {
        loop {
            if let Some(told) = database.run(counted).await.pop() {
                break told;
            }
        }
    };
    let told = tokio::time::timeout(DEADLINE, told).await.expect("it is counted");
    // Now and then somebody else's snapshot keeps an old row for a moment, and a page is full.
    let beside: u64 = told.parse().expect("a number");
    assert!(beside >= BATCHES * 9 / 10, "{beside} of {BATCHES}");
    database.drop_database().await;
}

#[tokio::test]
async fn other_programs_may_move_a_partition_and_members_see_it() {
    let (database, store, groups) = begun(1).await;
    let stale = claim(&groups).await;
    let take = "WITH counter_tip AS (SELECT max(c_offset) AS tip FROM tidewire.log),
            to_claim AS (
                SELECT group_id, next_offset,
                       least(10, greatest(0, (SELECT tip FROM counter_tip) - next_offset + 1)) AS delta
                FROM tidewire.consumer_offsets WHERE group_id = 'g' AND topic_id = 1 FOR UPDATE
            )
        UPDATE tidewire.consumer_offsets AS c SET next_offset = c.next_offset + t.delta
        FROM to_claim AS t WHERE c.group_id = t.group_id AND c.topic_id = 1
        RETURNING c.next_offset - 1";
    assert_eq!(database.run(take).await, ["10"]);
    assert!(matches!(groups.begin(&stale).await, Ok(Begun::Moved)));
    let held = work(&groups).await;
    let waits = "SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let finish = async {
        while database.run(waits).await.is_empty() {}
        held.finish(&up_to(21)).await.expect("a commit");
    };
    let (taken, ()) = tokio::join!(database.run(take), finish);
    assert_eq!(taken, ["30"], "after what the member did");
    ended(database, store).await;
}

#[tokio::test]
async fn a_role_is_told_what_to_be_granted_and_needs_no_more() {
    let (database, store, groups) = begun(1).await;
    let role = format!("{}_worker", database.name);
    database.run(&format!("CREATE ROLE {role}; GRANT ALL ON ledger TO {role}")).await;
    let separator = if database.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20role%3D{role}", database.url);
    let refused = PostgresGroups::connect(&url, 1).await.expect_err("no rights");
    let GroupError::Rights(text) = refused else { panic!("{refused:?}") };
    let grants = text.split_once("in the group: ").expect("what to run").1;
    database.run(&grants.replace("TO role", &format!("TO {role}"))).await;
    let theirs: SharedGroups = worker(&url).await;
    let (_, made) = theirs.put_group("theirs", &wish(2)).await.expect("a group");
    assert!(made);
    let report = MemberReport {
        group: "g".to_owned(),
        member: "m".to_owned(),
        kind: MemberKind::Library,
        pinned: None,
        counts: Box::default(),
    };
    theirs.renew_member(&report, 1_000).await.expect("a member");
    theirs.place_at(Start::Time(1)).await.expect("a place");
    let mut held = work(&theirs).await;
    held.enter(true);
    note(&mut held, "theirs").await;
    held.finish(&up_to(3)).await.expect("a commit");
    assert_eq!(holdings(&groups).await.partition.next, Position::new(3));
    drop(theirs);
    ended_with_role(database, store, &role).await;
}

async fn ended_with_role(database: TestDatabase, store: Arc<PostgresStore>, role: &str) {
    store.close().await;
    database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    database.drop_database().await;
}

#[tokio::test]
async fn a_worker_does_not_prepare_a_database() {
    let database = crate::testing::fresh_database().await;
    let refused = PostgresGroups::connect(&database.url, 1).await.expect_err("nothing there");
    assert!(refused.to_string().contains("tidewire migrate"), "{refused}");
    database.drop_database().await;
}

#[tokio::test]
async fn retention_waits_for_a_group_and_stops_one_that_lost_events() {
    let (database, store, groups) = begun(1).await;
    create(&store, commands::create("table/t")).await.expect("a table's stream");
    let rows = "INSERT INTO tidewire.log (c_offset, stream_id, append_id, table_name, operation,
            after_data, txid, created_at)
        SELECT i, 'table/t', i, 't', 'INSERT', '{}', i, now() - interval '2 hours'
        FROM generate_series(102, 110) AS i;
        INSERT INTO tidewire.log (c_offset, stream_id, append_id, payload)
        VALUES (111, 's', 111, 'x')";
    database.run(rows).await;
    let hour_ms = 3_600_000;
    let soft = RetentionRules { age_ms: Some(hour_ms), ..RetentionRules::default() };
    let kept = store.retain(&soft, "").await.expect("a look");
    assert_eq!((kept.streams_held_back, kept.streams_trimmed), (1, 0));
    let filter =
        tidewire_store::groups::Filter { streams: vec!["s".to_owned()], ..Default::default() };
    let other = tidewire_store::groups::GroupSettings { filter: Some(filter), ..wish(1) };
    groups.put_group("other", &other).await.expect("a group");
    let hard = RetentionRules { hard_age_ms: Some(hour_ms), ..soft };
    let given_up = store.retain(&hard, "").await.expect("a look");
    assert_eq!(given_up.streams_trimmed, 1);
    let lost = groups.group("g").await.expect("a look").expect("there");
    let told = (lost.stopped.as_deref(), lost.lost_to);
    assert_eq!(told, (Some("events_lost"), Position::new(110)));
    let other = groups.group("other").await.expect("a look").expect("there");
    assert_eq!(other.stopped, None, "it does not read that table");
    let at = claim(&groups).await;
    assert!(matches!(groups.begin(&at).await, Ok(Begun::Taken)));
    let resume = tidewire_store::groups::GroupChange { paused: Some(false), ..Default::default() };
    let still = groups.change_group("g", &resume).await.expect("changed");
    assert_eq!(still.stopped.as_deref(), Some("events_lost"));
    let resume = tidewire_store::groups::GroupChange { accept_loss: true, ..resume };
    let view = groups.change_group("g", &resume).await.expect("changed");
    assert_eq!(view.stopped, None);
    ended(database, store).await;
}

#[tokio::test]
async fn after_a_restore_nobody_has_a_partition_and_progress_stays() {
    let (database, store, groups) = begun(1).await;
    work(&groups).await.finish(&up_to(11)).await.expect("a commit");
    let at = claim(&groups).await;
    let generation = groups.lease(&at, Position::new(21), 600_000).await.expect("asked");
    let generation = generation.expect("free");
    store.close().await;
    drop(groups);
    let options = PostgresOptions::new(&database.url);
    let restore = RestoreOptions { replace: false, epoch: None };
    crate::restore(&options, &restore).await.expect("restored");
    let store = open(&database).await;
    let groups = tidewire_store::groups::Grouped::groups(Arc::clone(&store));
    let held = holdings(&groups).await.partition;
    assert_eq!((held.next, held.lease_ms), (Position::new(11), None));
    assert!(held.generation > generation);
    ended(database, store).await;
}

#[tokio::test]
async fn timeouts_hold_after_a_rollback() {
    let (database, store, _) = begun(1).await;
    let groups = worker(&database.url).await;
    work(&groups).await.abandon().await;
    let mut held = work(&groups).await;
    held.enter(true);
    let sql = "SELECT current_setting('statement_timeout'),
        current_setting('idle_in_transaction_session_timeout')";
    let told = held.sql(sql, &[], LIMITS).await.expect("settings");
    let told: Vec<&str> = told.rows[0].iter().map(|value| value.get()).collect();
    assert_eq!(told, ["\"30s\"", "\"35s\""]);
    held.abandon().await;
    ended(database, store).await;
}

#[tokio::test]
async fn what_a_trigger_refuses_at_the_commit_is_the_handlers() {
    let (database, store, groups) = begun(1).await;
    database
        .run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'not this one'; END $$",
        )
        .await;
    database
        .run(
            "CREATE CONSTRAINT TRIGGER refuses AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    let mut held = work(&groups).await;
    held.enter(true);
    note(&mut held, "refused").await;
    let error = held.finish(&up_to(3)).await.expect_err("it is refused");
    assert!(matches!(&error, GroupError::Sql(_)), "{error:?}");
    assert!(error.to_string().contains("not this one"), "{error}");
    ended(database, store).await;
}

/// A transaction that was given up lets go of its partition when its session hears of it, which may be late.
#[tokio::test]
async fn failures_are_noted_when_the_failed_work_lets_go() {
    let (database, store, groups) = begun(1).await;
    let at = claim(&groups).await;
    let held = work(&groups).await;
    let waits = "SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let let_go = async {
        while database.run(waits).await.is_empty() {}
        held.abandon().await;
    };
    let noted = async {
        let noted = groups.note_failures(&at, &[], 0).await;
        noted.expect("it is noted once the partition is let go of");
    };
    // If nobody waits, who failed is told so before the partition is let go of.
    tokio::select! {
        biased;
        ((), ()) = async { tokio::join!(noted, let_go) } => {}
        () = tokio::time::sleep(DEADLINE) => panic!("nobody waits for the partition"),
    }
    ended(database, store).await;
}
