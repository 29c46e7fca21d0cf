//! Durable Streams subscriptions (`__ds/subscriptions`): who is to be woken when streams grow.
//!
//! A subscription holds a cursor (`acked`) for each of its streams. While one of them has events
//! past its cursor the subscription has *pending work*, and is woken: by a webhook, or by an event
//! in a wake stream that workers watch. A wake is one generation of work; acks and releases name
//! the generation, and a stale one is fenced off.
//!
//! ```text
//!             pending work                delivered / claimed
//!   idle ────────────────────► woken ─────────────────────────► leased
//!    ▲      generation + 1       │  ▲ retry (webhook)              │
//!    │                           └──┘                              │
//!    └───────────────── done · release · lease ran out ────────────┘
//! ```
//!
//! The rules are pure code in [`apply`]; a store loads a [`Subscription`], applies an [`Op`] and
//! saves what changed, under the offset lock, so that a wake and the event announcing it are one.
//!
//! - `glob`: patterns over stream names

mod apply;
pub mod glob;

use std::collections::BTreeMap;

use async_trait::async_trait;

pub use apply::{Change, Context, apply};

use crate::error::StoreError;
use crate::offset::Position;

/// How a subscription is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// By a POST to a URL.
    Webhook {
        /// Where to.
        url: String,
    },
    /// By an event appended to a stream that workers follow.
    PullWake {
        /// That stream's name.
        wake_stream: String,
    },
}

/// What the creator of a subscription chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How it is woken.
    pub kind: Kind,
    /// Streams that belong to it by name pattern.
    pub pattern: Option<String>,
    /// Streams that belong to it by name, sorted.
    pub streams: Vec<String>,
    /// How long a wake may be worked on without a sign of life.
    pub lease_ttl_ms: u64,
    /// For people.
    pub description: Option<String>,
}

impl Config {
    /// Whether a stream belongs to it by its name's pattern.
    pub(crate) fn covers_by_pattern(&self, stream: &str) -> bool {
        self.pattern.as_deref().is_some_and(|pattern| glob::matches(pattern, stream))
    }
}

/// One stream of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// It was named by the creator. A link that is not explicit is there by pattern.
    pub explicit: bool,
    /// It matches the pattern.
    pub by_pattern: bool,
    /// Everything up to here is done.
    pub acked: Position,
    /// The stream's end when the subscription was loaded.
    pub tail: Position,
}

impl Link {
    /// Whether there are events past the cursor.
    pub fn pending(&self) -> bool {
        self.tail > self.acked
    }
}

/// One generation of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// Its id.
    pub id: String,
    /// The streams' ends when it was last announced: what a plain "done" acknowledges.
    pub snapshot: BTreeMap<String, Position>,
    /// The worker that claimed it.
    pub holder: Option<String>,
    /// When it is taken back. None until it is delivered or claimed.
    pub lease_until_ms: Option<i64>,
}

/// A subscription as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its id, chosen by the creator.
    pub id: String,
    /// What the creator chose.
    pub config: Config,
    /// When it was made.
    pub created_at_ms: i64,
    /// Counts wakes.
    pub generation: u64,
    /// The wake under way.
    pub wake: Option<Wake>,
    /// Failed deliveries of the present wake in a row.
    pub retry_count: u32,
    /// When a webhook is to be tried (again). Set while a wake is undelivered; whoever delivers it
    /// moves it ahead first, so that no two nodes deliver at once and a dead node's turn passes on.
    pub next_attempt_at_ms: Option<i64>,
    /// Its streams.
    pub links: BTreeMap<String, Link>,
}

impl Subscription {
    /// Takes a link that is kept, with its stream's end; false if its stream is gone. A pattern covers
    /// streams that are: one that is gone is covered anew when it comes back.
    pub fn put_link(&mut self, name: &str, link: Link, exists: bool) -> bool {
        let linked = exists || link.explicit;
        if linked {
            self.links.insert(name.to_owned(), link);
        }
        linked
    }

    /// Whether any of its streams has events past its cursor.
    pub fn pending(&self) -> bool {
        self.links.values().any(Link::pending)
    }
}

/// Names looked at together when a pattern is matched against all streams there are.
pub const NAMES_AT_ONCE: usize = 10_000;

/// Where streams end, and where the forks among them start. Streams that do not exist are left out.
#[derive(Debug, Default)]
pub struct Ends {
    pub tails: BTreeMap<String, Position>,
    pub starts: BTreeMap<String, Position>,
}

/// What a node keeps in memory to see which subscriptions an event concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// The subscription's id.
    pub id: String,
    /// Its pattern.
    pub pattern: Option<String>,
    /// Its streams by name.
    pub streams: Vec<String>,
}

impl Interest {
    /// Whether an event of `stream` concerns the subscription.
    pub fn covers(&self, stream: &str) -> bool {
        self.streams.iter().any(|name| name == stream)
            || self.pattern.as_deref().is_some_and(|pattern| glob::matches(pattern, stream))
    }
}

/// Proof of which wake a caller works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The generation its token was made for.
    pub token_generation: u64,
    /// The generation it says.
    pub generation: u64,
    /// The wake it says.
    pub wake_id: String,
}

/// One thing to do to a subscription.
#[derive(Debug, Clone)]
pub enum Op {
    /// Make it, or confirm that it is the same.
    Create(Config),
    /// Remove it.
    Delete,
    /// Add streams by name.
    AddStreams(Vec<String>),
    /// Remove a stream added by name.
    RemoveStream(String),
    /// An event was appended to a stream it may cover.
    Grown {
        /// The stream.
        stream: String,
    },
    /// A worker wants the pending work.
    Claim {
        /// Who.
        worker: String,
    },
    /// Progress on a wake: moves cursors, renews the lease, and ends the wake if done.
    Ack {
        /// Which wake.
        fence: Fence,
        /// Cursors: everything up to the position is done.
        acks: Vec<(String, Position)>,
        /// The wake is finished.
        done: bool,
    },
    /// The worker gives the wake back.
    Release {
        /// Which wake.
        fence: Fence,
    },
    /// Take the turn to deliver a webhook if one is due, and take back a lease that ran out.
    Due {
        /// How long a delivery may take: when the turn passes on.
        attempt_ms: u64,
    },
    /// How a delivery went.
    Delivered {
        /// Which wake was delivered.
        generation: u64,
        /// What the receiver said.
        outcome: Delivery,
    },
}

impl Op {
    /// The streams whose ends it is applied against: those that it names, and those that match.
    pub fn concerns(&self) -> (Vec<String>, Option<&str>) {
        match self {
            Op::Create(config) => (config.streams.clone(), config.pattern.as_deref()),
            Op::AddStreams(names) => (names.clone(), None),
            Op::Grown { stream } => (vec![stream.clone()], None),
            _ => (Vec::new(), None),
        }
    }
}

/// How a webhook's delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Accepted; the receiver will call back.
    Accepted,
    /// Accepted and finished: the announced ends are acknowledged.
    Done,
    /// Not accepted; to be tried again after so long.
    Failed {
        /// How long to wait.
        retry_in_ms: u64,
    },
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Made, confirmed or found.
    Subscription {
        /// False if it was there already.
        new: bool,
        /// As it is.
        subscription: Box<Subscription>,
    },
    /// Done. A new wake may have begun with it.
    Done {
        /// Whether one has.
        next_wake: bool,
    },
    /// A webhook is to be delivered now, by the caller.
    Deliver(Box<Subscription>),
    /// The worker has the wake.
    Claimed(Box<Subscription>),
    /// No such subscription.
    NotFound,
    /// There is one of this id with another configuration.
    Exists,
    /// Only for pull-wake subscriptions.
    NotPullWake,
    /// Another worker has it.
    AlreadyClaimed {
        /// Who.
        holder: String,
        /// Which wake.
        generation: u64,
    },
    /// Nothing to claim.
    NoPendingWork,
    /// The token, generation or wake id is not the present one's.
    Fenced,
    /// An ack names a stream that is not the subscription's, goes back, or lies past the end.
    InvalidAck {
        /// Why.
        reason: &'static str,
    },
}

/// A wake's snapshot as both stores keep it: a JSON object of stream names and positions.
pub fn snapshot_to_json(snapshot: &BTreeMap<String, Position>) -> serde_json::Value {
    let number = |position: &Position| serde_json::Value::from(position.number());
    snapshot.iter().map(|(name, position)| (name.clone(), number(position))).collect()
}

/// Reads what [`snapshot_to_json`] wrote.
pub fn snapshot_from_json(text: &str) -> BTreeMap<String, Position> {
    let numbers: BTreeMap<String, u64> = serde_json::from_str(text).unwrap_or_default();
    numbers.into_iter().map(|(name, number)| (name, Position::new(number))).collect()
}

/// Storage of subscriptions, and of the few secrets that all nodes share.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// A subscription with its streams and their ends.
    async fn subscription(&self, id: &str) -> Result<Option<Subscription>, StoreError>;

    /// What all subscriptions are interested in. A `Subscription` control event in the log says
    /// when to ask again.
    async fn interests(&self) -> Result<Vec<Interest>, StoreError>;

    /// Does something to a subscription, in one transaction under the offset lock.
    async fn change_subscription(&self, id: &str, op: Op) -> Result<Reply, StoreError>;

    /// Ids of subscriptions with a delivery or a lease that is due by the store's clock.
    async fn due_subscriptions(&self, limit: usize) -> Result<Vec<String>, StoreError>;

    /// The secret of this name, or `candidate` if there was none: the first node to ask decides it
    /// for all.
    async fn secret(&self, name: &str, candidate: Vec<u8>) -> Result<Vec<u8>, StoreError>;
}

#[cfg(test)]
mod tests;
