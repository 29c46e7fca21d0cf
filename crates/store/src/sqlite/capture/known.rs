//! The rows of watched tables as the log tells them.
//!
//! When a table begins to be watched its rows are copied, and from then on the log has every change.
//! Both together say what readers of the log believe the table to hold, so when another process has
//! written to the file, what it changed is the difference to what the table holds.

use rusqlite::Connection;

use super::table::Watched;
use crate::offset::Position;
use crate::sqlite::sql;

/// Takes a table's rows as they are: the log tells the changes after `offset`.
pub(crate) fn remember(
    connection: &Connection,
    watched: &Watched,
    offset: Position,
) -> rusqlite::Result<()> {
    forget(connection, watched)?;
    let mut add = connection.prepare_cached(sql!("known_row_add"))?;
    watched.rows(connection, |image| {
        add.execute((&watched.name, &image.entity_id, &image.json)).map(|_| ())
    })?;
    connection
        .prepare_cached(sql!("watch_known"))?
        .execute((&watched.name, offset.to_sql()))
        .map(|_| ())
}

/// Forgets a table's rows.
pub(crate) fn forget(connection: &Connection, watched: &Watched) -> rusqlite::Result<()> {
    connection.prepare_cached(sql!("known_rows_clear"))?.execute([&watched.name]).map(|_| ())
}
