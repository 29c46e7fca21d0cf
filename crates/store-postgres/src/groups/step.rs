//! Transactions on groups: how they are run, and what their errors mean.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::super::error::{broken_commit, sort, text};
use super::super::pool::{Pool, PooledConnection};
use tidewire_store::error::StoreError;
use tidewire_store::groups::GroupError;

/// Why a step of a transaction did not go on.
#[derive(Debug)]
pub(super) enum StepError {
    /// The driver or the server said so.
    Driver(Error),
    /// It is not to be.
    Group(GroupError),
}

impl From<Error> for StepError {
    fn from(error: Error) -> StepError {
        StepError::Driver(error)
    }
}

impl From<GroupError> for StepError {
    fn from(error: GroupError) -> StepError {
        StepError::Group(error)
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> StepError {
        StepError::Group(GroupError::Store(error))
    }
}

/// What a step of a transaction came to.
pub(super) type StepResult<T> = Result<T, StepError>;

/// What a role needs that does not own the tables.
const GRANTS: &str = "GRANT USAGE ON SCHEMA tidewire TO role; \
    GRANT SELECT ON tidewire.log, tidewire.log_epoch, tidewire.log_buckets, tidewire.log_measured, \
    tidewire.migrations TO role; \
    GRANT SELECT, INSERT, UPDATE, DELETE ON tidewire.consumer_groups, tidewire.consumer_offsets, \
    tidewire.consumer_members, tidewire.consumer_attempts, tidewire.consumer_parked_keys, \
    tidewire.consumer_dead_letters TO role";

/// What an error of the server means to who works in a group.
pub(super) fn failed(operation: &'static str, error: &Error) -> GroupError {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let said = text(error);
        return GroupError::Rights(format!(
            "{operation}: {said}. Run this as the owner of the schema, for the role that works in the \
             group: {GRANTS}"
        ));
    }
    GroupError::Store(sort(operation, error))
}

/// The same where the caller knows the store's errors only.
pub(super) fn failed_store(operation: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| store_error(failed(operation, &error))
}

/// The same of an error that is one of groups already.
pub(super) fn store_error(error: GroupError) -> StoreError {
    match error {
        GroupError::Store(error) => error,
        other => StoreError::Refused(other.to_string()),
    }
}

/// Runs single statements that only read, or that may be repeated.
pub(super) async fn read<T, F>(
    pool: &Pool,
    operation: &'static str,
    work: impl Fn(PooledConnection) -> F,
) -> Result<T, GroupError>
where
    F: Future<Output = StepResult<T>>,
{
    let sorted = |done: StepResult<T>| match done {
        Ok(value) => Ok(Ok(value)),
        Err(StepError::Group(GroupError::Store(error))) => Err(error),
        Err(StepError::Group(error)) => Ok(Err(error)),
        Err(StepError::Driver(error)) => match failed(operation, &error) {
            GroupError::Store(error) => Err(error),
            other => Ok(Err(other)),
        },
    };
    pool.read(|client| {
        let done = work(client);
        async { sorted(done.await) }
    })
    .await?
}

/// Runs a transaction that waits for partitions and for its turn. One that waited for too long may be tried
/// again.
pub(super) async fn administer<T, F>(
    pool: &Pool,
    operation: &'static str,
    work: impl Fn(PooledConnection) -> F,
) -> Result<T, GroupError>
where
    F: Future<Output = StepResult<T>>,
{
    let patient = |client: PooledConnection| {
        let done = Box::pin(work(client));
        async move {
            done.await.map_err(|stop| match stop {
                StepError::Driver(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    StepError::Group(GroupError::Changing)
                }
                other => other,
            })
        }
    };
    transact(pool, operation, patient).await
}

/// Runs a transaction, and commits it if its work succeeds.
pub(super) async fn transact<T, F>(
    pool: &Pool,
    operation: &'static str,
    work: impl Fn(PooledConnection) -> F,
) -> Result<T, GroupError>
where
    F: Future<Output = StepResult<T>>,
{
    let run = |client: PooledConnection| {
        // In a box: what administers groups has many steps, and its future would be moved about.
        let done = Box::pin(work(client.clone()));
        async move {
            let begun = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await;
            begun.map_err(|error| sort(operation, &error))?;
            let refused = match done.await {
                Ok(value) => {
                    let committed = client.batch_execute("COMMIT").await;
                    committed.map_err(|error| broken_commit(true, &error))?;
                    return Ok(Ok(value));
                }
                Err(StepError::Group(error)) => error,
                Err(StepError::Driver(error)) => failed(operation, &error),
            };
            if let GroupError::Store(error) = refused {
                return Err(error);
            }
            // What is returned as a success must leave the session as it was.
            client.batch_execute("ROLLBACK").await.map_err(|error| sort(operation, &error))?;
            Ok(Err(refused))
        }
    };
    pool.write(run).await?
}
