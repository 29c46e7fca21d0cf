//! From a read to the stream of events: what the read saw is skipped, the rest is applied.

use super::messages::AskId;
use super::transaction::Transaction;
use super::unsettled::RelevantTransactions;
use crate::position::Position;
use crate::snapshot::Snapshot;

/// A read that was answered, until everything that it saw has passed by in the log.
#[derive(Debug)]
pub(super) struct Reading {
    tip: Position,
    snapshot: Snapshot,
    /// Where all that it saw is in the log; `mark >= tip`.
    mark: Option<Position>,
    /// Whether those who wait are told without a position.
    pub(super) hurried: bool,
}

impl Reading {
    pub(super) fn new(tip: Position, snapshot: Snapshot, settled: bool) -> Reading {
        Reading { tip, snapshot, mark: settled.then_some(tip), hurried: false }
    }

    /// Whether its rows have in them what a transaction did. One whose first event is in the log by
    /// the tip was committed, and so seen whole, though it may go on behind the tip.
    pub(super) fn saw(&self, transaction: &Transaction) -> bool {
        self.snapshot.saw(self.tip, transaction.first, Some(transaction.txid))
    }

    /// Takes the position by which all that it saw is in the log, the first one it is told.
    pub(super) fn mark(&mut self, mark: Position) -> Position {
        *self.mark.get_or_insert(mark.max(self.tip))
    }

    /// Where it waits to come to, if that is known.
    pub(super) fn awaited(&self) -> Option<Position> {
        self.mark
    }

    /// Whether all that it saw has passed by.
    pub(super) fn is_settled(&self, position: Position) -> bool {
        self.mark.is_some_and(|mark| mark <= position)
    }
}

/// A reading of what is kept of a query, and what concerned the query since.
#[derive(Debug)]
pub(super) struct Settling {
    pub(super) ask: AskId,
    pub(super) reading: Reading,
    pub(super) told: bool,
    /// The last event that concerned the query and was seen, or the tip: the rows are not those of an
    /// earlier position.
    seen_last: Position,
    /// The first event that concerned the query and was not seen, where it is run again: the rows are
    /// not those of this position or a later one.
    unseen_first: Option<Position>,
}

impl Settling {
    /// Of the transactions that concern the query, those that came before the answer were noted.
    pub(super) fn new(ask: AskId, reading: Reading, noted: &RelevantTransactions) -> Settling {
        let seen_last = reading.tip;
        let mut settling = Settling { ask, reading, told: false, seen_last, unseen_first: None };
        for by in &noted.each {
            settling.judge(by);
        }
        if let Some((first, last)) = noted.crowd {
            settling.judge_crowd(first, last);
        }
        settling
    }

    /// The first thing that happened to the query and is not in the rows.
    pub(super) fn unseen_first(&self) -> Option<Position> {
        self.unseen_first
    }

    /// A transaction that concerns the query is in the log.
    pub(super) fn judge(&mut self, by: &Transaction) {
        if self.reading.saw(by) {
            self.seen_last = self.seen_last.max(by.last);
        } else {
            self.unseen_first =
                Some(self.unseen_first.map_or(by.first, |first| first.min(by.first)));
        }
    }

    /// Transactions that concern the query are in the log, and it is not known which.
    fn judge_crowd(&mut self, first: Position, last: Position) {
        self.seen_last = self.seen_last.max(last);
        if last > self.reading.tip {
            self.unseen_first = Some(self.unseen_first.map_or(first, |known| known.min(first)));
        }
    }

    /// A position at which the rows are exact, if there is one: between the last transaction that was
    /// seen and the first that was not.
    pub(super) fn exact_at(&self, position: Position) -> Option<Position> {
        match self.unseen_first {
            None => Some(position),
            Some(unseen) => (self.seen_last < unseen).then(|| Position(unseen.0 - 1)),
        }
    }
}
