//! Entities on this node: who may be told of them, what is kept of who subscribes, and which
//! connections there are to tell.
//!
//! What a connection subscribes to is its shard's business (`hub::kinds::entities`): a change finds its way
//! without a question to the store. The store keeps it besides, for people and programs that ask who
//! looks at what, and so that SQL can subscribe a connection to something.
//!
//! - [`batch`]: many changes of subscriptions, one commit, in order; `retry`: what cannot be in one
//! - [`permit`]: who may be told
//! - `work`: something that waits for the store

mod batch;
mod permit;
mod retry;
mod work;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use tidewire_store::{EntityEdit, StoreError};

use crate::Hub;
use crate::{Command, EntityCommand, KindCommand};
use tidewire_access::auth::Who;
use tidewire_wire::websocket::CloseCode;

use crate::directory::{Connected, NamedConnection, Registered};
use batch::Batch;
use permit::CachedEntityTables;

pub use batch::{Committed, EntitiesByCode};

/// How often subscriptions that nobody holds are looked for, in leases of a node: none is given up
/// before its lease has ended.
const SWEEP_EVERY_LEASES: u32 = 4;
/// How long a subscription that SQL made, and no node serves, is kept.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Subscriptions to entities, as this node knows them.
#[derive(Debug, Default)]
pub struct Entities {
    batch: Batch,
    pub connected: Connected,
    known: CachedEntityTables,
}

impl Entities {
    /// Makes a change after all before it. The answer comes when it is durable.
    pub fn ask(&self, edit: EntityEdit) -> Committed {
        self.batch.ask(edit)
    }

    /// Makes a change some time soon, after all before it.
    pub fn note(&self, edit: EntityEdit) {
        self.batch.note(edit);
    }

    /// What is kept of a connection, after all changes before this.
    pub async fn look(hub: &Hub, connection_id: &str) -> Result<EntitiesByCode, StoreError> {
        let settled = hub.entities.batch.settle(connection_id);
        settled.await.map_err(|_| StoreError::Closed)??;
        let _place = hub.replay_reads().acquire().await;
        hub.store.entities_of(connection_id).await
    }

    /// Whether a connection is there still.
    pub fn has(&self, connection_id: &str) -> bool {
        self.connected.find(connection_id).is_some()
    }

    /// A connection's shard has begun to review it: what changes from here on is asked for again.
    pub(crate) fn begin_review(&self, connection_id: &str) {
        self.connected.begin_review(connection_id);
    }

    /// Makes a connection known, so that what is said of it to all nodes reaches it.
    pub fn enter(hub: &Arc<Hub>, id: &Arc<str>, present: NamedConnection) -> Registered {
        Connected::enter(hub, id, present)
    }

    /// Commits what is asked for until the node stops.
    pub async fn run(hub: Arc<Hub>, stop: CancellationToken) {
        hub.entities.batch.run(&*hub.store, stop).await;
    }

    /// Removes what nobody holds any more, now and then, until the node stops.
    pub async fn sweep(hub: Arc<Hub>, stop: CancellationToken) {
        let mut round = tokio::time::interval(hub.options.node.lease * SWEEP_EVERY_LEASES);
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stale_ms = u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = round.tick() => {}
            }
            match hub.store.sweep_entities(stale_ms).await {
                Ok(0) => {}
                Ok(swept) => tracing::debug!(swept, "swept subscriptions to entities"),
                Err(error) => {
                    tracing::warn!(%error, "entities could not be swept; trying again");
                }
            }
        }
    }
}

impl Hub {
    /// SQL has changed what a connection subscribes to. If it is here, it is looked at: once for all
    /// that is said of it until its shard gets to that.
    pub fn entities_changed(&self, connection_id: &str) {
        let present = self.entities.connected.ask_review(connection_id);
        let Some(NamedConnection { shard, key, identity }) = present else { return };
        self.tasks.spawn(async move {
            let command = EntityCommand::Review { identity };
            let command = KindCommand::Entities { key, command: Box::new(command) };
            shard.ask(Command::OfKind(command)).await;
        });
    }

    /// A user's connection has come, here or elsewhere, and the message that said so has this number: older
    /// ones of theirs go.
    pub fn user_arrived(&self, number: i64, connection_id: &str, who: &Who) {
        for NamedConnection { shard, key, .. } in
            self.entities.connected.hear(number, connection_id, who)
        {
            self.tasks.spawn(async move {
                let (code, reason) = (CloseCode::NEW_CONNECTION, "New connection");
                shard.ask(Command::Close { key, code, reason }).await;
            });
        }
    }
}
