//! Changes of sessions that are connected here, made by other requests or on other nodes; and the
//! word, now and then, that they are connected here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use tidewire_store::SessionSignal;

use crate::hub::{Command, Handle, Key};
use crate::live::requests;
use crate::node::Node;
use crate::websocket::CloseCode;

/// How often to look whether something was missed: signals are hints, as those of the log are.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// Sessions asked after at once.
const ASK_MAX: usize = 1_000;

/// Tells connections what their sessions follow, until the node stops.
pub(crate) async fn watch(node: Arc<Node>, stop: CancellationToken) {
    let mut signals = node.store.session_signals();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // A session may have had a connection on another node as well, which ended: then it counts as
    // connected nowhere, and would expire under this node's client.
    let mut claim = tokio::time::interval(Duration::from_millis(node.sessions.ttl_ms() / 2));
    claim.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let signal = tokio::select! {
            () = stop.cancelled() => return,
            _ = claim.tick() => {
                node.sessions.reconnect(&node.id);
                continue;
            }
            _ = look.tick() => SessionSignal::Missed,
            signal = signals.recv() => match signal {
                Ok(signal) => signal,
                Err(RecvError::Lagged(_)) => SessionSignal::Missed,
                Err(RecvError::Closed) => return,
            },
        };
        match signal {
            SessionSignal::Changed(session) => node.tell_connections(&session).await,
            SessionSignal::Missed => node.look_at_sessions().await,
        }
    }
}

impl Node {
    /// Tells a session's connections what it follows.
    async fn tell_connections(&self, session: &str) {
        let connections = self.sessions.connections(session);
        if connections.is_empty() {
            return;
        }
        match self.store.session(session).await {
            Ok(Some(found)) => {
                self.sessions.seen(&found);
                for (shard, key) in connections {
                    shard.ask(Command::Follow { key, requests: requests(&found, None) }).await;
                }
            }
            Ok(None) => {
                for (shard, key) in connections {
                    let (code, reason) = (CloseCode::POLICY, "session_expired");
                    shard.ask(Command::Close { key, code, reason }).await;
                }
            }
            // The next look finds out.
            Err(error) => tracing::warn!(%error, "a session's change could not be read"),
        }
    }

    /// Finds out which of the sessions that are connected here have changed unseen.
    async fn look_at_sessions(&self) {
        let known = self.sessions.revisions();
        for some in known.chunks(ASK_MAX) {
            let ids: Vec<String> = some.iter().map(|(id, _)| id.to_string()).collect();
            let found = match self.store.session_revisions(&ids).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "sessions could not be looked at; trying again later");
                    return;
                }
            };
            let found: std::collections::HashMap<String, u64> = found.into_iter().collect();
            for (id, revision) in some {
                if found.get(&**id) != Some(revision) {
                    self.tell_connections(id).await;
                }
            }
        }
    }
}

impl super::Sessions {
    fn connections(&self, session: &str) -> Vec<(Handle, Key)> {
        let connected = self.connected_now();
        connected.get(session).map(|entry| entry.connections.clone()).unwrap_or_default()
    }

    /// Sessions that are connected here, and how far their connections know them.
    fn revisions(&self) -> Vec<(Arc<str>, u64)> {
        let connected = self.connected_now();
        connected.iter().map(|(id, entry)| (Arc::clone(id), entry.revision)).collect()
    }
}
