//! The embedded store's log, written by a bare loop.

use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rusqlite::{Connection, params};

use super::{Log, Rows};

const INSERT: &str = include_str!("sqlite_insert.sql");
/// As many as the store waits for, because copying them is part of what inserting costs. The loop does it
/// by itself, the store's writer mostly beside its commits.
const CHECKPOINT_PAGES: u32 = 4_000;
/// Rows per commit of a fill: beyond some thousand, larger commits gain nothing.
const FILL_ROWS: i64 = 50_000;

#[derive(Debug)]
pub(crate) struct SqliteLog {
    connection: Connection,
}

impl SqliteLog {
    pub(crate) fn open(data: &Path) -> Result<Self> {
        let connection = Connection::open(database_file(data)?)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        Ok(Self { connection })
    }

    /// The first offset that is free.
    pub(crate) fn next_offset(&mut self) -> Result<i64> {
        Ok(self.tip()? + 1)
    }

    /// Inserts rows of streams and payloads, of one type, from `first` on, in one commit.
    pub(crate) fn insert_rows<'a>(
        &mut self,
        first: i64,
        content_type: &str,
        rows: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<()> {
        let created_at_ms = jiff::Timestamp::now().as_millisecond();
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for (offset, (stream, payload)) in (first..).zip(rows) {
                insert.execute(params![offset, stream, payload, content_type, created_at_ms])?;
            }
        }
        transaction.commit().context("commit")
    }
}

impl Log for SqliteLog {
    fn tip(&mut self) -> Result<i64> {
        let sql = "SELECT coalesce(max(c_offset), 0) FROM log";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    fn insert(&mut self, offsets: Range<i64>, rows: &Rows<'_>) -> Result<()> {
        let first = offsets.start;
        let all = offsets.map(|offset| (rows.stream_of(offset), rows.payload));
        self.insert_rows(first, rows.content_type, all)
    }

    fn fill(&mut self, last: i64, rows: &Rows<'_>) -> Result<()> {
        self.connection.pragma_update(None, "synchronous", "OFF")?;
        // 256 MiB: the index grows at as many places as there are streams.
        self.connection.pragma_update(None, "cache_size", -262_144)?;
        let mut next = self.tip()? + 1;
        while next <= last {
            let end = (next + FILL_ROWS).min(last + 1);
            self.insert(next..end, rows)?;
            next = end;
        }
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

/// The one SQLite file in the data folder, whatever its name.
pub(crate) fn database_file(data: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(data).with_context(|| format!("read {}", data.display()))? {
        let path = entry?.path();
        let mut magic = [0; 16];
        let is_read = path.is_file() && File::open(&path)?.read_exact(&mut magic).is_ok();
        if is_read && &magic == b"SQLite format 3\0" {
            return Ok(path);
        }
    }
    anyhow::bail!("there is no SQLite file in {}", data.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_rows_fit_the_log_of_the_migrations() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let connection = Connection::open(folder.path().join("any.name"))?;
        connection
            .execute_batch(include_str!("../../../crates/store-sqlite/migrations/0001_log.sql"))?;
        drop(connection);

        let streams = ["a".to_owned(), "b".to_owned()];
        let rows =
            Rows { streams: &streams, messages: 1, payload: b"x", content_type: "text/plain" };
        let mut log = SqliteLog::open(folder.path())?;
        log.insert(1..4, &rows)?;
        log.fill(9, &rows)?;
        assert_eq!(log.tip()?, 9);
        let sql = "SELECT count(*) FROM log WHERE stream_id = 'b' AND append_id = c_offset";
        assert_eq!(log.connection.query_row(sql, [], |row| row.get::<_, i64>(0))?, 5);
        Ok(())
    }
}
