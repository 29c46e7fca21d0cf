//! Handles a changed table: its queries are bound again.
//!
//! Nothing after the event that says so is applied before. A query whose result has the same columns
//! goes on with all rows told again; else it ends, because its client would not know what it gets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidewire_query::{QueryId, TableNews};

use super::compile::is_of_another_shape;
use super::problem;
use super::rebind::Rebound;
use super::task::RunningQueryEngine;

/// How long to wait after the store could not say what a table is.
const RETRY: Duration = Duration::from_millis(200);
/// How often a query is bound to a table that is another when the database looks at the query. With
/// more it ends, because all others wait meanwhile.
const BINDINGS_MAX: usize = 3;

impl RunningQueryEngine {
    /// Waits a little, after something that may pass.
    pub(super) async fn pause(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(RETRY) => {}
        }
    }

    /// The tables of a query, by the names of their events.
    pub(super) fn tables_of(&self, query: QueryId) -> Vec<String> {
        let query = self.kept.get(&query).map(|kept| &kept.compiled.query);
        let tables = query.into_iter().flat_map(|query| &query.dependencies);
        tables.map(|table| table.table.to_string()).collect()
    }

    pub(super) async fn table_changed(&mut self, table: &str) {
        let (mut bound, mut changed) = (HashMap::new(), false);
        for id in self.engine.queries_of(table) {
            match self.rebound(id).await {
                Some(Rebound::Same) => {
                    if let Some(query) = self.engine.query(id) {
                        bound.insert(id, Ok(Arc::clone(query)));
                    }
                }
                Some(Rebound::Other(compiled)) => {
                    changed = true;
                    bound.insert(id, Ok(Arc::clone(&compiled.query)));
                    if let Some(kept) = self.kept.get_mut(&id) {
                        kept.compiled = Arc::from(compiled);
                    }
                }
                Some(Rebound::Ended(why)) => {
                    changed = true;
                    bound.insert(id, Err(why));
                }
                None => {}
            }
        }
        let news = match changed {
            true => {
                let otherwise = problem::reason(problem::SCHEMA_CHANGED, None);
                TableNews::Rebound { bound, otherwise }
            }
            false => TableNews::Reread,
        };
        self.engine.table(table, news, &mut self.out);
        self.tell();
        let given_up = self.asks.keys().filter(|ask| !self.engine.awaits(**ask)).copied();
        for ask in given_up.collect::<Vec<_>>() {
            self.answered(ask);
        }
    }

    /// What has become of a query, asked until the store can say.
    async fn rebound(&self, id: QueryId) -> Option<Rebound> {
        let compiled = Arc::clone(&self.kept.get(&id)?.compiled);
        let mut bindings = 0;
        loop {
            match compiled.rebind(&self.hub).await {
                Ok(rebound) => return Some(rebound),
                Err(_) if self.stop.is_cancelled() => return None,
                Err(error) => {
                    bindings += usize::from(is_of_another_shape(&error));
                    if bindings >= BINDINGS_MAX {
                        let reason = problem::reason(problem::SCHEMA_CHANGED, None);
                        return Some(Rebound::Ended(reason));
                    }
                    tracing::warn!(%error, "cannot read a changed table; trying again");
                    self.pause().await;
                }
            }
        }
    }
}
