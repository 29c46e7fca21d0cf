//! What it costs to know of a change by running queries again: PostgreSQL, a prepared statement for each,
//! every one answered by an index where there is one for it.

use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use super::queries::{Family, HUNDRED};
use crate::postgres::{Database, Session};
use crate::scale::Matching;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) family: Family,
    /// Rows of the table.
    rows: usize,
    pub(super) query_us: f64,
    pub(super) queries: usize,
    /// All of them, once.
    pub(super) change_seconds: f64,
}

pub(super) fn measure(url: &str, scale: &Matching) -> Result<Vec<Row>> {
    let database = Database::create(url)?;
    let session = Session::connect(&database.url)?;
    session.run(&include_str!("rerun.sql").replace("{rows}", &scale.table_rows.to_string()))?;
    let queries = scale.queries.last().copied().unwrap_or(1);
    let mut rows = Vec::new();
    for family in Family::ALL {
        println!("match: running queries again, {}", family.name());
        let mut spent = std::time::Duration::ZERO;
        for at in 0..scale.reruns {
            let condition = family.condition(HUNDRED + at * 31 % scale.table_rows);
            let sql = format!("SELECT * FROM orders WHERE {condition}");
            let statement = session.runtime.block_on(session.client.prepare(&sql));
            let statement = statement.with_context(|| format!("PostgreSQL: {sql}"))?;
            let began = Instant::now();
            session.runtime.block_on(session.client.query(&statement, &[]))?;
            spent += began.elapsed();
        }
        let each = spent.as_secs_f64() / scale.reruns as f64;
        rows.push(Row {
            family,
            rows: scale.table_rows,
            query_us: each * 1e6,
            queries,
            change_seconds: each * queries as f64,
        });
    }
    Ok(rows)
}
