//! What is said to all nodes: that a key changed, that someone is to be cut off, that caches are to
//! be emptied or the configuration read again.
//!
//! It lies in the store, and a signal says that there is something: one that was missed is made up
//! for by looking now and then. Hearing twice does no harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use tidewire_store::{ControlCursor, ControlMessage, StoreError};

use crate::node::Node;
use tidewire_access::auth::Who;

/// How often to look whose time has run out.
const TIDY_EVERY: Duration = Duration::from_millis(200);
/// How often the keys that were used are written down.
const USES_EVERY: Duration = Duration::from_secs(5);
/// How often what nobody needs to hear any more is removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a message is kept for nodes that were away.
const KEEP: Duration = Duration::from_secs(3_600);
/// A node that heard nothing for so long believes nothing it remembers. `AWAY_MAX < KEEP`.
const AWAY_MAX: Duration = Duration::from_secs(1_800);

/// The kind of message that says that a key changed: the store's triggers send it.
const KEY_CHANGED: &str = "key_changed";
/// The kind of message that an administrator sends.
const ORDER: &str = "order";
/// The kind of message that says that SQL changed what a connection is told of: the store's triggers
/// send it.
const ENTITIES_CHANGED: &str = "entities_changed";
/// The kind of message that says that a user has come, who is to have one connection.
const ARRIVED: &str = "user_arrived";

/// A user's connection has come, and older ones of theirs are to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Arrived {
    user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    connection_id: String,
}

/// Something that an administrator says to all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ControlCommand {
    /// Read the configuration again.
    Reload {},
    /// Look up every credential again.
    EmptyCaches {},
    /// End what this user is connected with: of one tenant, or of any.
    EndUser {
        user: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// End a connection.
    EndConnection { connection_id: String },
    /// End a subscription, by its `live_id`.
    EndSubscription { live_id: String },
}

impl ControlCommand {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ControlCommand::Reload {} => "reload",
            ControlCommand::EmptyCaches {} => "empty_caches",
            ControlCommand::EndUser { .. } => "end_user",
            ControlCommand::EndConnection { .. } => "end_connection",
            ControlCommand::EndSubscription { .. } => "end_subscription",
        }
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> String {
        match self {
            ControlCommand::Reload {} | ControlCommand::EmptyCaches {} => String::new(),
            ControlCommand::EndUser { user, .. } => user.clone(),
            ControlCommand::EndConnection { connection_id } => connection_id.clone(),
            ControlCommand::EndSubscription { live_id } => live_id.clone(),
        }
    }
}

/// Says something to all nodes.
pub(crate) async fn send(node: &Node, order: &ControlCommand) -> Result<(), StoreError> {
    let body = serde_json::to_string(order).unwrap_or_default();
    node.store.send_control(ORDER, &body).await
}

/// Where a node that starts begins to listen: nothing that was said before concerns it.
pub(crate) async fn begin(node: &Node) -> Result<ControlCursor, StoreError> {
    let mut cursor = ControlCursor::default();
    node.store.control_since(&mut cursor).await?;
    Ok(cursor)
}

/// Listens until the node stops, and keeps the node's credentials true meanwhile.
pub(crate) async fn follow(node: Arc<Node>, mut cursor: ControlCursor, stop: CancellationToken) {
    let mut signals = node.store.control_signals();
    let every = |period: Duration| {
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    };
    let mut poll = every(node.options.auth.control_poll);
    let (mut tidy, mut uses, mut sweep) =
        (every(TIDY_EVERY), every(USES_EVERY), every(SWEEP_EVERY));
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Ok(()) = signals.changed() => node.hear(&mut cursor, &mut heard).await,
            _ = poll.tick() => node.hear(&mut cursor, &mut heard).await,
            () = node.access.credentials.in_doubt() => node.look_at_credentials().await,
            _ = tidy.tick() => node.look_at_credentials().await,
            _ = uses.tick() => node.write_down_uses().await,
            _ = sweep.tick() => node.sweep_control().await,
        }
    }
    node.write_down_uses().await;
}

impl Node {
    /// Tells all nodes that a user's connection has come, where it is to be the only one.
    pub(crate) async fn claim_alone(&self, id: &Arc<str>, who: &Who) {
        if !self.options.live.single_connection_per_user {
            return;
        }
        let Who::User { name, host } = who else { return };
        self.hub.entities.connected.claim(id, who);
        let arrived = Arrived {
            user: name.to_string(),
            host: host.as_deref().map(ToOwned::to_owned),
            connection_id: id.to_string(),
        };
        let body = serde_json::to_string(&arrived).unwrap_or_default();
        if let Err(error) = self.store.send_control(ARRIVED, &body).await {
            tracing::warn!(%error, "could not close a user's other connections");
        }
    }

    /// Hears what was said since it last did, at `heard`.
    async fn hear(&self, cursor: &mut ControlCursor, heard: &mut Instant) {
        match self.store.control_since(cursor).await {
            Ok(messages) => {
                if heard.elapsed() > AWAY_MAX {
                    // Something may have been said and removed meanwhile.
                    self.access.credentials.doubt_all();
                }
                *heard = Instant::now();
                messages.iter().for_each(|message| self.obey(message));
            }
            Err(error) => tracing::debug!(%error, "cannot receive from other nodes for now"),
        }
    }

    fn obey(&self, message: &ControlMessage) {
        #[derive(Deserialize)]
        struct Changed {
            id: i64,
        }
        #[derive(Deserialize)]
        struct Resubscribed {
            connection_id: String,
        }
        match message.kind.as_str() {
            KEY_CHANGED => match serde_json::from_str::<Changed>(&message.body) {
                Ok(Changed { id }) => self.access.credentials.changed(id),
                Err(_) => self.access.credentials.doubt_all(),
            },
            ORDER => match serde_json::from_str::<ControlCommand>(&message.body) {
                Ok(order) => self.carry_out(order),
                Err(error) => tracing::warn!(%error, "cannot read a control message"),
            },
            ENTITIES_CHANGED => match serde_json::from_str::<Resubscribed>(&message.body) {
                Ok(Resubscribed { connection_id }) => self.hub.entities_changed(&connection_id),
                Err(error) => tracing::warn!(%error, "cannot read a change of entities"),
            },
            ARRIVED => match serde_json::from_str::<Arrived>(&message.body) {
                Ok(Arrived { user, host, connection_id }) => {
                    let who = Who::User { name: user.into(), host: host.map(Into::into) };
                    self.hub.user_arrived(message.id, &connection_id, &who);
                }
                Err(error) => tracing::warn!(%error, "cannot read an arrival"),
            },
            // Said by a newer version.
            kind => tracing::warn!(kind, "a message to all nodes is not understood"),
        }
    }

    fn carry_out(&self, order: ControlCommand) {
        tracing::info!(target: "tidewire::audit", act = order.name(), on = order.subject(), "obeyed");
        match order {
            ControlCommand::Reload {} => self.reload(),
            ControlCommand::EmptyCaches {} => self.access.credentials.doubt_all(),
            ControlCommand::EndUser { user, host } => {
                self.access.credentials.kill(&user, host.as_deref())
            }
            ControlCommand::EndConnection { connection_id } => self.hub.end(&connection_id, None),
            ControlCommand::EndSubscription { live_id } => {
                if let Some((connection_id, query_id)) = live_id.split_once('-') {
                    self.hub.end(connection_id, Some(query_id));
                }
            }
        }
    }

    /// Ends what has expired, and asks the store about keys that are in doubt and in use.
    async fn look_at_credentials(&self) {
        for id in self.access.credentials.tidy(Instant::now()) {
            if let Err(error) = self.access.credentials.look_again(id).await {
                // It stays in doubt, and is asked about at the next look.
                tracing::debug!(%error, key = id, "could not look up a key again");
                return;
            }
        }
    }

    async fn write_down_uses(&self) {
        let used = self.access.credentials.take_uses();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.store.note_key_uses(&used).await {
            tracing::debug!(%error, "could not record when keys were last used");
        }
    }

    async fn sweep_control(&self) {
        let keep_ms = u64::try_from(KEEP.as_millis()).unwrap_or(u64::MAX);
        if let Err(error) = self.store.sweep_control(keep_ms).await {
            tracing::warn!(%error, "old messages and tickets could not be swept; trying again");
        }
    }
}
