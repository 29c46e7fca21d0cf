//! A table that is watched, and a ledger of what was made of its changes: what a group's members did, to be
//! compared with the log.
//!
//! The ledger has no unique key: what takes effect twice is in it twice. Its `seq` is the order in which rows
//! were written, its `batch` the transaction that wrote them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;
use tidewire_consumer::{
    Builder, Consumer, Context, Event, EventExt as _, Group, Handler, HandlerError, Source,
};
use tidewire_store::groups::{Grouped as _, SharedGroups};
use tidewire_store::{Actor, NewWatch, Reach, Sql as _, SqlLimits, Statements, Watches as _};
use tidewire_store_postgres::groups::PostgresGroups;
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;

use crate::launch::{Launch, Server};
use crate::postgres::Sql;
use crate::store::Store;

/// What SQL may take and give in a story.
const LIMITS: SqlLimits =
    SqlLimits { timeout_ms: 30_000, rows_max: 1_000_000, bytes_max: 256 << 20 };

/// A store with a watched table `orders` and a `ledger`, in which groups work.
#[derive(Debug)]
pub struct Ledger {
    store: LedgerStore,
    groups: SharedGroups,
}

#[derive(Debug)]
enum LedgerStore {
    /// In this process, as it must be.
    Sqlite { store: Arc<SqliteStore>, folder: Store },
    /// Captured by a server; worked on from here.
    Postgres { url: String, sql: Sql, _server: Box<Server> },
}

impl Ledger {
    /// Opens a store and makes the tables.
    pub async fn open(store: Store) -> Ledger {
        match store {
            Store::Sqlite { ref folder, .. } => {
                let opened = open_sqlite(folder.clone()).await;
                let store = LedgerStore::Sqlite { store: Arc::clone(&opened), folder: store };
                Ledger { store, groups: opened.groups() }
            }
            Store::Postgres { ref url } => {
                let url = url.clone();
                let server = Box::new(Launch::dev(&store).start().await);
                let sql = Sql::connect(&url).await.expect("a connection");
                sql.batch_execute(POSTGRES_TABLES).await.expect("tables");
                let document =
                    json!({ "table": "orders", "host_column": "host", "user_column": "usr" });
                let answer = server.http().json(Method::POST, "/v1/watch", &document).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                let groups = PostgresGroups::connect(&url, 1).await.expect("groups");
                Ledger { store: LedgerStore::Postgres { url, sql, _server: server }, groups }
            }
        }
    }

    /// The groups, for administration.
    pub fn groups(&self) -> &SharedGroups {
        &self.groups
    }

    /// The database's address, for other processes.
    pub fn url(&self) -> &str {
        match &self.store {
            LedgerStore::Postgres { url, .. } => url,
            LedgerStore::Sqlite { .. } => panic!("the embedded store has no address"),
        }
    }

    /// A member of the group `g` that reads `orders`, as yet without a number of partitions.
    pub fn member(&self) -> Builder {
        match &self.store {
            LedgerStore::Sqlite { store, .. } => Ledger::member_at(Arc::clone(store)),
            LedgerStore::Postgres { url, .. } => Ledger::member_at(url.clone()),
        }
    }

    /// The same, for whoever comes to the log in this way.
    pub fn member_at(log: impl Into<Source>) -> Builder {
        Consumer::builder(log)
            .group("g")
            .tables(["orders"])
            .signals(false)
            .retry(Duration::from_millis(20), Duration::from_millis(200))
    }

    /// Runs statements in one transaction.
    pub async fn run(&self, text: &str) {
        match &self.store {
            LedgerStore::Sqlite { store, .. } => run_sqlite(store, text).await,
            LedgerStore::Postgres { sql, .. } => {
                let one = format!("BEGIN; {text}; COMMIT");
                sql.batch_execute(&one).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            }
        }
    }

    /// Orders of one host and user, all in one transaction, each with what becomes of it.
    pub async fn order(&self, host: &str, user: &str, what: &[&str]) {
        let rows: Vec<String> =
            what.iter().map(|what| format!("('{host}', '{user}', '{what}')")).collect();
        self.run(&format!("INSERT INTO orders (host, usr, what) VALUES {}", rows.join(", "))).await;
    }

    /// Asks for one number.
    pub async fn number(&self, question: &str) -> i64 {
        match &self.store {
            LedgerStore::Sqlite { folder, .. } => folder.number((question, question)).await,
            LedgerStore::Postgres { sql, .. } => sql.number(question).await,
        }
    }

    /// What the ledger says was made of a user's orders, in order, with a space between.
    pub async fn story_of(&self, user: &str) -> String {
        let list = match &self.store {
            LedgerStore::Sqlite { .. } => "group_concat(what, ' ')",
            LedgerStore::Postgres { .. } => "string_agg(what, ' ')",
        };
        let question = format!(
            "SELECT coalesce({list}, '') FROM (SELECT what FROM ledger WHERE user_id = '{user}' ORDER BY seq) AS l"
        );
        match &self.store {
            LedgerStore::Sqlite { store, .. } => {
                let answer = store.run_sql(statements(&question)).await.expect("an answer");
                serde_json::from_str(answer.rows[0][0].get()).expect("a text")
            }
            LedgerStore::Postgres { sql, .. } => {
                sql.query_one(&question, &[]).await.expect("an answer").get(0)
            }
        }
    }

    /// How many changes of `orders` are in the log.
    pub async fn events(&self) -> i64 {
        self.number(&format!("SELECT count(*) FROM {} WHERE table_name = 'orders'", self.log()))
            .await
    }

    fn log(&self) -> &'static str {
        match &self.store {
            LedgerStore::Sqlite { .. } => "log",
            LedgerStore::Postgres { .. } => "tidewire.log",
        }
    }

    /// Everything that holds of a ledger when the log has been worked off: each change of `orders` once, those of
    /// a host and user in order, and what a transaction wrote for a partition in one transaction.
    pub async fn holds(&self) {
        for (question, what) in CHECKS {
            let question = question.replace("LOG", self.log());
            assert_eq!(self.number(&question).await, 0, "{what}: {question}");
        }
    }
}

/// What must be none, and what it would mean.
const CHECKS: [(&str, &str); 4] = [
    (
        "SELECT count(*) FROM LOG AS l WHERE l.table_name = 'orders' AND l.operation IS NOT NULL AND \
         NOT EXISTS (SELECT 1 FROM ledger AS e WHERE e.c_offset = l.c_offset)",
        "events that took no effect",
    ),
    (
        "SELECT count(*) - count(DISTINCT c_offset) FROM ledger",
        "events that took effect more than once",
    ),
    (
        "SELECT count(*) FROM (SELECT c_offset < lag(c_offset) OVER (PARTITION BY host_id, user_id ORDER BY \
         seq) AS torn FROM ledger) AS o WHERE torn",
        "events of a host and user out of order",
    ),
    (
        "SELECT count(*) FROM (SELECT txid, partition_id FROM ledger WHERE batch IS NOT NULL GROUP BY txid, \
         partition_id HAVING count(DISTINCT batch) > 1) AS t",
        "transactions that were torn apart",
    ),
];

const POSTGRES_TABLES: &str = "
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, host text, usr text, what text);
    CREATE TABLE ledger (seq bigint GENERATED ALWAYS AS IDENTITY, c_offset bigint, host_id text, user_id text,
        what text, txid bigint, partition_id integer, batch text DEFAULT pg_current_xact_id()::text)";

const SQLITE_TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT, usr TEXT, what TEXT);
    CREATE TABLE IF NOT EXISTS ledger (seq INTEGER PRIMARY KEY AUTOINCREMENT, c_offset INTEGER, host_id TEXT,
        user_id TEXT, what TEXT, txid INTEGER, partition_id INTEGER, batch TEXT)";

/// The embedded store with the tables.
pub async fn open_sqlite(folder: PathBuf) -> Arc<SqliteStore> {
    let store = SqliteStore::open(SqliteOptions::new(folder)).await.expect("a store");
    run_sqlite(&store, SQLITE_TABLES).await;
    let watch = NewWatch {
        table: "orders".to_owned(),
        key_columns: None,
        entity_code: None,
        host_column: Some("host".to_owned()),
        user_column: Some("usr".to_owned()),
    };
    store.watch(watch).await.expect("a watched table");
    store
}

/// Runs statements in one transaction of the embedded store.
pub async fn run_sqlite(store: &SqliteStore, text: &str) {
    store.run_sql(statements(text)).await.unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn statements(text: &str) -> Statements {
    let actor = Actor { reach: Reach::All, ..Actor::default() };
    Statements { sql: text.to_owned(), params: Vec::new(), actor, limits: LIMITS }
}

/// Writes what it is given into the ledger, in two statements. What an order says becomes of it: `retry`, `dead`,
/// `stop`, `panic`, or anything else, which is well.
#[derive(Debug, Default)]
pub struct Keeper {
    abort: Option<(Abort, AtomicU32)>,
    /// Orders that are well by now, whatever they say.
    healed: Arc<std::sync::atomic::AtomicBool>,
}

/// Where a worker ends its own process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abort {
    /// Before the work.
    Before,
    /// In it, between its statements.
    Between,
    /// After the handler returned and before the commit, or a little later.
    After,
}

impl Keeper {
    /// Ends the process in the `turns`th run of the handler.
    pub fn aborting(abort: Abort, turns: u32) -> Keeper {
        Keeper { abort: Some((abort, AtomicU32::new(turns))), ..Keeper::default() }
    }

    /// Handles what it refused before, from when this is set.
    pub fn healing(healed: &Arc<std::sync::atomic::AtomicBool>) -> Keeper {
        Keeper { healed: Arc::clone(healed), ..Keeper::default() }
    }

    fn turn(&self) -> Option<Abort> {
        let (abort, left) = self.abort.as_ref()?;
        (left.fetch_sub(1, Ordering::SeqCst) == 1).then_some(*abort)
    }
}

#[async_trait]
impl Handler for Keeper {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let abort = self.turn();
        if abort == Some(Abort::Before) {
            std::process::abort();
        }
        let half = group.events().len().div_ceil(2);
        write(group, &group.events()[..half], context).await?;
        if abort == Some(Abort::Between) {
            std::process::abort();
        }
        if !self.healed.load(Ordering::SeqCst) {
            for event in group.events() {
                obey(event)?;
            }
        }
        write(group, &group.events()[half..], context).await?;
        if abort == Some(Abort::After) {
            let within = Duration::from_micros(rand::random_range(0..3_000));
            std::thread::spawn(move || {
                std::thread::sleep(within);
                std::process::abort();
            });
        }
        Ok(())
    }
}

fn what(event: &Event) -> Result<String, HandlerError> {
    let row: serde_json::Value = event.json()?;
    Ok(row["what"].as_str().unwrap_or_default().to_owned())
}

fn obey(event: &Event) -> Result<(), HandlerError> {
    match what(event)?.as_str() {
        "retry" => Err(HandlerError::retry("told to fail")),
        "dead" => Err(HandlerError::dead("told to die")),
        "stop" => Err(HandlerError::stop("told to stop")),
        "panic" => panic!("told to panic"),
        _ => Ok(()),
    }
}

async fn write(
    group: &Group<'_>,
    events: &[Arc<Event>],
    context: &mut Context<'_>,
) -> Result<(), HandlerError> {
    let (host, user) = (group.host_id(), group.user_id());
    let partition = i32::try_from(group.partition())?;
    let whats = events.iter().map(|event| what(event)).collect::<Result<Vec<_>, _>>()?;
    if let Some(mut postgres) = context.postgres() {
        let offsets: Vec<i64> = events.iter().map(|event| event.position.to_sql()).collect();
        let txids: Vec<Option<i64>> = events.iter().map(|event| event.txid).collect();
        let sql = "INSERT INTO ledger (c_offset, txid, what, host_id, user_id, partition_id) \
                   SELECT o, t, w, $4, $5, $6 FROM unnest($1::bigint[], $2::bigint[], $3::text[]) \
                   WITH ORDINALITY AS e (o, t, w, n) ORDER BY n";
        postgres.execute(sql, &[&offsets, &txids, &whats, &host, &user, &partition]).await?;
        return Ok(());
    }
    for (event, what) in events.iter().zip(whats) {
        let sql = "INSERT INTO ledger (c_offset, txid, what, host_id, user_id, partition_id) \
                   VALUES ($1, $2, $3, $4, $5, $6)";
        let params = [
            json!(event.position.number()),
            json!(event.txid),
            json!(what),
            json!(host),
            json!(user),
            json!(partition),
        ];
        context.sql(sql, &params).await?;
    }
    Ok(())
}

/// The command that runs a worker: `binary` is `ledger-worker`, `at` a database or a folder.
pub fn worker(binary: &str, at: &str, member: &str, abort: Option<(Abort, u32)>) -> Command {
    let mut command = Command::new(binary);
    let abort = match abort {
        None => "never".to_owned(),
        Some((Abort::Before, turns)) => format!("before:{turns}"),
        Some((Abort::Between, turns)) => format!("between:{turns}"),
        Some((Abort::After, turns)) => format!("after:{turns}"),
    };
    command.args([at, "g", member, &abort]);
    command
}
