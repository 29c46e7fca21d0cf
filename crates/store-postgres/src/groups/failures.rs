//! What is noted of a partition apart from batches: failed runs, moves past what is nobody's, trouble.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;

use super::super::query::{Params, execute, query, sql};
use super::columns::FailureColumns;
use super::ending::recount;
use super::step::{StepError, StepResult};
use tidewire_store::groups::{Claim, Failure, GroupError, LeaseRef, kept_error};
use tidewire_store::offset::Position;

/// The longest that a partition waits before it is tried again.
const RETRY_MS_MAX: u64 = 86_400_000;

/// A partition's number as its column has it.
pub(super) fn number(partition: u32) -> Result<i32, GroupError> {
    i32::try_from(partition).map_err(|_| GroupError::NotFound)
}

/// A generation as its column has it.
pub(super) fn generation(generation: u64) -> Result<i64, GroupError> {
    i64::try_from(generation).map_err(|_| GroupError::Fenced)
}

/// A wait, within bounds.
pub(super) fn wait_ms(retry_in_ms: u64) -> i64 {
    i64::try_from(retry_in_ms.min(RETRY_MS_MAX)).unwrap_or(i64::MAX)
}

/// Refuses keys that PostgreSQL's texts cannot hold; the log has none.
pub(super) fn check_keys(failures: &[Failure]) -> Result<(), GroupError> {
    let wrong =
        |failure: &Failure| failure.key.host.contains('\0') || failure.key.user.contains('\0');
    if failures.iter().any(wrong) {
        let text = "no event has a host or a user with a zero byte in its name";
        return Err(GroupError::Invalid(text.to_owned()));
    }
    Ok(())
}

/// A transaction that was given up may hold the row until its session has heard of it.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '5s'";

/// Notes failed runs. Who has the row's lock for longer has got further, or will.
pub(super) async fn note(
    client: &ClientWrapper,
    at: &Claim,
    failures: &[Failure],
    retry_in_ms: u64,
) -> StepResult<()> {
    check_keys(failures)?;
    let (group, partition) = (at.group.as_str(), number(at.partition)?);
    client.batch_execute(LOCK_WAIT).await?;
    let rows = query(client, sql!("group_lock_free"), &[&group, &partition]).await;
    let rows = rows.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => StepError::Group(GroupError::Moved),
        _ => StepError::Driver(error),
    })?;
    let Some(row) = rows.first() else { return Err(GroupError::Moved.into()) };
    let same = (row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?)
        == (at.next.to_sql(), generation(at.generation)?);
    if !same {
        return Err(GroupError::Moved.into());
    }
    add(client, group, partition, failures).await?;
    recount(client, group, partition, false).await?;
    let params: Params<'_> = &[&group, &partition, &wait_ms(retry_in_ms), &at.member];
    execute(client, sql!("group_retry_at"), params).await?;
    Ok(())
}

/// Counts failed runs.
pub(super) async fn add(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    failures: &[Failure],
) -> StepResult<()> {
    if !failures.is_empty() {
        let failures = FailureColumns::of(failures);
        execute(client, sql!("attempts_note"), &failures.params(&group, &partition)).await?;
    }
    Ok(())
}

/// Moves a partition past what is nobody's.
pub(super) async fn skip(client: &ClientWrapper, at: &Claim, to: Position) -> StepResult<bool> {
    let (partition, generation) = (number(at.partition)?, generation(at.generation)?);
    let (from, to) = (at.next.to_sql(), to.to_sql());
    let params: Params<'_> = &[&at.group, &partition, &from, &generation, &to, &at.member];
    Ok(execute(client, sql!("group_skip"), params).await? > 0)
}

/// Says why a partition stands still.
pub(super) async fn set_trouble(
    client: &ClientWrapper,
    at: &Claim,
    trouble: Option<&str>,
) -> StepResult<()> {
    let (partition, generation) = (number(at.partition)?, generation(at.generation)?);
    let (from, trouble) = (at.next.to_sql(), trouble.map(kept_error));
    let params: Params<'_> = &[&at.group, &partition, &from, &generation, &trouble];
    if execute(client, sql!("group_trouble"), params).await? == 0 {
        return Err(GroupError::Moved.into());
    }
    Ok(())
}

/// A lease's partition and generation, as their columns have them.
pub(super) fn lease_columns(lease: &LeaseRef) -> Result<(i32, i64), GroupError> {
    Ok((number(lease.partition)?, generation(lease.generation)?))
}
