//! What a member has done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tidewire_store::Position;

use crate::batch_run::Counts;

/// The time over which the rate is taken.
const RATE_OVER: Duration = Duration::from_secs(10);

/// What a member has done since it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Events that took effect.
    pub events: u64,
    /// Batches that were committed.
    pub batches: u64,
    /// Runs of the handler in them.
    pub keys: u64,
    /// Runs that failed and were repeated.
    pub retries: u64,
    /// Events that became dead letters.
    pub dead: u64,
    /// Events that were parked behind them.
    pub parked: u64,
    /// Letters that were worked off again.
    pub redriven: u64,
    /// Changes of its share.
    pub rebalances: u64,
    /// Events a second, of the last ten.
    pub rate: f64,
    /// Its partitions.
    pub partitions: Vec<PartitionStats>,
}

/// A partition that a member works on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartitionStats {
    /// Its number.
    pub partition: u32,
    /// The first position that is not consumed.
    pub next: u64,
    /// Positions of the log that it is behind: an upper bound of its events.
    pub lag_offsets: u64,
    /// The age of the oldest event that it has not consumed, in seconds; none if there is none.
    pub lag_seconds: Option<f64>,
}

/// Where the tasks of a member count.
#[derive(Debug)]
pub(crate) struct SharedStats {
    counted: Mutex<MemberCounts>,
}

#[derive(Debug)]
struct MemberCounts {
    stats: Stats,
    partitions: BTreeMap<u32, PartitionPosition>,
    tip: Position,
    began: Instant,
    /// Seconds since it began, and the events of each; none older than the rate is taken over.
    recent: VecDeque<(u64, u64)>,
}

/// How far a partition is.
#[derive(Debug, Clone, Copy)]
struct PartitionPosition {
    next: Position,
    /// Everything before this was looked at.
    seen: Position,
    /// When the oldest event was made that is in hand.
    oldest_ms: Option<i64>,
}

impl SharedStats {
    pub(crate) fn new() -> SharedStats {
        SharedStats {
            counted: Mutex::new(MemberCounts {
                stats: Stats::default(),
                partitions: BTreeMap::new(),
                tip: Position::START,
                began: Instant::now(),
                recent: VecDeque::new(),
            }),
        }
    }

    fn counted(&self) -> MutexGuard<'_, MemberCounts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch was committed.
    pub(crate) fn committed(&self, counts: Counts) {
        let mut counted = self.counted();
        let stats = &mut counted.stats;
        stats.batches += 1;
        stats.events += counts.events;
        stats.keys += counts.keys;
        stats.dead += counts.dead;
        stats.parked += counts.parked;
        stats.redriven += counts.redriven;
        let second = counted.began.elapsed().as_secs();
        match counted.recent.back_mut() {
            Some((last, events)) if *last == second => *events += counts.events,
            _ => counted.recent.push_back((second, counts.events)),
        }
        counted.trim(second);
    }

    /// Runs of keys failed and will be repeated.
    pub(crate) fn failed(&self, keys: usize) {
        self.counted().stats.retries += keys as u64;
    }

    /// The share changed.
    pub(crate) fn rebalanced(&self) {
        self.counted().stats.rebalances += 1;
    }

    /// The log's end, as it was seen last.
    pub(crate) fn tip(&self, tip: Position) {
        let mut counted = self.counted();
        counted.tip = counted.tip.max(tip);
    }

    /// How far a partition is, what was looked at beyond that, and the oldest event in hand.
    pub(crate) fn position(
        &self,
        partition: u32,
        next: Position,
        seen: Position,
        oldest: Option<i64>,
    ) {
        let position = PartitionPosition { next, seen: seen.max(next), oldest_ms: oldest };
        self.counted().partitions.insert(partition, position);
    }

    /// A partition is somebody else's.
    pub(crate) fn left(&self, partition: u32) {
        self.counted().partitions.remove(&partition);
    }

    /// The first place that any of its partitions may still want to read.
    pub(crate) fn read_from(&self) -> Option<Position> {
        self.counted().partitions.values().map(|position| position.seen).min()
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut counted = self.counted();
        let second = counted.began.elapsed().as_secs();
        counted.trim(second);
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let tip = counted.tip;
        let told = |(partition, position): (&u32, &PartitionPosition)| PartitionStats {
            partition: *partition,
            next: position.next.number(),
            lag_offsets: tip.next().number().saturating_sub(position.seen.number()),
            lag_seconds: position.oldest_ms.map(|made| seconds(now_ms.saturating_sub(made))),
        };
        let events: u64 = counted.recent.iter().map(|(_, events)| events).sum();
        let over = counted.began.elapsed().min(RATE_OVER).max(Duration::from_secs(1));
        Stats {
            rate: ratio(events, over),
            partitions: counted.partitions.iter().map(told).collect(),
            ..counted.stats.clone()
        }
    }
}

impl MemberCounts {
    fn trim(&mut self, second: u64) {
        while self.recent.front().is_some_and(|(old, _)| old + RATE_OVER.as_secs() <= second) {
            self.recent.pop_front();
        }
    }
}

fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs_f64()
}

fn ratio(events: u64, over: Duration) -> f64 {
    // Events of ten seconds are far below where a float loses count.
    f64::from(u32::try_from(events).unwrap_or(u32::MAX)) / over.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_counted() {
        let tally = SharedStats::new();
        tally.committed(Counts { events: 7, keys: 3, dead: 1, parked: 2, redriven: 0 });
        tally.committed(Counts { events: 1, keys: 1, dead: 0, parked: 0, redriven: 1 });
        tally.failed(2);
        let stats = tally.stats();
        assert_eq!((stats.batches, stats.events, stats.keys), (2, 8, 4));
        assert_eq!((stats.retries, stats.dead, stats.parked, stats.redriven), (2, 1, 2, 1));
        assert!(stats.rate > 0.0);
    }

    #[test]
    fn a_partition_that_has_seen_everything_is_not_behind() {
        let tally = SharedStats::new();
        tally.tip(Position::new(10));
        tally.position(3, Position::new(4), Position::new(11), None);
        tally.position(5, Position::new(4), Position::new(4), Some(0));
        let partitions = tally.stats().partitions;
        assert_eq!((partitions[0].lag_offsets, partitions[0].lag_seconds), (0, None));
        assert_eq!(partitions[1].lag_offsets, 7);
        assert!(partitions[1].lag_seconds.is_some_and(|lag| lag > 0.0));
        tally.left(5);
        assert_eq!(tally.read_from(), Some(Position::new(11)));
    }
}
