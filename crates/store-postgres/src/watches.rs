//! Watched tables: what people may ask of capture, through the functions of schema `tidewire`.

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::broken;
use super::pool::PooledConnection;
use super::query::{Params, query, query_one, sql, unsigned};
use super::{table_lock, wal};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::sql::{SqlError, SqlProblem};
use tidewire_store::stats::CaptureStats;
use tidewire_store::watch::{
    CaptureMode, CaptureView, ColumnView, NewWatch, RepairView, TableView, WatchView, WatchedName,
    Watches,
};

#[async_trait]
impl Watches for PostgresStore {
    async fn watch(&self, watch: NewWatch) -> Result<WatchView, SqlError> {
        let NewWatch { table, key_columns, entity_code, host_column, user_column } = &watch;
        let work = |client: PooledConnection| async move {
            let params: Params<'_> = &[table, key_columns, entity_code, host_column, user_column];
            let done = table_lock::run(&client, table, (sql!("watch"), params), said).await?;
            match done {
                Err(problem) if problem.hint.is_none() => {
                    let hint = who_may(&client, table).await?;
                    Ok(Err(SqlProblem { hint, ..problem }))
                }
                done => Ok(done),
            }
        };
        let done = self.pool.write(work).await?;
        done.map_err(|problem| SqlError::Wrong(Box::new(problem)))?;
        let listed = |client: PooledConnection| async move { list(&client, Some(table)).await };
        let views = self.pool.read(listed).await?;
        let found = views.into_iter().find_map(|(view, is_it)| is_it.then_some(view));
        found.ok_or_else(|| {
            let text = format!("{table} is no longer watched");
            StoreError::Unavailable(text).into()
        })
    }

    async fn unwatch(&self, table: &str) -> Result<bool, SqlError> {
        let work = |client: PooledConnection| async move {
            table_lock::run(&client, table, (sql!("unwatch"), &[&table]), said).await
        };
        let done = self.pool.write(work).await?;
        let rows = done.map_err(|problem| SqlError::Wrong(Box::new(problem)))?;
        let was_watched = rows.first().map(|row| row.try_get(0)).transpose();
        Ok(was_watched.map_err(broken("change what is watched"))?.unwrap_or(false))
    }

    async fn watches(&self) -> Result<Vec<WatchView>, StoreError> {
        let views = self.pool.read(|client| async move { list(&client, None).await }).await?;
        Ok(views.into_iter().map(|(view, _)| view).collect())
    }

    async fn watched_names(&self) -> Result<Vec<WatchedName>, StoreError> {
        self.pool.read(|client| async move { names(&client).await }).await
    }

    async fn columns(&self, table: &str) -> Result<TableView, StoreError> {
        let look = |client: PooledConnection| async move {
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
                let repairs = query(&client, sql!("table_repairs"), &[]).await;
                let repairs = repairs
                    .and_then(|rows| rows.iter().map(repair_of_row).collect())
                    .map_err(broken("look at what was repaired"))?;
                Ok(CaptureView { advice, retained_wal_bytes, repairs, ..view })
            })
            .await
    }

    async fn switch_capture(&self, mode: CaptureMode) -> Result<CaptureView, SqlError> {
        if mode == CaptureMode::Embedded {
            return Err(mode_refused("only SQLite is embedded".to_owned()));
        }
        let session = self.connector.session_in_time(wal::SWITCH_SETTINGS).await?;
        let switched =
            wal::switch(&session.client, mode, "it was asked for", wal::Chooser::Person).await;
        match switched {
            Err(StoreError::Unavailable(text)) if table_lock::says_in_use(&text) => {
                let tables = wal::watched(&session.client).await?;
                let tables: Vec<u32> = tables.iter().map(|table| table.table_id).collect();
                let users = table_lock::users(&session.client, &tables, true).await?;
                let problem = table_lock::in_use("a watched table", &users);
                return Err(SqlError::Wrong(Box::new(problem)));
            }
            Err(StoreError::Refused(message)) => return Err(mode_refused(message)),
            other => other?,
        }
        Ok(self.capture().await?)
    }

    fn capture_stats(&self) -> Option<CaptureStats> {
        Some(self.capture.snapshot())
    }
}

/// What to run so that a table may be watched, where it is another role's.
async fn who_may(client: &ClientWrapper, table: &str) -> Result<Option<String>, StoreError> {
    let failed = broken("look whose a table is");
    let found = query(client, sql!("table_owner"), &[&table]).await.map_err(&failed)?;
    let Some(row) = found.first() else { return Ok(None) };
    let text = |column: usize| row.try_get::<_, &str>(column).map_err(&failed);
    let (name, owner, user) = (text(0)?, text(1)?, text(2)?);
    Ok(Some(format!(
        "the role that the server connects as must own the table, or be a member of the role that does. Let \
         {owner} or a superuser run one of these: GRANT {owner} TO {user}; ALTER TABLE {name} OWNER TO {user}"
    )))
}

/// Changes cannot be captured so.
fn mode_refused(message: String) -> SqlError {
    SqlError::Wrong(Box::new(SqlProblem {
        code: "capture_mode_refused",
        message,
        position: None,
        hint: Some("see to it and try again; until then it stays as it is".to_owned()),
    }))
}

/// What the database said against it, if it was the database.
fn said(error: &Error) -> Option<SqlProblem> {
    error.as_db_error().map(problem)
}

/// What the database said, for people.
fn problem(said: &DbError) -> SqlProblem {
    let position = match said.position() {
        Some(ErrorPosition::Original(at)) => usize::try_from(*at).ok(),
        _ => None,
    };
    let is_no_name = said.code() == &tokio_postgres::error::SqlState::INVALID_NAME;
    let name = "name it as in SQL: orders, sales.orders, \"Odd Name\"";
    let hint = said.hint().map(ToOwned::to_owned);
    SqlProblem {
        code: "table_not_watchable",
        message: said.message().to_owned(),
        position,
        hint: hint.or_else(|| is_no_name.then(|| name.to_owned())),
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

/// The search path that sessions of people have, which is the role's or the database's. Ours have none.
const PEOPLES_PATH: &str = "BEGIN READ ONLY; SET LOCAL search_path TO DEFAULT";

async fn names(client: &ClientWrapper) -> Result<Vec<WatchedName>, StoreError> {
    let failed = broken("list what is watched");
    client.batch_execute(PEOPLES_PATH).await.map_err(&failed)?;
    let read = async {
        let name = |row: &Row| {
            Ok(WatchedName {
                table: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                bare: row.try_get(3)?,
                ancestors: row.try_get(4)?,
            })
        };
        let rows = query(client, sql!("watched_names"), &[]).await?;
        rows.iter().map(name).collect::<Result<Vec<_>, Error>>()
    };
    let names = read.await;
    let end = if names.is_ok() { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await.map_err(&failed)?;
    names.map_err(failed)
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
        notes: row
            .try_get::<_, Option<String>>(12)?
            .map(|heirs| note(&heirs))
            .into_iter()
            .collect(),
    };
    Ok((view, row.try_get::<_, Option<bool>>(11)?.unwrap_or(false)))
}

/// What is said of tables that inherit from a watched one.
fn note(heirs: &str) -> String {
    format!(
        "tables inherit from it, and their rows are not captured with it: {heirs}; watch each of them by its own name"
    )
}

fn repair_of_row(row: &Row) -> Result<RepairView, Error> {
    Ok(RepairView {
        table: row.try_get(0)?,
        why: row.try_get(1)?,
        at_ms: row.try_get(2)?,
        events: row.try_get::<_, Option<i64>>(3)?.map(unsigned),
    })
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
        decided: row.try_get(7)?,
        reason: row.try_get(1)?,
        advice: Vec::new(),
        leader: row.try_get(2)?,
        waiting: unsigned(row.try_get(3)?),
        waiting_ms: unsigned(row.try_get(4)?),
        failed: unsigned(row.try_get(5)?),
        dead: unsigned(row.try_get(6)?),
        retained_wal_bytes: None,
        repairs: Vec::new(),
    })
}
