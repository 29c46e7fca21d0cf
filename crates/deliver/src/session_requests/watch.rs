//! Changes of sessions that are connected here, made by other requests or on other nodes; and the
//! word, now and then, that they are connected here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

use tidewire_store::SessionSignal;

use crate::live::follow;
use crate::node::Node;
use tidewire_hub::Command;

/// How often to look whether something was missed: signals are hints, as those of the log are.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// Sessions asked after at once.
const ASK_MAX: usize = 1_000;

/// Changed sessions that are dealt with together.
const GATHER_MAX: usize = 1_000;

/// Sessions read at once.
const READS_MAX: usize = 4;

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
                node.sessions.reconnect(&node.hub.id);
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
            SessionSignal::Changed(session) => {
                let (changed, missed) = gather(session, &mut signals);
                let tell = |session: String| {
                    let node = Arc::clone(&node);
                    async move { node.tell_connections(&session).await }
                };
                stream::iter(changed).for_each_concurrent(READS_MAX, tell).await;
                if missed {
                    node.look_at_sessions().await;
                }
            }
            SessionSignal::Missed => node.look_at_sessions().await,
        }
    }
}

/// All sessions that are known to have changed by now, each once, and whether some were missed.
fn gather(
    first: String,
    signals: &mut broadcast::Receiver<SessionSignal>,
) -> (HashSet<String>, bool) {
    let mut changed = HashSet::from([first]);
    while changed.len() < GATHER_MAX {
        match signals.try_recv() {
            Ok(SessionSignal::Changed(session)) => _ = changed.insert(session),
            Ok(SessionSignal::Missed) | Err(TryRecvError::Lagged(_)) => return (changed, true),
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    (changed, false)
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
                for (shard, key, identity) in connections {
                    follow(self, &shard, key, &identity, &found, None).await;
                }
            }
            Ok(None) => {
                for (shard, key, _) in connections {
                    shard.ask(Command::Expire { key, reason: "session_expired" }).await;
                }
            }
            // The next look finds out.
            Err(error) => tracing::warn!(%error, "could not read a session's change"),
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
                    tracing::warn!(%error, "could not read the sessions; trying again later");
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
