//! What is SQLite's own about groups: the transaction on the writer's thread.

use std::sync::Arc;

use serde_json::value::RawValue;
use tempfile::TempDir;

use crate::SqliteStore;
use crate::options::SqliteOptions;
use tidewire_store::backup::RestoreOptions;
use tidewire_store::command::{Actor, Command};
use tidewire_store::groups::{
    Begun, Claim, Ending, GroupError, GroupSettings, Groups, Holdings, LETTERS_BYTES_MAX, LeaseRef,
    MemberKind, MemberReport, Wants, Work, partition_of,
};
use tidewire_store::log::{Log, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::sql::{Sql, SqlAnswer, SqlError, SqlLimits, Statements};
use tidewire_store::testing::commands;
use tidewire_store::watch::{NewWatch, Watches};

pub(super) const LIMITS: SqlLimits =
    SqlLimits { timeout_ms: 20_000, rows_max: 1_000, bytes_max: 1 << 20 };

/// A store with a group of one partition that begins at the log's start.
pub(super) struct Subject {
    pub(super) store: Arc<SqliteStore>,
    folder: TempDir,
}

impl Subject {
    pub(super) async fn open() -> Subject {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
        let subject = Subject { store, folder };
        subject.run("CREATE TABLE ledger (id INTEGER PRIMARY KEY, what TEXT)").await;
        let new = NewWatch { table: "ledger".to_owned(), ..NewWatch::default() };
        subject.store.watch(new).await.expect("it can be watched");
        subject.submit(Command::Create(Box::new(commands::create("a")))).await;
        let wish = GroupSettings { partitions: Some(1), ..GroupSettings::default() };
        let (_, made) = subject.store.put_group("g", &wish).await.expect("a group");
        assert!(made);
        subject
    }

    pub(super) async fn submit(&self, command: Command) {
        self.store.submit(command).await.expect("an answer");
    }

    pub(super) async fn append(&self, text: &str) {
        self.submit(Command::Append(commands::append("a", text))).await;
    }

    pub(super) async fn run(&self, sql: &str) -> SqlAnswer {
        let (params, actor) = (Vec::new(), Actor::default());
        let statements = Statements { sql: sql.to_owned(), params, actor, limits: LIMITS };
        self.store.run_sql(statements).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The one value that a query gives.
    pub(super) async fn value(&self, sql: &str) -> String {
        self.run(sql).await.rows[0][0].get().to_owned()
    }

    pub(super) async fn holdings(&self) -> Holdings {
        self.store.holdings("g", 0).await.expect("holdings")
    }

    pub(super) async fn claim(&self) -> Claim {
        let partition = self.holdings().await.partition;
        Claim {
            group: "g".to_owned(),
            partition: 0,
            member: "m".to_owned(),
            generation: partition.generation,
            next: partition.next,
            timeout_ms: 60_000,
        }
    }

    pub(super) async fn begin(&self, claim: &Claim) -> Box<dyn Work> {
        match self.store.begin(claim).await.expect("begun") {
            Begun::Work(work) => work,
            other => panic!("not taken: {other:?}"),
        }
    }

    pub(super) async fn tip(&self) -> Position {
        self.store.tip().await.expect("a tip")
    }

    /// The changes of the watched table that the log has, as the values of `what`.
    pub(super) async fn logged(&self) -> Vec<String> {
        let tip = self.tip().await;
        let total = std::num::NonZeroU32::MIN;
        let wants = Arc::new(Wants {
            filter: Default::default(),
            total,
            partitions: None,
            page_bytes: tidewire_store::groups::PAGE_BYTES_MAX,
        });
        let page = self.store.log_page(Position::START, tip, &wants).await.expect("a page");
        let what = |event: &tidewire_store::groups::GroupEvent| {
            let row: serde_json::Value =
                serde_json::from_slice(event.change.as_ref()?.after.as_ref()?).expect("JSON");
            Some(row["what"].as_str().expect("a text").to_owned())
        };
        let events = page.entries.iter().filter_map(|entry| entry.event.as_deref());
        events.filter_map(what).collect()
    }
}

pub(super) fn ending(next: Position) -> Ending {
    Ending { next, ..Ending::default() }
}

pub(super) async fn insert(work: &mut dyn Work, what: &str) -> Result<SqlAnswer, SqlError> {
    let sql = "INSERT INTO ledger (what) VALUES ($1)";
    let what = RawValue::from_string(format!("{what:?}")).expect("JSON");
    work.sql(sql, &[what], LIMITS).await
}

#[tokio::test]
async fn the_function_of_sql_gives_the_partition_that_rust_does() {
    let subject = Subject::open().await;
    for host in ["", "host-1", "größe", "日本"] {
        for total in [1, 3, 8, 1_024] {
            let sql = format!("SELECT tidewire_partition_of('{host}', {total})");
            let expected = partition_of(host, total.try_into().expect("not zero"));
            assert_eq!(subject.value(&sql).await, expected.to_string(), "{sql}");
        }
    }
    assert_eq!(
        subject.value("SELECT tidewire_partition_of(NULL, 8)").await,
        subject.value("SELECT tidewire_partition_of('', 8)").await
    );
    subject.store.close().await;
}

#[tokio::test]
async fn a_restored_group_goes_on_where_it_was_without_its_members() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let counts = RawValue::from_string("{}".to_owned()).expect("JSON");
    let (group, member) = ("g".to_owned(), "m".to_owned());
    let report = MemberReport { group, member, kind: MemberKind::Library, pinned: None, counts };
    subject.store.renew_member(&report, 60_000).await.expect("joined");
    subject.begin(&claim).await.finish(&ending(claim.next.next())).await.expect("finished");
    let claim = subject.claim().await;
    let to = claim.next.next();
    let generation = subject.store.lease(&claim, to, 60_000).await.expect("asked").expect("given");
    subject.store.close().await;
    let file = subject.folder.path().join("copy.db");
    crate::backup(subject.folder.path(), &file, &mut |_| {}).expect("a backup");
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::restore(&file, folder.path(), &RestoreOptions::default()).expect("restored");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("it opens");
    let view = store.group("g").await.expect("asked").expect("it is there");
    let partition = &view.partitions[0];
    assert_eq!((partition.next, partition.lease_ms), (claim.next, None));
    assert!(partition.generation > generation && view.members.is_empty(), "{view:?}");
    let lease = LeaseRef { group: "g".to_owned(), partition: 0, generation };
    let late = store.ack(&lease, &ending(to), Vec::new()).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    store.close().await;
}

#[tokio::test]
async fn the_statements_of_an_ack_have_one_timeout_together() {
    let subject = Subject::open().await;
    let claim = subject.claim().await;
    let to = claim.next.next();
    let generation = subject.store.lease(&claim, to, 60_000).await.expect("asked").expect("given");
    let lease = LeaseRef { group: "g".to_owned(), partition: 0, generation };
    // Each of them is far below its own timeout, and all of them far above.
    let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
               INSERT INTO ledger (what) SELECT count(*) FROM n"
        .to_owned();
    let limits = SqlLimits { timeout_ms: 500, ..LIMITS };
    let one = Statements { sql, params: Vec::new(), actor: Actor::default(), limits };
    let acked = subject.store.ack(&lease, &ending(to), vec![one; 10_000]).await;
    let Err(GroupError::Sql(SqlError::Wrong(problem))) = acked else { panic!("{acked:?}") };
    assert_eq!(problem.code, "sql_timeout");
    assert_eq!(subject.value("SELECT count(*) FROM ledger").await, "0");
    subject.store.ack(&lease, &ending(to), Vec::new()).await.expect("the lease stays");
    subject.store.close().await;
}

#[tokio::test]
async fn a_list_of_letters_ends_once_it_has_its_bytes() {
    let subject = Subject::open().await;
    let file = subject.folder.path().join("tidewire.db");
    let file = rusqlite::Connection::open(file).expect("the file is there");
    let insert =
        "INSERT INTO tidewire_consumer_dead_letters (group_id, c_offset, partition_id, key_hash,
             state, died_at_ms, stream_id, append_id, payload, tx_last, created_at)
         VALUES ('g', ?1, 0, x'00', 'dead', 1, 'a', 1, zeroblob(?2), 1, 1)";
    for position in [7, 8, 9] {
        file.execute(insert, (position, LETTERS_BYTES_MAX / 2 + 1)).expect("a letter");
    }
    let all = PageLimit { events: 10, bytes: usize::MAX };
    let first = subject.store.letters("g", Position::START, all, None).await.expect("letters");
    assert!(first.more);
    let first = first.letters;
    assert_eq!(first.len(), 2);
    let after = first[1].letter.event.position;
    let rest = subject.store.letters("g", after, all, None).await.expect("letters");
    assert_eq!((rest.letters.len(), rest.more), (1, false));
    subject.store.close().await;
}
