//! The way to the shards: each one's channels, and which of them a connection belongs to.

use std::sync::Arc;

use tokio::sync::mpsc;

use tidewire_store::Position;

use super::connection::Key;
use super::shard_loop::Incoming;
use super::stats::{Stats, Totals};
use super::{Command, KindCommand, UnstartedShard, rendezvous};
use crate::kinds::query::engine::{QueryUpdates, UpdateSenders};
use crate::tail::{BatchSenders, LogBatch};

/// Commands that may wait for a shard before those who send them do.
const COMMANDS_MAX: usize = 1_024;
/// Sights that may wait for a shard before the follower does.
const SIGHTS_MAX: usize = 64;

/// The way to all shards.
#[derive(Debug)]
pub struct Shards {
    handles: Vec<Handle>,
    names: Vec<String>,
}

/// The way to a shard.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    /// Apart, and without a bound but the number of connections: leaving must never wait.
    departures: mpsc::UnboundedSender<Key>,
    pub(super) stats: Arc<Stats>,
}

impl Handle {
    /// Asks a shard for something. A shard that is gone belongs to a server that stops.
    pub async fn ask(&self, command: Command) {
        let _ = self.commands.send(command).await;
    }

    /// A client has gone.
    pub(super) fn detach(&self, key: Key) {
        let _ = self.departures.send(key);
    }
}

impl Shards {
    /// So many shards, which stand at `position` and are yet to be started.
    pub(super) fn new(
        count: usize,
        position: Position,
    ) -> (Shards, Vec<UnstartedShard>, BatchSenders, UpdateSenders) {
        let (mut handles, mut running, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
        let mut query_sinks = Vec::new();
        for index in 0..count.max(1) {
            let (commands, commanded) = mpsc::channel(COMMANDS_MAX);
            let (departures, departed) = mpsc::unbounded_channel();
            let (sink, batches) = mpsc::channel::<Arc<LogBatch>>(SIGHTS_MAX);
            let (query_sink, query_sights) = mpsc::channel::<Arc<QueryUpdates>>(SIGHTS_MAX);
            let handle = Handle { commands, departures, stats: Arc::default() };
            let incoming =
                Incoming { commands: commanded, departures: departed, batches, query_sights };
            running.push(UnstartedShard { handle: handle.clone(), incoming, position, index });
            handles.push(handle);
            sinks.push(sink);
            query_sinks.push(query_sink);
        }
        let names = (0..handles.len()).map(|shard| format!("shard-{shard}")).collect();
        (Shards { handles, names }, running, sinks, query_sinks)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Handle> {
        self.handles.iter()
    }

    /// Has the store told again which entities all connections are told of.
    pub async fn restore_entities(&self) {
        for shard in &self.handles {
            shard.ask(Command::OfKind(KindCommand::RestoreEntities)).await;
        }
    }

    /// The shard of a session, or of a connection that has none.
    pub fn shard_of(&self, tenant: &str, session: &str) -> &Handle {
        let index = rendezvous::pick(&self.names, tenant, session).unwrap_or(0);
        &self.handles[index]
    }

    /// What all shards counted.
    pub fn totals(&self) -> Totals {
        Totals::of(self.stats())
    }

    /// What each shard counted.
    pub(super) fn stats(&self) -> impl Iterator<Item = &Stats> {
        self.handles.iter().map(|shard| &*shard.stats)
    }
}
