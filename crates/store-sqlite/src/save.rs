//! Saving what was decided.

use rusqlite::{Transaction, params};

use super::error::broken;
use super::sql;
use tidewire_store::decide::{NewEvent, Plan};
use tidewire_store::error::StoreError;
use tidewire_store::log::PURGE_DELAY_MS;
use tidewire_store::stream::{Lifetime, StreamState};

/// Writes a plan.
pub(crate) fn plan(
    transaction: &Transaction<'_>,
    plan: &Plan,
    now_ms: i64,
) -> Result<(), StoreError> {
    save(transaction, plan, now_ms).map_err(broken("write to the log"))
}

fn save(transaction: &Transaction<'_>, plan: &Plan, now_ms: i64) -> rusqlite::Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    events(transaction, &plan.events, now_ms)?;
    for name in &plan.removed {
        transaction.prepare_cached(sql!("stream_remove"))?.execute([name])?;
    }
    for name in &plan.producers_cleared {
        transaction.prepare_cached(sql!("producers_clear"))?.execute([name])?;
    }
    for state in &plan.streams {
        stream(transaction, state)?;
    }
    for (stream, id, state) in &plan.producers {
        transaction.prepare_cached(sql!("producer_save"))?.execute(params![
            stream,
            id,
            state.epoch,
            state.seq,
            state.position.to_sql()
        ])?;
    }
    for purge in &plan.purges {
        transaction.prepare_cached(sql!("purge_add"))?.execute(params![
            purge.stream,
            purge.after.to_sql(),
            purge.up_to.to_sql(),
            now_ms + PURGE_DELAY_MS
        ])?;
    }
    Ok(())
}

fn events(transaction: &Transaction<'_>, events: &[NewEvent], now_ms: i64) -> rusqlite::Result<()> {
    let mut plain = transaction.prepare_cached(sql!("event_insert"))?;
    for event in events {
        if event.row.is_some() || event.entity.is_some() {
            change(transaction, event, now_ms)?;
            continue;
        }
        plain.execute(params![
            event.position.to_sql(),
            event.stream,
            event.append_id.to_sql(),
            event.actor.host_id,
            event.actor.user_id,
            event.payload.as_deref(),
            event.content_type,
            event.control.map(tidewire_store::event::Control::as_str),
            event.tx_last,
            event.trace_context,
            now_ms,
            event.txid
        ])?;
    }
    Ok(())
}

/// Writes the change of a row, or of an entity.
fn change(transaction: &Transaction<'_>, event: &NewEvent, now_ms: i64) -> rusqlite::Result<()> {
    let (row, entity) = (event.row.as_deref(), event.entity.as_ref());
    // The operation of a row says what became of it.
    let named = entity.filter(|_| row.is_none());
    transaction.prepare_cached(sql!("change_insert"))?.execute(params![
        event.position.to_sql(),
        event.stream,
        event.append_id.to_sql(),
        row.map_or(&event.actor.host_id, |row| &row.host_id),
        row.map_or(&event.actor.user_id, |row| &row.user_id),
        event.payload.as_deref(),
        event.content_type,
        event.control.map(tidewire_store::event::Control::as_str),
        event.tx_last,
        event.trace_context,
        now_ms,
        row.map(|row| &row.table),
        row.map(|row| row.operation.as_str()),
        row.and_then(|row| row.entity_code.as_ref()).or(named.map(|entity| &entity.code)),
        row.and_then(|row| row.entity_id.as_ref()).or(named.and_then(|e| e.id.as_ref())),
        image(row.and_then(|row| row.before.as_deref()))?,
        image(row.and_then(|row| row.after.as_deref()))?,
        event.txid,
        entity.and_then(|entity| entity.was.as_ref()),
        named.map(|entity| entity.action.as_str())
    ])?;
    Ok(())
}

/// A row's image as SQLite keeps it: JSON is text.
fn image(bytes: Option<&[u8]>) -> rusqlite::Result<Option<&str>> {
    let text = bytes.map(std::str::from_utf8).transpose();
    text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn stream(transaction: &Transaction<'_>, state: &StreamState) -> rusqlite::Result<()> {
    let (ttl_s, fixed_ms) = match state.lifetime {
        Lifetime::Forever => (None, None),
        Lifetime::Sliding { ttl_s } => (Some(ttl_s), None),
        Lifetime::Until { at_ms } => (None, Some(at_ms)),
    };
    let by = state.closed.as_ref().and_then(|closed| closed.by.as_ref());
    let fork = state.fork.as_ref();
    transaction.prepare_cached(sql!("stream_save"))?.execute(params![
        state.name,
        state.created.to_sql(),
        state.content_type,
        ttl_s,
        fixed_ms,
        state.expires_at_ms,
        state.closed.as_ref().map(|closed| closed.position.to_sql()),
        by.map(|by| &by.id),
        by.map(|by| by.epoch),
        by.map(|by| by.seq),
        fork.map(|fork| &fork.source),
        fork.map(|fork| fork.offset.to_sql()),
        fork.map(|fork| fork.sub_offset),
        fork.map(|fork| fork.position.to_sql()),
        state.forks,
        state.soft_deleted,
        state.last_seq,
        state.host_id
    ])?;
    Ok(())
}
