//! Writes to the file by another process.
//!
//! The hook sees only what this process does. That another one wrote is told by `data_version`, and by
//! the files themselves where it did so while no server ran. The watched tables are then read again,
//! and the differences come into the log, in a transaction of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use rusqlite::{Connection, Transaction};

use super::collect::{key_before, row_change};
use super::schema::{self, TrackedTables};
use super::table::{self, Named, Watched};
use super::{Capture, known, transaction, watched};
use crate::error::broken;
use crate::load;
use crate::writer::Writer;
use tidewire_store::command::Actor;
use tidewire_store::decide::TransactionStep;
use tidewire_store::error::StoreError;
use tidewire_store::row::Operation;
use tidewire_store::sql::SqlError;

/// How often a transaction is begun anew because another process wrote just before it.
const ATTEMPTS_MAX: usize = 8;

/// A number that changes when another connection has written to the file.
pub(crate) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA main.data_version")?.query_row([], |row| row.get(0))
}

/// Looks whether another process wrote, and brings what it changed into the log.
pub(crate) fn notice(writer: &mut Writer) -> Result<(), StoreError> {
    let capture = writer.capture();
    let version = data_version(writer.connection()).map_err(broken("look at the file"))?;
    if version == capture.data_version.load(Ordering::Relaxed) {
        // Where the tables lie is known while nobody else has written, so that one that is renamed
        // elsewhere is found again.
        return capture.look(writer.connection()).map_err(broken("read what is watched"));
    }
    tracing::warn!(
        "another process has written to the embedded store's file; the watched tables are read again. \
         Writes by POST /v1/sql or `tidewire sql` are captured as they are made"
    );
    reconcile(writer)?;
    writer.counters().disturbed();
    capture.look(writer.connection()).map_err(broken("read what is watched"))
}

/// Looks whether another process wrote while no server ran, where the files look as if one might have.
pub(crate) fn notice_after_restart(writer: &mut Writer) -> Result<(), StoreError> {
    let watched = writer.capture().watched(writer.connection());
    if watched.map_err(broken("read what is watched"))?.is_empty() {
        return Ok(());
    }
    if reconcile(writer)? > 0 {
        tracing::warn!("another process wrote to watched tables while no server ran");
        writer.counters().disturbed();
    }
    Ok(())
}

/// Runs work that needs the log to know all that is in the file: after what other processes wrote. The
/// work calls [`check`] within its transaction.
pub(crate) fn undisturbed<T, E: From<StoreError>>(
    writer: &mut Writer,
    mut work: impl FnMut(&mut Writer) -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..ATTEMPTS_MAX {
        notice(writer)?;
        let result = work(writer);
        let disturbed = writer.capture().disturbed.swap(false, Ordering::Relaxed);
        if result.is_ok() || !disturbed {
            return result;
        }
    }
    notice(writer)?;
    work(writer)
}

/// Ends a transaction that has begun after another process wrote.
pub(crate) fn check(capture: &Capture, transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let version = data_version(transaction).map_err(broken("look at the file"))?;
    if version == capture.data_version.load(Ordering::Relaxed) {
        return Ok(());
    }
    capture.disturbed.store(true, Ordering::Relaxed);
    Err(StoreError::Unavailable("another process keeps writing to the file".to_owned()))
}

/// Brings the difference between the watched tables and the log into the log. Gives how many events it
/// took.
fn reconcile(writer: &mut Writer) -> Result<usize, StoreError> {
    let capture = writer.capture();
    let result = writer.commit(|transaction, streams, now_ms| {
        let failed = broken("read the watched tables again");
        let version = data_version(transaction).map_err(&failed)?;
        // Whatever was remembered of the file may be wrong.
        streams.clear();
        let before = capture.watched.lock().map(|known| known.clone()).ok().flatten();
        capture.forget();
        let own = schema::own_names(transaction).map_err(&failed)?;
        capture.own_names.store(own, Ordering::Relaxed);
        let followed = find(transaction, &before.unwrap_or_default()).map_err(&failed)?;
        let mut steps = Vec::new();
        let mut outcome = schema::settle(transaction, followed, own, &mut steps)?;
        let tip = load::tip(transaction)?;
        for watched in std::mem::take(&mut outcome.comparable) {
            match known::differences(transaction, &watched, tip).map_err(&failed)? {
                Some(differences) => {
                    tracing::info!(table = watched.name, rows = differences.len(), "rows differ");
                    let change = |difference| change_of(&watched, difference, now_ms);
                    steps.extend(differences.into_iter().map(change));
                }
                None => {
                    let what = "another process changed more rows than can be told; read it anew";
                    let what = Bytes::from(serde_json::json!({ "what": what }).to_string());
                    steps.push(TransactionStep::Schema { stream: watched.stream(), what });
                    outcome.reshape(watched);
                }
            }
        }
        let (plan, reached) = transaction::log(transaction, streams, steps, now_ms)?;
        outcome.finish(transaction, reached).map_err(&failed)?;
        Ok::<_, SqlError>((version, plan))
    });
    match result {
        Ok((version, plan)) => {
            capture.data_version.store(version, Ordering::Relaxed);
            Ok(plan.events.len())
        }
        Err(SqlError::Store(error)) => Err(error),
        Err(SqlError::Wrong(problem)) => Err(StoreError::Broken {
            operation: "read the watched tables again",
            reason: problem.message,
        }),
    }
}

/// The watched tables as subscribers know them, and as they are: under their names, or where they were
/// in the file.
fn find(connection: &Connection, before: &[Arc<Watched>]) -> rusqlite::Result<TrackedTables> {
    let mut pairs = Vec::new();
    for stored in watched::stored(connection)? {
        let mut found = table::find(connection, &stored.table.name)?;
        let was = before.iter().find(|watched| watched.name == stored.name);
        if let (None, Some(was)) = (&found, was)
            && let Some(name) = table::at_page(connection, was.table.root_page)?
        {
            found = table::find(connection, &name)?;
        }
        let is = match found {
            Some(Named::Table(table)) => Some(Arc::new(stored.changed(table))),
            _ => None,
        };
        pairs.push((Arc::new(stored), is));
    }
    Ok(TrackedTables::of_pairs(pairs))
}

fn change_of(
    watched: &Watched,
    (before, after): known::Difference,
    now_ms: i64,
) -> TransactionStep {
    let operation = match (&before, &after) {
        (None, _) => Operation::Insert,
        (_, None) => Operation::Delete,
        _ => Operation::Update,
    };
    let was = key_before(watched, before.as_ref(), after.as_ref());
    let change = row_change(watched, operation, before, after, &Actor::default(), now_ms);
    TransactionStep::Row { change, was }
}
