//! Groups of consumers, where PostgreSQL has its own ways: locks, savepoints, sessions that break.

use std::num::NonZeroU32;

use serde_json::value::RawValue;

use super::*;
use crate::PostgresWork;
use crate::groups::PostgresGroups;
use crate::testing::fresh_database;
use tidewire_store::command::Actor;
use tidewire_store::groups::{
    Acked, Begun, Claim, Ending, Failure, GroupError, GroupEvent, GroupSettings, Grouped, Groups,
    Holdings, Key, LETTERS_BYTES_MAX, LeaseRef, Letter, LetterSelection, LetterState, SharedGroups,
    Verdict, Wants, Work, partition_of,
};
use tidewire_store::sql::{SqlAnswer, SqlError, SqlLimits, Statements};

pub(super) const LIMITS: SqlLimits =
    SqlLimits { timeout_ms: 30_000, rows_max: 1_000, bytes_max: 1 << 20 };

/// Events of three hosts, two in each transaction.
const EVENTS: &str = "INSERT INTO tidewire.log
        (c_offset, stream_id, append_id, host_id, user_id, payload, txid, tx_last)
    SELECT i, 's', i, 'host-' || i % 3, 'u', convert_to('event ' || i, 'UTF8'), (i + 1) / 2, i % 2 = 0
    FROM generate_series(1, 100) AS i";

pub(super) fn wish(partitions: u32) -> GroupSettings {
    GroupSettings { partitions: Some(partitions), ..GroupSettings::default() }
}

/// A database with events, its groups, and a table that handlers write to.
pub(super) async fn begun(partitions: u32) -> (TestDatabase, Arc<PostgresStore>, SharedGroups) {
    let database = fresh_database().await;
    let store = open(&database).await;
    database.run(EVENTS).await;
    database.run("CREATE TABLE ledger (note text PRIMARY KEY)").await;
    let groups = Arc::clone(&store).groups();
    let (_, made) = groups.put_group("g", &wish(partitions)).await.expect("a group");
    assert!(made);
    (database, store, groups)
}

pub(super) async fn ended(database: TestDatabase, store: Arc<PostgresStore>) {
    store.close().await;
    database.drop_database().await;
}

pub(super) async fn holdings(groups: &SharedGroups) -> Holdings {
    groups.holdings("g", 0).await.expect("the partition is there")
}

pub(super) async fn claim(groups: &SharedGroups) -> Claim {
    let held = holdings(groups).await.partition;
    Claim {
        group: "g".to_owned(),
        partition: 0,
        member: "m".to_owned(),
        generation: held.generation,
        next: held.next,
        timeout_ms: 30_000,
    }
}

pub(super) async fn work(groups: &SharedGroups) -> Box<dyn Work> {
    match groups.begin(&claim(groups).await).await.expect("a claim") {
        Begun::Work(work) => work,
        other => panic!("expected the partition, got {other:?}"),
    }
}

pub(super) fn up_to(position: u64) -> Ending {
    Ending { next: Position::new(position), ..Ending::default() }
}

pub(super) async fn note(work: &mut Box<dyn Work>, note: &str) {
    let sql = format!("INSERT INTO ledger VALUES ('{note}')");
    work.sql(&sql, &[], LIMITS).await.expect("a row");
}

#[tokio::test]
async fn the_database_puts_a_host_where_rust_does() {
    let database = fresh_database().await;
    let store = open(&database).await;
    for total in [1u32, 2, 7, 8, 1_024] {
        for host in ["", "host-1", "host-2", "abc", "münchen", "東京", "a'b"] {
            let quoted = host.replace('\'', "''");
            let asked = format!("SELECT tidewire.partition_of('{quoted}', {total})");
            let total = NonZeroU32::new(total).expect("not zero");
            let ours = partition_of(host, total).to_string();
            assert_eq!(database.run(&asked).await, [ours], "{host:?} of {total}");
        }
    }
    assert_eq!(database.run("SELECT tidewire.partition_of(NULL, 8)").await, ["2"]);
    ended(database, store).await;
}

#[tokio::test]
async fn a_batch_and_its_advance_are_one_commit() {
    let (database, store, groups) = begun(1).await;
    let mut first = work(&groups).await;
    first.enter(true);
    note(&mut first, "kept").await;
    first.enter(true);
    note(&mut first, "undone").await;
    first.undo().await.expect("a savepoint");
    note(&mut first, "again").await;
    first.enter(false);
    note(&mut first, "without a savepoint").await;
    first.finish(&up_to(51)).await.expect("a commit");
    let left = work(&groups).await;
    drop(left);
    let notes = database.run("SELECT note FROM ledger ORDER BY note").await;
    assert_eq!(notes, ["again", "kept", "without a savepoint"]);
    assert_eq!(holdings(&groups).await.partition.next, Position::new(51));
    ended(database, store).await;
}

#[tokio::test]
async fn two_members_never_have_one_partition() {
    let (database, store, groups) = begun(1).await;
    let other = PostgresGroups::connect(&database.url, 2).await.expect("a worker");
    let stale = claim(&groups).await;
    let mut first = work(&groups).await;
    first.enter(false);
    note(&mut first, "first").await;
    assert!(matches!(other.begin(&stale).await, Ok(Begun::Taken)));
    first.finish(&up_to(11)).await.expect("a commit");
    assert!(matches!(other.begin(&stale).await, Ok(Begun::Moved)));
    ended(database, store).await;
}

#[tokio::test]
pub(super) async fn work_that_is_dropped_is_undone_and_lets_go() {
    let (database, store, groups) = begun(1).await;
    let mut left = work(&groups).await;
    left.enter(false);
    note(&mut left, "left").await;
    drop(left);
    let at = claim(&groups).await;
    let again = async {
        loop {
            if let Begun::Work(work) = groups.begin(&at).await.expect("a claim") {
                break work;
            }
        }
    };
    let again = tokio::time::timeout(DEADLINE, again).await.expect("it lets go");
    again.abandon().await;
    assert_eq!(database.run("SELECT note FROM ledger").await, Vec::<String>::new());
    ended(database, store).await;
}

#[tokio::test]
async fn a_handler_that_ends_the_transaction_is_found_out() {
    for ends in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT; BEGIN"] {
        let (database, store, groups) = begun(1).await;
        let mut broken = work(&groups).await;
        let refused = broken.sql(ends, &[], LIMITS).await.expect_err("refused");
        assert!(refused.to_string().contains("cannot begin or end"), "{refused}");
        let client =
            PostgresWork::of(broken.as_mut()).expect("PostgreSQL").client().expect("a session");
        client.batch_execute(ends).await.expect("nobody checks this");
        let ended_by = broken.finish(&up_to(11)).await.expect_err("found out");
        assert!(matches!(ended_by, GroupError::EndedByHandler), "{ends}: {ended_by}");
        assert_eq!(holdings(&groups).await.partition.next, Position::new(1), "{ends}");
        ended(database, store).await;
    }
}

#[track_caller]
fn assert_divided_by_zero(outcome: Result<SqlAnswer, SqlError>) {
    let Err(SqlError::Wrong(problem)) = outcome else { panic!("it is wrong: {outcome:?}") };
    assert!(problem.message.contains("22012"), "{problem:?}");
}

#[tokio::test]
async fn an_error_that_a_handler_ignores_is_not_a_mystery_at_commit() {
    let (database, store, groups) = begun(1).await;
    let mut broken = work(&groups).await;
    broken.enter(true);
    assert_divided_by_zero(broken.sql("SELECT 1/0", &[], LIMITS).await);
    let ignored = broken.finish(&up_to(11)).await.expect_err("nothing is committed");
    assert!(ignored.to_string().contains("its error was ignored"), "{ignored}");
    // The savepoint of a turn is as good after an error.
    let mut mended = work(&groups).await;
    mended.enter(true);
    assert_divided_by_zero(mended.sql("SELECT 1/0", &[], LIMITS).await);
    mended.undo().await.expect("a savepoint");
    note(&mut mended, "after").await;
    mended.finish(&up_to(11)).await.expect("a commit");
    assert_eq!(database.run("SELECT note FROM ledger").await, ["after"]);
    ended(database, store).await;
}

#[tokio::test]
async fn a_page_has_all_headers_and_the_events_that_are_wanted() {
    let (database, store, groups) = begun(8).await;
    let total = NonZeroU32::new(8).expect("eight");
    let all = Wants {
        filter: tidewire_store::groups::Filter::default(),
        total,
        partitions: None,
        page_bytes: tidewire_store::groups::PAGE_BYTES_MAX,
    };
    let one = partition_of("host-1", total);
    let some = Wants { partitions: Some([one].into()), ..all.clone() };
    let everything = Position::new(u64::MAX);
    for wants in [all, some] {
        let wants = Arc::new(wants);
        let page = groups.log_page(Position::START, everything, &wants).await.expect("a page");
        assert_eq!((page.scanned_to, page.entries.len()), (Position::new(100), 100));
        for entry in &page.entries {
            let host = format!("host-{}", entry.position.number() % 3);
            assert_eq!(entry.partition, partition_of(&host, total));
            let wanted = wants.takes("s", entry.partition);
            assert_eq!(entry.event.is_some(), wanted, "{:?}", entry.position);
        }
    }
    ended(database, store).await;
}

pub(super) fn event(position: u64, user: &str) -> Arc<GroupEvent> {
    Arc::new(GroupEvent {
        position: Position::new(position),
        append_id: Position::new(position),
        stream: "s".to_owned(),
        host_id: Some("h".to_owned()),
        user_id: Some(user.to_owned()),
        txid: Some(7),
        tx_last: true,
        created_at_ms: 1_000,
        trace_context: None,
        change: None,
        payload: Some("x".into()),
        content_type: Some("text/plain".to_owned()),
    })
}

pub(super) fn dead(position: u64, user: &str) -> Letter {
    Letter { event: event(position, user), error: "it\0broke".to_owned(), attempts: 5 }
}

pub(super) fn key(user: &str) -> Key {
    Key::of(Some("h"), Some(user))
}

pub(super) const MUCH: PageLimit = PageLimit { events: 100, bytes: 1 << 20 };

#[tokio::test]
async fn letters_are_parked_redriven_and_freed_in_order() {
    let (database, store, groups) = begun(1).await;
    let before = holdings(&groups).await.partition.generation;
    let ending = Ending {
        dead: vec![dead(3, "u")],
        park: vec![event(5, "u"), event(7, "u")],
        parked_from: vec![(key("u"), Position::new(3))],
        settled: vec![key("u")],
        ..up_to(11)
    };
    work(&groups).await.finish(&ending).await.expect("a commit");
    let held = holdings(&groups).await;
    assert_eq!(held.parked, [(key("u"), Position::new(3))].into());
    assert_eq!((held.partition.parked, held.partition.generation), (1, before + 1));
    assert!(groups.letters_due("g", 0, MUCH).await.expect("a look").is_none());
    assert_eq!(
        groups.redrive("g", &LetterSelection::Offset(Position::new(5))).await.expect("marked"),
        1
    );
    let due = groups.letters_due("g", 0, MUCH).await.expect("a look").expect("letters");
    let positions: Vec<u64> =
        due.groups[0].events.iter().map(|event| event.position.number()).collect();
    assert_eq!((positions, due.next), (vec![3, 5, 7], Position::new(11)));
    assert_eq!(*due.groups[0].events[0], *event(3, "u"));
    let listed = groups.letters("g", Position::START, MUCH, None).await.expect("letters").letters;
    let told: Vec<(&str, LetterState, bool)> =
        listed.iter().map(|view| (view.letter.error.as_str(), view.state, view.redrive)).collect();
    let parked = ("", LetterState::Parked, true);
    assert_eq!(told, [("it\u{fffd}broke", LetterState::Dead, true), parked, parked]);
    // The first goes well; the key stays for the others, and a key is not freed while it has letters.
    let some = Ending { redriven: vec![Position::new(3)], free: Some(key("u")), ..up_to(11) };
    work(&groups).await.finish(&some).await.expect("a commit");
    assert_eq!(holdings(&groups).await.parked.len(), 1);
    let rest = vec![Position::new(5), Position::new(7)];
    let all = Ending { redriven: rest, free: Some(key("u")), ..up_to(11) };
    work(&groups).await.finish(&all).await.expect("a commit");
    let held = holdings(&groups).await;
    assert!(held.parked.is_empty() && !held.partition.redrive && held.partition.parked == 0);
    ended(database, store).await;
}

#[tokio::test]
async fn dropping_the_dead_lets_those_behind_them_go_on() {
    let (database, store, groups) = begun(1).await;
    let ending = Ending {
        dead: vec![dead(3, "u"), dead(4, "v")],
        park: vec![event(5, "u")],
        parked_from: vec![(key("u"), Position::new(3)), (key("v"), Position::new(4))],
        ..up_to(11)
    };
    work(&groups).await.finish(&ending).await.expect("a commit");
    let dropped =
        groups.drop_letters("g", &LetterSelection::Key(key("u")), false).await.expect("dropped");
    assert_eq!(dropped, 1);
    let due = groups.letters_due("g", 0, MUCH).await.expect("a look").expect("those behind");
    assert_eq!(due.redrive, Some(key("u")));
    assert_eq!(due.groups[0].events[0].position, Position::new(5));
    assert_eq!(groups.drop_letters("g", &LetterSelection::All, true).await.expect("dropped"), 2);
    let due = groups.letters_due("g", 0, MUCH).await.expect("a look").expect("a key to free");
    assert!(due.groups.is_empty());
    let other = groups.redrive("other", &LetterSelection::All).await;
    assert!(matches!(other, Err(GroupError::NotFound)), "{other:?}");
    ended(database, store).await;
}

#[tokio::test]
async fn failures_are_counted_apart_and_the_partition_waits() {
    let (database, store, groups) = begun(1).await;
    let at = claim(&groups).await;
    let failure = |verdict| Failure {
        key: key("u"),
        first: Position::new(1),
        verdict,
        error: "x".to_owned(),
    };
    let once = [failure(Verdict::Retry)];
    groups.note_failures(&at, &once, 0).await.expect("noted");
    groups.note_failures(&at, &[failure(Verdict::Dead)], 60_000).await.expect("noted");
    let held = holdings(&groups).await;
    assert_eq!(held.attempts, [(key("u"), (2, Verdict::Dead))].into());
    assert!(held.partition.failing == 1 && held.partition.retry_in_ms.is_some());
    assert!(matches!(groups.begin(&at).await, Ok(Begun::Taken)));
    assert!(!groups.skip(&at, Position::new(5)).await.expect("asked"));
    let stale = Claim { next: Position::new(9), ..at.clone() };
    let moved = groups.note_failures(&stale, &once, 0).await.expect_err("moved");
    assert!(matches!(moved, GroupError::Moved));
    groups.note_failures(&at, &[], 0).await.expect("noted");
    assert!(groups.skip(&at, Position::new(5)).await.expect("asked"));
    assert_eq!(holdings(&groups).await.partition.next, Position::new(5));
    ended(database, store).await;
}

fn statement(sql: &str) -> Statements {
    Statements { sql: sql.to_owned(), params: Vec::new(), actor: Actor::default(), limits: LIMITS }
}

#[tokio::test]
async fn a_lease_is_fenced_acked_once_and_commits_with_its_statements() {
    let (database, store, groups) = begun(1).await;
    let at = claim(&groups).await;
    let to = Position::new(11);
    let generation = groups.lease(&at, to, 60_000).await.expect("asked").expect("free");
    assert_eq!(groups.lease(&at, to, 60_000).await.expect("asked"), None);
    assert!(matches!(groups.begin(&claim(&groups).await).await, Ok(Begun::Taken)));
    let lease = LeaseRef { group: "g".to_owned(), partition: 0, generation };
    groups.extend_lease(&lease, 60_000).await.expect("extended");
    let wrong = vec![statement("INSERT INTO ledger VALUES ('a')"), statement("SELECT 1/0")];
    let failed = groups.ack(&lease, &Ending::default(), wrong).await.expect_err("fails whole");
    assert!(matches!(failed, GroupError::Sql(SqlError::Wrong(_))), "{failed:?}");
    let right = || vec![statement("INSERT INTO ledger VALUES ('a')")];
    let done = groups.ack(&lease, &Ending::default(), right()).await.expect("acked");
    assert!(matches!(done, Acked::Done { next, .. } if next == to), "{done:?}");
    let again = groups.ack(&lease, &Ending::default(), right()).await.expect("known");
    assert_eq!(again, Acked::Before);
    assert_eq!(groups.ack(&lease, &Ending::default(), Vec::new()).await.ok(), Some(Acked::Before));
    assert_eq!(database.run("SELECT note FROM ledger").await, ["a"]);
    // Over a lease that ran out another works, and the late ack finds the partition gone.
    let at = claim(&groups).await;
    let generation = groups.lease(&at, Position::new(21), 1).await.expect("asked").expect("free");
    let late = LeaseRef { generation, ..lease };
    let over = async {
        let at = claim(&groups).await;
        loop {
            if let Begun::Work(work) = groups.begin(&at).await.expect("a claim") {
                break work;
            }
        }
    };
    let over = tokio::time::timeout(DEADLINE, over).await.expect("it runs out");
    over.finish(&up_to(15)).await.expect("a commit");
    let fenced = groups.ack(&late, &Ending::default(), right()).await.expect_err("late");
    assert!(matches!(fenced, GroupError::Fenced), "{fenced}");
    assert!(matches!(groups.extend_lease(&late, 1_000).await, Err(GroupError::Fenced)));
    ended(database, store).await;
}

#[tokio::test]
async fn a_batch_given_back_with_a_dead_event_parks_its_key() {
    let (database, store, groups) = begun(1).await;
    let at = claim(&groups).await;
    let generation =
        groups.lease(&at, Position::new(11), 60_000).await.expect("asked").expect("free");
    let lease = LeaseRef { group: "g".to_owned(), partition: 0, generation };
    let parked_from = vec![(key("u"), Position::new(3))];
    let ending =
        Ending { dead: vec![dead(4, "u"), dead(3, "u")], parked_from, ..Ending::default() };
    groups.nack(&lease, &[], &ending, 0).await.expect("given back");
    let held = holdings(&groups).await;
    assert_eq!(held.parked, [(key("u"), Position::new(3))].into());
    assert!(held.partition.generation > generation && held.partition.next == Position::new(1));
    assert!(matches!(groups.nack(&lease, &[], &ending, 0).await, Err(GroupError::Fenced)));
    ended(database, store).await;
}

#[tokio::test]
async fn a_handlers_parameters_are_of_every_type() {
    let (database, store, groups) = begun(1).await;
    let make =
        "CREATE TABLE wide (a text, b int, c boolean, d jsonb, e text[], f bytea, g numeric)";
    database.run(make).await;
    let raw = |json: &str| RawValue::from_string(json.to_owned()).expect("JSON");
    let values = [r#""it's""#, "1", "true", r#"{"x":[1]}"#, r#"["a","b"]"#, r#""aGk=""#, "1.50"];
    let insert = "INSERT INTO wide VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let mut held = work(&groups).await;
    held.enter(true);
    let params: Vec<Box<RawValue>> = values.iter().map(|json| raw(json)).collect();
    let nulls: Vec<Box<RawValue>> = values.iter().map(|_| raw("null")).collect();
    for params in [&params, &nulls] {
        let answer = held.sql(insert, params, LIMITS).await.expect("a row");
        assert_eq!(answer.row_count, 1);
    }
    let read = held.sql("SELECT a, g FROM wide WHERE b = $1", &[raw("1")], LIMITS).await;
    let rows = read.expect("rows").rows;
    assert_eq!((rows[0][0].get(), rows[0][1].get()), (r#""it's""#, "1.50"));
    let wrong: Vec<Box<RawValue>> = nulls.iter().take(6).cloned().collect();
    let refused = held.sql(insert, &wrong, LIMITS).await.expect_err("too few");
    assert!(refused.to_string().contains("7 parameters, 6 are given"), "{refused}");
    held.finish(&up_to(3)).await.expect("a commit");
    let whole = "SELECT a || b || c || d || e::text || convert_from(f, 'UTF8') || g FROM wide
        WHERE b IS NOT NULL";
    assert_eq!(database.run(whole).await, [r#"it's1true{"x": [1]}{a,b}hi1.50"#]);
    ended(database, store).await;
}

#[tokio::test]
async fn a_list_of_letters_ends_once_it_has_its_bytes() {
    let (database, store, groups) = begun(1).await;
    let half = LETTERS_BYTES_MAX / 2 + 1;
    let insert = format!(
        "INSERT INTO tidewire.consumer_dead_letters (group_id, c_offset, partition_id, key_hash, state,
             died_at_ms, stream_id, append_id, payload, tx_last, created_at)
         SELECT 'g', i, 0, '', 'dead', 1, 's', 1, convert_to(repeat('x', {half}), 'UTF8'), true, now()
         FROM generate_series(7, 9) AS i"
    );
    database.run(&insert).await;
    let all = PageLimit { events: 10, bytes: usize::MAX };
    let first = groups.letters("g", Position::START, all, None).await.expect("letters");
    assert!(first.more);
    let first = first.letters;
    assert_eq!(first.len(), 2);
    let after = first[1].letter.event.position;
    let rest = groups.letters("g", after, all, None).await.expect("letters");
    assert_eq!((rest.letters.len(), rest.more), (1, false));
    ended(database, store).await;
}
