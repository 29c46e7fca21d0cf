//! The tables of live queries, as a snapshot has them.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::errors::{self, ReadFailure};
use crate::error::broken;
use crate::query::{query, sql};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::queries::{ShapeColumnView, ShapeView, TableRef, WatchedShape};
use tidewire_store::watch::ColumnView;

const LOOK: &str = "look at the tables of a query";

/// What one statement saw.
pub(super) struct CatalogSnapshot {
    /// The log's end.
    pub(super) tip: Position,
    /// The transactions that it saw.
    pub(super) snapshot: String,
    /// Whether all that they changed is in the log up to `tip`.
    pub(super) settled: bool,
    /// Which tables these are.
    pub(super) oids: Vec<u32>,
    shapes: Vec<ShapeView>,
}

impl CatalogSnapshot {
    /// Whether the tables are as they were.
    pub(super) fn is_as(&self, expected: &[(String, u64)]) -> bool {
        let same = |(shape, (name, fingerprint)): (&ShapeView, &(String, u64))| {
            matches!(shape, ShapeView::Watched(shape)
                if shape.name == *name && shape.fingerprint == *fingerprint)
        };
        self.shapes.len() == expected.len() && self.shapes.iter().zip(expected).all(same)
    }
}

/// What names stand for.
pub(super) async fn names(
    client: &ClientWrapper,
    tables: &[TableRef],
) -> Result<Vec<ShapeView>, StoreError> {
    let schemas: Vec<Option<&str>> = tables.iter().map(|table| table.schema.as_deref()).collect();
    let names: Vec<Option<&str>> = tables.iter().map(|table| Some(table.name.as_str())).collect();
    let none = vec![None; tables.len()];
    Ok(look(client, &schemas, &names, &none).await.map_err(broken(LOOK))?.shapes)
}

/// The tables by the names that their events have. Begins the snapshot of a transaction that has none.
pub(super) async fn events(
    client: &ClientWrapper,
    tables: &[(String, u64)],
) -> Result<CatalogSnapshot, StoreError> {
    let events: Vec<Option<&str>> = tables.iter().map(|(name, _)| Some(name.as_str())).collect();
    let none = vec![None; tables.len()];
    look(client, &none, &none, &events).await.map_err(broken(LOOK))
}

/// The statement that locks tables, by the names that their events have; nothing without any.
pub(super) async fn lock(
    client: &ClientWrapper,
    tables: &[(String, u64)],
) -> Result<String, ReadFailure> {
    if tables.is_empty() {
        return Ok(String::new());
    }
    let events: Vec<&str> = tables.iter().map(|(name, _)| name.as_str()).collect();
    let rows = query(client, sql!("live_names"), &[&events]).await.map_err(broken(LOOK))?;
    let name = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let found: Result<Vec<(String, String)>, Error> = rows.iter().map(name).collect();
    let mut found = found.map_err(broken(LOOK))?;
    if events.iter().any(|event| !found.iter().any(|(name, _)| name == event)) {
        return Err(errors::shape_changed().into());
    }
    // All who lock them do so in the same order.
    found.sort();
    let names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
    Ok(format!("LOCK TABLE {} IN ACCESS SHARE MODE", names.join(", ")))
}

async fn look(
    client: &ClientWrapper,
    schemas: &[Option<&str>],
    names: &[Option<&str>],
    events: &[Option<&str>],
) -> Result<CatalogSnapshot, Error> {
    let rows = query(client, sql!("live_look"), &[&schemas, &names, &events]).await?;
    let (mut tip, mut snapshot, mut settled) = (Position::START, String::new(), false);
    let (mut oids, mut shapes) = (Vec::new(), Vec::new());
    for row in &rows {
        tip = Position::from_sql(row.try_get(0)?);
        snapshot = row.try_get(1)?;
        settled = row.try_get::<_, Option<bool>>(2)?.unwrap_or(false);
        // Without any table there is a row all the same.
        if row.try_get::<_, Option<i64>>(3)?.is_some() {
            oids.extend(row.try_get::<_, Option<u32>>(4)?);
            shapes.push(shape_of_row(row)?);
        }
    }
    Ok(CatalogSnapshot { tip, snapshot, settled, oids, shapes })
}

fn shape_of_row(row: &Row) -> Result<ShapeView, Error> {
    let Some(oid) = row.try_get::<_, Option<u32>>(4)? else { return Ok(ShapeView::Unknown) };
    let name: String = row.try_get(6)?;
    if !row.try_get::<_, bool>(5)? {
        return Ok(ShapeView::NotWatched(name));
    }
    let columns: Option<String> = row.try_get(12)?;
    let (columns, types) = columns_of(columns.as_deref().unwrap_or("[]"));
    let shape = WatchedShape {
        name,
        sql_name: row.try_get(7)?,
        columns,
        key_columns: row.try_get(8)?,
        host_column: row.try_get(9)?,
        fingerprint: 0,
        row_security: row.try_get(10)?,
        inherited: row.try_get(11)?,
    };
    Ok(ShapeView::Watched(Box::new(shape.sealed((oid, types)))))
}

/// Name, type, collation, whether generated, scale, whether its text is not its image, the type's number.
type ColumnRow = (String, String, Option<String>, bool, Option<u16>, bool, i64);

fn columns_of(json: &str) -> (Vec<ShapeColumnView>, Vec<i64>) {
    let rows: Vec<ColumnRow> = serde_json::from_str(json).unwrap_or_default();
    let column = |(name, type_name, collation, generated, scale, json_text, type_id): ColumnRow| {
        let column = ColumnView { name, type_name, collation };
        (ShapeColumnView { column, generated, scale, json_text }, type_id)
    };
    rows.into_iter().map(column).unzip()
}
