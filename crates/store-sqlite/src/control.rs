//! The control channel, and the upkeep of it and of tickets.

use rusqlite::{Connection, OptionalExtension, Row};

use super::error::{broken, now_ms};
use super::sql;
use super::writer::Writer;
use tidewire_store::control::{
    ControlCursor, ControlMessage, Present, SETTLED_AFTER_MS, SWEPT_MAX,
};
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;

/// Writes a message.
pub(crate) fn send(writer: &mut Writer, kind: &str, body: &str) -> Result<(), StoreError> {
    let failed = broken("send a control message");
    let transaction = writer.transaction()?;
    transaction
        .prepare_cached(sql!("control_send"))
        .and_then(|mut send| send.execute((kind, body, now_ms())))
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

/// What a cursor has not seen, and the cursor that has.
pub(crate) fn since(
    connection: &mut Connection,
    mut cursor: ControlCursor,
) -> Result<(Vec<ControlMessage>, ControlCursor), StoreError> {
    let mut read = || -> rusqlite::Result<Vec<ControlMessage>> {
        let snapshot = connection.transaction()?;
        let of_row = |row: &Row<'_>| Ok(Present { id: row.get(0)?, settled: row.get(1)? });
        let settled_ms = now_ms() - SETTLED_AFTER_MS;
        let present: Vec<Present> = snapshot
            .prepare_cached(sql!("control_present"))?
            .query_map((cursor.floor(), settled_ms), of_row)?
            .collect::<rusqlite::Result<_>>()?;
        let of_row = |row: &Row<'_>| {
            Ok(ControlMessage { id: row.get(0)?, kind: row.get(1)?, body: row.get(2)? })
        };
        let mut query = snapshot.prepare_cached(sql!("control_message"))?;
        let mut messages = Vec::new();
        for id in cursor.advance(&present) {
            messages.extend(query.query_row([id], of_row).optional()?);
        }
        Ok(messages)
    };
    let messages = read().map_err(broken("read the control messages"))?;
    Ok((messages, cursor))
}

/// Removes old messages, and tickets whose time is over. Says how many.
pub(crate) fn sweep(writer: &mut Writer, keep_ms: u64) -> Result<usize, StoreError> {
    let failed = broken("remove old control messages");
    let transaction = writer.transaction()?;
    let now_ms = now_ms();
    let limit = i64::try_from(SWEPT_MAX).unwrap_or(i64::MAX);
    let before_ms = now_ms - duration(keep_ms);
    let sweep = || -> rusqlite::Result<usize> {
        let messages =
            transaction.prepare_cached(sql!("control_sweep"))?.execute((before_ms, limit))?;
        let tickets =
            transaction.prepare_cached(sql!("tickets_sweep"))?.execute((now_ms, limit))?;
        Ok(messages + tickets)
    };
    let swept = sweep().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(swept)
}
