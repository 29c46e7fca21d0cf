//! Watched tables: what people may ask of capture, through the functions of schema `tidewire`.

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::broken;
use super::pool::Lent;
use super::query::{Params, query, query_one, sql, unsigned};
use super::wal;
use crate::error::StoreError;
use crate::offset::Position;
use crate::sql::{SqlError, SqlProblem};
use crate::stats::CaptureStats;
use crate::watch::{CaptureMode, CaptureView, ColumnView, NewWatch, TableView, WatchView, Watches};

/// How long to wait for those who write to the table. It needs a lock that they hold to their end, and
/// those who come later wait for it meanwhile.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '30s'";

#[async_trait]
impl Watches for PostgresStore {
    async fn watch(&self, watch: NewWatch) -> Result<WatchView, SqlError> {
        let NewWatch { table, key_columns, entity_code, host_column, user_column } = &watch;
        let work = |client: Lent| async move {
            let params: Params<'_> = &[table, key_columns, entity_code, host_column, user_column];
            alone(&client, sql!("watch"), params).await
        };
        let done = self.pool.write(work).await?;
        done.map_err(|problem| SqlError::Wrong(Box::new(problem)))?;
        let listed = |client: Lent| async move { list(&client, Some(table)).await };
        let views = self.pool.read(listed).await?;
        let found = views.into_iter().find_map(|(view, is_it)| is_it.then_some(view));
        found.ok_or_else(|| {
            let text = format!("{table} was watched, and is not any more");
            StoreError::Unavailable(text).into()
        })
    }

    async fn unwatch(&self, table: &str) -> Result<bool, SqlError> {
        let work = |client: Lent| async move { alone(&client, sql!("unwatch"), &[&table]).await };
        let done = self.pool.write(work).await?;
        let rows = done.map_err(|problem| SqlError::Wrong(Box::new(problem)))?;
        let was_watched = rows.first().map(|row| row.try_get(0)).transpose();
        Ok(was_watched.map_err(broken("change what is watched"))?.unwrap_or(false))
    }

    async fn watches(&self) -> Result<Vec<WatchView>, StoreError> {
        let views = self.pool.read(|client| async move { list(&client, None).await }).await?;
        Ok(views.into_iter().map(|(view, _)| view).collect())
    }

    async fn columns(&self, table: &str) -> Result<TableView, StoreError> {
        let look = |client: Lent| async move {
            let read = async {
                let rows = query(&client, sql!("watched_columns"), &[&table]).await?;
                table_of_rows(&rows)
            };
            read.await.map_err(broken("look at a table's columns"))
        };
        self.pool.read(look).await
    }

    async fn capture(&self) -> Result<CaptureView, StoreError> {
        self.pool
            .read(|client| async move {
                let row = query_one(&client, sql!("capture"), &[]).await;
                let view =
                    row.and_then(|row| view_of_row(&row)).map_err(broken("look at capture"))?;
                let found = wal::obstacles(&client).await?;
                let mut advice = found.advice;
                if view.mode != CaptureMode::Wal {
                    advice = found.blocking;
                }
                let state = wal::state(&client).await?;
                let slot = wal::slot(&client, &state.slot).await?;
                let retained_wal_bytes = slot.map(|slot| slot.retained_bytes);
                Ok(CaptureView { advice, retained_wal_bytes, ..view })
            })
            .await
    }

    async fn switch_capture(&self, mode: CaptureMode) -> Result<CaptureView, SqlError> {
        if mode == CaptureMode::Embedded {
            return Err(StoreError::Refused("only SQLite is embedded".to_owned()).into());
        }
        let session = self.connector.session_in_time(wal::SWITCH_SETTINGS).await?;
        wal::switch(&session.client, mode, "it was asked for", wal::Chooser::Person).await?;
        Ok(self.capture().await?)
    }

    fn capture_stats(&self) -> Option<CaptureStats> {
        Some(self.capture.snapshot())
    }
}

/// Runs one statement in a transaction that may wait for writers. What the database says against it
/// is a result like any other, so that it is not tried again.
async fn alone(
    client: &ClientWrapper,
    sql: &str,
    params: Params<'_>,
) -> Result<Result<Vec<Row>, SqlProblem>, StoreError> {
    let failed = broken("change what is watched");
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(&failed)?;
    client.batch_execute(LOCK_WAIT).await.map_err(&failed)?;
    match query(client, sql, params).await {
        Ok(done) => {
            client.batch_execute("COMMIT").await.map_err(&failed)?;
            Ok(Ok(done))
        }
        Err(error) => {
            client.batch_execute("ROLLBACK").await.map_err(&failed)?;
            match (error.as_db_error().map(problem), failed(error)) {
                (Some(problem), StoreError::Broken { .. }) => Ok(Err(problem)),
                (_, error) => Err(error),
            }
        }
    }
}

/// What the database said, for people.
fn problem(said: &DbError) -> SqlProblem {
    let position = match said.position() {
        Some(ErrorPosition::Original(at)) => usize::try_from(*at).ok(),
        _ => None,
    };
    let is_no_name = said.code() == &tokio_postgres::error::SqlState::INVALID_NAME;
    let name = "name it as in SQL: orders, sales.orders, \"Odd Name\"";
    let lacks_rights = said.code() == &tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE;
    let grant = "the role that tidewire connects as needs the TRIGGER privilege on the table, or must \
                 own it: GRANT TRIGGER, SELECT ON … TO …";
    let hint = said.hint().map(ToOwned::to_owned);
    SqlProblem {
        code: "table_not_watchable",
        message: said.message().to_owned(),
        position,
        hint: hint
            .or_else(|| lacks_rights.then(|| grant.to_owned()))
            .or_else(|| is_no_name.then(|| name.to_owned())),
    }
}

/// The watches, each with whether it is that of a table.
async fn list(
    client: &ClientWrapper,
    table: Option<&str>,
) -> Result<Vec<(WatchView, bool)>, StoreError> {
    let read = async {
        let rows = query(client, sql!("watches"), &[&table]).await?;
        rows.iter().map(watch_of_row).collect::<Result<Vec<_>, Error>>()
    };
    read.await.map_err(broken("list what is watched"))
}

fn watch_of_row(row: &Row) -> Result<(WatchView, bool), Error> {
    let view = WatchView {
        table: row.try_get(0)?,
        stream: row.try_get(1)?,
        key_columns: row.try_get(2)?,
        entity_code: row.try_get(3)?,
        host_column: row.try_get(4)?,
        user_column: row.try_get(5)?,
        created_at_ms: row.try_get(6)?,
        events: unsigned(row.try_get(7)?),
        last: row.try_get::<_, Option<i64>>(8)?.map(Position::from_sql),
        waiting: unsigned(row.try_get(9)?),
        waiting_ms: unsigned(row.try_get(10)?),
    };
    Ok((view, row.try_get::<_, Option<bool>>(11)?.unwrap_or(false)))
}

/// A row for each column, or one without a name if there is no watch.
fn table_of_rows(rows: &[Row]) -> Result<TableView, Error> {
    let (mut columns, mut key_columns) = (Vec::with_capacity(rows.len()), Vec::new());
    let mut host_column = None;
    for row in rows {
        let Some(name) = row.try_get(0)? else { return Ok(TableView::NotWatched) };
        columns.push(ColumnView { name, type_name: row.try_get(1)?, collation: row.try_get(2)? });
        key_columns = row.try_get(3)?;
        host_column = row.try_get(4)?;
    }
    if columns.is_empty() {
        Ok(TableView::Unknown)
    } else {
        Ok(TableView::Watched { columns, key_columns, host_column })
    }
}

fn view_of_row(row: &Row) -> Result<CaptureView, Error> {
    let mode = CaptureMode::parse(row.try_get(0)?).unwrap_or(CaptureMode::Outbox);
    Ok(CaptureView {
        mode,
        reason: row.try_get(1)?,
        advice: Vec::new(),
        leader: row.try_get(2)?,
        waiting: unsigned(row.try_get(3)?),
        waiting_ms: unsigned(row.try_get(4)?),
        failed: unsigned(row.try_get(5)?),
        dead: unsigned(row.try_get(6)?),
        retained_wal_bytes: None,
    })
}
