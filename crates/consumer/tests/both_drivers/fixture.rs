//! A store of a test's own, and what happens to it from outside: appends, captured transactions, and a trigger that
//! notes each letter that is written, also one that is there already.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tidewire_store::groups::SharedGroups;
use tidewire_store::{
    Actor, Append, Command, Create, Log as _, NewWatch, Reach, SharedStore, Sql as _, SqlLimits,
    Statements, Watches as _,
};
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;

use crate::history::{Row, Source};

pub(crate) const STREAM: &str = "s";
pub(crate) const TABLE: &str = "orders";
const LIMITS: SqlLimits = SqlLimits { timeout_ms: 30_000, rows_max: 10_000, bytes_max: 1 << 20 };

const SQLITE_TRIGGER: &str = "
    CREATE TABLE letter_writes (group_id TEXT, c_offset INTEGER, state TEXT);
    CREATE TRIGGER note_letters BEFORE INSERT ON tidewire_consumer_dead_letters BEGIN
        INSERT INTO letter_writes VALUES (NEW.group_id, NEW.c_offset, NEW.state);
    END";
const POSTGRES_TRIGGER: &str = "
    CREATE TABLE letter_writes (group_id text, c_offset bigint, state text);
    CREATE FUNCTION note_letters() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.letter_writes VALUES (NEW.group_id, NEW.c_offset, NEW.state);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_letters BEFORE INSERT ON tidewire.consumer_dead_letters
        FOR EACH ROW EXECUTE FUNCTION note_letters()";
const WRITES: &str = "SELECT c_offset || ' ' || state FROM letter_writes WHERE group_id = 'GROUP' \
                      ORDER BY c_offset, state";

pub(crate) enum Fixture {
    Sqlite { store: Arc<SqliteStore>, folder: TempDir },
    Postgres { store: Arc<PostgresStore>, database: TestDatabase },
}

impl Fixture {
    pub(crate) async fn sqlite() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let open = async || SqliteStore::open(SqliteOptions::new(folder.path())).await;
        open().await.expect("a store").close().await;
        file(&folder).execute_batch(SQLITE_TRIGGER).expect("a trigger");
        let store = open().await.expect("a store");
        let table = "CREATE TABLE orders (id INTEGER PRIMARY KEY, host TEXT, usr TEXT, what TEXT, pad TEXT)";
        store.run_sql(statements(table)).await.expect("a table");
        let watch = NewWatch {
            table: "orders".to_owned(),
            key_columns: None,
            entity_code: None,
            host_column: Some("host".to_owned()),
            user_column: Some("usr".to_owned()),
        };
        store.watch(watch).await.expect("a watched table");
        Fixture::Sqlite { store, folder }.with_stream().await
    }

    pub(crate) async fn postgres() -> Fixture {
        let database = fresh_database().await;
        let store = PostgresStore::open(PostgresOptions::new(&database.url)).await;
        let store = store.expect("a store");
        database.run(POSTGRES_TRIGGER).await;
        Fixture::Postgres { store, database }.with_stream().await
    }

    async fn with_stream(self) -> Fixture {
        let create = Create {
            stream: STREAM.to_owned(),
            content_type: Some("application/json".to_owned()),
            lifetime: None,
            messages: Vec::new(),
            closed: false,
            fork: None,
            actor: Actor::default(),
        };
        let created = self.store().submit(Command::Create(Box::new(create))).await;
        created.expect("a stream");
        self
    }

    pub(crate) fn store(&self) -> SharedStore {
        match self {
            Fixture::Sqlite { store, .. } => Arc::clone(store) as SharedStore,
            Fixture::Postgres { store, .. } => Arc::clone(store) as SharedStore,
        }
    }

    pub(crate) fn groups(&self) -> SharedGroups {
        self.store().groups()
    }

    /// Puts these into the log, one after the other.
    pub(crate) async fn put(&self, sources: &[Source]) {
        for source in sources {
            match source {
                Source::Append(rows) => self.append(rows).await,
                Source::Transaction(rows) => self.transact(rows).await,
            }
        }
    }

    async fn append(&self, rows: &[Row]) {
        let message =
            |row: &Row| json!({ "what": row.what, "pad": "x".repeat(row.pad) }).to_string().into();
        let (host, user) = (rows[0].host.clone(), rows[0].user.to_owned());
        let append = Append {
            stream: STREAM.to_owned(),
            content_type: Some("application/json".to_owned()),
            messages: rows.iter().map(message).collect(),
            close: false,
            seq: None,
            producer: None,
            actor: Actor { host_id: Some(host), user_id: Some(user), ..Actor::default() },
            trace_context: None,
        };
        self.store().submit(Command::Append(append)).await.expect("an append");
    }

    /// Rows that one transaction wrote, as they are captured.
    async fn transact(&self, rows: &[Row]) {
        match self {
            Fixture::Sqlite { store, .. } => {
                let mut sql = "INSERT INTO orders (host, usr, what, pad) VALUES ".to_owned();
                for (index, Row { host, user, what, pad }) in rows.iter().enumerate() {
                    let (comma, pad) = (if index > 0 { ", " } else { "" }, "x".repeat(*pad));
                    let _ = write!(sql, "{comma}('{host}', '{user}', '{what}', '{pad}')");
                }
                store.run_sql(statements(&sql)).await.expect("rows");
            }
            // Without a sequencer of its own, the store is given what one would write.
            Fixture::Postgres { database, .. } => {
                let mut sql = "WITH tip AS (SELECT max(c_offset) AS tip FROM tidewire.log)
                    INSERT INTO tidewire.log (c_offset, stream_id, append_id, host_id, user_id, table_name,
                        operation, entity_id, after_data, txid, tx_last, created_at)
                    SELECT tip + n, 'table/orders', tip + n, host, usr, 'orders', 'INSERT', n::text,
                        jsonb_build_object('what', what, 'pad', repeat('x', pad)), tip, last, now()
                    FROM tip, (VALUES "
                    .to_owned();
                for (index, Row { host, user, what, pad }) in rows.iter().enumerate() {
                    let (comma, last) =
                        (if index > 0 { ", " } else { "" }, index + 1 == rows.len());
                    let number = index + 1;
                    let _ = write!(
                        sql,
                        "{comma}({number}, '{host}', '{user}', '{what}', {pad}, {last})"
                    );
                }
                sql.push_str(") AS row (n, host, usr, what, pad, last)");
                database.run(&sql).await;
            }
        }
    }

    /// Each writing of a letter of a group, also of one that was there: its offset, and as what.
    pub(crate) async fn letter_writes(&self, group: &str) -> Vec<String> {
        let sql = WRITES.replace("GROUP", group);
        match self {
            Fixture::Sqlite { folder, .. } => {
                let file = file(folder);
                let mut query = file.prepare(&sql).expect("a query");
                let rows = query.query_map([], |row| row.get(0)).expect("rows");
                rows.collect::<Result<_, _>>().expect("texts")
            }
            Fixture::Postgres { database, .. } => database.run(&sql).await,
        }
    }

    pub(crate) async fn end(self) {
        match self {
            Fixture::Sqlite { store, .. } => store.close().await,
            Fixture::Postgres { store, database } => {
                store.close().await;
                database.drop_database().await;
            }
        }
    }
}

fn file(folder: &TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.path().join("tidewire.db")).expect("the store's file")
}

fn statements(sql: &str) -> Statements {
    let actor = Actor { reach: Reach::All, ..Actor::default() };
    Statements { sql: sql.to_owned(), params: Vec::new(), actor, limits: LIMITS }
}
