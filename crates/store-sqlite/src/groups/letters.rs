//! Letters: listing them, having them worked off again, giving them up.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use super::ending::OwnedPartition;
use super::{pages, view};
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{
    Batch, GroupError, GroupEvent, Key, KeyEvents, LETTERS_BYTES_MAX, Letter, LetterBatch,
    LetterPage, LetterSelection, LetterState, LetterView, not_passed,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;

fn event_of_row(row: &Row<'_>) -> rusqlite::Result<GroupEvent> {
    let event = GroupEvent {
        position: Position::from_sql(row.get(0)?),
        append_id: Position::from_sql(row.get(1)?),
        stream: row.get(2)?,
        host_id: row.get(3)?,
        user_id: row.get(4)?,
        txid: row.get(5)?,
        tx_last: row.get(6)?,
        created_at_ms: row.get(7)?,
        trace_context: row.get(8)?,
        change: None,
        payload: None,
        content_type: row.get(9)?,
    };
    pages::with_content(event, row, 10)
}

/// Letters after an offset, as many as fit.
pub(super) fn list(
    connection: &Connection,
    group: &str,
    after: Position,
    limit: PageLimit,
    state: Option<LetterState>,
) -> rusqlite::Result<LetterPage> {
    let mut query = connection.prepare_cached(sql!("group_letters"))?;
    let limit = PageLimit { bytes: limit.bytes.min(LETTERS_BYTES_MAX), ..limit };
    // One more, to see whether it is there.
    let rows_max = i64::try_from(limit.events.saturating_add(1)).unwrap_or(i64::MAX);
    let of_row = |row: &Row<'_>| -> rusqlite::Result<LetterView> {
        let state = match row.get_ref(20)?.as_str()? {
            "dead" => LetterState::Dead,
            _ => LetterState::Parked,
        };
        Ok(LetterView {
            letter: Letter {
                event: Arc::new(event_of_row(row)?),
                error: row.get::<_, Option<String>>(17)?.unwrap_or_default(),
                attempts: row.get(18)?,
            },
            partition: row.get(19)?,
            state,
            died_at_ms: row.get(21)?,
            redrive: row.get(22)?,
        })
    };
    let state = state.map(LetterState::as_str);
    let mut bytes = 0;
    let mut letters = Vec::new();
    let mut rows = query.query((group, after.to_sql(), state, rows_max))?;
    while let Some(row) = rows.next()? {
        if limit.is_reached(letters.len(), bytes) {
            return Ok(LetterPage { letters, more: true });
        }
        let letter = of_row(row)?;
        bytes += letter.letter.event.bytes();
        letters.push(letter);
    }
    Ok(LetterPage { letters, more: false })
}

/// The first letters of a key that is to be worked off again.
pub(super) fn due(
    connection: &mut Connection,
    group: &str,
    partition: u32,
    limit: PageLimit,
) -> Result<Option<Batch>, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    first_due(&snapshot, group, partition, limit).map_err(broken("read letters"))
}

fn first_due(
    connection: &Connection,
    group: &str,
    partition: u32,
    limit: PageLimit,
) -> rusqlite::Result<Option<Batch>> {
    let of_row = |row: &Row<'_>| {
        Ok((view::key_of_row(row)?, Position::from_sql(row.get(2)?), row.get::<_, u32>(3)?))
    };
    let mut query = connection.prepare_cached(sql!("group_key_due"))?;
    let Some((key, next, attempt)) = query.query_row((group, partition), of_row).optional()? else {
        return Ok(None);
    };
    let mut query = connection.prepare_cached(sql!("group_letters_of_key"))?;
    let mut letters = query.query((group, key.hash()))?;
    let mut batch = LetterBatch::new(limit);
    while let Some(row) = letters.next()?
        && batch.take(event_of_row(row)?)
    {}
    let events = batch.finish();
    let groups = if events.is_empty() {
        Vec::new()
    } else {
        vec![KeyEvents { key: key.clone(), attempt, events }]
    };
    Ok(Some(Batch { from: next, next, groups, park: Vec::new(), redrive: Some(key) }))
}

/// The keys that have such letters, and their partitions.
fn keys(
    connection: &Connection,
    group: &str,
    which: &LetterSelection,
) -> rusqlite::Result<Vec<(Key, u32)>> {
    let (hash, position) = match which {
        LetterSelection::All => (None, None),
        LetterSelection::Key(key) => (Some(key.hash()), None),
        LetterSelection::Offset(position) => (None, Some(position.to_sql())),
    };
    let mut query = connection.prepare_cached(sql!("group_letter_keys"))?;
    let of_row = |row: &Row<'_>| Ok((view::key_of_row(row)?, row.get(2)?));
    query.query_map((group, hash, position), of_row)?.collect()
}

fn begin<'w>(writer: &'w mut Writer, group: &str) -> Result<Transaction<'w>, GroupError> {
    let transaction = writer.transaction()?;
    let there = view::group(&transaction, group).map_err(broken("look for a group"))?;
    there.map_or(Err(GroupError::NotFound), |_| Ok(transaction))
}

/// Marks letters' keys to be worked off again.
pub(super) fn redrive(
    writer: &mut Writer,
    group: &str,
    which: &LetterSelection,
) -> Result<u64, GroupError> {
    let failed = broken("redrive letters");
    let transaction = begin(writer, group)?;
    let mark = || -> rusqlite::Result<u64> {
        let keys = keys(&transaction, group, which)?;
        let now_ms = now_ms();
        let mut partitions = BTreeSet::new();
        for (key, partition) in &keys {
            let marked = (group, key.hash(), now_ms);
            let mut mark = transaction.prepare_cached(sql!("group_redrive"))?;
            if mark.execute(marked)? == 0 {
                // Those behind it were let go on. The key is put beside the parked ones without holding
                // anything back, so that its letters are found.
                let owned =
                    OwnedPartition { connection: &transaction, group, partition: *partition };
                owned.park(key, Position::new(u64::MAX))?;
                mark.execute(marked)?;
            }
            partitions.insert(*partition);
        }
        tell(&transaction, group, &partitions)?;
        Ok(keys.len() as u64)
    };
    let marked = mark().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(marked)
}

/// Gives letters up. What waited behind them goes on, or is given up too.
pub(super) fn drop_some(
    writer: &mut Writer,
    group: &str,
    which: &LetterSelection,
    with_parked: bool,
) -> Result<u64, GroupError> {
    let failed = broken("drop letters");
    let transaction = begin(writer, group)?;
    let only = match which {
        LetterSelection::Offset(position) if !with_parked => Some(position.to_sql()),
        _ => None,
    };
    let drop = || -> rusqlite::Result<(usize, bool)> {
        let (mut dropped, mut left, mut partitions) = (0, false, BTreeSet::new());
        let now_ms = now_ms();
        for (key, partition) in keys(&transaction, group, which)? {
            let hash = key.hash();
            let mut drop = transaction.prepare_cached(sql!("group_drop_letters"))?;
            dropped += drop.execute((group, hash, with_parked, only))?;
            let mut request = transaction.prepare_cached(sql!("group_letters_left"))?;
            left |=
                request.query_row((group, hash, with_parked, only), |row| row.get::<_, bool>(0))?;
            let mut go_on = transaction.prepare_cached(sql!("group_redrive_if_alive"))?;
            go_on.execute((group, hash, now_ms))?;
            partitions.insert(partition);
        }
        tell(&transaction, group, &partitions)?;
        Ok((dropped, left))
    };
    let (dropped, left) = drop().map_err(&failed)?;
    if left && dropped == 0 {
        return Err(not_passed());
    }
    transaction.commit().map_err(&failed)?;
    Ok(dropped as u64)
}

/// Those who remember such partitions look again; a lease goes on as it was.
fn tell(connection: &Connection, group: &str, partitions: &BTreeSet<u32>) -> rusqlite::Result<()> {
    let mut raise = connection.prepare_cached(sql!("group_raise"))?;
    for partition in partitions {
        OwnedPartition { connection, group, partition: *partition }.recount()?;
        raise.execute((group, partition))?;
    }
    Ok(())
}
