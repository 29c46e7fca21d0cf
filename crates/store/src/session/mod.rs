//! Sessions: the durable identities of clients that come and go, what each follows, and how far it
//! has got.
//!
//! A session has subscriptions, one a stream; each has a pointer, the last offset that the client
//! says it has *processed*. Pointers are what an append does not touch: it writes one row in the log
//! however many sessions follow the stream, and a pointer moves when its client says so.
//!
//! # What holds
//!
//! - **Epochs fence pointers.** Every subscription that is made, or made anew, gets an epoch that no
//!   earlier subscription of the session had. A pointer moves only by an acknowledgement of its own
//!   epoch, and only forwards: one that was on its way during an unsubscribe and resubscribe changes
//!   nothing.
//! - **Counts are exact.** `stream_subscriber_counts` changes in the transaction that makes or
//!   removes a subscription. Reconciling is for what people do to the tables by hand.
//! - **A session lives as long as someone says so.** It expires after its last heartbeat, or after
//!   its last connection ended, or after the lease of the node that held that connection did,
//!   whichever is latest. A session that a living node serves does not expire. Neither does that of
//!   a dead node before a sweep has noticed: then its time begins, so that a client whose node died
//!   finds its session on another one, however long nobody swept.
//! - **What has expired stays so.** It is as good as removed from that moment on, and a sweep removes
//!   it.
//! - **Clocks are the database's.** Callers give durations; the store adds them to its own clock.
//! - **Changes are batched.** [`Sessions::change_sessions`] takes many and commits them together, in
//!   order. One that is refused (a session that is gone) changes nothing, and does not disturb its
//!   neighbours.
//!
//! The rules are pure code in `decide` and `sweep`; a store loads rows, asks, and saves what comes of
//! it. Names come from callers that have checked them: a NUL character, or more bytes than an index
//! takes, is an error of PostgreSQL, and of all changes in the commit.

mod decide;
mod sweep;

use async_trait::async_trait;
use tokio::sync::broadcast;

pub use decide::{
    FollowedRow, FollowedStream, LoadedSessions, RequiredSessions, SessionPlan, SessionRow, after,
    decide, position_of,
};
pub use sweep::{
    Pointer, STREAMS_MAX, StreamCount, SweepCursor, SweepTimes, SweptSession, expired,
    first_sessions, let_go, next_pointers, next_streams, recounted, stale,
};

use crate::error::StoreError;
use crate::offset::Position;

/// Whose a session is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The actor.
    pub user_id: String,
    /// The tenant, if there are tenants.
    pub host_id: Option<String>,
}

/// A session as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub owner: Owner,
    /// Rises with every change of its subscriptions. The epoch of a subscription is the revision
    /// that made it.
    pub revision: u64,
    /// What it follows, in order of stream.
    pub subscriptions: Vec<SessionSubscription>,
}

/// What a session follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSubscription {
    /// The stream.
    pub stream: String,
    /// What the client calls it.
    pub query_id: String,
    /// Which making of it this is.
    pub epoch: u64,
    /// The last offset the client has processed, or where it asked to begin.
    pub pointer: Position,
    /// The furthest place that a connection had sent when this joined what it sends in the log's
    /// order. A client that names a later place as the last it saw has seen all of this subscription
    /// up to there.
    pub live_since: Option<Position>,
}

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After this, also if the session follows the stream already: then it begins anew.
    At(Position),
    /// After this, unless the session follows the stream already: then nothing changes.
    Unless(Position),
}

/// One change to sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// A session comes into being. An id is given to one session only; if there is one already, of
    /// the same owner, this is a sign of life, and of another owner it is refused.
    Open {
        /// Its id.
        session: String,
        /// Whose it is.
        owner: Owner,
        /// How long it lives without a sign of life.
        ttl_ms: u64,
    },
    /// The session follows a stream. Also a sign of life, unless it is refused.
    Subscribe {
        /// The session.
        session: String,
        /// The stream.
        stream: String,
        /// What the client calls it.
        query_id: String,
        /// Where it begins.
        start: Start,
        /// How long the session lives from now.
        ttl_ms: u64,
    },
    /// The session follows a stream no longer.
    Unsubscribe {
        /// The session.
        session: String,
        /// The stream.
        stream: String,
    },
    /// A sign of life.
    Heartbeat {
        /// The session.
        session: String,
        /// How long it lives from now.
        ttl_ms: u64,
    },
    /// The client has processed a stream up to a position. One that moves nothing keeps the
    /// subscription from going stale all the same.
    Acknowledge {
        /// The session.
        session: String,
        /// The stream.
        stream: String,
        /// The epoch of the subscription it is about.
        epoch: u64,
        /// Up to here.
        position: Position,
    },
    /// A connection sends a subscription in the log's order with all else it sends, from a position
    /// on. Kept for the first time only.
    WentLive {
        /// The session.
        session: String,
        /// The stream.
        stream: String,
        /// The epoch of the subscription it is about.
        epoch: u64,
        /// From here.
        position: Position,
    },
    /// A node serves the session, from now on in the place of any other. The node has a lease: one
    /// that is not known keeps no session alive.
    Connect {
        /// The session.
        session: String,
        /// The node.
        node: String,
    },
    /// A node serves it no longer. Nothing happens if another serves it by now.
    Disconnect {
        /// The session.
        session: String,
        /// The node.
        node: String,
        /// How long the session lives from now.
        ttl_ms: u64,
    },
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionOutcome {
    /// It happened, or there was nothing to do.
    Done,
    /// The session follows the stream.
    Subscribed(SessionSubscription),
    /// There is no such session, or it has expired.
    NoSession,
    /// The session follows the stream under another name.
    NamedOtherwise(String),
    /// The session follows another stream, this one, under the name.
    NameTaken(String),
    /// The session follows as many streams as it may.
    TooMany,
}

/// Something happened to sessions, on this node or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSignal {
    /// The subscriptions of this session changed.
    Changed(String),
    /// Signals may have been missed: look at what you care about.
    Missed,
}

/// How long things are kept.
#[derive(Debug, Clone, Copy)]
pub struct SessionRules {
    /// How long a session lives after the lease of the node that served it ended.
    pub ttl_ms: u64,
    /// Subscriptions that nobody acknowledged or connected for so long are removed, unless a living
    /// node serves their session.
    pub stale_ms: u64,
    /// Rows that a call changes or looks at, of each kind. A session is removed with all it follows,
    /// even if that alone is more.
    pub rows_max: usize,
}

/// What a sweep removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweptSessions {
    /// Sessions that expired.
    pub sessions: usize,
    /// Subscriptions that went with them, or were stale.
    pub subscriptions: usize,
    /// Nodes whose lease had ended.
    pub nodes: usize,
    /// Counts that were wrong.
    pub counts: usize,
}

/// Subscriptions a session may have.
pub const SESSION_SUBSCRIPTIONS_MAX: usize = 1_000;

/// Signals that wait for a receiver. One that is further behind has missed some.
pub const SIGNALS_MAX: usize = 1_024;

/// Sessions and their pointers. See the [module documentation](self) for what holds.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Carries out changes in order, in one commit. Returns when they are durable, with one outcome
    /// each.
    async fn change_sessions(
        &self,
        changes: Vec<SessionChange>,
    ) -> Result<Vec<SessionOutcome>, StoreError>;

    /// A session that has not expired.
    async fn session(&self, id: &str) -> Result<Option<Session>, StoreError>;

    /// The revisions of those of these sessions that have not expired.
    async fn session_revisions(&self, ids: &[String]) -> Result<Vec<(String, u64)>, StoreError>;

    /// What happens to sessions from now on. A receiver that lags behind has missed signals, as if it
    /// had been told so.
    fn session_signals(&self) -> broadcast::Receiver<SessionSignal>;

    /// Upkeep: removes what has expired, a bounded amount a call, and puts wrong counts right.
    async fn sweep_sessions(&self, rules: SessionRules) -> Result<SweptSessions, StoreError>;

    /// How many sessions follow a stream.
    async fn subscriber_count(&self, stream: &str) -> Result<u64, StoreError>;
}
