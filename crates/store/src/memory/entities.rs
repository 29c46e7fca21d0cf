//! Subscriptions to entities, and what became of those. Events of entities come from SQL, so there
//! are none in this log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};

use async_trait::async_trait;

use super::{MemoryStore, Rows};
use crate::entity::{
    CONNECTION_ID_BYTES_MAX, ENTITY_USER_BYTES_MAX, Entities, EntityCount, EntityEdit, EntityPage,
    EntityPlan, EntitySubscription, is_entity_code, is_entity_id,
};
use crate::error::StoreError;
use crate::offset::Position;

/// Who follows which entity: user and node, by connection, code and id.
#[derive(Debug, Default)]
pub(super) struct Followers(BTreeMap<(String, String, String), (String, String)>);

/// Refuses what the databases' tables would.
fn check(id: &str, subscription: &EntitySubscription) -> Result<(), StoreError> {
    let EntitySubscription { user_id, connection_id, code, .. } = subscription;
    let fits = (1..=CONNECTION_ID_BYTES_MAX).contains(&connection_id.len())
        && user_id.len() <= ENTITY_USER_BYTES_MAX
        && is_entity_code(code)
        && is_entity_id(id);
    if fits {
        return Ok(());
    }
    let reason = "a name is empty or too long".to_owned();
    Err(StoreError::Broken { operation: "change subscriptions to entities", reason })
}

impl Followers {
    fn edit(&mut self, edits: &[EntityEdit]) -> Result<(), StoreError> {
        let plan = EntityPlan::of(edits);
        plan.added().try_for_each(|(id, subscription)| check(id, subscription))?;
        let gone: BTreeSet<&str> = plan.gone().collect();
        let cleared: BTreeSet<(&str, &str)> = plan.cleared().collect();
        let removed: BTreeSet<(&str, &str, &str)> = plan.removed().collect();
        self.0.retain(|(connection, code, id), _| {
            !gone.contains(connection.as_str())
                && !cleared.contains(&(connection, code))
                && !removed.contains(&(connection, code, id))
        });
        for (id, of) in plan.added() {
            let key = (of.connection_id.clone(), of.code.clone(), id.to_owned());
            self.0.entry(key).or_insert_with(|| (of.user_id.clone(), of.node_id.clone()));
        }
        Ok(())
    }

    fn of(&self, connection_id: &str) -> Vec<(String, Vec<String>)> {
        let from = (connection_id.to_owned(), String::new(), String::new());
        let from = self.0.range((Included(from), Unbounded));
        let own = from.take_while(|((connection, ..), _)| connection == connection_id);
        let mut codes: BTreeMap<&String, Vec<String>> = BTreeMap::new();
        for ((_, code, id), _) in own {
            codes.entry(code).or_default().push(id.clone());
        }
        codes.into_iter().map(|(code, ids)| (code.clone(), ids)).collect()
    }

    fn counts(&self, user_id: Option<&str>) -> Vec<EntityCount> {
        let of_user = self.0.iter().filter(|(_, (of, _))| user_id.is_none_or(|user| user == of));
        let mut codes: BTreeMap<&str, (u64, BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for ((_, code, id), (user, _)) in of_user {
            let (subscriptions, entities, users) = codes.entry(code).or_default();
            *subscriptions += 1;
            entities.insert(id);
            users.insert(user);
        }
        let count =
            |(code, (subscriptions, entities, users)): (&str, (u64, BTreeSet<_>, BTreeSet<_>))| {
                let (user_id, code) = (user_id.map(ToOwned::to_owned), code.to_owned());
                let (entities, users) = (entities.len() as u64, users.len() as u64);
                EntityCount { user_id, code, subscriptions, entities, users }
            };
        codes.into_iter().map(count).collect()
    }
}

#[async_trait]
impl Entities for MemoryStore {
    async fn edit_entities(&self, edits: Vec<EntityEdit>) -> Result<(), StoreError> {
        self.run(|rows, _| rows.entities.edit(&edits)).await?
    }

    async fn entities_of(
        &self,
        connection_id: &str,
    ) -> Result<Vec<(String, Vec<String>)>, StoreError> {
        self.run(|rows, _| rows.entities.of(connection_id)).await
    }

    async fn entity_changes(
        &self,
        _code: &str,
        _ids: &[String],
        _after: Position,
        _changes_max: usize,
    ) -> Result<EntityPage, StoreError> {
        self.run(|_, _| EntityPage::default()).await
    }

    async fn entity_counts(&self, user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError> {
        self.run(|rows, _| rows.entities.counts(user_id)).await
    }

    /// Subscriptions of no node are SQL's, so there are none.
    async fn sweep_entities(&self, _stale_ms: u64) -> Result<u64, StoreError> {
        let sweep = |rows: &mut Rows, now_ms| {
            let before = rows.entities.0.len();
            rows.entities.0.retain(|_, (_, node)| rows.nodes.lives(node, now_ms));
            (before - rows.entities.0.len()) as u64
        };
        self.run(sweep).await
    }
}
