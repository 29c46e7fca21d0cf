//! The log: one totally ordered, durable sequence of events, and the streams that are its
//! subsequences.
//!
//! ```text
//!            tip of a reader's view                 tip
//!                     │                              │
//!  ───┬───┬───┬───┬───▼──┬───┬───┬───┬───┬───┬───┬──▼┐ ┌╌╌╌┬╌╌╌┬╌╌╌┐
//!   1 │ 2 │ 3 │ 4 │ 5    │ 6 │ 7 │ 8 │ 9 │10 │11 │12 │ ╎13 ╎14 ╎15 ╎
//!  ───┴───┴───┴───┴──────┴───┴───┴───┴───┴───┴───┴───┘ └╌╌╌┴╌╌╌┴╌╌╌┘
//!   a   b   a   a   b      a   b   b   a   a   b   a    being committed:
//!   └────── one commit ──┘ └── another ──┘ └─ a third ┘ no one sees these
//! ```
//!
//! # What holds
//!
//! - **Offsets are gapless when given.** Whoever commits events holds the offset lock, reads the
//!   tip in a fresh statement and numbers its events from tip + 1. The lock is held until the
//!   commit, so positions 13, 14 and 15 above become visible together or not at all. (Deleting old
//!   events later leaves holes. The event at the tip is never deleted, because it *is* the tip.)
//! - **What a reader sees is always a prefix.** If a read shows position 12, every position up to
//!   12 was visible to that same read. So a follower that asks for `position > last` misses
//!   nothing, and needs no overlap, no timestamps and no "safe" horizon.
//! - **Visible means durable.** No read, on this node or another, shows an event that a crash could
//!   take back, and a command's answer is given only after its commit is durable.
//! - **Commands are serialised.** Each is decided against the state all earlier ones left, on all
//!   nodes. That is what makes producer sequences, `Stream-Seq`, closing and forking exact without
//!   any lock of their own.
//! - **Group commit.** Commands that wait together are committed together, in arrival order, with
//!   one reservation of offsets. A command refused by the protocol does not disturb its neighbours.
//! - **A stream is a bounded subsequence.** Its events are those of its name after its create
//!   event. A fork shows its source's events up to the fork's position and then its own: positions
//!   are shared, nothing is copied, and order is still plain order.
//!
//! Errors of the store are in [`StoreError`]; refusals by the protocol are answers, not errors.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::command::{Answer, Command};
use crate::control::ControlChannel;
use crate::entity::Entities;
use crate::error::StoreError;
use crate::event::{Event, TailEvent};
use crate::groups::Grouped;
use crate::keys::Keys;
use crate::nodes::Nodes;
use crate::offset::{Epoch, Position};
use crate::queries::Queries;
use crate::retention::Retention;
use crate::session::Sessions;
use crate::sql::Sql;
use crate::stats::CommitStats;
use crate::stream::StreamState;
use crate::subscription::Subscriptions;
use crate::tickets::Tickets;
use crate::watch::Watches;

/// How much of a stream to read at once.
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    /// At most this many events.
    pub events: usize,
    /// Stop after the event that reaches this many bytes of payload, or of a row's images as the
    /// store measures them: in PostgreSQL that is the size of `jsonb`, and not the length of the text.
    /// A single larger event is still returned, alone, so that reading always moves.
    pub bytes: usize,
}

impl PageLimit {
    /// Whether a page that has so many events, of so many bytes, takes no more. The bytes are as
    /// the store measures them, who cuts the page by nothing else.
    pub fn is_reached(self, events: usize, bytes: usize) -> bool {
        events >= self.events || (events > 0 && bytes >= self.bytes)
    }

    /// The page that a follower gets of events that are in memory, in order.
    pub fn follow<'a>(
        self,
        events: impl Iterator<Item = &'a TailEvent>,
        wants_payload: &dyn Fn(&str) -> bool,
    ) -> Vec<TailEvent> {
        let mut bytes = 0;
        let mut page = Vec::new();
        for event in events.take(self.events) {
            let mut event = event.clone();
            if !wants_payload(&event.stream) {
                (event.payload, event.row) = (None, None);
            }
            bytes += event.bytes();
            page.push(event);
            if self.is_reached(page.len(), bytes) {
                break;
            }
        }
        page
    }
}

/// A stream and where it ends.
#[derive(Debug, Clone)]
pub struct StreamView {
    /// Its row.
    pub state: StreamState,
    /// The position of its last event, or the place a fork took over, or the start.
    pub tail: Position,
    /// A cursor before this has lost events that retention removed, or that a predecessor of the
    /// stream had. Reading after the start begins here.
    pub lost: Position,
    /// Of a fork: the stream that it goes back to in the end, whose events it shows.
    pub root: Option<String>,
}

impl StreamView {
    /// Whether someone who read up to a position, and not from the start, has lost something.
    pub fn has_lost(&self, after: Position) -> bool {
        after > Position::START && after < self.lost
    }
}

/// Part of a stream.
#[derive(Debug, Clone)]
pub struct Page {
    /// The stream at the moment of reading.
    pub view: StreamView,
    /// Its events after the position asked for.
    pub events: Vec<Event>,
    /// There are no more events of this stream at or before this position than those returned so
    /// far. Equal to the log's tip if the page reaches the stream's end.
    pub scanned_to: Position,
}

/// Events that were read, and whether those are all there are.
#[derive(Debug, Default)]
pub struct Run {
    pub events: Vec<Event>,
    /// The statements that read them said that nothing follows. It is never concluded from how much
    /// was read: what a page has room for is the statement's own business.
    pub complete: bool,
}

impl Page {
    /// The page that a run of events after a position makes, when the log's end was at `tip`.
    pub fn of_run(view: StreamView, run: Run, after: Position, tip: Position) -> Page {
        let scanned_to = match run.events.last() {
            // A page cut short exactly at the end of the stream is complete all the same.
            Some(event) if run.complete || event.position >= view.tail => tip,
            Some(event) => event.position,
            None if run.complete => tip,
            None => after.min(tip),
        };
        Page { view, events: run.events, scanned_to }
    }

    /// Where the next read continues.
    pub fn next(&self, after: Position) -> Position {
        self.events.last().map_or(after.max(self.view.tail.min(self.scanned_to)), |e| e.position)
    }

    /// Whether the page reaches the stream's end.
    pub fn up_to_date(&self) -> bool {
        self.scanned_to >= self.view.tail
    }
}

/// What a read found.
#[derive(Debug, Clone)]
pub enum Found {
    /// The stream, and what was asked of it.
    Stream(Box<Page>),
    /// No such stream.
    NotFound,
    /// Deleted, but kept for its forks.
    Gone {
        /// Whose it was: to others than those it is not there.
        host_id: Option<String>,
    },
}

/// Streams that upkeep expires a call.
pub const SWEPT_STREAMS_MAX: usize = 500;
/// Deleted streams whose events upkeep removes a call.
pub const SWEPT_PURGES_MAX: usize = 20;
/// Events of deleted streams that upkeep removes a call: few enough that appends do not notice.
pub const SWEPT_EVENTS_MAX: usize = 2_000;
/// How long the events of a deleted stream stay, so that a read under way finishes.
pub const PURGE_DELAY_MS: i64 = 60_000;

/// Says of which streams a follower wants the payloads.
pub type WantsPayload = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What periodic upkeep did, for the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Streams whose time had run out.
    pub streams_expired: usize,
    /// Events of deleted streams removed from disk.
    pub events_purged: usize,
}

/// The log. See the [module documentation](self) for what holds.
#[async_trait]
pub trait Log: Send + Sync + std::fmt::Debug {
    /// Which history this is.
    fn epoch(&self) -> Epoch;

    /// A short name of the backend, for people: `SQLite`, `PostgreSQL` or `memory`.
    fn backend(&self) -> &'static str;

    /// Carries out a command. Returns when its effects are durable and visible.
    ///
    /// Dropping the future does not take the command back: it may still be carried out.
    async fn submit(&self, command: Command) -> Result<Answer, StoreError>;

    /// Reads a stream's events after a position. `limit.events == 0` looks at the stream only.
    async fn read(
        &self,
        stream: &str,
        after: Position,
        limit: PageLimit,
    ) -> Result<Found, StoreError>;

    /// Reads the log itself after a position: every event's header, and the payloads of the streams
    /// that `wants_payload` says yes to. Only an empty answer says that there is no more.
    async fn follow(
        &self,
        after: Position,
        limit: PageLimit,
        wants_payload: WantsPayload,
    ) -> Result<Vec<TailEvent>, StoreError>;

    /// The highest position that is durable.
    async fn tip(&self) -> Result<Position, StoreError>;

    /// Changes whenever the log may have grown: at once for this node's own commits, by
    /// notification for those of others. A hint only: a follower also polls now and then.
    fn grown(&self) -> watch::Receiver<u64>;

    /// Names of streams that match, for linking subscriptions and for people. `after` and `limit`
    /// page through them in order of name.
    async fn names(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError>;

    /// Upkeep: removes expired streams and the events of deleted ones, a bounded amount a call.
    async fn sweep(&self) -> Result<Swept, StoreError>;

    /// Counters since the store was opened.
    fn commit_stats(&self) -> CommitStats;

    /// Stops taking commands, finishes those that wait, and releases the store.
    async fn close(&self);
}

/// Everything durable, behind one handle.
pub trait Store:
    Log
    + Subscriptions
    + Sessions
    + Nodes
    + Keys
    + Tickets
    + ControlChannel
    + Watches
    + Sql
    + Retention
    + Entities
    + Queries
    + Grouped
{
}

impl<T> Store for T where
    T: Log
        + Subscriptions
        + Sessions
        + Nodes
        + Keys
        + Tickets
        + ControlChannel
        + Watches
        + Sql
        + Retention
        + Entities
        + Queries
        + Grouped
{
}

/// A store that is shared by all parts of a node.
pub type SharedStore = Arc<dyn Store>;
