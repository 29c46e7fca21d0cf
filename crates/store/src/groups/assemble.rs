//! Batches made of pages: whole source transactions, by key, in the log's order.
//!
//! One pass over the headers of all events, whosever they are, because only they say where transactions end:
//!
//! ```text
//!   txid       7   7   ·   7   8   8   9   ·   ·
//!   tx_last            ✓   ✓       ✓   ✓       ✓        · an append of no transaction
//!            ▲               ▲       ▲   ▲       ▲      ▲ a boundary: nothing is open here
//! ```
//!
//! A transaction may come in several commits, with appends between them but nothing else that was captured: so
//! two can be open at a place, a transaction and an append in it. If capture set the end of one aside, the
//! first event of another ends it. What a batch does not hold is given back by going to the last boundary.
//!
//! It does not matter how the log was cut into pages: the same stretch makes the same batch.

#[cfg(test)]
mod properties;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::holdings::Holdings;
use super::key::Key;
use super::limits::{BatchUsage, Limits};
use super::page::{Entry, GroupEvent, LogPage};
use crate::offset::Position;

/// Takes pages in order and makes a batch of them.
#[derive(Debug)]
pub struct Assembler<'a> {
    held: &'a Holdings,
    limits: Limits,
    from: Position,
    /// Everything before this was looked at.
    at: Position,
    open: Open,
    taken: BatchUsage,
    /// The last boundary that was passed.
    boundary: Mark,
    groups: Vec<KeyEvents>,
    /// Where a key is in `groups`.
    places: HashMap<Key, usize>,
    /// Where the last event went: those of a transaction are often of one key.
    last: Option<usize>,
    park: Vec<Arc<GroupEvent>>,
    end: Option<End>,
}

/// What has begun and not ended.
#[derive(Debug, Default)]
struct Open {
    transaction: Option<i64>,
    append: Option<Position>,
}

/// A boundary, and what was taken before it: parked events too, and those that are letters.
#[derive(Debug, Clone, Copy)]
struct Mark {
    next: Position,
    taken: BatchUsage,
}

/// Why no more pages are wanted.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The batch goes to the last boundary.
    Whole,
    /// Not even the first transaction fits.
    TooLarge { txid: Option<i64> },
}

/// What came of it.
#[derive(Debug)]
pub enum Assembled {
    /// Work.
    Batch(Batch),
    /// No events of the partition before this place.
    Nothing {
        /// A boundary, plus one.
        next: Position,
    },
    /// A transaction's end is not in the log yet.
    Incomplete {
        /// Which.
        txid: Option<i64>,
    },
    /// A transaction has more than a batch may hold.
    TooLarge(TooLarge),
}

/// A transaction that has more than a batch may hold. Shown, it is the reason why its partition stands still,
/// without what to do about it.
#[derive(Debug, Clone, Copy)]
pub struct TooLarge {
    /// Which.
    pub txid: Option<i64>,
    /// Its events in the partition, so far as they were counted.
    pub events: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("transaction_too_large: ")?;
        match self.txid {
            Some(txid) => write!(f, "transaction {txid}")?,
            None => f.write_str("an append")?,
        }
        write!(f, " has {} events and {} bytes or more in this partition", self.events, self.bytes)
    }
}

/// A stretch of the log as one partition sees it.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The partition's `next` before it.
    pub from: Position,
    /// Its `next` after it.
    pub next: Position,
    /// Events by key, in the order of their first events.
    pub groups: Vec<KeyEvents>,
    /// Events of parked keys, to be set aside.
    pub park: Vec<Arc<GroupEvent>>,
    /// The key whose letters these are, if it is worked off again.
    pub redrive: Option<Key>,
}

/// Events of one key, in order.
#[derive(Debug, Clone)]
pub struct KeyEvents {
    /// Whose.
    pub key: Key,
    /// How often they failed.
    pub attempt: u32,
    /// At least one.
    pub events: Vec<Arc<GroupEvent>>,
}

impl KeyEvents {
    /// The same by source transaction; what no transaction wrote, by append.
    pub fn units(&self) -> impl Iterator<Item = &[Arc<GroupEvent>]> {
        self.events.chunk_by(|a, b| a.is_of_one_unit(b))
    }

    /// The unit that an event is in.
    pub fn unit_of(&self, position: Position) -> Option<&[Arc<GroupEvent>]> {
        self.units().find(|unit| unit.iter().any(|event| event.position == position))
    }
}

impl<'a> Assembler<'a> {
    /// Begins at a partition's `next`, or past it where nothing lies between. Nothing at or past the group's barrier
    /// is taken.
    pub fn new(held: &'a Holdings, limits: Limits, next: Position) -> Assembler<'a> {
        let taken = BatchUsage::default();
        Assembler {
            held,
            limits,
            from: next,
            at: next,
            open: Open::default(),
            taken,
            boundary: Mark { next, taken },
            groups: Vec::new(),
            places: HashMap::new(),
            last: None,
            park: Vec::new(),
            end: None,
        }
    }

    /// Takes the page that follows. Says whether more are wanted. What of it lies before the place that was
    /// reached is passed over.
    pub fn feed(&mut self, page: &LogPage) -> bool {
        let partition = self.held.partition.partition;
        let whole = page.wants.partitions.as_ref().is_none_or(|p| p.contains(&partition));
        let follows = page.after < self.at;
        // A page for others lacks this partition's events, and one further on those between.
        debug_assert!(whole && follows, "partition {partition} at {:?}", self.at);
        if !whole || !follows || self.end.is_some() {
            return false;
        }
        let first = page.entries.partition_point(|entry| entry.position < self.at);
        for entry in &page.entries[first..] {
            if self.stops_before(entry) {
                return false;
            }
            if let Some(event) = &entry.event
                && entry.partition == partition
                && !entry.control
                && !self.take(event)
            {
                return false;
            }
            self.at = entry.position.next();
            self.open.passed(entry);
            if self.open.nothing() && self.limits.is_reached(self.taken) {
                self.mark();
                self.end = Some(End::Whole);
                return false;
            }
        }
        self.at = self.at.max(page.scanned_to.next());
        if let Some(stop_at) = self.held.group.barrier.filter(|stop_at| self.at >= *stop_at) {
            self.stop(stop_at);
        }
        self.end.is_none()
    }

    /// What came of it. If more was wanted, the log has no more.
    pub fn finish(mut self) -> Assembled {
        if self.end.is_none() && self.open.nothing() {
            self.mark();
        }
        let Mark { next, taken } = self.boundary;
        if let Some(End::TooLarge { txid }) = self.end {
            let BatchUsage { events, bytes } = self.taken;
            return Assembled::TooLarge(TooLarge { txid, events, bytes });
        }
        match (taken.events, self.taken.events) {
            (0, 0) => Assembled::Nothing { next },
            (0, _) => Assembled::Incomplete { txid: self.open.transaction },
            (_, _) => Assembled::Batch(self.batch()),
        }
    }

    /// Whether the batch ends before an event. Notes the boundary, if there is one.
    fn stops_before(&mut self, entry: &Entry) -> bool {
        let barrier = self.held.group.barrier;
        if let Some(stop_at) = barrier.filter(|stop_at| entry.position >= *stop_at) {
            self.stop(stop_at);
            return true;
        }
        self.open.meet(entry);
        self.at = entry.position;
        if self.open.nothing() {
            self.mark();
            if self.limits.is_reached(self.taken) {
                self.end = Some(End::Whole);
            }
        }
        self.end.is_some()
    }

    /// Ends at a place that was given. It is a boundary, but if a group was begun in the middle of a
    /// transaction by hand: then that is torn where it was wished.
    fn stop(&mut self, stop_at: Position) {
        self.at = stop_at.max(self.from);
        self.mark();
        self.end = Some(End::Whole);
    }

    fn mark(&mut self) {
        self.boundary = Mark { next: self.at, taken: self.taken };
    }

    /// Takes an event of the partition. False if it does not fit any more.
    fn take(&mut self, event: &Arc<GroupEvent>) -> bool {
        self.taken.add(event.bytes());
        if !self.limits.allow(self.boundary.taken, self.taken) {
            self.end = Some(match self.boundary.taken.events {
                0 => End::TooLarge { txid: self.open.transaction.or(event.txid) },
                _ => End::Whole,
            });
            return false;
        }
        // By the word of a worker that did not move the partition on: neither handled nor parked once more.
        if self.held.dead.contains(&event.position) {
            return true;
        }
        let (host, user) = (event.host_id.as_deref(), event.user_id.as_deref());
        let place = match self.last {
            Some(place) if self.groups[place].key.is_of(host, user) => place,
            _ => {
                let key = Key::of(host, user);
                if self.held.parked.get(&key).is_some_and(|from| event.position >= *from) {
                    self.park.push(Arc::clone(event));
                    return true;
                }
                self.place(key)
            }
        };
        self.groups[place].events.push(Arc::clone(event));
        true
    }

    /// The place of a key in the list.
    fn place(&mut self, key: Key) -> usize {
        let place = *self.places.entry(key).or_insert_with_key(|key| {
            let (key, attempt) = (key.clone(), self.held.attempts_of(key));
            self.groups.push(KeyEvents { key, attempt, events: Vec::new() });
            self.groups.len() - 1
        });
        // The next event of a key that is to be parked may be past the place from where on it is.
        let ever_parked = self.held.parked.contains_key(&self.groups[place].key);
        self.last = (!ever_parked).then_some(place);
        place
    }

    /// What was taken up to the last boundary.
    fn batch(mut self) -> Batch {
        let next = self.boundary.next;
        if self.boundary.taken.events < self.taken.events {
            let kept = |events: &Vec<Arc<GroupEvent>>| {
                events.partition_point(|event| event.position < next)
            };
            for group in &mut self.groups {
                group.events.truncate(kept(&group.events));
            }
            self.groups.retain(|group| !group.events.is_empty());
            self.park.truncate(kept(&self.park));
        }
        Batch { from: self.from, next, groups: self.groups, park: self.park, redrive: None }
    }
}

impl Open {
    fn nothing(&self) -> bool {
        self.transaction.is_none() && self.append.is_none()
    }

    /// Before an event: what it cannot be part of has ended. Nothing lies between the events of an append.
    fn meet(&mut self, entry: &Entry) {
        if entry.txid.is_some() && self.transaction != entry.txid {
            self.transaction = None;
        }
        if entry.txid.is_some() || self.append != Some(entry.append_id) {
            self.append = None;
        }
    }

    /// After an event.
    fn passed(&mut self, entry: &Entry) {
        match entry.txid {
            Some(txid) => self.transaction = (!entry.tx_last).then_some(txid),
            None => self.append = (!entry.tx_last).then_some(entry.append_id),
        }
    }
}
