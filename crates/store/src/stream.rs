//! What the store knows about a stream besides its events.

use crate::offset::Position;
use crate::row::TABLE_PREFIX;

/// How long a stream lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deleted.
    Forever,
    /// For this long after the last read or write.
    Sliding {
        /// Seconds without an access after which the stream expires.
        ttl_s: u64,
    },
    /// Until a moment given when it was created.
    Until {
        /// Milliseconds since the Unix epoch.
        at_ms: i64,
    },
}

impl Lifetime {
    /// When a stream accessed at `now_ms` expires.
    pub fn expires_at_ms(self, now_ms: i64) -> Option<i64> {
        match self {
            Lifetime::Forever => None,
            Lifetime::Sliding { ttl_s } => {
                let ttl_ms = i64::try_from(ttl_s.saturating_mul(1000)).unwrap_or(i64::MAX);
                Some(now_ms.saturating_add(ttl_ms))
            }
            Lifetime::Until { at_ms } => Some(at_ms),
        }
    }
}

/// A producer's stamp on an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerStamp {
    /// Who writes.
    pub id: String,
    /// Which incarnation of that writer.
    pub epoch: u64,
    /// The append's number within the incarnation, from 0.
    pub seq: u64,
}

/// The last append accepted from a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The highest epoch seen; lower ones are fenced off.
    pub epoch: u64,
    /// The highest sequence number accepted in that epoch.
    pub seq: u64,
    /// The stream's end after that append.
    pub position: Position,
}

/// That a stream is closed, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The stream's end, for ever.
    pub position: Position,
    /// The producer's append that closed it, whose retry is answered as a success.
    pub by: Option<ProducerStamp>,
}

/// Where a fork left its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The stream it was forked from.
    pub source: String,
    /// The offset asked for when it was made.
    pub offset: Position,
    /// The sub-offset asked for when it was made.
    pub sub_offset: u64,
    /// The last position of the source that the fork shows. Differs from `offset` by the JSON
    /// messages that the sub-offset added.
    pub position: Position,
}

/// A stream's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamState {
    /// Its name: the path after `/v1/stream/`.
    pub name: String,
    /// Where its create event lies. Events of the same name at or before this position belong to a
    /// deleted predecessor.
    pub created: Position,
    /// The content type given when it was made.
    pub content_type: String,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// When it expires, unless accessed before.
    pub expires_at_ms: Option<i64>,
    /// Set once it is closed.
    pub closed: Option<Closed>,
    /// Set if it is a fork.
    pub fork: Option<Fork>,
    /// How many forks of it exist. `forks > 0` keeps a deleted stream's events.
    pub forks: u32,
    /// Deleted, but kept for its forks.
    pub soft_deleted: bool,
    /// The highest `Stream-Seq` accepted.
    pub last_seq: Option<String>,
    /// The tenant it belongs to: that of its maker, for ever.
    pub host_id: Option<String>,
    /// Its last event that retention gave up. Of no meaning unless `trimmed > created`: it may be a
    /// predecessor's.
    pub trimmed: Position,
}

impl StreamState {
    /// Whether its time has run out at `now_ms`.
    pub fn expired(&self, now_ms: i64) -> bool {
        !self.soft_deleted && self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    /// Whether an access at `now_ms` moves the end of a sliding lifetime enough to be worth a write.
    ///
    /// It must move by more than 1/16 of the lifetime, so that a busy stream does not cost a write
    /// per read; a stream lives at least 15/16 of its TTL after the last access.
    pub fn renewal_due(&self, now_ms: i64) -> bool {
        match (self.expires_at_ms, self.lifetime) {
            (Some(old), Lifetime::Sliding { .. }) => {
                let new = self.lifetime.expires_at_ms(now_ms).unwrap_or(old);
                new.saturating_sub(old) > new.saturating_sub(now_ms) / 16
            }
            _ => false,
        }
    }

    /// The end of the stream while it has no data of its own, or none any more.
    pub fn inherited_tail(&self) -> Position {
        let inherited = self.fork.as_ref().map_or(Position::START, |fork| fork.position);
        if self.trimmed > self.created { self.trimmed.max(inherited) } else { inherited }
    }

    /// The end of the stream, whose last own event lies at `own`.
    pub fn tail(&self, own: Option<Position>) -> Position {
        match &self.closed {
            Some(closed) => closed.position,
            None => own.unwrap_or_else(|| self.inherited_tail()),
        }
    }

    /// What it has of its own lies after this.
    pub(crate) fn begins_after(&self) -> Position {
        self.created.max(self.trimmed)
    }

    /// A cursor before this has lost something. A table's stream that was made anew is another one:
    /// between it and its predecessor changes were not captured.
    fn lost_to(&self) -> Position {
        if self.trimmed > self.created || self.name.starts_with(TABLE_PREFIX) {
            self.begins_after()
        } else {
            Position::START
        }
    }

    /// Whether messages are JSON values rather than bytes.
    pub fn is_json(&self) -> bool {
        is_json(&self.content_type)
    }
}

/// Whether two content types name the same media type: parameters and case do not count. Compares without allocating, because it is
/// asked once an append.
pub(crate) fn same_media_type(a: &str, b: &str) -> bool {
    let bare = |text: &'_ str| -> usize { text.find(';').unwrap_or(text.len()) };
    a[..bare(a)].trim().eq_ignore_ascii_case(b[..bare(b)].trim())
}

/// Whether a content type means JSON mode.
pub fn is_json(content_type: &str) -> bool {
    same_media_type(content_type, "application/json")
}

/// A run of one name's events in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub stream: String,
    /// Events after this position…
    pub after: Position,
    /// …up to and including this one.
    pub up_to: Position,
}

/// The runs of events that make up a stream, in order. `chain` is the stream, then its source, then
/// that one's source, and so on; every fork shows its source only up to its own position.
pub fn segments(chain: &[StreamState]) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(chain.len());
    let mut up_to = Position::new(u64::MAX);
    for state in chain {
        segments.push(Segment { stream: state.name.clone(), after: state.begins_after(), up_to });
        if let Some(fork) = &state.fork {
            up_to = up_to.min(fork.position);
        }
    }
    segments.reverse();
    segments
}

/// The stream that a fork goes back to, by way of other forks perhaps. `chain` is as in [`segments`].
pub fn root(chain: &[StreamState]) -> Option<String> {
    let fork = chain.iter().rev().find_map(|state| state.fork.as_ref());
    fork.map(|fork| fork.source.clone())
}

/// The place before which a cursor into a stream has lost something. `chain` is as in [`segments`]:
/// a fork lost of its sources what they lost of what it shows.
pub fn lost(chain: &[StreamState]) -> Position {
    let (mut lost, mut up_to) = (Position::START, Position::new(u64::MAX));
    for state in chain {
        lost = lost.max(state.lost_to().min(up_to));
        if let Some(fork) = &state.fork {
            up_to = up_to.min(fork.position);
        }
    }
    lost
}
