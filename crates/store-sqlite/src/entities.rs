//! Subscriptions to entities, and what became of those.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Connection, Row, Transaction, params};

use super::error::{broken, now_ms};
use super::writer::Writer;
use super::{SqliteStore, sql};
use tidewire_store::entity::{
    Entities, EntityAction, EntityCount, EntityEdit, EntityHeader, EntityPage, EntityPast,
    EntityPlan, SWEPT_MAX,
};
use tidewire_store::error::StoreError;
use tidewire_store::keys::duration;
use tidewire_store::offset::Position;
use tidewire_store::row::Operation;

const SWEEP: &str = "remove subscriptions to entities";

#[async_trait]
impl Entities for SqliteStore {
    async fn edit_entities(&self, edits: Vec<EntityEdit>) -> Result<(), StoreError> {
        let edit = move |writer: &mut Writer| {
            let plan = EntityPlan::of(&edits);
            as_node(writer, "change subscriptions to entities", |transaction| {
                write(transaction, &plan)
            })
        };
        self.exclusively(edit).await
    }

    async fn entities_of(
        &self,
        connection_id: &str,
    ) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        let connection_id = connection_id.to_owned();
        let read = move |connection: &mut Connection| {
            entities_of(connection, &connection_id)
                .map_err(broken("read what a connection subscribes to"))
        };
        self.readers.run(read).await
    }

    async fn entity_changes(
        &self,
        code: &str,
        ids: &[String],
        after: Position,
        changes_max: usize,
    ) -> Result<EntityPage, StoreError> {
        let (code, ids) = (code.to_owned(), ids.to_vec());
        let read = move |connection: &mut Connection| {
            let snapshot = connection.transaction().map_err(broken("begin a read"))?;
            changes(&snapshot, &code, &ids, after, changes_max)
                .map_err(broken("read what became of entities"))
        };
        self.readers.run(read).await
    }

    async fn entity_counts(&self, user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError> {
        let user_id = user_id.map(ToOwned::to_owned);
        let read = move |connection: &mut Connection| {
            counts(connection, user_id.as_ref()).map_err(broken("count subscriptions to entities"))
        };
        self.readers.run(read).await
    }

    async fn sweep_entities(&self, stale_ms: u64) -> Result<u64, StoreError> {
        let find = |connection: &mut Connection| {
            let find = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
                let mut query = connection.prepare_cached(sql!("entity_nodes_dead"))?;
                query.query_map([now_ms()], |row| row.get(0))?.collect()
            };
            find(connection).map_err(broken(SWEEP))
        };
        let mut swept = 0;
        for node in self.readers.run(find).await? {
            swept += self.sweep_all(sql!("entities_sweep_node"), node).await?;
        }
        let before_ms = now_ms().saturating_sub(duration(stale_ms));
        swept += self.sweep_all(sql!("entities_sweep_stale"), before_ms).await?;
        Ok(swept)
    }
}

impl SqliteStore {
    /// Removes a piece at a time, with room for appends between, until a piece is not full.
    async fn sweep_all<P>(&self, sql: &'static str, of: P) -> Result<u64, StoreError>
    where
        P: rusqlite::ToSql + Clone + Send + 'static,
    {
        let mut swept = 0;
        loop {
            let of = of.clone();
            let piece = move |writer: &mut Writer| {
                as_node(writer, SWEEP, |transaction| {
                    let most = i64::try_from(SWEPT_MAX).unwrap_or(i64::MAX);
                    transaction.prepare_cached(sql)?.execute((&of, most))
                })
            };
            let removed = self.exclusively(piece).await?;
            swept += u64::try_from(removed).unwrap_or(0);
            if removed < SWEPT_MAX {
                return Ok(swept);
            }
        }
    }
}

/// Changes subscriptions in a transaction of which nobody is told: the triggers look at a flag.
fn as_node<T>(
    writer: &mut Writer,
    operation: &'static str,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let failed = broken(operation);
    let transaction = writer.transaction()?;
    let flag = |by_node: bool| {
        transaction.prepare_cached(sql!("entities_by_node"))?.execute([by_node]).map(drop)
    };
    flag(true).map_err(&failed)?;
    let value = work(&transaction).map_err(&failed)?;
    flag(false).map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(value)
}

fn write(transaction: &Transaction<'_>, plan: &EntityPlan<'_>) -> rusqlite::Result<()> {
    let mut gone = transaction.prepare_cached(sql!("entities_gone"))?;
    for connection in plan.gone() {
        gone.execute([connection])?;
    }
    let mut cleared = transaction.prepare_cached(sql!("entities_cleared"))?;
    for (connection, code) in plan.cleared() {
        cleared.execute((connection, code))?;
    }
    let mut removed = transaction.prepare_cached(sql!("entity_removed"))?;
    for (connection, code, id) in plan.removed() {
        removed.execute((connection, code, id))?;
    }
    let mut adopted = transaction.prepare_cached(sql!("entities_adopted"))?;
    for (connection, node) in plan.adopted() {
        adopted.execute((connection, node))?;
    }
    let mut added = transaction.prepare_cached(sql!("entity_added"))?;
    let now_ms = now_ms();
    for (id, of) in plan.added() {
        let (connection, node) = (&of.connection_id, &of.node_id);
        added.execute(params![connection, of.code, id, of.user_id, of.host_id, node, now_ms])?;
    }
    Ok(())
}

fn entities_of(
    connection: &Connection,
    connection_id: &str,
) -> rusqlite::Result<Vec<(String, Vec<String>)>> {
    let mut query = connection.prepare_cached(sql!("entities_of"))?;
    let mut rows = query.query([connection_id])?;
    let mut codes: Vec<(String, Vec<String>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (code, id) = (row.get(0)?, row.get(1)?);
        match codes.last_mut().filter(|(last, _)| *last == code) {
            Some((_, ids)) => ids.push(id),
            None => codes.push((code, vec![id])),
        }
    }
    Ok(codes)
}

/// The first changes of each id by the index, and then the first of all. What lies past the last event
/// that was found for one of them is not complete, so it is left for the next page.
fn changes(
    connection: &Connection,
    code: &str,
    ids: &[String],
    after: Position,
    changes_max: usize,
) -> rusqlite::Result<EntityPage> {
    let most = i64::try_from(changes_max).unwrap_or(i64::MAX);
    let mut found = BTreeMap::new();
    let mut next: Option<Position> = None;
    for sql in [sql!("entity_changes"), sql!("entity_changes_was")] {
        let mut query = connection.prepare_cached(sql)?;
        for id in ids {
            let mut rows = query.query((code, id, after.to_sql(), most))?;
            let (mut count, mut last) = (0, after);
            while let Some(row) = rows.next()? {
                count += 1;
                last = Position::from_sql(row.get(0)?);
                // Also what is no change that anyone could hear of: it has been looked at.
                found.insert(last, past_of_row(code, row)?);
            }
            if count >= changes_max {
                next = Some(next.map_or(last, |next| next.min(last)));
            }
            // No more than are asked for are kept, however many ids there are.
            while found.len() > changes_max {
                found.pop_last();
                let kept = found.last_key_value().map_or(after, |(position, _)| *position);
                next = Some(next.map_or(kept, |next| next.min(kept)));
            }
        }
    }
    if let Some(next) = next {
        found.retain(|position, _| *position <= next);
    }
    Ok(EntityPage { changes: found.into_values().flatten().collect(), next })
}

fn past_of_row(code: &str, row: &Row<'_>) -> rusqlite::Result<Option<EntityPast>> {
    let header = EntityHeader {
        code: code.to_owned(),
        id: row.get(1)?,
        was: row.get(2)?,
        operation: row.get_ref(3)?.as_str_or_null()?.and_then(Operation::parse),
        action: row.get_ref(4)?.as_str_or_null()?.and_then(EntityAction::parse),
    };
    let (position, stream) = (Position::from_sql(row.get(0)?), row.get(6)?);
    Ok(header.change(row.get(5)?).map(|change| EntityPast { position, stream, change }))
}

fn counts(connection: &Connection, user_id: Option<&String>) -> rusqlite::Result<Vec<EntityCount>> {
    let of_row = |row: &Row<'_>| {
        Ok(EntityCount {
            user_id: user_id.cloned(),
            code: row.get(0)?,
            subscriptions: row.get(1)?,
            entities: row.get(2)?,
            users: row.get(3)?,
        })
    };
    match user_id {
        Some(user_id) => connection
            .prepare_cached(sql!("entity_counts_of_user"))?
            .query_map([user_id], of_row)?
            .collect(),
        None => connection.prepare_cached(sql!("entity_counts"))?.query_map([], of_row)?.collect(),
    }
}
