//! Retention: what goes when it is old or too much, what is kept for someone, and what becomes of
//! those who stood before it.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

use super::Opener;
use super::pointers::acknowledge;
use super::sessions::at;
use super::subscriptions::pull;
use super::test_store::TestStore;
use tidewire_store::nodes::NodeReport;
use tidewire_store::offset::Position;
use tidewire_store::retention::{Lagging, Retained, RetentionRules, StreamRule};
use tidewire_store::subscription::Op;
use tidewire_store::testing::commands::{append, create_json, fork};

pub(super) const TABLE: &str = "table/t";
pub(super) const HOUR_MS: u64 = 3_600_000;

/// What is older than an hour goes.
pub(super) fn hourly() -> RetentionRules {
    RetentionRules { age_ms: Some(HOUR_MS), ..RetentionRules::default() }
}

/// What is older than an hour goes from streams under `logs/`.
fn hourly_logs() -> RetentionRules {
    let rule = StreamRule { pattern: "logs/*".to_owned(), age_ms: HOUR_MS };
    RetentionRules { streams: vec![rule], ..RetentionRules::default() }
}

fn place(number: i64) -> Position {
    Position::from_sql(number)
}

/// A store whose log ends with a document, and a table's stream in it.
pub(super) struct Captured<'a> {
    pub(super) data: &'a dyn Opener,
    pub(super) store: TestStore,
}

impl<'a> Captured<'a> {
    pub(super) async fn open(data: &'a dyn Opener) -> Captured<'a> {
        let store = TestStore::open(data).await;
        store.create(create_json(TABLE)).await;
        store.create_text("doc").await;
        Captured { data, store }
    }

    async fn number(&self, sql: &str) -> i64 {
        let rows = self.data.run_sql(sql).await;
        rows.first().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{sql}: {rows:?}"))
    }

    /// Puts changes of rows at the log's end, as if they had been captured so many hours ago, and a
    /// document after them. Returns their positions.
    pub(super) async fn rows(&self, hours: &[u32]) -> Vec<Position> {
        let mut positions = Vec::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
        for hours in hours {
            let end = "SELECT coalesce(max(c_offset), 0) FROM tidewire.log ";
            let position = self.number(end).await + 1;
            let created = now - u64::from(*hours) * 3_600;
            let insert = format!(
                "INSERT INTO tidewire.log (c_offset, stream_id, append_id, table_name, operation,
                     entity_id, after_data, txid, created_at)
                 VALUES ({position}, '{TABLE}', {position}, 't', 'INSERT', '{position}',
                     '{{\"id\":1}}', {position}, to_timestamp({created}))"
            );
            self.data.run_sql(&insert).await;
            positions.push(place(position));
        }
        self.store.append_text("doc", "x").await;
        positions
    }

    /// Calls until there is no more to do, and returns all that was done.
    pub(super) async fn retains(&self, rules: &RetentionRules) -> Retained {
        let mut all = Retained::default();
        loop {
            let done = self.store.retain(rules, &all.next).await.expect("retention runs");
            assert!(!done.elsewhere);
            let (trimmed, events, bytes) =
                (all.streams_trimmed, all.events_removed, all.bytes_removed);
            let (archived, lagging) = (all.events_archived, all.lagging);
            all = done;
            all.streams_trimmed += trimmed;
            all.events_removed += events;
            all.bytes_removed += bytes;
            all.events_archived += archived;
            all.lagging.splice(0..0, lagging);
            if !all.more {
                return all;
            }
        }
    }

    /// As if the time had passed that removed events stay on disk for reads under way.
    pub(super) async fn a_minute_passes(&self) {
        self.data.run_sql("UPDATE tidewire.trims SET due_at_ms = 0").await;
        self.data.run_sql("UPDATE tidewire.stream_purges SET due_at_ms = 0").await;
    }

    pub(super) async fn positions(&self, stream: &str) -> Vec<Position> {
        self.store.events(stream).await.iter().map(|event| event.position).collect()
    }

    /// Rows of the stream that are on disk.
    async fn on_disk(&self) -> i64 {
        let sql =
            "SELECT count(*) FROM tidewire.log WHERE stream_id = 'table/t' AND control IS NULL";
        self.number(sql).await
    }
}

/// Rows past their age are not read any more, and a cursor knows whether it lost some.
pub async fn rows_past_their_age_are_given_up(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0, 0]).await;
    let done = log.retains(&hourly()).await;
    assert_eq!((done.streams_trimmed, done.events_removed), (1, 0));
    assert_eq!(done.captured_events, 5);
    assert_eq!(log.positions(TABLE).await, rows[3..]);
    let view = log.store.view(TABLE).await;
    assert_eq!((view.lost, view.tail), (rows[2], rows[4]));
    assert!(view.has_lost(rows[0]) && view.has_lost(rows[1]), "there was something after these");
    assert!(!view.has_lost(rows[2]), "it had read all that was given up");
    assert!(!view.has_lost(Position::START), "the start is where it begins");
    assert_eq!(log.retains(&hourly()).await.streams_trimmed, 0, "there is no more to give up");
    assert_eq!(log.store.texts("doc").await.len(), 1, "documents stay");
}

/// What was given up stays on disk for a while, so that a read under way finds it, and then goes.
pub async fn given_up_rows_are_removed_after_a_while(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 0]).await;
    log.retains(&hourly()).await;
    assert_eq!(log.on_disk().await, 3);
    log.a_minute_passes().await;
    let done = log.retains(&hourly()).await;
    assert_eq!((done.events_removed, done.events_archived), (2, 0));
    assert_eq!(log.on_disk().await, 1);
    assert_eq!(log.retains(&hourly()).await.captured_events, 1);
    assert_eq!(log.positions(TABLE).await, rows[2..]);
    assert_eq!(log.number("SELECT count(*) FROM tidewire.trims").await, 0);
}

/// More rows than one call removes go in several.
pub async fn many_rows_are_removed_a_piece_at_a_time(data: &dyn Opener) {
    const ROWS: i64 = 4_500;
    let log = Captured::open(data).await;
    let first = log.rows(&[9]).await[0].to_sql() + 2;
    let insert = format!(
        "WITH RECURSIVE numbers (n) AS
             (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {first} + {ROWS})
         INSERT INTO tidewire.log (c_offset, stream_id, append_id, table_name, operation, entity_id,
             after_data, txid, created_at)
         SELECT n, 'table/t', n, 't', 'INSERT', '1', '{{\"id\":1}}', n, to_timestamp(1) FROM numbers"
    );
    log.data.run_sql(&insert).await;
    log.rows(&[0]).await;
    let done = log.retains(&hourly()).await;
    assert_eq!(i64::try_from(done.captured_events), Ok(ROWS + 2));
    log.a_minute_passes().await;
    let first_call = log.store.retain(&hourly(), "").await.expect("retention runs");
    assert!(first_call.more && first_call.events_removed < 2_500, "{first_call:?}");
    let done = log.retains(&hourly()).await;
    let removed = first_call.events_removed + done.events_removed;
    assert_eq!(i64::try_from(removed), Ok(ROWS + 1));
    assert_eq!((log.on_disk().await, done.captured_events), (1, 1));
}

/// The oldest rows go while all of them have too many bytes, and no more of them than that.
pub async fn the_oldest_rows_go_while_there_are_too_many_bytes(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[0; 8]).await;
    let all = log.retains(&RetentionRules::default()).await;
    assert_eq!((all.captured_events, all.streams_trimmed), (8, 0), "without limits all is kept");
    let rules =
        RetentionRules { bytes_max: Some(all.captured_bytes / 2), ..RetentionRules::default() };
    log.retains(&rules).await;
    assert_eq!(log.positions(TABLE).await, rows[4..]);
    log.a_minute_passes().await;
    log.retains(&rules).await;
    let left = log.retains(&rules).await;
    assert_eq!((left.captured_events, left.captured_bytes), (4, all.captured_bytes / 2));
    assert_eq!(log.positions(TABLE).await, rows[4..], "what has room stays");
}

/// Where rows are archived, they are in the archive as they were in the log.
pub async fn archived_rows_are_in_the_archive(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 0]).await;
    let rules = RetentionRules { archive: true, ..hourly() };
    log.retains(&rules).await;
    log.a_minute_passes().await;
    let done = log.retains(&rules).await;
    assert_eq!((done.events_removed, done.events_archived), (2, 2));
    let archived = "SELECT c_offset FROM tidewire.log_archive
        WHERE stream_id = 'table/t' AND table_name = 't' AND operation = 'INSERT'
          AND after_data IS NOT NULL AND archived_at > created_at
        ORDER BY c_offset";
    let expected: Vec<String> = rows[..2].iter().map(|row| row.number().to_string()).collect();
    assert_eq!(log.data.run_sql(archived).await, expected);
    assert_eq!(log.on_disk().await, 1);
}

/// Nothing is given up that a session has not acknowledged, and everything once it has.
pub async fn a_session_that_lags_is_waited_for(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0]).await;
    log.store.opens("s").await;
    let epoch = log.store.follows("s", TABLE, at(rows[0].number())).await.epoch;
    let done = log.retains(&hourly()).await;
    assert_eq!((done.streams_held_back, done.lagging.len()), (1, 0));
    assert_eq!(log.positions(TABLE).await, rows[1..]);
    log.store.does(acknowledge("s", TABLE, epoch, rows[3].number())).await;
    let done = log.retains(&hourly()).await;
    assert_eq!((done.streams_held_back, done.streams_trimmed), (0, 1));
    assert_eq!(log.positions(TABLE).await, rows[3..]);
}

/// A hard limit is stronger than whoever lags, who is named.
pub async fn whoever_lags_past_the_hard_limit_is_named(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[9, 8, 3, 0]).await;
    log.store.opens("s").await;
    log.store.follows("s", TABLE, at(rows[0].number())).await;
    let rules = RetentionRules { hard_age_ms: Some(6 * HOUR_MS), ..hourly() };
    let done = log.retains(&rules).await;
    let lost = Lagging { stream: TABLE.to_owned(), cursor: rows[0], trimmed: rows[1] };
    assert_eq!((done.lagging, done.streams_held_back), (vec![lost], 1));
    assert_eq!(log.positions(TABLE).await, rows[2..]);
    assert!(log.store.view(TABLE).await.has_lost(rows[0]));
    let bytes = log.retains(&rules).await.captured_bytes;
    let rules = RetentionRules { hard_bytes_max: Some(bytes / 4), ..rules };
    log.retains(&rules).await;
    assert_eq!(log.positions(TABLE).await, rows[3..], "nor is it waited for past a size");
}

/// A subscription of the stream protocol is waited for as a session is.
pub async fn a_subscription_that_lags_is_waited_for(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.store.create_text("wakes").await;
    log.store.create_text("logs/a").await;
    log.store.change("s", Op::Create(pull(None, &["logs/a"]))).await;
    log.store.append_text("logs/a", "1").await;
    log.store.append_text("doc", "x").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    let done = log.retains(&hourly_logs()).await;
    assert_eq!((done.streams_trimmed, done.streams_held_back), (0, 1));
    log.store.change("s", Op::Delete).await;
    assert_eq!(log.retains(&hourly_logs()).await.streams_trimmed, 1);
    assert!(log.store.texts("logs/a").await.is_empty());
}

/// What a living node has not read stays, whatever the limits.
pub async fn what_a_node_has_not_read_stays(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0]).await;
    let position = rows[1];
    let report = NodeReport { position, ..super::node_leases::report("n", 1) };
    log.store.renew_node(&report, HOUR_MS).await.expect("a lease");
    let rules = RetentionRules { hard_age_ms: Some(1), ..hourly() };
    log.retains(&rules).await;
    assert_eq!(log.positions(TABLE).await, rows[2..]);
    log.store.remove_node("n", 1).await.expect("it goes");
    log.retains(&hourly()).await;
    assert_eq!(log.positions(TABLE).await, rows[3..]);
}

/// The event at the log's end is its end, and stays until there is another.
pub async fn the_tip_is_never_removed(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.rows(&[5]).await;
    log.store.create_text("logs/a").await;
    let tip = log.store.append_text("logs/a", "the last").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    data.run_sql("UPDATE tidewire.log_buckets SET newest_ms = 1").await;
    let rules = RetentionRules { age_ms: Some(1), ..hourly_logs() };
    for _ in 0..3 {
        log.retains(&rules).await;
        log.a_minute_passes().await;
    }
    assert_eq!(log.store.log_tip().await, tip);
    assert_eq!(log.store.texts("logs/a").await, ["the last"]);
    assert_eq!(log.store.append_text("doc", "x").await, tip.next());
}

/// A stream that was emptied still ends where it ended, also for those who append.
pub async fn an_emptied_stream_ends_where_it_ended(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.store.create_text("logs/a").await;
    let last = log.store.append_text("logs/a", "1").await;
    log.store.append_text("doc", "x").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    log.retains(&hourly_logs()).await;
    for _ in 0..2 {
        let page = log.store.page("logs/a", Position::START, super::test_store::EVERYTHING).await;
        assert_eq!((page.view.tail, page.view.lost), (last, last));
        assert!(page.events.is_empty() && page.up_to_date());
        assert_eq!(page.next(Position::START), last, "a reader from the start is past what went");
        log.a_minute_passes().await;
        log.retains(&hourly_logs()).await;
    }
    let created = log.store.create(fork("logs/a", "fork")).await;
    assert_eq!(created, last, "a fork begins there");
    log.store.append_text("logs/a", "2").await;
    assert_eq!(log.store.texts("logs/a").await, ["2"]);
    let log = Captured { store: log.store.reopen(data).await, data };
    assert_eq!(log.store.view("logs/a").await.lost, last, "and after a restart");
}

/// Streams of documents are kept, but those that have a rule.
pub async fn streams_with_a_rule_have_an_age_of_their_own(data: &dyn Opener) {
    let log = Captured::open(data).await;
    for stream in ["logs/a", "logs/a/b", "logs/c"] {
        log.store.create_text(stream).await;
        log.store.append_text(stream, "old").await;
    }
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    for stream in ["logs/a", "logs/a/b", "logs/c"] {
        log.store.append_text(stream, "new").await;
    }
    let rules = RetentionRules { age_ms: Some(HOUR_MS), ..hourly_logs() };
    assert_eq!(log.retains(&rules).await.streams_trimmed, 2);
    assert_eq!(log.store.texts("logs/a").await, ["new"]);
    assert_eq!(log.store.texts("logs/c").await, ["new"]);
    assert_eq!(log.store.texts("logs/a/b").await, ["old", "new"]);
    log.a_minute_passes().await;
    assert_eq!(log.retains(&rules).await.events_removed, 2);
}

/// Streams that have forks, and forks, are left alone: they show each other's events.
pub async fn sources_of_forks_are_kept(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.store.create_text("logs/source").await;
    log.store.append_text("logs/source", "1").await;
    log.store.create(fork("logs/source", "logs/fork")).await;
    log.store.append_text("logs/fork", "2").await;
    log.store.append_text("doc", "x").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    assert_eq!(log.retains(&hourly_logs()).await.streams_trimmed, 0);
    assert_eq!(log.store.texts("logs/fork").await, ["1", "2"]);
    log.store.delete("logs/fork").await;
    assert_eq!(log.retains(&hourly_logs()).await.streams_trimmed, 1);
}

/// A fork of a stream that lost events has lost them too.
pub async fn a_fork_has_lost_what_its_source_lost(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.store.create_text("logs/source").await;
    log.store.append_text("logs/source", "1").await;
    let second = log.store.append_text("logs/source", "2").await;
    log.store.append_text("doc", "x").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1)").await;
    let third = log.store.append_text("logs/source", "3").await;
    log.retains(&hourly_logs()).await;
    log.store.create(fork("logs/source", "fork")).await;
    log.store.append_text("fork", "4").await;
    let view = log.store.view("fork").await;
    assert_eq!(view.lost, second);
    assert!(view.has_lost(Position::new(1)) && !view.has_lost(third));
    assert_eq!(log.store.texts("fork").await, ["3", "4"]);
}

/// A table's stream that was deleted and made anew is another one: changes between were not
/// captured, so whoever read the first has lost something.
pub async fn a_table_watched_anew_is_another_stream(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[0, 0]).await;
    log.store.delete(TABLE).await;
    log.store.create(create_json(TABLE)).await;
    let view = log.store.view(TABLE).await;
    assert!(view.has_lost(rows[1]) && !view.has_lost(Position::START));
    assert!(!view.has_lost(view.lost));
    let again = log.rows(&[0]).await;
    assert_eq!(log.positions(TABLE).await, again);
    assert!(!log.store.view("doc").await.has_lost(Position::new(1)), "documents are not tables");
}

/// The rows of a table that is watched no longer go, and count no longer.
pub async fn rows_of_a_deleted_table_go(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.rows(&[0, 0, 0]).await;
    assert_eq!(log.retains(&hourly()).await.captured_events, 3);
    log.store.delete(TABLE).await;
    log.store.append_text("doc", "x").await;
    log.a_minute_passes().await;
    assert_eq!(log.retains(&hourly()).await.events_removed, 3);
    let done = log.retains(&hourly()).await;
    assert_eq!((done.captured_events, done.captured_bytes), (0, 0));
    assert_eq!(log.on_disk().await, 0);
}

/// Control events go with the rows of their range, when everyone has heard of them.
pub async fn old_news_go_with_the_rows(data: &dyn Opener) {
    let log = Captured::open(data).await;
    log.rows(&[5; 3]).await;
    let far = "INSERT INTO tidewire.log (c_offset, stream_id, append_id, control, created_at)
        VALUES (7000, '', 7000, 'mark', to_timestamp(1))";
    data.run_sql(far).await;
    log.store.append_text("doc", "x").await;
    data.run_sql("UPDATE tidewire.log SET created_at = to_timestamp(1) WHERE c_offset < 5000")
        .await;
    log.retains(&hourly()).await;
    log.a_minute_passes().await;
    for _ in 0..2 {
        log.retains(&hourly()).await;
    }
    let news = "SELECT count(*) FROM tidewire.log WHERE control IS NOT NULL AND c_offset < 5000";
    assert_eq!(log.number(news).await, 0);
    assert_eq!(log.number("SELECT count(*) FROM tidewire.log_buckets").await, 1);
    assert!(log.store.is_found(TABLE).await, "the stream is there all the same");
    assert_eq!(log.store.texts("doc").await.len(), 2);
}

/// Invariant 2: while all of this goes on, offsets are given without gaps.
pub async fn appends_go_on_meanwhile(data: &dyn Opener) {
    const APPENDS: usize = 200;
    let log = Captured::open(data).await;
    log.rows(&[5; 10]).await;
    log.retains(&hourly()).await;
    log.a_minute_passes().await;
    let before = log.store.log_tip().await;
    let store = &log.store;
    let appends = join_all((0..APPENDS).map(|_| store.append(append("doc", "x"))));
    let rules = hourly();
    let (mut tails, _) = tokio::join!(appends, log.retains(&rules));
    tails.sort_unstable();
    let expected: Vec<Position> =
        (1..=APPENDS).map(|n| Position::new(before.number() + n as u64)).collect();
    assert_eq!(tails, expected);
    assert_eq!(log.on_disk().await, 0);
}
