//! Up to where events are given up: pure code over sums by ranges of offsets.
//!
//! Of the buckets, in order, whole ones are past a limit first; then one that is so in part, and of
//! that the events are looked at. Only captured rows count for sizes; all events count for the age
//! of a bucket.

use super::{BUCKET_OFFSETS, NEWS_MS};
use crate::offset::Position;

/// A range of offsets, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Its number: the offsets divided by [`BUCKET_OFFSETS`].
    pub number: i64,
    /// Captured rows that are left.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the newest event of the range was appended, of whatever kind.
    pub newest_ms: i64,
}

impl Bucket {
    /// The place before its first offset.
    pub fn before(&self) -> Position {
        Position::from_sql(self.number * BUCKET_OFFSETS - 1)
    }

    /// Its last offset.
    pub fn last(&self) -> Position {
        Position::from_sql((self.number + 1) * BUCKET_OFFSETS - 1)
    }
}

/// A captured row, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    pub position: Position,
    pub bytes: u64,
    pub created_ms: i64,
}

/// Limits of captured rows, at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// What was appended at or before this is past the limit.
    pub(crate) older_than_ms: Option<i64>,
    /// Of more bytes than these the oldest are.
    pub bytes_max: Option<u64>,
}

impl Bounds {
    fn is_old(&self, created_ms: i64) -> bool {
        self.older_than_ms.is_some_and(|limit| created_ms <= limit)
    }
}

/// One limit's place among the buckets.
#[derive(Debug, Clone)]
struct Cut {
    bounds: Bounds,
    /// Bytes that are still to go.
    excess: u64,
    /// All captured rows up to here are past the limit.
    up_to: Position,
    /// The bucket that is past it in part, once it is known.
    boundary: Option<Bucket>,
}

impl Cut {
    fn new(bounds: Bounds, total_bytes: u64) -> Cut {
        let excess = bounds.bytes_max.map_or(0, |max| total_bytes.saturating_sub(max));
        Cut { bounds, excess, up_to: Position::START, boundary: None }
    }

    fn take(&mut self, bucket: Bucket) {
        if self.boundary.is_some() {
            return;
        }
        let oversize = self.excess > 0 && bucket.bytes <= self.excess;
        if self.bounds.is_old(bucket.newest_ms) || oversize {
            self.excess = self.excess.saturating_sub(bucket.bytes);
            self.up_to = bucket.last();
        } else {
            self.boundary = Some(bucket);
        }
    }

    fn refine(&mut self, events: &[Measured]) {
        for event in events {
            if self.excess == 0 && !self.bounds.is_old(event.created_ms) {
                return;
            }
            self.excess = self.excess.saturating_sub(event.bytes);
            self.up_to = event.position;
        }
    }
}

/// Where the two limits lie.
#[derive(Debug, Clone)]
pub struct Cuts {
    soft: Cut,
    hard: Cut,
}

impl Cuts {
    /// Before any bucket was looked at. `total_bytes` is the sum over all of them.
    pub fn new(soft: Bounds, hard: Bounds, total_bytes: u64) -> Cuts {
        Cuts { soft: Cut::new(soft, total_bytes), hard: Cut::new(hard, total_bytes) }
    }

    /// Takes the next bucket.
    pub fn take(&mut self, bucket: Bucket) {
        self.soft.take(bucket);
        self.hard.take(bucket);
    }

    /// Whether more buckets make no difference.
    pub fn found(&self) -> bool {
        self.soft.boundary.is_some() && self.hard.boundary.is_some()
    }

    /// The buckets whose captured rows are to be looked at. One that has none need not be read.
    pub fn boundaries(&self) -> Vec<Bucket> {
        let boundaries = [self.soft.boundary, self.hard.boundary].into_iter().flatten();
        let mut buckets: Vec<Bucket> = boundaries.filter(|bucket| bucket.events > 0).collect();
        buckets.dedup();
        buckets
    }

    /// Takes the captured rows of such a bucket, in order.
    pub fn refine(&mut self, bucket: Bucket, events: &[Measured]) {
        for cut in [&mut self.soft, &mut self.hard] {
            if cut.boundary == Some(bucket) {
                cut.refine(events);
            }
        }
    }

    /// Nothing past this is given up, because a node has not read it, or it is the tip.
    pub fn at_most(&mut self, position: Position) {
        self.soft.up_to = self.soft.up_to.min(position);
        self.hard.up_to = self.hard.up_to.min(position);
    }

    /// Up to where events may be given up if nobody lags.
    pub fn reach(&self) -> Position {
        self.soft.up_to.max(self.hard.up_to)
    }

    /// Up to where a stream's events are given up.
    pub fn limit(&self, hold: Hold) -> Limit {
        Limit::of(self.soft.up_to, self.hard.up_to, hold)
    }
}

/// How far the last of those who follow a stream has got. `None` where nobody follows it.
pub type Hold = Option<Position>;

/// Up to where a stream's events are given up, and why no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub up_to: Position,
    pub hold: Hold,
    /// Someone keeps events that are past the soft limit.
    pub(crate) holds_back: bool,
}

impl Limit {
    /// Whoever lags is waited for up to the hard limit.
    pub fn of(soft: Position, hard: Position, hold: Hold) -> Limit {
        let patient = hold.map_or(soft, |hold| soft.min(hold));
        let up_to = patient.max(hard);
        Limit { up_to, hold, holds_back: up_to < soft }
    }
}

/// Whether a bucket is finished with: no captured row is left in it, none can come, it is past the
/// limit as a whole, and what it told has been heard.
pub fn retired(bucket: &Bucket, reach: Position, now_ms: i64) -> bool {
    let heard = bucket.newest_ms <= now_ms.saturating_sub(NEWS_MS);
    bucket.events == 0 && bucket.last() <= reach && heard
}
