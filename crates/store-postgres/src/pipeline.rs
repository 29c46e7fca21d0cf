//! Statements that are sent together, so that they cost one round trip however many they are.
//!
//! A pipeline is polled in order, so its statements are sent in order, and not one is sent after one
//! that could not be. The server runs none after one that failed: COMMIT then rolls back.

use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use tokio_postgres::{Error, Statement};

use super::error::{broken, broken_commit};
use super::query::Params;
use tidewire_store::error::StoreError;

/// A statement that is sent if it is needed, and its parameters.
pub type Query<'a> = (bool, &'a str, Params<'a>);

/// What becomes of the transaction that statements are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterPipeline {
    Continue,
    Commit,
}

/// A statement on its way. The flag of an error says that it was COMMIT's.
type SentStatement<'a> = BoxFuture<'a, Result<(), (bool, Error)>>;

/// Runs those of the statements that are needed.
pub async fn send(
    client: &ClientWrapper,
    operation: &'static str,
    queries: &[Query<'_>],
    then: AfterPipeline,
) -> Result<(), StoreError> {
    let failed = broken(operation);
    let mut statements = Vec::with_capacity(queries.len());
    for (_, sql, params) in queries.iter().filter(|(needed, _, _)| *needed) {
        statements.push((client.prepare_cached(sql).await.map_err(&failed)?, *params));
    }
    let mut pipeline: Vec<SentStatement<'_>> =
        statements.iter().map(|(statement, params)| sent(client, statement, params)).collect();
    if then == AfterPipeline::Commit {
        let commit = client.batch_execute("COMMIT");
        pipeline.push(commit.map(|done| done.map_err(|error| (true, error))).boxed());
    }
    try_join_all(pipeline).await.map(drop).map_err(|(of_commit, error)| match then {
        AfterPipeline::Continue => failed(error),
        AfterPipeline::Commit => broken_commit(of_commit, &error),
    })
}

fn sent<'a>(
    client: &'a ClientWrapper,
    statement: &'a Statement,
    params: Params<'a>,
) -> SentStatement<'a> {
    async move {
        let sent = client.execute(statement, params).await;
        sent.map(drop).map_err(|error| (false, error))
    }
    .boxed()
}
