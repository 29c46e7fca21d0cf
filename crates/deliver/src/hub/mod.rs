//! The hub: who is connected to this node, what each follows, and how events reach them.
//!
//! ```text
//!   tail ──sight──► shard ──┬─ audience of doc-1 ─┬─► connection ─► socket
//!          (one look        │                     └─► connection ─► socket
//!          at the log)      └─ audience of doc-2 ───► …
//! ```
//!
//! A connection belongs to one of a few [`shard`]s, chosen by [`rendezvous`] hashing; a shard is one
//! task that owns its connections outright, so nothing here is locked. It writes to the sockets
//! itself, without waiting: a delivery costs a pointer in a queue and a system call, and wakes no
//! task. What a socket does not take stays in the connection's bounded [`outbox`].
//!
//! - [`messages`]: what is said; [`frames`]: that as bytes for the wire, encoded once for all who get it
//! - [`audience`]: who follows a stream; [`connection`]: what one client follows
//! - [`kinds`]: what a subscription is of; [`log_feed`]: where one to a stream or a table stands, the past that is
//!   read for it from the store, and the exact hand-over to the present
//! - [`admit`]: who may begin; [`subscribe`]: beginning and ending to follow
//! - [`fan_out`]: from news to the outboxes, large audiences in slices; [`flush`]: to the sockets
//! - [`round`]: news on its way through an audience; [`backlog`]: rounds that wait, or are under way in slices
//! - [`gap`]: what becomes of events that a slow client has no room for
//! - [`kinds::stream`]: responses that follow one stream; [`reader_frame`], [`cursor`]: what they are sent
//! - [`kinds::query`]: who follows live queries, and what each is told
//! - [`kinds::entities`]: who is told of entities, and what waits for each
//! - [`turns`]: what a shard does in a turn; [`upkeep`]: what it does now and then
//! - [`facts`]: who is connected, and since when
//! - [`presence`]: a place in the hub, as those hold it who have one
//! - [`tail`]: how this node follows the log; [`horizon`]: waiting until it has seen some place in it
//! - [`lens`]: what of a table someone sees; [`changes`]: rows as messages
//! - [`lookup`], [`views`], [`refusal`]: streams as they are, and why there is none
//! - [`directory`]: connections by name, and one for each user where that is wanted
//! - [`session_notes`]: what is kept of sessions, many changes in one commit
//! - [`outlet`]: a WebSocket or an SSE response, as somewhere to write to
//!
//! What must hold: the events a subscription gets are exactly its stream's after the offset it
//! agreed on, in order, each once, or a gap that says what is missing (invariant 3); and no client
//! can make the hub wait or grow (invariant 5).

pub(crate) mod ack;
pub(crate) mod admit;
mod audience;
mod backlog;
pub(crate) mod bell;
pub(crate) mod changes;
pub(crate) mod connection;
pub(crate) mod cursor;
pub(crate) mod directory;
pub(crate) mod encode;
mod facts;
mod fan_out;
mod flush;
pub(crate) mod frames;
mod gap;
pub(crate) mod horizon;
pub(crate) mod kinds;
pub(crate) mod lens;
mod log_feed;
pub(crate) mod lookup;
pub(crate) mod messages;
mod metrics;
pub(crate) mod offset;
mod outbox;
mod outlet;
mod presence;
pub(crate) mod reader_frame;
pub(crate) mod refusal;
pub(crate) mod rendezvous;
mod round;
pub(crate) mod session_notes;
mod shard;
#[cfg(test)]
mod simulation;
mod stats;
mod subscribe;
pub(crate) mod tail;
mod turns;
mod upkeep;
pub(crate) mod views;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidewire_store::Position;

use crate::access::problem::Problem;
use crate::hub::ack::Ack;
use crate::hub::kinds::query::engine::{QuerySight, QuerySinks};
use crate::hub::tail::{Sight, Sinks};
use crate::node::Node;
use crate::wire::websocket::CloseCode;

pub(crate) use crate::hub::kinds::SubscribeRequest;
pub(crate) use crate::hub::kinds::entities::{Deed as EntityDeed, EntityRequest};
pub(crate) use crate::hub::kinds::query::QueryRequest;
pub(crate) use crate::hub::kinds::stream::StreamRequest;
pub(crate) use audience::Manner;
pub(crate) use connection::{Key, SessionLink, StartFrom, Unread};
pub(crate) use facts::{Facts, Gathering, Portrait, Wanted};
pub(crate) use kinds::stream::reader::{Arrival, PASSAGE_LIMIT, Passage};
pub(crate) use log_feed::replay::Step;
use log_feed::replay::Verdict;
pub(crate) use metrics::write as write_metrics;
pub(crate) use outlet::{Outlet, ServerSent, Socket};
pub(crate) use presence::Presence;
pub(crate) use stats::Stats;
use stats::Totals;
pub(crate) use turns::Dormant;
use turns::Incoming;

/// Commands that may wait for a shard before those who send them do.
const COMMANDS_MAX: usize = 1_024;
/// Sights that may wait for a shard before the follower does.
const SIGHTS_MAX: usize = 64;
/// Pages of replays that are read from the store at once, by all connections together: few enough
/// that appends and other reads find a database connection when a herd of clients returns.
const REPLAY_READS_MAX: usize = 8;

/// What a shard is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// A client has come.
    Attach { outlet: Outlet, facts: Arc<Facts>, reply: oneshot::Sender<Presence> },
    /// A reader of one stream has come.
    Admit { outlet: Outlet, arrival: Box<Arrival>, reply: oneshot::Sender<Presence> },
    /// A page of the store was read for a reader.
    Read { key: Key, read: Result<Box<Passage>, Problem> },
    /// Its session is known, and up to where it has everything, if it says so.
    Identify { key: Key, session: Arc<str>, cursor: Option<Position> },
    /// Something to tell it: one message, as JSON.
    Say { key: Key, message: String },
    /// A frame to send it as it is.
    Send { key: Key, frame: Bytes },
    /// It wants to follow something.
    Subscribe { key: Key, requests: Vec<SubscribeRequest> },
    /// It does not want to any more. Without names of its own, these streams of its session.
    Unsubscribe { key: Key, query_ids: Vec<String> },
    /// What its session follows; what is not named is not followed any more.
    Follow { key: Key, requests: Vec<StreamRequest>, unread: Vec<Unread>, revision: u64 },
    /// It has processed what it got up to somewhere.
    Acknowledge { key: Key, acks: Vec<Ack> },
    /// A replay has got on.
    Replayed { key: Key, replay: u32, step: Box<Step>, reply: oneshot::Sender<Verdict> },
    /// Something about the entities it is told of.
    Entities { key: Key, deed: Box<EntityDeed> },
    /// The store is to be told again which entities all connections are told of.
    RestoreEntities,
    /// Its session or its credential is gone: all it follows ends, with the reason, and then it.
    Expire { key: Key, reason: &'static str },
    /// An operator ends the connection of this id, or one of its subscriptions.
    End { id: Arc<str>, query_id: Option<Arc<str>> },
    /// Someone wants to know who is connected.
    Portray { wanted: Wanted, reply: oneshot::Sender<Gathering> },
    /// Nothing more is to be sent to it after this.
    Close { key: Key, code: CloseCode, reason: &'static str },
}

/// The way to the hub.
#[derive(Debug)]
pub(crate) struct Hub {
    shards: Vec<Handle>,
    names: Vec<String>,
    /// Replays under way.
    pub(crate) tasks: TaskTracker,
    replay_reads: Arc<Semaphore>,
}

/// The way to a shard.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    /// Apart, and without a bound but the number of connections: leaving must never wait.
    departures: mpsc::UnboundedSender<Key>,
    stats: Arc<Stats>,
}

impl Handle {
    /// Asks a shard for something. A shard that is gone belongs to a server that stops.
    pub(crate) async fn ask(&self, command: Command) {
        let _ = self.commands.send(command).await;
    }

    /// A client has gone.
    fn detach(&self, key: Key) {
        let _ = self.departures.send(key);
    }
}

impl Hub {
    /// A hub of so many shards, which stand at `position` and are yet to be started.
    pub(crate) fn new(shards: usize, position: Position) -> (Hub, Vec<Dormant>, Sinks, QuerySinks) {
        let (mut handles, mut running, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
        let mut query_sinks = Vec::new();
        for index in 0..shards.max(1) {
            let (commands, commanded) = mpsc::channel(COMMANDS_MAX);
            let (departures, departed) = mpsc::unbounded_channel();
            let (sink, sights) = mpsc::channel::<Arc<Sight>>(SIGHTS_MAX);
            let (query_sink, query_sights) = mpsc::channel::<Arc<QuerySight>>(SIGHTS_MAX);
            let handle = Handle { commands, departures, stats: Arc::default() };
            let incoming =
                Incoming { commands: commanded, departures: departed, sights, query_sights };
            running.push(Dormant { handle: handle.clone(), incoming, position, index });
            handles.push(handle);
            sinks.push(sink);
            query_sinks.push(query_sink);
        }
        let names = (0..handles.len()).map(|shard| format!("shard-{shard}")).collect();
        let hub = Hub {
            shards: handles,
            names,
            tasks: TaskTracker::new(),
            replay_reads: Arc::new(Semaphore::new(REPLAY_READS_MAX)),
        };
        (hub, running, sinks, query_sinks)
    }

    /// Starts the shards.
    pub(crate) fn start(
        node: &Arc<Node>,
        shards: Vec<Dormant>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        for shard in shards {
            tasks.spawn(shard.run(Arc::clone(node), stop.clone()));
        }
    }

    /// Ends a connection, or one of its subscriptions, if it is here.
    pub(crate) fn end(&self, connection_id: &str, query_id: Option<&str>) {
        for shard in &self.shards {
            let id: Arc<str> = connection_id.into();
            let command = Command::End { id, query_id: query_id.map(Into::into) };
            let commands = shard.commands.clone();
            self.tasks.spawn(async move {
                let _ = commands.send(command).await;
            });
        }
    }

    /// Has the store told again which entities all connections are told of.
    pub(crate) async fn restore_entities(&self) {
        for shard in &self.shards {
            shard.ask(Command::RestoreEntities).await;
        }
    }

    /// The shard of a session, or of a connection that has none.
    pub(crate) fn shard_of(&self, tenant: &str, session: &str) -> &Handle {
        let index = rendezvous::pick(&self.names, tenant, session).unwrap_or(0);
        &self.shards[index]
    }

    /// What all shards counted.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.shards.iter().map(|shard| &*shard.stats))
    }

    /// What each shard counted.
    pub(crate) fn stats(&self) -> impl Iterator<Item = &Stats> {
        self.shards.iter().map(|shard| &*shard.stats)
    }

    /// A place among the replays that read from the store.
    pub(crate) fn replay_reads(&self) -> &Arc<Semaphore> {
        &self.replay_reads
    }
}
