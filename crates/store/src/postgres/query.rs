//! Running the queries of `sql/postgres`, each prepared once a connection.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

/// One query, from its own file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// A statement's parameter.
pub type Param<'a> = &'a (dyn ToSql + Sync);

/// All of them.
pub type Params<'a> = &'a [Param<'a>];

/// Runs a query.
pub async fn query(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, params).await
}

/// Runs a query that gives exactly one row.
pub async fn query_one(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<Row, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.query_one(&statement, params).await
}

/// Runs a statement and returns how many rows it changed.
pub async fn execute(client: &ClientWrapper, sql: &str, params: Params<'_>) -> Result<u64, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, params).await
}

/// Prepares queries that are to be sent in one flight: with all of them prepared, each is sent when
/// its future is first polled, so futures that are polled in order are sent in order.
pub(crate) async fn prepare<const N: usize>(
    client: &ClientWrapper,
    queries: [&str; N],
) -> Result<[Statement; N], Error> {
    let mut statements = Vec::with_capacity(N);
    for sql in queries {
        statements.push(client.prepare_cached(sql).await?);
    }
    statements.try_into().map_err(|_| unreachable!("as many statements as queries"))
}

/// The first column of all rows.
pub(crate) fn texts(rows: &[Row]) -> Result<Vec<String>, Error> {
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// A limit as PostgreSQL takes it.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A counter from a column, where counters are never negative.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
