//! Opening the file: the folder's lock, the connections and their settings, the migrations.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use tokio::sync::Semaphore;

use super::capture::{self, Guard};
use super::error::broken;
use super::memory;
use super::sql;
use tidewire_store::error::StoreError;
use tidewire_store::migration::{self, Migration};
use tidewire_store::offset::Epoch;
use tidewire_store::sql::SqlError;
use tidewire_store::sql_permits::SqlPermits;

pub(super) const FILE_NAME: &str = "tidewire.db";
const LOCK_NAME: &str = "tidewire.lock";

/// KiB of pages that the writer keeps in memory. SQLite's 2 MiB do not hold the ends of a few hundred
/// busy streams, and a page that fell out is read again, by way of the write-ahead log's index.
const WRITER_CACHE_KIB: i64 = 64 << 10;

/// Prepared statements kept by each connection: a few more than there are queries.
const STATEMENT_CACHE: usize = 160;

/// Connections that users' SQL runs on, at least: of a few, two callers would have all.
const SQL_PLACES_MIN: usize = 8;

/// Proof that this process alone has the folder.
#[derive(Debug)]
pub(crate) struct FolderLock {
    file: File,
    folder: PathBuf,
    /// Whether the store's files are as the last server left them.
    pub(crate) untouched: bool,
}

impl FolderLock {
    pub(crate) fn take(folder: &Path) -> Result<FolderLock, StoreError> {
        let cannot = |what: &str, error: std::io::Error| {
            StoreError::Refused(format!(
                "cannot {what} the data folder {}: {error}",
                folder.display()
            ))
        };
        std::fs::create_dir_all(folder).map_err(|error| cannot("make", error))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join(LOCK_NAME))
            .map_err(|error| cannot("write to", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(cannot("lock", error)),
        }
        let mut left = String::new();
        let _ = file.read_to_string(&mut left);
        let untouched = left.lines().nth(1) == Some(stamp(folder).as_str());
        let mut lock = FolderLock { file, folder: folder.to_owned(), untouched };
        lock.note("");
        Ok(lock)
    }

    /// Lets the folder go, and notes how the files were left.
    pub(crate) fn release(mut self) {
        let stamp = stamp(&self.folder);
        self.note(&stamp);
    }

    /// Failing to write this is no failure: the process id is for a message only, and without a stamp
    /// the next server looks at more than it may have to.
    fn note(&mut self, stamp: &str) {
        let _ = self
            .file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .and_then(|()| write!(self.file, "{}\n{stamp}", std::process::id()));
    }
}

/// What tells that the store's files were written to: their sizes and times.
fn stamp(folder: &Path) -> String {
    let of_file = |name: &str| {
        let metadata = std::fs::metadata(folder.join(name)).ok()?;
        let written = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{}@{}", metadata.len(), written.as_nanos()))
    };
    let names = [FILE_NAME.to_owned(), format!("{FILE_NAME}-wal")];
    names.map(|name| of_file(&name).unwrap_or_default()).join(" ")
}

fn in_use(folder: &Path, file: &mut File) -> StoreError {
    let mut owner = String::new();
    let _ = file.read_to_string(&mut owner);
    let owner = owner.lines().next().unwrap_or_default();
    let owner = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
    StoreError::Refused(format!(
        "the data folder {} is in use by another tidewire{owner}; stop that one, or give this one \
         its own folder with --data. Several nodes share a PostgreSQL database, not a folder",
        folder.display()
    ))
}

/// The connection that writes, with the schema up to date.
pub(crate) fn writer(folder: &Path) -> Result<(Connection, Epoch), StoreError> {
    if !memory::install() {
        tracing::error!(
            "the memory that live queries take is not bounded: SQLite is in use already"
        );
    }
    let mut connection =
        Connection::open(folder.join(FILE_NAME)).map_err(broken("open the store"))?;
    configure(&connection).map_err(broken("configure the store"))?;
    migrate(&mut connection, crate::MIGRATIONS)?;
    // Not before: a migration may change the schema where no statement can.
    defend(&connection).map_err(broken("configure the store"))?;
    let number = connection
        .query_row(sql!("epoch"), [], |row| row.get::<_, u16>(0))
        .map_err(broken("read the log's epoch"))?;
    let epoch = Epoch::new(number)
        .ok_or_else(|| StoreError::Refused(format!("the log's epoch {number} is out of range")))?;
    Ok((connection, epoch))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A negative size is in KiB.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(())
}

/// No SQL can make the schema's table or the tables behind virtual ones writable, whatever it is.
fn defend(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map(drop)
}

pub(super) fn migrate(
    connection: &mut Connection,
    migrations: &'static [Migration],
) -> Result<(), StoreError> {
    let failed = broken("migrate the store");
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(&failed)?;
    transaction
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS main.tidewire_migrations (
                number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
            )",
        )
        .map_err(&failed)?;
    let version: i32 = transaction
        .query_row("SELECT max(number) FROM main.tidewire_migrations", [], |row| row.get(0))
        .optional()
        .map(Option::flatten)
        .map_err(&failed)?
        .unwrap_or(0);
    for step in migration::pending(migrations, version)? {
        transaction.execute_batch(step.sql).map_err(&failed)?;
        transaction
            .execute(
                "INSERT INTO main.tidewire_migrations (number, name, applied_at) VALUES (?1, ?2, ?3)",
                (step.number, step.name, super::error::now_ms()),
            )
            .map_err(&failed)?;
    }
    transaction.commit().map_err(&failed)
}

/// A connection that reads, and what guards it while it runs the user's SQL.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    guard: Arc<Guard>,
}

/// Connections that read. In WAL mode they see a snapshot and wait for no one.
#[derive(Debug)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Reader>>,
    /// As many permits as connections, so a holder of a permit always finds one idle.
    permits: Arc<Semaphore>,
    /// How many may run the user's SQL, which may take long: readers of streams find one, too.
    sql_permits: SqlPermits,
    count: u32,
}

impl Readers {
    pub(crate) fn open(folder: &Path, count: usize) -> Result<Readers, StoreError> {
        let path: PathBuf = folder.join(FILE_NAME);
        let sql_count = count.div_ceil(2).max(SQL_PLACES_MIN);
        let count = u32::try_from((count / 2).max(1) + sql_count).unwrap_or(u32::MAX);
        let open_one = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = Connection::open_with_flags(&path, flags)?;
            connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
            defend(&connection)?;
            let guard = Arc::default();
            capture::prepare(&mut connection, None, &guard)?;
            Ok(Reader { connection, guard })
        };
        let idle = (0..count)
            .map(|_| open_one())
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(broken("open the store for reading"))?;
        let permits = Arc::new(Semaphore::new(idle.len()));
        let sql_permits = SqlPermits::new(sql_count);
        Ok(Readers { idle: Mutex::new(idle), permits, sql_permits, count })
    }

    /// Refuses when the store is closed, where nothing needs to be read from the file.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.permits.is_closed() { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Waits for the reads under way and closes the connections. Later reads find the store closed.
    pub(crate) async fn close(&self) {
        if let Ok(_all) = self.permits.acquire_many(self.count).await {
            self.permits.close();
            self.sql_permits.close();
            self.idle().clear();
        }
    }

    /// Runs a read on a thread where it may block.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.lend(move |reader| work(&mut reader.connection)).await
    }

    /// Runs the user's SQL on a thread where it may block, on their account.
    pub(crate) async fn run_sql<T, F>(
        self: &Arc<Self>,
        account: Option<&Arc<str>>,
        work: F,
    ) -> Result<T, SqlError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection, &Guard) -> Result<T, SqlError> + Send + 'static,
    {
        let place = self.sql_permits.take(account).await.map_err(|_| StoreError::Closed)?;
        // The place goes with the work: it is not free because nobody waits for the answer any more.
        let work = move |reader: &mut Reader| {
            let _place = place;
            work(&mut reader.connection, &reader.guard)
        };
        self.lend(work).await
    }

    async fn lend<T, E, F>(self: &Arc<Self>, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, E> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits);
        let permit = permit.acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let run = move || {
            let lent = readers.idle().pop();
            let Some(mut reader) = lent else { return Err(StoreError::Closed.into()) };
            let result = work(&mut reader);
            readers.idle().push(reader);
            drop(permit);
            result
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| StoreError::Closed)?
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
