//! Leases: a partition that somebody works on elsewhere, until a time.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rusqlite::Connection;

use super::ending::OwnedPartition;
use super::failures::{attempts, in_ms, retry_at_ms};
use super::runtime::GroupRuntime;
use super::sessions::of_commit;
use super::view::PartitionReadiness;
use crate::capture;
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::command::Actor;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Acked, Claim, Ending, Failure, GroupError, LeaseRef};
use tidewire_store::offset::Position;
use tidewire_store::sql::Statements;

/// The longest lease.
const LEASE_MS_MAX: u64 = 86_400_000;

fn until_ms(lease_ms: u64) -> Result<i64, GroupError> {
    if (1..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(in_ms(lease_ms));
    }
    Err(GroupError::Invalid(format!("a lease holds for 1 to {LEASE_MS_MAX} ms")))
}

/// Leases a partition up to a place, if it is free and as somebody knew it.
pub(super) fn lease(
    writer: &mut Writer,
    runtime: &GroupRuntime,
    at: &Claim,
    to: Position,
    lease_ms: u64,
) -> Result<Option<u64>, GroupError> {
    let failed = broken("lease a partition");
    let until_ms = until_ms(lease_ms)?;
    let transaction = writer.transaction()?;
    let readiness = PartitionReadiness::load(&transaction, &at.group, at.partition)?;
    let readiness = readiness.filter(|now| now.is_as(at) && now.is_free(now_ms()));
    let Some(readiness) = readiness else { return Ok(None) };
    if runtime.is_held(&at.group, at.partition) {
        return Ok(None);
    }
    transaction
        .prepare_cached(sql!("group_lease"))
        .and_then(|mut lease| {
            let to = to.max(at.next).to_sql();
            lease.execute((&at.group, at.partition, until_ms, to, &at.member))
        })
        .map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(Some(readiness.generation + 1))
}

/// The partition of a lease that nobody has passed.
fn readiness(connection: &Connection, lease: &LeaseRef) -> Result<PartitionReadiness, GroupError> {
    let readiness = PartitionReadiness::load(connection, &lease.group, lease.partition)?;
    let readiness = readiness.ok_or(GroupError::NotFound)?;
    if readiness.generation == lease.generation { Ok(readiness) } else { Err(GroupError::Fenced) }
}

/// Makes a lease end later.
pub(super) fn extend(
    writer: &mut Writer,
    lease: &LeaseRef,
    lease_ms: u64,
) -> Result<(), GroupError> {
    let failed = broken("extend a lease");
    let until_ms = until_ms(lease_ms)?;
    let transaction = writer.transaction()?;
    if readiness(&transaction, lease)?.lease_until_ms.is_none() {
        return Err(GroupError::Fenced);
    }
    transaction
        .prepare_cached(sql!("group_lease_extend"))
        .and_then(|mut extend| extend.execute((&lease.group, lease.partition, until_ms)))
        .map_err(&failed)?;
    Ok(transaction.commit().map_err(&failed)?)
}

/// Ends a lease by an advance, together with statements.
pub(super) fn ack(
    writer: &mut Writer,
    lease: &LeaseRef,
    ending: &Ending,
    mut statements: Vec<Statements>,
) -> Result<Acked, GroupError> {
    for one in &mut statements {
        if let Cow::Owned(sql) = capture::with_view(&one.sql) {
            one.sql = sql;
        }
    }
    let timeout_ms = statements.first().map_or(0, |first| first.limits.timeout_ms);
    let begun = Instant::now();
    // Whatever someone sends, the writer goes on.
    let acked = catch_unwind(AssertUnwindSafe(|| {
        let actor = Actor::default();
        let all_ms = (!statements.is_empty()).then_some(timeout_ms);
        capture::transact(writer, &actor, all_ms, |capturing| {
            let connection = capturing.transaction();
            let readiness = readiness(connection, lease)?;
            let to = readiness.leased_to.ok_or(GroupError::Fenced)?;
            if readiness.lease_until_ms.is_none() {
                // Only an ack ends a lease and keeps its generation.
                return if readiness.next >= to { Ok(None) } else { Err(GroupError::Fenced) };
            }
            for one in &mut statements {
                capturing.act_as(&one.actor);
                // All of them together may take as long as one: appends wait for them.
                let left_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                let left_ms = timeout_ms.saturating_sub(left_ms);
                if left_ms == 0 {
                    return Err(GroupError::Sql(capture::too_slow(timeout_ms)));
                }
                one.limits.timeout_ms = one.limits.timeout_ms.min(left_ms);
                capturing.run(one)?;
            }
            let connection = capturing.transaction();
            let owned =
                OwnedPartition { connection, group: &lease.group, partition: lease.partition };
            let other_keys = owned.settle(ending).map_err(|error| match error {
                GroupError::Moved => GroupError::Fenced,
                other => other,
            })?;
            let member = owned.member()?;
            owned.advance(to, u32::from(other_keys), member.as_deref())?;
            Ok(Some(to))
        })
    }));
    let acked = acked.unwrap_or_else(|_| {
        let reason = "it panicked; nothing was kept".to_owned();
        Err(StoreError::Broken { operation: "ack a batch", reason }.into())
    });
    match acked.map_err(of_commit)? {
        (None, _) => Ok(Acked::Before),
        (Some(next), reached) => {
            Ok(Acked::Done { next, offset: (!statements.is_empty()).then_some(reached) })
        }
    }
}

/// Ends a lease without an advance.
pub(super) fn nack(
    writer: &mut Writer,
    lease: &LeaseRef,
    failures: &[Failure],
    ending: &Ending,
    retry_in_ms: u64,
) -> Result<(), GroupError> {
    let failed = broken("give a batch back");
    let transaction = writer.transaction()?;
    let readiness = readiness(&transaction, lease)?;
    if readiness.lease_until_ms.is_none() {
        return Err(GroupError::Fenced);
    }
    let (group, partition) = (&*lease.group, lease.partition);
    let owned = OwnedPartition { connection: &transaction, group, partition };
    attempts(&owned, failures).map_err(&failed)?;
    owned.settle(ending)?;
    let save = || -> rusqlite::Result<()> {
        let waits = retry_in_ms > 0;
        let mut end = transaction.prepare_cached(sql!("group_lease_end"))?;
        end.execute((group, partition, waits.then(|| retry_at_ms(retry_in_ms))))?;
        owned.recount()
    };
    save().map_err(&failed)?;
    Ok(transaction.commit().map_err(&failed)?)
}
