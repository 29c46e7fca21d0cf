//! Letters of one key that are worked off together: whole source transactions, in order.

use std::sync::Arc;

use super::limits::BatchUsage;
use super::page::GroupEvent;
use crate::log::PageLimit;

/// Takes a key's letters in order until there are enough.
#[derive(Debug)]
pub struct LetterBatch {
    limit: PageLimit,
    events: Vec<Arc<GroupEvent>>,
    taken: BatchUsage,
    /// What was taken of units that are known to be whole.
    whole: usize,
}

impl LetterBatch {
    pub fn new(limit: PageLimit) -> LetterBatch {
        LetterBatch { limit, events: Vec::new(), taken: BatchUsage::default(), whole: 0 }
    }

    /// Takes the next one. False if the batch ends before it, or before the transaction that it is of: with the first
    /// transaction that brings it to so many letters, or before the one that would bring it past so many bytes. The
    /// first is taken whole, however large.
    pub fn take(&mut self, event: GroupEvent) -> bool {
        if self.events.last().is_some_and(|last| !last.is_of_one_unit(&event)) {
            self.whole = self.events.len();
            if self.taken.events >= self.limit.events {
                return false;
            }
        }
        self.taken.add(event.bytes());
        if self.whole > 0 && self.taken.bytes > self.limit.bytes {
            self.events.truncate(self.whole);
            return false;
        }
        self.events.push(Arc::new(event));
        true
    }

    /// All that were taken. If more were wanted, there are no more.
    pub fn finish(self) -> Vec<Arc<GroupEvent>> {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::offset::Position;

    fn letter(number: u64, txid: i64, bytes: usize) -> GroupEvent {
        GroupEvent {
            position: Position::new(number),
            append_id: Position::new(number),
            stream: String::new(),
            host_id: None,
            user_id: None,
            txid: Some(txid),
            tx_last: false,
            created_at_ms: 0,
            trace_context: None,
            change: None,
            payload: Some(Bytes::from(vec![0; bytes])),
            content_type: None,
        }
    }

    /// How many of letters, each by its transaction, are worked off together.
    fn taken(events: usize, bytes: usize, letters: &[(i64, usize)]) -> usize {
        let mut batch = LetterBatch::new(PageLimit { events, bytes });
        for (number, &(txid, bytes)) in (1..).zip(letters) {
            if !batch.take(letter(number, txid, bytes)) {
                break;
            }
        }
        batch.finish().len()
    }

    #[test]
    fn letters_end_with_the_transaction_that_brings_them_to_the_number() {
        let letters = [(1, 0), (1, 0), (2, 0), (2, 0), (2, 0), (3, 0)];
        for (events, together) in [(1, 2), (2, 2), (3, 5), (5, 5), (6, 6), (100, 6)] {
            assert_eq!(taken(events, 1 << 20, &letters), together, "{events}");
        }
    }

    #[test]
    fn letters_end_before_the_transaction_that_would_have_too_many_bytes() {
        let letters = [(1, 100), (1, 100), (2, 100), (2, 100)];
        for (bytes, together) in [(1, 2), (600, 2), (1_199, 2), (1_200, 4)] {
            assert_eq!(taken(100, bytes, &letters), together, "{bytes}");
        }
    }
}
