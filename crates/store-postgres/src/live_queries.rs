//! The list of live queries.

use deadpool_postgres::ClientWrapper;
use futures_util::future::{TryFutureExt, try_join};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::broken;
use super::pipeline::{self, AfterPipeline, Query};
use super::pool::PooledConnection;
use super::query::{Param, execute, limit, query, sql};
use tidewire_store::error::StoreError;
use tidewire_store::queries::{EditPlan, LiveQueryEdit, LiveQueryRow};

/// Rows that are swept in one statement.
const SWEPT_MAX: usize = 2_000;

/// A list that someone has locked holds nobody up: the caller tries again.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '200ms'";

impl PostgresStore {
    /// Makes edits, all or none.
    pub(super) async fn edit_list(&self, edits: Vec<LiveQueryEdit>) -> Result<(), StoreError> {
        let plan = &EditPlan::of(edits);
        self.pool.write(|client| async move { write(&client, plan).await }).await
    }

    /// A row, if its node lives.
    pub(super) async fn listed(&self, live_id: &str) -> Result<Option<LiveQueryRow>, StoreError> {
        let live_id: &String = &clean(live_id);
        let find = |client: PooledConnection| async move {
            let rows = query(&client, sql!("live_query"), &[live_id]).await;
            let row = rows.and_then(|rows| rows.first().map(row_of_row).transpose());
            row.map_err(broken("look up a live query"))
        };
        self.pool.read(find).await
    }

    /// Removes rows of nodes that live no more.
    pub(super) async fn sweep_list(&self) -> Result<u64, StoreError> {
        let most: &i64 = &limit(SWEPT_MAX);
        let piece = |client: PooledConnection| async move {
            let removed = execute(&client, sql!("live_queries_sweep"), &[most]).await;
            removed.map_err(broken("sweep the list of live queries"))
        };
        let mut swept = 0;
        loop {
            let removed = self.pool.read(piece).await?;
            swept += removed;
            if usize::try_from(removed).is_ok_and(|removed| removed < SWEPT_MAX) {
                return Ok(swept);
            }
        }
    }
}

/// PostgreSQL's texts have no character of code 0.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Writes a plan in one transaction: a statement for each kind of edit, however many there are.
async fn write(client: &ClientWrapper, plan: &EditPlan) -> Result<(), StoreError> {
    let operation = "change the list of live queries";
    let gone: Vec<String> = plan.disconnected.iter().map(|id| clean(id)).collect();
    let closed: Vec<String> = plan.closed.iter().map(|id| clean(id)).collect();
    let (opened, counted) = (Opened::of(plan), Counts::of(plan));
    let queries: [Query<'_>; 4] = [
        (!gone.is_empty(), sql!("live_queries_gone"), &[&gone]),
        (!closed.is_empty(), sql!("live_queries_close"), &[&closed]),
        (!plan.opened.is_empty(), sql!("live_queries_open"), &opened.params()),
        (!plan.counted.is_empty(), sql!("live_queries_count"), &counted.params()),
    ];
    let begun = client.batch_execute(BEGIN).map_err(broken(operation));
    let written = pipeline::send(client, operation, &queries, AfterPipeline::Commit);
    try_join(begun, written).await.map(drop)
}

/// Rows that come, by column: the seven that each has, and the two that it may have.
struct Opened([Vec<String>; 7], [Vec<Option<String>>; 2]);

impl Opened {
    fn of(plan: &EditPlan) -> Opened {
        let of = |part: fn(&LiveQueryRow) -> &str| -> Vec<String> {
            plan.opened.values().map(|row| clean(part(row))).collect()
        };
        let may = |part: fn(&LiveQueryRow) -> Option<&str>| -> Vec<Option<String>> {
            plan.opened.values().map(|row| part(row).map(clean)).collect()
        };
        Opened(
            [
                of(|row| &row.live_id),
                of(|row| &row.connection_id),
                of(|row| &row.query_id),
                of(|row| &row.user_id),
                of(|row| &row.query),
                of(|row| &row.node),
                of(|row| &row.plan),
            ],
            [may(|row| row.user_agent.as_deref()), may(|row| row.address.as_deref())],
        )
    }

    /// For `live_queries_open.sql`.
    fn params(&self) -> [Param<'_>; 9] {
        let Opened([live, connection, query, user, text, node, plan], [agent, address]) = self;
        [live, connection, query, user, text, node, plan, agent, address]
    }
}

/// What was counted, by column.
struct Counts {
    live_ids: Vec<String>,
    changes: Vec<i64>,
    lags_ms: Vec<Option<i64>>,
    queue_depths: Vec<i64>,
    plans: Vec<String>,
}

impl Counts {
    fn of(plan: &EditPlan) -> Counts {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let all = || plan.counted.values();
        Counts {
            live_ids: plan.counted.keys().map(|id| clean(id)).collect(),
            changes: all().map(|counted| number(counted.changes)).collect(),
            lags_ms: all().map(|counted| counted.lag_ms.map(number)).collect(),
            queue_depths: all().map(|counted| number(counted.queue_depth)).collect(),
            plans: all().map(|counted| clean(&counted.plan)).collect(),
        }
    }

    /// For `live_queries_count.sql`.
    fn params(&self) -> [Param<'_>; 5] {
        [&self.live_ids, &self.changes, &self.lags_ms, &self.queue_depths, &self.plans]
    }
}

fn row_of_row(row: &Row) -> Result<LiveQueryRow, Error> {
    Ok(LiveQueryRow {
        live_id: row.try_get(0)?,
        connection_id: row.try_get(1)?,
        query_id: row.try_get(2)?,
        user_id: row.try_get(3)?,
        query: row.try_get(4)?,
        node: row.try_get(5)?,
        plan: row.try_get(6)?,
        user_agent: row.try_get(7)?,
        address: row.try_get(8)?,
    })
}
