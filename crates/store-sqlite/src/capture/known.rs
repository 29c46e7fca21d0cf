//! The rows of watched tables as the log tells them.
//!
//! When a table begins to be watched its rows are copied, and from then on the log has every change.
//! Both together say what readers of the log believe the table to hold, so when another process has
//! written to the file, what it changed is the difference to what the table holds. Before events
//! leave the log, they must be applied to the copy ([`before_removal`]).

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::table::{Image, Watched};
use super::watched;
use crate::sql;
use tidewire_store::offset::Position;
use tidewire_store::row::TABLE_PREFIX;

/// Rows that may differ and still be told one by one. More wait in memory than should, and readers do
/// better to read the table anew.
const DIFFERENCES_MAX: usize = 100_000;

/// A row as it is known, and as it was found.
pub(crate) type Difference = (Option<Image>, Option<Image>);

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
    reached(connection, watched, offset)
}

/// Forgets a table's rows.
pub(crate) fn forget(connection: &Connection, watched: &Watched) -> rusqlite::Result<()> {
    connection.prepare_cached(sql!("known_rows_clear"))?.execute([&watched.name]).map(|_| ())
}

fn reached(connection: &Connection, watched: &Watched, offset: Position) -> rusqlite::Result<()> {
    let mut note = connection.prepare_cached(sql!("watch_known"))?;
    note.execute((&watched.name, offset.to_sql())).map(|_| ())
}

/// Applies the log's changes of a table to its known rows, up to a place in the log.
pub(crate) fn catch_up(
    connection: &Connection,
    watched: &Watched,
    up_to: Position,
) -> rusqlite::Result<()> {
    let mut changes = connection.prepare_cached(sql!("known_changes"))?;
    let mut add = connection.prepare_cached(sql!("known_row_add"))?;
    let mut take = connection.prepare_cached(sql!("known_row_take"))?;
    let mut rows = changes.query((watched.stream(), up_to.to_sql()))?;
    while let Some(row) = rows.next()? {
        if let Some(before) = row.get::<_, Option<String>>(0)? {
            let before = watched.image_of_json(before);
            take.execute((&watched.name, &before.entity_id, &before.json))?;
        }
        if let Some(after) = row.get::<_, Option<String>>(1)? {
            let after = watched.image_of_json(after);
            add.execute((&watched.name, &after.entity_id, &after.json))?;
        }
    }
    connection.prepare_cached(sql!("known_rows_tidy"))?.execute([&watched.name])?;
    reached(connection, watched, up_to)
}

/// Before events of a stream leave the log: applies them to the known rows of its table, if it is one
/// that is watched.
pub(crate) fn before_removal(
    connection: &Connection,
    stream: &str,
    up_to: Position,
) -> rusqlite::Result<()> {
    if !stream.starts_with(TABLE_PREFIX) {
        return Ok(());
    }
    let stored = watched::stored(connection)?;
    match stored.iter().find(|watched| watched.stream() == stream) {
        Some(watched) => catch_up(connection, watched, up_to),
        None => Ok(()),
    }
}

/// What a table holds other than what the log tells up to `tip`, its end: rows that are gone, then
/// those that changed, then those that are new. None if that is too much to tell.
pub(crate) fn differences(
    connection: &Connection,
    watched: &Watched,
    tip: Position,
) -> rusqlite::Result<Option<Vec<Difference>>> {
    catch_up(connection, watched, tip)?;
    connection.prepare_cached(sql!("found_rows_clear"))?.execute([])?;
    let mut add = connection.prepare_cached(sql!("found_row_add"))?;
    watched.rows(connection, |image| add.execute((&image.entity_id, &image.json)).map(|_| ()))?;
    let gone = differing(connection, watched, sql!("rows_gone"))?;
    let new = differing(connection, watched, sql!("rows_new"))?;
    connection.prepare_cached(sql!("found_rows_clear"))?.execute([])?;
    Ok(gone.zip(new).map(|(gone, new)| paired(gone, new)))
}

fn differing(
    connection: &Connection,
    watched: &Watched,
    query: &str,
) -> rusqlite::Result<Option<Vec<Image>>> {
    let mut query = connection.prepare_cached(query)?;
    let limit = i64::try_from(DIFFERENCES_MAX + 1).unwrap_or(i64::MAX);
    let mut rows = query.query((&watched.name, limit))?;
    let mut images = Vec::new();
    while let Some(row) = rows.next()? {
        let image = watched.image_of_json(row.get(1)?);
        for _ in 0..row.get::<_, i64>(2)? {
            images.push(image.clone());
            if images.len() > DIFFERENCES_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(images))
}

/// Makes updates of rows that are gone and new under one key.
fn paired(gone: Vec<Image>, new: Vec<Image>) -> Vec<Difference> {
    let mut new_by_key: BTreeMap<String, Vec<Image>> = BTreeMap::new();
    for image in new.into_iter().rev() {
        new_by_key.entry(image.entity_id.clone()).or_default().push(image);
    }
    let (mut deleted, mut updated) = (Vec::new(), Vec::new());
    for before in gone {
        match new_by_key.get_mut(&before.entity_id).and_then(Vec::pop) {
            Some(after) => updated.push((Some(before), Some(after))),
            None => deleted.push((Some(before), None)),
        }
    }
    let inserted = new_by_key.into_values().flatten().map(|after| (None, Some(after)));
    deleted.into_iter().chain(updated).chain(inserted).collect()
}
