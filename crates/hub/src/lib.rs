//! The hub: who is connected to this node, what each follows, and how events reach them.
//!
//! ```text
//!   tail ──batch──► shard ──┬─ audience of doc-1 ─┬─► connection ─► socket
//!          (one look        │                     └─► connection ─► socket
//!          at the log)      └─ audience of doc-2 ───► …
//! ```
//!
//! A connection belongs to one of a few [`shard`]s, chosen by [`rendezvous`] hashing; a shard is one
//! task that owns its connections outright, so nothing here is locked. It writes to the sockets
//! itself, without waiting: a delivery costs a pointer in a queue and a system call, and wakes no
//! task. What a socket does not take stays in the connection's bounded [`outbox`].
//!
//! - [`messages`]: what the server says; [`frames`]: messages as bytes; [`forms`]: bytes encoded once for all who get them
//! - [`audience`]: who follows a stream; [`connection`]: what one client follows
//! - [`kinds`]: what a subscription is of; [`log_feed`]: where one to a stream or a table stands, the past that is
//!   read for it from the store, and the exact hand-over to the present
//! - [`admit`]: who may begin; [`subscribe`]: beginning and ending to follow; [`announce`]: the word that it has begun
//! - [`fan_out`]: from news to the outboxes, large audiences in slices; [`flush`]: to the sockets
//! - [`round`]: news on its way through an audience; [`backlog`]: rounds that wait, or are under way in slices
//! - [`gap`]: what becomes of events that a slow client has no room for
//! - [`kinds::stream`]: responses that follow one stream; [`reader_frame`], [`cursor`]: what they are sent
//! - [`kinds::query`]: who follows live queries, and what each receives
//! - [`kinds::entities`]: who follows entities, and what waits for each
//! - [`shard_loop`]: a shard's main loop; [`upkeep`]: its periodic work
//! - [`connection_info`]: who is connected, and since when
//! - [`presence`]: a connection's registration, held as long as it is connected
//! - [`tail`]: how this node follows the log; [`min_offset`]: waiting until it has seen some place in it
//! - [`row_filter`]: which rows and columns someone sees; [`changes`]: rows as messages
//! - [`lookup`], [`views`], [`refusal`]: streams as they are, and why there is none
//! - [`shards`]: the way to the shards
//! - [`directory`]: connections by name, and one for each user where that is wanted
//! - [`session_notes`]: what is kept of sessions, many changes in one commit
//! - [`transport`]: a WebSocket or an SSE response, as somewhere to write to
//!
//! What all of these work with is one [`Hub`].
//!
//! What must hold: the events a subscription gets are exactly its stream's after the offset it
//! agreed on, in order, each once, or a gap that says what is missing (invariant 3); and no client
//! can make the hub wait or grow (invariant 5).
//!
//! - `ack`: acknowledgements, as the hub takes them
//! - `batch_notify`: wakes a task that works in batches
//! - `encode`: bodies and header values
//! - [`prefetch`]: reading what a slice of followers needs before writing to them
//! - `metrics`: what the hub counts, as a scraper gets it
//! - `offset`: offsets as clients send them
//! - `patience`: retries while a problem may pass by itself
//! - `stats`: what a shard counts
//! - [`testing`]: a hub for tests

pub mod ack;
pub mod admit;
mod announce;
mod audience;
mod backlog;
pub(crate) mod batch_notify;
pub mod changes;
pub mod connection;
mod connection_info;
#[cfg(test)]
mod crowd;
pub mod cursor;
pub mod directory;
pub mod encode;
mod fan_out;
mod flush;
pub(crate) mod forms;
pub mod frames;
mod gap;
pub mod kinds;
mod log_feed;
pub mod lookup;
pub mod messages;
mod metrics;
pub mod min_offset;
pub mod offset;
mod outbox;
mod patience;
mod prefetch;
mod presence;
pub mod reader_frame;
pub mod refusal;
pub mod rendezvous;
mod round;
pub mod row_filter;
pub mod session_notes;
mod shard;
mod shard_loop;
mod shards;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod slow_client;
mod stats;
mod subscribe;
pub mod tail;
#[doc(hidden)]
pub mod testing;
mod transport;
mod upkeep;
pub mod views;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidewire_store::{Offset, Position, SharedStore};

use crate::ack::Ack;
use crate::kinds::entities::kept::Entities;
use crate::kinds::query::engine::{Queries, QueryEngineTask};
use crate::row_filter::{Rules, Tables};
use crate::tail::{BatchSenders, Tail};
use crate::views::Views;
use tidewire_access::AccessControl;
use tidewire_access::options::Options;
use tidewire_wire::websocket::CloseCode;

pub use crate::kinds::entities::{EntityCommand, EntityRequest};
pub use crate::kinds::query::QueryRequest;
pub use crate::kinds::{KindCommand, SubscribeRequest};
pub use audience::ViewMode;
pub use connection::{Key, MissingStreams, SessionLink, StartFrom};
pub use connection_info::{ConnectionFilter, ConnectionInfo, ConnectionList, ConnectionSummary};
pub use kinds::stream::reader::{Arrival, PASSAGE_LIMIT};
pub use log_feed::StreamRequest;
use log_feed::replay::ReplayDecision;
pub use log_feed::replay::ReplayPage;
pub use metrics::write as write_metrics;
pub use presence::Presence;
pub use shard_loop::UnstartedShard;
pub use shards::{Handle, Shards};
pub use transport::{ServerSent, Socket, Transport};

/// Pages of replays that are read from the store at once, by all connections together: few enough
/// that appends and other reads find a database connection when a herd of clients returns.
const REPLAY_READS_MAX: usize = 8;

/// What a shard is asked to do.
#[derive(Debug)]
pub enum Command {
    /// A client has come.
    Attach {
        transport: Transport,
        connection_info: Arc<ConnectionInfo>,
        reply: oneshot::Sender<Presence>,
    },
    /// A reader of one stream has come.
    Admit { transport: Transport, arrival: Box<Arrival>, reply: oneshot::Sender<Presence> },
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
    Follow { key: Key, requests: Vec<StreamRequest>, unread: Vec<MissingStreams>, revision: u64 },
    /// It has processed what it got up to somewhere.
    Acknowledge { key: Key, acks: Vec<Ack> },
    /// A replay has got on.
    Replayed {
        key: Key,
        replay: u32,
        step: Box<ReplayPage>,
        reply: oneshot::Sender<ReplayDecision>,
    },
    /// Something that only one kind of subscription knows.
    OfKind(KindCommand),
    /// Its session or its credential is gone: all it follows ends, with the reason, and then it.
    Expire { key: Key, reason: &'static str },
    /// An operator ends the connection of this id, or one of its subscriptions.
    End { id: Arc<str>, query_id: Option<Arc<str>> },
    /// Someone wants to know who is connected.
    ListConnections { wanted: ConnectionFilter, reply: oneshot::Sender<ConnectionList> },
    /// Nothing more is to be sent to it after this.
    Close { key: Key, code: CloseCode, reason: &'static str },
}

/// What everything in the hub works with: one for the node, shared.
#[derive(Debug)]
pub struct Hub {
    /// The node's name, which no other node has.
    pub id: String,
    pub access: Arc<AccessControl>,
    pub options: Arc<Options>,
    pub store: SharedStore,
    pub tail: Tail,
    /// What tables are made of, and what of them is seen.
    tables: Arc<Tables>,
    /// What must hold of rows that are read.
    pub rules: Rules,
    pub shards: Shards,
    /// Replays under way.
    pub tasks: TaskTracker,
    replay_reads: Arc<Semaphore>,
    /// What is to be kept of sessions.
    pub session_notes: Arc<session_notes::Batch>,
    pub entities: Entities,
    pub queries: Queries,
    /// Streams that are being asked for.
    views: Views,
    /// Cancelled when the server begins to drain: live readers end, requests in flight finish.
    pub draining: CancellationToken,
}

/// The parts of a hub that are yet to be started.
#[derive(Debug)]
pub struct Unstarted {
    pub shards: Vec<UnstartedShard>,
    pub sinks: BatchSenders,
    pub query_engine: QueryEngineTask,
}

impl Hub {
    /// A hub of so many shards, which stands at `tip`.
    pub fn assemble(
        id: String,
        access: Arc<AccessControl>,
        tip: Position,
        shards: usize,
    ) -> (Hub, Unstarted) {
        let (options, store) = (Arc::clone(&access.options), SharedStore::clone(&access.store));
        let names = &access.names;
        let tables = Arc::new(Tables::new(names.clone()));
        let (handles, unstarted, sinks, query_sinks) = Shards::new(shards, tip);
        let tail = Tail::new(tip, Arc::clone(&tables));
        let (queries, orders) = Queries::new();
        // It hears everything from the first event on.
        let events = tail.headers();
        let query_engine = QueryEngineTask { orders, events, sinks: query_sinks, position: tip };
        let hub = Hub {
            id,
            tail,
            tables,
            rules: Rules::new(&options.tables, names),
            shards: handles,
            tasks: TaskTracker::new(),
            replay_reads: Arc::new(Semaphore::new(REPLAY_READS_MAX)),
            session_notes: Arc::default(),
            entities: Entities::default(),
            queries,
            views: Views::default(),
            draining: CancellationToken::new(),
            access,
            options,
            store,
        };
        (hub, Unstarted { shards: unstarted, sinks, query_engine })
    }

    /// Starts the shards.
    pub fn start(
        self: &Arc<Hub>,
        shards: Vec<UnstartedShard>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        for shard in shards {
            tasks.spawn(shard.run(Arc::clone(self), stop.clone()));
        }
    }

    /// Ends a connection, or one of its subscriptions, if it is here.
    pub fn end(&self, connection_id: &str, query_id: Option<&str>) {
        for shard in self.shards.all() {
            let id: Arc<str> = connection_id.into();
            let command = Command::End { id, query_id: query_id.map(Into::into) };
            let shard = shard.clone();
            self.tasks.spawn(async move { shard.ask(command).await });
        }
    }

    /// A place among the replays that read from the store.
    pub(crate) fn replay_reads(&self) -> &Arc<Semaphore> {
        &self.replay_reads
    }

    /// A position as clients see it.
    pub fn offset(&self, position: Position) -> Offset {
        position.in_epoch(self.store.epoch())
    }
}
