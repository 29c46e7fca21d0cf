//! How much a batch holds. One rule for the log and for letters, whoever hands them out.

use crate::log::PageLimit;

/// What bounds a batch. A source transaction is never torn: alone it may have more than a batch has otherwise, up
/// to limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A batch ends with the first whole transaction that brings it to so many events,
    pub batch_events: usize,
    /// or before the one that would bring it past so many bytes.
    pub batch_bytes: usize,
    /// A transaction with more events in the partition is too large,
    pub transaction_events_max: usize,
    /// and so is one with more bytes, but for a single event.
    pub transaction_bytes_max: usize,
}

/// How much was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchUsage {
    pub events: usize,
    pub bytes: usize,
}

impl BatchUsage {
    pub fn add(&mut self, bytes: usize) {
        self.events += 1;
        self.bytes += bytes;
    }
}

impl Limits {
    /// All that is there, unless it has more bytes than these.
    pub fn of_bytes(bytes_max: usize) -> Limits {
        Limits {
            batch_events: usize::MAX,
            batch_bytes: bytes_max,
            transaction_events_max: usize::MAX,
            transaction_bytes_max: bytes_max,
        }
    }

    /// Of letters. Those of one transaction are together, however many they are.
    pub fn letters(&self) -> PageLimit {
        PageLimit { events: self.batch_events, bytes: self.batch_bytes }
    }

    /// Whether whole transactions with so much are a batch.
    pub fn is_reached(&self, whole: BatchUsage) -> bool {
        whole.events > 0 && (whole.events >= self.batch_events || whole.bytes >= self.batch_bytes)
    }

    /// Whether a transaction may have what was taken since the whole ones, and the batch all of it. With that a batch
    /// never has more events than the larger of both limits.
    pub fn allow(&self, whole: BatchUsage, all: BatchUsage) -> bool {
        let fits_alone = all.events - whole.events <= self.transaction_events_max
            && all.bytes - whole.bytes <= self.transaction_bytes_max;
        let events_max = self.batch_events.max(self.transaction_events_max);
        let fits_beside = all.events <= events_max && all.bytes <= self.batch_bytes;
        all.events == 1 || (fits_alone && (whole.events == 0 || fits_beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        batch_events: 10,
        batch_bytes: 1_000,
        transaction_events_max: 4,
        transaction_bytes_max: 3_000,
    };

    fn taken(events: usize, bytes: usize) -> BatchUsage {
        BatchUsage { events, bytes }
    }

    #[test]
    fn a_transaction_alone_may_have_more_bytes_than_a_batch_and_no_more_events_than_it_may() {
        let none = BatchUsage::default();
        assert!(LIMITS.allow(none, taken(4, 3_000)));
        assert!(!LIMITS.allow(none, taken(4, 3_001)) && !LIMITS.allow(none, taken(5, 10)));
        assert!(LIMITS.allow(none, taken(1, 1 << 30)), "a single event cannot be made smaller");
    }

    #[test]
    fn what_a_transaction_may_have_does_not_depend_on_what_is_before_it() {
        assert!(LIMITS.allow(taken(3, 100), taken(7, 1_000)));
        assert!(!LIMITS.allow(taken(3, 100), taken(8, 200)), "five in one transaction");
        assert!(!LIMITS.allow(taken(3, 100), taken(4, 1_001)), "it goes alone");
        assert!(!LIMITS.allow(taken(9, 100), taken(11, 200)), "the batch would be too large");
    }

    #[test]
    fn a_batch_is_one_by_events_or_by_bytes() {
        assert!(!LIMITS.is_reached(taken(9, 999)));
        assert!(LIMITS.is_reached(taken(10, 10)) && LIMITS.is_reached(taken(1, 1_000)));
        assert!(!Limits { batch_bytes: 0, ..LIMITS }.is_reached(BatchUsage::default()));
    }
}
