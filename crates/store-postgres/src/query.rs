//! Running the queries of `sql/postgres`, each prepared once a connection.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::types::{FromSql, ToSql, Type, accepts};
use tokio_postgres::{Error, Row, Statement};

/// One query, from its own file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
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

/// Prepares queries that are to be sent in one round trip: with all of them prepared, each is sent when
/// its future is first polled, so futures that are polled in order are sent in order.
pub async fn prepare<const N: usize>(
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
pub fn texts(rows: &[Row]) -> Result<Vec<String>, Error> {
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// A column's moment, in milliseconds. It is not PostgreSQL that makes them, because that takes as long there
/// as fetching the rest of a header.
pub(crate) fn moment_ms(row: &Row, column: usize) -> Result<i64, Error> {
    Ok(row.try_get::<_, Moment>(column)?.0)
}

/// A `timestamptz` in milliseconds since 1970.
#[derive(Debug, PartialEq, Eq)]
struct Moment(i64);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> Result<Moment, Box<dyn std::error::Error + Sync + Send>> {
        /// The first moment of 2000, from which PostgreSQL counts.
        const MICROS_BEFORE: i64 = 946_684_800_000_000;
        let micros = i64::from_be_bytes(raw.try_into()?).saturating_add(MICROS_BEFORE);
        Ok(Moment(micros.saturating_add(500).div_euclid(1_000)))
    }

    accepts!(TIMESTAMPTZ);
}

/// A limit as PostgreSQL takes it.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A counter from a column, where counters are never negative.
pub fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_rounded_to_milliseconds_as_the_database_would() {
        let ms = |micros: i64| Moment::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes());
        for (micros, expected) in [(0, 0), (499, 0), (500, 1), (1_499, 1), (-1, 0), (-501, -1)] {
            let Moment(found) = ms(micros).expect("eight bytes");
            assert_eq!(found, 946_684_800_000 + expected, "{micros} microseconds after 2000");
        }
        assert!(Moment::from_sql(&Type::TIMESTAMPTZ, &[0; 4]).is_err());
        assert_eq!(ms(i64::MAX).expect("infinity"), Moment(i64::MAX / 1_000));
    }
}
