//! Entities on this node: who may be told of them, what is kept of who subscribes, and which
//! connections there are to tell.
//!
//! What a connection subscribes to is its shard's business (`hub::kinds::entities`): a change finds its way
//! without a question to the store. The store keeps it besides, for people and programs that ask who
//! looks at what, and so that SQL can subscribe a connection to something.
//!
//! - [`batch`]: many changes of subscriptions, one commit, in order; `aside`: what cannot be in one
//! - [`permit`]: who may be told

mod aside;
mod batch;
mod permit;
mod work;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use tidewire_store::{EntityEdit, StoreError};

use crate::access::auth::Who;
use crate::control;
use crate::hub::{Command, EntityDeed};
use crate::node::Node;
use crate::wire::websocket::CloseCode;

use crate::hub::directory::{Connected, Present, Registered};
use batch::Batch;
use permit::Known;

pub(crate) use batch::{Committed, Kept};

/// How often subscriptions that nobody holds are looked for, in leases of a node: none is given up
/// before its lease has ended.
const SWEEP_EVERY_LEASES: u32 = 4;
/// How long a subscription that SQL made, and no node serves, is kept.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Subscriptions to entities, as this node knows them.
#[derive(Debug, Default)]
pub(crate) struct Entities {
    batch: Batch,
    pub(crate) connected: Connected,
    known: Known,
}

impl Entities {
    /// Makes a change after all before it. The answer comes when it is durable.
    pub(crate) fn ask(&self, edit: EntityEdit) -> Committed {
        self.batch.ask(edit)
    }

    /// Makes a change some time soon, after all before it.
    pub(crate) fn note(&self, edit: EntityEdit) {
        self.batch.note(edit);
    }

    /// What is kept of a connection, after all changes before this.
    pub(crate) async fn look(node: &Node, connection_id: &str) -> Result<Kept, StoreError> {
        let settled = node.entities.batch.settle(connection_id);
        settled.await.map_err(|_| StoreError::Closed)??;
        let _place = node.hub.replay_reads().acquire().await;
        node.store.entities_of(connection_id).await
    }

    /// Whether a connection is there still.
    pub(crate) fn has(&self, connection_id: &str) -> bool {
        self.connected.find(connection_id).is_some()
    }

    /// A connection's shard has begun to review it: what changes from here on is asked for again.
    pub(crate) fn begin_review(&self, connection_id: &str) {
        self.connected.begin_review(connection_id);
    }

    /// Makes a connection known, so that what is said of it to all nodes reaches it.
    pub(crate) fn enter(node: &Arc<Node>, id: &Arc<str>, present: Present) -> Registered {
        Connected::enter(node, id, present)
    }

    /// Commits what is asked for until the node stops.
    pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
        node.entities.batch.run(&*node.store, stop).await;
    }

    /// Removes what nobody holds any more, now and then, until the node stops.
    pub(crate) async fn sweep(node: Arc<Node>, stop: CancellationToken) {
        let mut round = tokio::time::interval(node.options.node.lease * SWEEP_EVERY_LEASES);
        round.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stale_ms = u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = round.tick() => {}
            }
            match node.store.sweep_entities(stale_ms).await {
                Ok(0) => {}
                Ok(swept) => tracing::debug!(swept, "swept subscriptions to entities"),
                Err(error) => {
                    tracing::warn!(%error, "entities could not be swept; trying again");
                }
            }
        }
    }
}

impl Node {
    /// SQL has changed what a connection subscribes to. If it is here, it is looked at: once for all
    /// that is said of it until its shard gets to that.
    pub(crate) fn entities_changed(&self, connection_id: &str) {
        let present = self.entities.connected.ask_review(connection_id);
        let Some(Present { shard, key, identity }) = present else { return };
        self.hub.tasks.spawn(async move {
            let deed = EntityDeed::Review { identity };
            shard.ask(Command::Entities { key, deed: Box::new(deed) }).await;
        });
    }

    /// Tells all nodes that a user's connection has come, where it is to be the only one.
    pub(crate) async fn claim_alone(&self, id: &Arc<str>, who: &Who) {
        if !self.options.live.single_connection_per_user {
            return;
        }
        let Who::User { name, host } = who else { return };
        self.entities.connected.claim(id, who);
        let arrived = control::Arrived {
            user: name.to_string(),
            host: host.as_deref().map(ToOwned::to_owned),
            connection_id: id.to_string(),
        };
        if let Err(error) = control::say_arrived(self, &arrived).await {
            tracing::warn!(%error, "a user's other connections could not be told to go");
        }
    }

    /// A user's connection has come, here or elsewhere: older ones of theirs go.
    pub(crate) fn user_arrived(&self, number: i64, arrived: control::Arrived) {
        let control::Arrived { user, host, connection_id } = arrived;
        let who = Who::User { name: user.into(), host: host.map(Into::into) };
        for Present { shard, key, .. } in self.entities.connected.hear(number, &connection_id, &who)
        {
            self.hub.tasks.spawn(async move {
                let (code, reason) = (CloseCode::NEW_CONNECTION, "New connection");
                shard.ask(Command::Close { key, code, reason }).await;
            });
        }
    }
}
