//! Subscriptions to entities, and what became of those.

use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{TryFutureExt, try_join};
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::error::broken;
use super::pipeline::{self, AfterPipeline, Query};
use super::pool::PooledConnection;
use super::query::{Param, Params, execute, limit, query, sql, texts, unsigned};
use tidewire_store::entity::{
    Entities, EntityAction, EntityCount, EntityEdit, EntityHeader, EntityPage, EntityPast,
    EntityPlan, SWEPT_MAX, is_entity_id,
};
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;
use tidewire_store::offset::Position;
use tidewire_store::row::Operation;

/// What a node does to subscriptions is no news to nodes: the triggers look at this.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL tidewire.by_node = 'on'";

/// All of a node's edits go one after the other. So one that meets a row that someone has locked is
/// given up soon, for the caller to try again without the others.
const BEGIN_EDITS: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL tidewire.by_node = 'on';
    SET LOCAL lock_timeout = '200ms'";

#[async_trait]
impl Entities for PostgresStore {
    async fn edit_entities(&self, edits: Vec<EntityEdit>) -> Result<(), StoreError> {
        let plan = &EntityPlan::of(&edits);
        self.pool.write(|client| async move { write(&client, plan).await }).await
    }

    async fn entities_of(
        &self,
        connection_id: &str,
    ) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let read = |client: PooledConnection| async move {
            let rows = query(&client, sql!("entities_of"), &[&connection_id]).await;
            let rows = rows.map_err(broken("read what a connection subscribes to"))?;
            let mut codes: Vec<(String, Vec<String>)> = Vec::new();
            for row in rows {
                let (code, id) = (row.get(0), row.get(1));
                match codes.last_mut().filter(|(last, _)| *last == code) {
                    Some((_, ids)) => ids.push(id),
                    None => codes.push((code, vec![id])),
                }
            }
            Ok(codes)
        };
        self.pool.read(read).await
    }

    async fn entity_changes(
        &self,
        code: &str,
        ids: &[String],
        after: Position,
        changes_max: usize,
    ) -> Result<EntityPage, StoreError> {
        let ids: &Vec<&str> =
            &ids.iter().map(String::as_str).filter(|id| is_entity_id(id)).collect();
        let read = |client: PooledConnection| async move {
            let params: Params<'_> = &[&code, ids, &after.to_sql(), &limit(changes_max)];
            let rows = query(&client, sql!("entity_changes"), params).await?;
            // As many as were asked for may not be all. Those that are no change count, too.
            let full = rows.last().filter(|_| rows.len() >= changes_max);
            let next = full.map(|row| row.try_get(0).map(Position::from_sql)).transpose()?;
            let found = rows.iter().map(change_of_row).collect::<Result<Vec<_>, Error>>()?;
            Ok(EntityPage { changes: found.into_iter().flatten().collect(), next })
        };
        let failed = broken("read what became of entities");
        self.pool.read(|client| async { read(client).await.map_err(&failed) }).await
    }

    async fn entity_counts(&self, user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError> {
        let of_row = |row: &Row| {
            Ok(EntityCount {
                user_id: user_id.map(ToOwned::to_owned),
                code: row.try_get(0)?,
                subscriptions: unsigned(row.try_get(1)?),
                entities: unsigned(row.try_get(2)?),
                users: unsigned(row.try_get(3)?),
            })
        };
        let read = |client: PooledConnection| async move {
            let rows = match user_id {
                Some(user_id) => query(&client, sql!("entity_counts_of_user"), &[&user_id]).await,
                None => query(&client, sql!("entity_counts"), &[]).await,
            };
            rows?.iter().map(of_row).collect::<Result<Vec<_>, Error>>()
        };
        let failed = broken("count subscriptions to entities");
        self.pool.read(|client| async { read(client).await.map_err(&failed) }).await
    }

    async fn sweep_entities(&self, stale_ms: u64) -> Result<u64, StoreError> {
        let find = |client: PooledConnection| async move {
            let dead = query(&client, sql!("entity_nodes_dead"), &[]).await;
            dead.and_then(|rows| texts(&rows)).map_err(broken(SWEEP))
        };
        let mut swept = 0;
        let most: &i64 = &limit(SWEPT_MAX);
        for node in self.pool.read(find).await? {
            swept += self.sweep_all(sql!("entities_sweep_node"), &[&node, most]).await?;
        }
        let stale_ms = &duration(stale_ms);
        swept += self.sweep_all(sql!("entities_sweep_stale"), &[stale_ms, most]).await?;
        Ok(swept)
    }
}

const SWEEP: &str = "remove subscriptions to entities";

impl PostgresStore {
    /// Removes a piece at a time, each in a transaction of its own, until a piece is not full.
    async fn sweep_all(&self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        let piece = |client: PooledConnection| async move {
            let work = async {
                client.batch_execute(BEGIN).await?;
                let removed = execute(&client, sql, params).await?;
                client.batch_execute("COMMIT").await?;
                Ok(removed)
            };
            work.await.map_err(broken(SWEEP))
        };
        let mut swept = 0;
        loop {
            let removed = self.pool.write(piece).await?;
            swept += removed;
            if usize::try_from(removed).is_ok_and(|removed| removed < SWEPT_MAX) {
                return Ok(swept);
            }
        }
    }
}

/// Writes a plan in one transaction: a statement for each kind of edit, however many there are.
async fn write(client: &ClientWrapper, plan: &EntityPlan<'_>) -> Result<(), StoreError> {
    let operation = "change subscriptions to entities";
    let gone: Vec<&str> = plan.gone().collect();
    let (cleared_from, cleared): (Vec<&str>, Vec<&str>) = plan.cleared().unzip();
    let (removed_from, (removed_codes, removed)): (Vec<&str>, (Vec<&str>, Vec<&str>)) =
        plan.removed().map(|(connection, code, id)| (connection, (code, id))).unzip();
    let (adopted, adopted_by): (Vec<&str>, Vec<&str>) = plan.adopted().unzip();
    let added = Added::of(plan);
    let removed_params: Params<'_> = &[&removed_from, &removed_codes, &removed];
    let queries: [Query<'_>; 5] = [
        (!gone.is_empty(), sql!("entities_gone"), &[&gone]),
        (!cleared.is_empty(), sql!("entities_cleared"), &[&cleared_from, &cleared]),
        (!removed.is_empty(), sql!("entities_removed"), removed_params),
        (!adopted.is_empty(), sql!("entities_adopted"), &[&adopted, &adopted_by]),
        (!added.ids.is_empty(), sql!("entities_added"), &added.params()),
    ];
    // In one round trip. If the connection breaks, all of it may be run once more, which changes nothing.
    let begun = client.batch_execute(BEGIN_EDITS).map_err(broken(operation));
    let written = pipeline::send(client, operation, &queries, AfterPipeline::Commit);
    try_join(begun, written).await.map(drop)
}

/// Rows that come, by column.
#[derive(Default)]
struct Added<'a> {
    connections: Vec<&'a str>,
    codes: Vec<&'a str>,
    ids: Vec<&'a str>,
    users: Vec<&'a str>,
    hosts: Vec<Option<&'a str>>,
    nodes: Vec<&'a str>,
}

impl<'a> Added<'a> {
    fn of(plan: &EntityPlan<'a>) -> Added<'a> {
        let mut columns = Added::default();
        for (id, of) in plan.added() {
            columns.connections.push(&of.connection_id);
            columns.codes.push(&of.code);
            columns.ids.push(id);
            columns.users.push(&of.user_id);
            columns.hosts.push(of.host_id.as_deref());
            columns.nodes.push(&of.node_id);
        }
        columns
    }

    /// For `entities_added.sql`.
    fn params(&self) -> [Param<'_>; 6] {
        [&self.connections, &self.codes, &self.ids, &self.users, &self.hosts, &self.nodes]
    }
}

fn change_of_row(row: &Row) -> Result<Option<EntityPast>, Error> {
    let header = EntityHeader {
        code: row.try_get(1)?,
        id: row.try_get(2)?,
        was: row.try_get(3)?,
        operation: row.try_get::<_, Option<&str>>(4)?.and_then(Operation::parse),
        action: row.try_get::<_, Option<&str>>(5)?.and_then(EntityAction::parse),
    };
    let (position, stream) = (Position::from_sql(row.try_get(0)?), row.try_get(7)?);
    Ok(header.change(row.try_get(6)?).map(|change| EntityPast { position, stream, change }))
}
