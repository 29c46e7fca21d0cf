//! Retention: which events are kept, and which are given up.
//!
//! Streams of tables keep the changes of rows for an age and up to a number of bytes; other streams
//! live until they are deleted or expire, unless a rule gives theirs an age. What is past that goes in
//! two steps:
//!
//! ```text
//!   the log of table/orders
//!   ░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
//!            │                │           │                 │
//!        removed up to     trimmed    a session's          tip
//!                                      pointer
//!   given up first (▒): readers begin after `trimmed` from that commit on. One row is written.
//!   removed later (░): from disk, or to the archive, a small piece at a time.
//! ```
//!
//! # What holds
//!
//! - **A cursor gets what comes after it, or is told.** [`StreamView::lost`](crate::StreamView) is the
//!   last event that was given up: whoever stands before it has lost something. What is given up
//!   stays on disk for longer than a read takes, so that one under way finishes.
//! - **The tip stays.** The event at the log's end *is* its end.
//! - **Whoever lags is waited for**: nothing is given up that a session has not acknowledged, or a
//!   subscription of the stream protocol, until a second, *hard* limit is reached. Then it goes all
//!   the same, and [`Retained::lagging`] names who lost it.
//! - **Nothing that a living node has not read is given up**, whatever the limits.
//! - **Streams with forks, and forks, are left alone**: they show each other's events.
//! - **Ages go by the store's clock**, and by the log's order: an event goes when all captured rows
//!   before it have gone or are held back.
//! - **Writers wait for none of this.** Sums by ranges of offsets are kept up behind the log's tip, so
//!   that an append writes nothing for it; no step holds the offset lock, and every step is short.
//!   On PostgreSQL one node at a time works.
//! - **Control events** of ranges from which all captured rows have gone are removed with them. They
//!   are news, for followers, and nobody reads old news.
//!
//! The rules are pure code in `cut`; a store loads, asks, and saves what comes of it.

mod cut;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use async_trait::async_trait;
use serde::Deserialize;
use tidewire_options::{duration, limit};

pub use cut::{Bounds, Bucket, Cuts, Hold, Limit, Measured, retired};

use crate::error::StoreError;
use crate::offset::Position;
use crate::row::TABLE_PREFIX;
use crate::subscription::glob;

/// What is kept, and for how long. `None` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionRules {
    /// Captured rows older than this are given up.
    #[serde(deserialize_with = "limit")]
    pub age_ms: Option<u64>,
    /// The oldest captured rows are given up while all of them have more bytes than this.
    #[serde(deserialize_with = "limit")]
    pub bytes_max: Option<u64>,
    /// Past this age they are given up though someone has not read them.
    #[serde(deserialize_with = "limit")]
    pub hard_age_ms: Option<u64>,
    /// Past so many bytes they are given up though someone has not read them.
    #[serde(deserialize_with = "limit")]
    pub hard_bytes_max: Option<u64>,
    /// Captured rows are moved to the archive instead of being deleted.
    pub archive: bool,
    /// Ages of other streams. The first rule that matches a stream is its own.
    pub streams: Vec<StreamRule>,
}

/// The age of the streams that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct StreamRule {
    /// `*` is a segment of a name, `**` any number of them.
    pub pattern: String,
    /// Their events are given up past this age.
    pub age_ms: u64,
}

/// A text that is no pattern with an age.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pattern and age such as \"logs/*=7d\"")]
pub struct NoStreamRule(String);

impl TryFrom<String> for StreamRule {
    type Error = NoStreamRule;

    fn try_from(text: String) -> Result<StreamRule, NoStreamRule> {
        text.parse()
    }
}

impl FromStr for StreamRule {
    type Err = NoStreamRule;

    /// A pattern and an age, such as `logs/*=7d`.
    fn from_str(text: &str) -> Result<StreamRule, NoStreamRule> {
        let rule = || {
            let (pattern, age) = text.rsplit_once('=')?;
            let age = duration(age).ok()?;
            let age_ms = u64::try_from(age.as_millis()).ok().filter(|ms| *ms > 0)?;
            (!pattern.is_empty()).then(|| StreamRule { pattern: pattern.to_owned(), age_ms })
        };
        rule().ok_or_else(|| NoStreamRule(text.to_owned()))
    }
}

/// Someone whose cursor was passed, because a hard limit was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lagging {
    /// The stream.
    pub stream: String,
    /// How far the last of those who follow it had got.
    pub cursor: Position,
    /// Up to here events were given up.
    pub trimmed: Position,
}

/// What a call did, and how things stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// Another node is at it: nothing was done, and nothing below is known.
    pub elsewhere: bool,
    /// Streams of which something was given up.
    pub streams_trimmed: usize,
    /// Events removed from the log, of living streams and of deleted tables' streams.
    pub events_removed: u64,
    /// Bytes of those that were captured rows.
    pub bytes_removed: u64,
    /// Of those, events that are in the archive.
    pub events_archived: u64,
    /// Whole partitions of the log that were dropped.
    pub partitions_dropped: usize,
    /// Captured rows that are in the log, as far as it was measured.
    pub captured_events: u64,
    /// Their bytes.
    pub captured_bytes: u64,
    /// When the oldest range of offsets that has captured rows, or is not past its age, got its
    /// newest event.
    pub oldest_ms: Option<i64>,
    /// Streams of which something is past its limit, and kept for someone who has not read it.
    pub streams_held_back: usize,
    /// Who lost something.
    pub lagging: Vec<Lagging>,
    /// Where a call goes on with the streams that have rules: what the next is to be given.
    pub next: String,
    /// There is more to do at once.
    pub more: bool,
}

/// Upkeep of what is kept. See the [module documentation](self) for what holds.
#[async_trait]
pub trait Retention: Send + Sync {
    /// Gives up and removes what the rules say, a bounded amount a call. `from` is the
    /// [`Retained::next`] of the call before, or empty.
    async fn retain(&self, rules: &RetentionRules, from: &str) -> Result<Retained, StoreError>;
}

impl RetentionRules {
    /// Whether a stream may lose events one day.
    pub fn concerns(&self, stream: &str) -> bool {
        stream.starts_with(TABLE_PREFIX) || self.age_of(stream).is_some()
    }

    /// The age of a stream that is no table's, if it has one.
    pub fn age_of(&self, stream: &str) -> Option<u64> {
        let matching = |rule: &&StreamRule| glob::matches(&rule.pattern, stream);
        self.streams.iter().find(matching).map(|rule| rule.age_ms)
    }

    /// The limits past which captured rows are given up unless someone lags.
    pub fn soft(&self, now_ms: i64) -> Bounds {
        Bounds { older_than_ms: before(now_ms, self.age_ms), bytes_max: self.bytes_max }
    }

    /// The limits past which they are given up.
    pub fn hard(&self, now_ms: i64) -> Bounds {
        Bounds { older_than_ms: before(now_ms, self.hard_age_ms), bytes_max: self.hard_bytes_max }
    }
}

/// The moment so long before another.
pub fn before(now_ms: i64, age_ms: Option<u64>) -> Option<i64> {
    age_ms.map(|age| now_ms.saturating_sub(i64::try_from(age).unwrap_or(i64::MAX)))
}

/// The place before an event.
pub fn previous(position: Position) -> Position {
    Position::from_sql(position.to_sql() - 1)
}

/// Offsets of one bucket. The migration says the same.
pub const BUCKET_OFFSETS: i64 = 5_000;
/// What an event takes besides its row's images, roughly, so that events without any count too.
pub const EVENT_BYTES: i64 = 100;
/// Events measured a step.
pub const MEASURED_MAX: i64 = 20_000;
/// Buckets loaded at once.
pub const BUCKETS_PAGE: i64 = 1_000;
/// Buckets that are finished with a call.
pub const RETIRED_MAX: usize = 20;
/// Streams with rules that are looked at a call.
pub const STREAMS_PAGE: i64 = 500;
/// Events of such a stream that are given up a call.
pub const STREAM_EVENTS_MAX: i64 = 1_000;
/// Control events stay for so long at least: every follower has seen them by then.
pub(crate) const NEWS_MS: i64 = 3_600_000;

/// What a store is to give up of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trim {
    pub stream: String,
    /// Which stream of this name.
    pub created: Position,
    /// Events after this…
    pub after: Position,
    /// …up to this one, which is the stream's own.
    pub up_to: Position,
    /// Whether they are kept elsewhere.
    pub archive: bool,
}

/// What a look at the streams found.
#[derive(Debug, Default)]
pub struct Survey {
    pub trims: Vec<Trim>,
    pub held_back: usize,
    pub lagging: Vec<Lagging>,
}

impl Survey {
    /// Notes what is to be done about a stream, when `up_to` is its last event that the limit allows.
    pub fn note(&mut self, mut trim: Trim, limit: &Limit, up_to: Option<Position>) {
        self.held_back += usize::from(limit.holds_back);
        let Some(up_to) = up_to.filter(|up_to| *up_to > trim.after) else { return };
        if let Some(cursor) = limit.hold.filter(|cursor| *cursor < up_to) {
            let stream = trim.stream.clone();
            self.lagging.push(Lagging { stream, cursor, trimmed: up_to });
        }
        trim.up_to = up_to;
        self.trims.push(trim);
    }
}
