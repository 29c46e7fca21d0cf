//! Leases: holds on a batch by who has no transaction open, fenced by the partition's generation.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;

use super::super::query::{Params, execute, query, sql};
use super::super::statements::{self, UserSessions};
use super::ending;
use super::failures::{add, check_keys, generation, lease_columns, number, wait_ms};
use super::step::{StepError, StepResult, failed};
use tidewire_store::error::StoreError;
use tidewire_store::groups::{Acked, Claim, Ending, Failure, GroupError, LeaseRef};
use tidewire_store::offset::Position;
use tidewire_store::sql::Statements;

/// The longest lease.
const LEASE_MS_MAX: u64 = 86_400_000;

fn lease_ms(lease_ms: u64) -> Result<i64, GroupError> {
    match i64::try_from(lease_ms) {
        Ok(ms) if (1..=LEASE_MS_MAX).contains(&lease_ms) => Ok(ms),
        _ => Err(GroupError::Invalid(format!("a lease holds for 1 to {LEASE_MS_MAX} ms"))),
    }
}

/// Leases a partition, if it is free and as it was.
pub(super) async fn lease(
    client: &ClientWrapper,
    at: &Claim,
    to: Position,
    ms: u64,
) -> StepResult<Option<u64>> {
    let ms = lease_ms(ms)?;
    let (partition, generation) = (number(at.partition)?, generation(at.generation)?);
    let (from, to) = (at.next.to_sql(), to.max(at.next).to_sql());
    let params: Params<'_> = &[&at.group, &partition, &from, &generation, &to, &at.member, &ms];
    let rows = query(client, sql!("group_lease"), params).await?;
    let given: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(given.and_then(|generation| u64::try_from(generation).ok()))
}

/// Makes a lease end later.
pub(super) async fn extend(client: &ClientWrapper, lease: &LeaseRef, ms: u64) -> StepResult<()> {
    let ms = lease_ms(ms)?;
    let (partition, generation) = lease_columns(lease)?;
    let params: Params<'_> = &[&lease.group, &partition, &generation, &ms];
    if execute(client, sql!("group_extend"), params).await? > 0 {
        return Ok(());
    }
    let there = query(client, sql!("group_partition"), &[&lease.group, &partition]).await?;
    let error = if there.is_empty() { GroupError::NotFound } else { GroupError::Fenced };
    Err(error.into())
}

/// Ends a lease by moving on, with what the batch leaves.
pub(super) async fn ack(
    client: &ClientWrapper,
    lease: &LeaseRef,
    ending: &Ending,
) -> StepResult<Option<Position>> {
    let (partition, generation) = lease_columns(lease)?;
    let params: Params<'_> = &[&lease.group, &partition, &generation];
    let rows = query(client, sql!("group_ack"), params).await?;
    let Some(row) = rows.first() else { return acked_before(client, lease).await };
    let next = Position::from_sql(row.try_get(0)?);
    if !ending::is_plain(ending) {
        let written = ending::write(client, &lease.group, partition, ending).await;
        written.map_err(|stop| match stop {
            StepError::Group(GroupError::Moved) => StepError::Group(GroupError::Fenced),
            other => other,
        })?;
    }
    Ok(Some(next))
}

/// Whether the lease is gone because it was acked: nothing else leaves the generation as it was.
async fn acked_before(client: &ClientWrapper, lease: &LeaseRef) -> StepResult<Option<Position>> {
    let (partition, generation) = lease_columns(lease)?;
    let rows = query(client, sql!("group_lock"), &[&lease.group, &partition]).await?;
    let Some(row) = rows.first() else { return Err(GroupError::NotFound.into()) };
    let (next, at): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (until, to): (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
    let before = at == generation && until.is_none() && to.is_some_and(|to| next >= to);
    if before { Ok(None) } else { Err(GroupError::Fenced.into()) }
}

/// The same with statements, in a session of users' SQL: they commit with it or not at all. Returns the
/// transaction of the mark after it.
pub(super) async fn ack_with(
    user_sessions: &UserSessions,
    lease: &LeaseRef,
    ending: &Ending,
    statements: &[Statements],
) -> Result<(Acked, Option<i64>), GroupError> {
    let Some(first) = statements.first() else {
        return Err(GroupError::Invalid("there is no statement".to_owned()));
    };
    let user_session = user_sessions.take(first.actor.account.as_ref()).await?;
    let timeout_ms = first.limits.timeout_ms;
    let limit = Duration::from_millis(timeout_ms) + statements::GRACE;
    let client = &user_session.session.client;
    let work = async {
        statements::begin(client, &first.actor, &first.limits).await.map_err(GroupError::Sql)?;
        let Some(next) = ack(client, lease, ending).await? else { return Ok(None) };
        for each in statements {
            let ran = statements::one(client, &each.sql, &each.params, &each.limits).await;
            ran.map_err(GroupError::Sql)?;
        }
        let mark = statements::commit(client).await.map_err(GroupError::Sql)?;
        Ok::<_, StepError>(Some((next, mark)))
    };
    let done = match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => {
            user_session.cancel();
            return Err(GroupError::Sql(statements::timeout(timeout_ms)));
        }
    };
    let is_of_session = |done: &Result<_, StepError>| match done {
        Err(StepError::Group(GroupError::Sql(error))) => statements::is_of_session(error),
        Err(StepError::Driver(error)) => statements::is_of_session(&statements::wrong(error)),
        _ => false,
    };
    if is_of_session(&done) {
        // Whoever comes next has another.
        drop(user_session);
    } else if !matches!(done, Ok(Some(_))) && client.batch_execute("ROLLBACK").await.is_err() {
        drop(user_session);
    } else if statements.iter().any(|each| statements::stains(&each.sql)) {
        // What it left in its session cannot be cleared away.
        drop(user_session);
    } else {
        user_sessions.give_back(user_session);
    }
    match done {
        Ok(Some((next, mark))) => Ok((Acked::Done { next, offset: None }, mark)),
        Ok(None) => Ok((Acked::Before, None)),
        Err(StepError::Group(error)) => Err(error),
        Err(StepError::Driver(error)) => Err(failed("acknowledge a batch", &error)),
    }
}

/// Ends a lease without moving on: notes failures, and writes what follows from those that are for good.
pub(super) async fn nack(
    client: &ClientWrapper,
    lease: &LeaseRef,
    failures: &[Failure],
    ending: &Ending,
    retry_in_ms: u64,
) -> StepResult<()> {
    check_keys(failures)?;
    let (group, (partition, generation)) = (lease.group.as_str(), lease_columns(lease)?);
    let params: Params<'_> = &[&group, &partition, &generation, &wait_ms(retry_in_ms)];
    if execute(client, sql!("group_nack"), params).await? == 0 {
        let there = query(client, sql!("group_partition"), &[&group, &partition]).await?;
        let error = if there.is_empty() { GroupError::NotFound } else { GroupError::Fenced };
        return Err(error.into());
    }
    add(client, group, partition, failures).await?;
    ending::save(client, group, partition, ending).await?;
    ending::recount(client, group, partition, false).await
}

/// Where a mark is, once the log has it.
pub(super) fn is_done(acked: Acked, offset: Option<Position>) -> Acked {
    match acked {
        Acked::Done { next, .. } => Acked::Done { next, offset },
        Acked::Before => Acked::Before,
    }
}

/// What stands for a mark that is not waited for.
pub(super) fn unmarked(error: StoreError) -> Option<Position> {
    tracing::warn!(%error, "the offset of an ack's statements is unknown");
    None
}
