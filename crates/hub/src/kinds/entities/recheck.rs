//! SQL has changed what a connection subscribes to: what the store has is compared with what the
//! shard knows, and the difference is made up.
//!
//! The store is looked at after all that the shard has asked of it (`entities::batch`). If the shard
//! asks for more meanwhile, the look is of no use: it might show as missing what is about to be there.
//! Then it is looked at again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::messages::AsMessage as _;
use tidewire_store::EntityEdit;

use super::{EntityCommand, EntityRequest, own_name};
use crate::Command;
use crate::Hub;
use crate::audience::Follower;
use crate::connection::{Key, StartFrom};
use crate::kinds::entities::kept::{Entities, EntitiesByCode};
use crate::kinds::{KindCommand, SubscribeRequest};
use crate::min_offset::MinOffset;
use crate::outbox::Slot;
use crate::shard::Shard;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;

/// How long to wait before a store that did not answer is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the store has of a connection, however long it takes to answer; none if the connection is gone.
async fn look(hub: &Hub, id: &str) -> Option<EntitiesByCode> {
    loop {
        match Entities::look(hub, id).await {
            Ok(kept) => return Some(kept),
            Err(_) if !hub.entities.has(id) => return None,
            Err(error) => {
                tracing::warn!(%error, "could not read subscriptions made by SQL; trying again");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }
}

impl Shard {
    /// Has the store looked at, once at a time: if that is under way, what it finds is out of date.
    pub(super) fn review(&mut self, key: Key, identity: Identity) {
        let Some(connection) = self.connection(key) else { return };
        let id = Arc::clone(&connection.connection_info.id);
        // From here on the store may have something of it, which goes when it does.
        let ledger = self.rosters.entities.ledgers.edit(key);
        let edits = ledger.edits;
        let under_way = std::mem::replace(&mut ledger.reviewing, true);
        self.hub.entities.begin_review(&id);
        if under_way {
            return;
        }
        let (hub, shard) = (Arc::clone(&self.hub), self.handle.clone());
        self.hub.tasks.spawn(async move {
            let look = async {
                let kept = look(&hub, &id).await?;
                let mut refused = Vec::new();
                for (code, _) in &kept {
                    if let Err(problem) = hub.permit_entity(&identity, code).await {
                        refused.push((code.clone(), problem));
                    }
                }
                Some((kept, refused))
            };
            let looked = tokio::select! {
                looked = look => looked,
                () = hub.draining.cancelled() => return,
            };
            let Some((kept, refused)) = looked else { return };
            let command = Box::new(EntityCommand::Reviewed { identity, edits, kept, refused });
            shard.ask(Command::OfKind(KindCommand::Entities { key, command })).await;
        });
    }

    /// Takes up what SQL subscribed to, and drops what it deleted.
    pub(super) fn reviewed(
        &mut self,
        key: Key,
        identity: Identity,
        edits: u64,
        kept: EntitiesByCode,
        refused: &[(String, Problem)],
    ) {
        // It is there for as long as its connection is.
        let Some(ledger) = self.rosters.entities.ledgers.of(key) else { return };
        ledger.reviewing = false;
        if ledger.edits != edits {
            return self.review(key, identity);
        }
        let Some(connection) = self.connection(key) else { return };
        if !kept.is_empty() {
            // Or it would be swept, as nobody's, while the connection lives. That changes nothing of
            // what it subscribes to, so it does not count as an edit.
            let connection_id = connection.connection_info.id.to_string();
            let node_id = self.hub.id.clone();
            self.hub.entities.note(EntityEdit::Adopt { connection_id, node_id });
        }
        let Some(connection) = self.connection(key) else { return };
        let kept: HashMap<&str, HashSet<&str>> = kept
            .iter()
            .map(|(code, ids)| (code.as_str(), ids.iter().map(String::as_str).collect()))
            .collect();
        let mut deleted: Vec<(Slot, Vec<Arc<str>>)> = Vec::new();
        for (slot, subscription) in connection.slots() {
            let Some(interest) = subscription.kind.entities() else { continue };
            let kept = kept.get(&*interest.code);
            let is_gone = |id: &&Arc<str>| kept.is_none_or(|kept| !kept.contains(&***id));
            deleted.push((slot, interest.ids.keys().filter(is_gone).cloned().collect()));
        }
        let mut added: Vec<(&str, Vec<Arc<str>>)> = Vec::new();
        for (code, ids) in &kept {
            let is_new = |id: &&&str| !connection.names(code, id);
            let new: Vec<Arc<str>> = ids.iter().filter(is_new).map(|id| Arc::from(*id)).collect();
            if !new.is_empty() {
                added.push((code, new));
            }
        }
        for (slot, ids) in &deleted {
            self.give_up(Follower { key, slot: *slot }, ids, false);
        }
        for (code, ids) in added {
            if let Some((_, problem)) = refused.iter().find(|(of, _)| of == code) {
                self.say(key, &problem.message(Some(&own_name(code))));
                continue;
            }
            let request = EntityRequest {
                query_id: own_name(code),
                code: code.into(),
                ids,
                start: StartFrom::Now,
                min_offset: MinOffset::default(),
                identity: identity.clone(),
                adds: true,
                kept: true,
            };
            self.subscribe(key, vec![SubscribeRequest::Entities(request)]);
        }
        for (slot, _) in deleted {
            self.end_if_empty(key, slot);
        }
    }
}
