//! What is noted of a partition apart from batches: failed runs of keys, moves past what is nobody's, trouble.

use rusqlite::{Connection, params};

use super::ending::OwnedPartition;
use super::runtime::GroupRuntime;
use super::view::PartitionReadiness;
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::groups::{Claim, Failure, GroupError, kept_error};
use tidewire_store::offset::Position;

/// The partition, if it is as somebody knew it.
pub(super) fn as_claimed(
    connection: &Connection,
    at: &Claim,
) -> Result<PartitionReadiness, GroupError> {
    let readiness = PartitionReadiness::load(connection, &at.group, at.partition)?;
    readiness.filter(|now| now.is_as(at)).ok_or(GroupError::Moved)
}

/// The longest that a partition waits before it is tried again.
const RETRY_MS_MAX: u64 = 86_400_000;

/// When a partition may be tried again.
pub(super) fn retry_at_ms(retry_in_ms: u64) -> i64 {
    in_ms(retry_in_ms.min(RETRY_MS_MAX))
}

/// When something is, that is so long from now.
pub(super) fn in_ms(wait_ms: u64) -> i64 {
    now_ms().saturating_add(i64::try_from(wait_ms).unwrap_or(i64::MAX))
}

/// Notes failed runs, and when the partition may be tried again.
pub(super) fn note(
    writer: &mut Writer,
    runtime: &GroupRuntime,
    at: &Claim,
    failures: &[Failure],
    retry_in_ms: u64,
) -> Result<(), GroupError> {
    let transaction = writer.transaction()?;
    as_claimed(&transaction, at)?;
    if runtime.is_held(&at.group, at.partition) {
        // Who has it will get further, or note failures of its own.
        return Err(GroupError::Moved);
    }
    let owned =
        OwnedPartition { connection: &transaction, group: &at.group, partition: at.partition };
    let save = || -> rusqlite::Result<()> {
        attempts(&owned, failures)?;
        let mut retry = transaction.prepare_cached(sql!("group_retry_at"))?;
        retry.execute((&at.group, at.partition, retry_at_ms(retry_in_ms)))?;
        owned.recount()
    };
    save().map_err(broken("note a failure"))?;
    Ok(transaction.commit().map_err(broken("note a failure"))?)
}

/// Counts a failed run of each key.
pub(super) fn attempts(owned: &OwnedPartition<'_>, failures: &[Failure]) -> rusqlite::Result<()> {
    let mut note = owned.connection.prepare_cached(sql!("group_attempt_note"))?;
    for Failure { key, first, verdict, error } in failures {
        note.execute(params![
            owned.group,
            owned.partition,
            key.hash(),
            key.host,
            key.user,
            first.to_sql(),
            verdict.as_str(),
            kept_error(error),
            now_ms(),
        ])?;
    }
    Ok(())
}

/// Moves a partition, if nobody works on it and it is as somebody knew it.
pub(super) fn skip(
    writer: &mut Writer,
    runtime: &GroupRuntime,
    at: &Claim,
    to: Position,
) -> Result<bool, GroupError> {
    let transaction = writer.transaction()?;
    let readiness = PartitionReadiness::load(&transaction, &at.group, at.partition)?;
    let readiness = readiness.filter(|now| now.is_as(at) && now.is_free(now_ms()) && now.next < to);
    let Some(readiness) = readiness else { return Ok(false) };
    if runtime.is_held(&at.group, at.partition) {
        return Ok(false);
    }
    let owned =
        OwnedPartition { connection: &transaction, group: &at.group, partition: at.partition };
    owned.advance(to, u32::from(readiness.lease_until_ms.is_some()), Some(&at.member))?;
    transaction.commit().map_err(broken("advance a group"))?;
    Ok(true)
}

/// Says why a partition stands still, or that it does not.
pub(super) fn set_trouble(
    writer: &mut Writer,
    at: &Claim,
    trouble: Option<&str>,
) -> Result<(), GroupError> {
    let failed = broken("note a group's trouble");
    let transaction = writer.transaction()?;
    as_claimed(&transaction, at)?;
    transaction
        .prepare_cached(sql!("group_trouble"))
        .and_then(|mut set| set.execute((&at.group, at.partition, trouble.map(kept_error))))
        .map_err(&failed)?;
    Ok(transaction.commit().map_err(&failed)?)
}
