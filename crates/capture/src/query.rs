//! Running the queries of `sql`, each prepared once a connection.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

/// One query, from its own file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// A statement's parameter.
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

/// All of them.
pub(crate) type Params<'a> = &'a [Param<'a>];

/// Runs a query.
pub(crate) async fn query(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.query(&statement, params).await
}

/// Runs a query that gives exactly one row.
pub(crate) async fn query_one(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<Row, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.query_one(&statement, params).await
}

/// Runs a statement and returns how many rows it changed.
pub(crate) async fn execute(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<u64, Error> {
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, params).await
}
