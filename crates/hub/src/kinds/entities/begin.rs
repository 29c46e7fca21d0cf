//! What a subscription to entities needs of the store before it begins: its rows, and what became of
//! its entities since the offset that the client has.
//!
//! The shard tells what happens from the moment it was asked. So what is read here only has to reach
//! up to then, which any reading does that begins later; where the two overlap the later position
//! wins, and the client is told once.
//!
//! This is no replay of a stream (`log_feed::replay`): of a past of any length only the last of each entity counts,
//! which the store finds by code and id and not by stream. So there is nothing to hand over piece by piece, and
//! no place between two pieces to come back to.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_store::{EntityAction, EntityPast, Found, PageLimit, Position};

use super::EntityCommand;
use super::interest::concerns;
use super::waiting::EntityState;
use crate::Hub;
use crate::kinds::entities::kept::Committed;
use crate::lookup::not_lost;
use crate::lookup::within_log;
use crate::min_offset::MinOffset;
use crate::outbox::Slot;
use crate::patience::RetryPolicy;
use crate::{Command, Handle, Key, KindCommand};
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;

/// Changes read at once.
const PAGE_CHANGES: usize = 2_000;

/// The request that it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) key: Key,
    pub(super) slot: Slot,
    pub(super) joining: u32,
}

/// What is to be read.
#[derive(Debug)]
pub(super) struct EntityBacklog {
    pub(super) code: Arc<str>,
    pub(super) ids: Vec<Arc<str>>,
    pub(super) after: Position,
    pub(super) identity: Identity,
}

/// Does what is needed, and tells the shard.
pub(super) async fn run(
    hub: Arc<Hub>,
    shard: Handle,
    target: Target,
    committed: Option<Committed>,
    min_offset: MinOffset,
    past: Option<EntityBacklog>,
) {
    let outcome = tokio::select! {
        outcome = begin(&hub, committed, min_offset, past) => outcome,
        () = hub.draining.cancelled() => return,
    };
    let Target { key, slot, joining } = target;
    let command = Box::new(EntityCommand::Begun { slot, joining, outcome });
    shard.ask(Command::OfKind(KindCommand::Entities { key, command })).await;
}

async fn begin(
    hub: &Hub,
    committed: Option<Committed>,
    min_offset: MinOffset,
    past: Option<EntityBacklog>,
) -> Result<Vec<EntityState>, Problem> {
    if let Some(committed) = committed {
        // A batch that is gone belongs to a server that stops.
        committed.await.map_err(|_| tidewire_store::StoreError::Closed)??;
    }
    min_offset.reached(hub).await?;
    let Some(past) = past else { return Ok(Vec::new()) };
    let mut patience = RetryPolicy::default();
    loop {
        let place = hub.replay_reads().acquire().await;
        let read = past.read(hub).await;
        drop(place);
        if let Some(told) = patience.bear(read).await? {
            return Ok(told);
        }
    }
}

impl EntityBacklog {
    async fn read(&self, hub: &Hub) -> Result<Vec<EntityState>, Problem> {
        within_log(hub, self.after).await?;
        for stream in hub.entity_sources(&self.code).await? {
            let limit = PageLimit { events: 0, bytes: 0 };
            if let Found::Stream(page) = hub.store.read(&stream, Position::START, limit).await? {
                not_lost(hub, &page.view, self.after)?;
            }
        }
        let ids: Vec<String> = self.ids.iter().map(ToString::to_string).collect();
        let mut latest: HashMap<&str, Option<(Position, EntityAction)>> =
            self.ids.iter().map(|id| (&**id, None)).collect();
        let mut after = self.after;
        loop {
            let page = hub.store.entity_changes(&self.code, &ids, after, PAGE_CHANGES).await?;
            for EntityPast { position, stream, change } in page.changes {
                // A table that carried the code then may be one that they may not read.
                let may_hear = concerns(self.identity.scopes().reach(), &change)
                    && hub.may_hear_from(&self.identity, &stream);
                if !may_hear {
                    continue;
                }
                let last = Some((position, change.action));
                if let Some(was) = change.was.as_deref().and_then(|was| latest.get_mut(was)) {
                    *was = Some((position, EntityAction::Delete));
                }
                match &change.id {
                    Some(id) => _ = latest.get_mut(id.as_str()).map(|known| *known = last),
                    None => latest.values_mut().for_each(|known| *known = last),
                }
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        let told = |id: &Arc<str>| {
            let (position, action) = (*latest.get(&**id)?)?;
            Some(EntityState { id: Arc::clone(id), position, action })
        };
        Ok(self.ids.iter().filter_map(told).collect())
    }
}
