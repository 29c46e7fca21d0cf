//! Cutting what waits into commits. Pure.
//!
//! A commit takes whole transactions, in their order, until it has rows enough. A transaction that is
//! larger than a commit may be goes in chunks of its own.

use std::collections::VecDeque;

/// A transaction that waits, as one look saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingTransaction {
    pub(crate) txid: i64,
    /// Its rows' ids: `first_id <= id <= last_id`.
    pub(crate) first_id: i64,
    pub(crate) last_id: i64,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Whether some of it concerns streams.
    pub(crate) special: bool,
    /// Whether some of it has an order other than that of ids.
    pub(crate) nested: bool,
    /// Whether it failed before.
    pub(crate) retried: bool,
}

/// What one commit may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) rows_max: usize,
    pub(crate) bytes_max: usize,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchAction {
    /// Whole transactions in one commit.
    Whole(Vec<WaitingTransaction>),
    /// One transaction in commits of at most so many rows.
    Chunks(WaitingTransaction, usize),
}

/// A commit walks the index from its first id to its last: so many ids for each row that it takes are
/// little beside the rest of the work.
const IDS_PER_ROW_MAX: i64 = 8;
/// And so many besides.
const IDS_SLACK: i64 = 10_000;

/// Cuts what waits, which is in order.
pub(crate) fn steps(waiting: Vec<WaitingTransaction>, limits: Limits) -> VecDeque<BatchAction> {
    let mut steps = VecDeque::new();
    let mut open = Open::default();
    for transaction in waiting {
        if let Some(rows) = chunk_rows(&transaction, limits) {
            open.close(&mut steps);
            steps.push_back(BatchAction::Chunks(transaction, rows));
            continue;
        }
        if !open.has_room_for(&transaction, limits) {
            open.close(&mut steps);
        }
        open.take(transaction);
    }
    open.close(&mut steps);
    steps
}

/// How many rows at a time, if a transaction is more than a commit takes.
fn chunk_rows(transaction: &WaitingTransaction, limits: Limits) -> Option<usize> {
    let by_rows = limits.rows_max.max(1);
    let by_bytes = if transaction.bytes > limits.bytes_max && transaction.rows > 1 {
        let share = transaction.rows as u128 * limits.bytes_max as u128;
        usize::try_from(share / transaction.bytes.max(1) as u128).unwrap_or(1).max(1)
    } else {
        usize::MAX
    };
    let rows = by_rows.min(by_bytes);
    (transaction.rows > rows).then_some(rows)
}

/// The two halves of transactions that the database did not take together; none if there is one only.
pub(crate) fn halves(
    mut transactions: Vec<WaitingTransaction>,
) -> Option<(Vec<WaitingTransaction>, Vec<WaitingTransaction>)> {
    if transactions.len() < 2 {
        return None;
    }
    let second = transactions.split_off(transactions.len() / 2);
    Some((transactions, second))
}

/// The ids of a batch: from the first to the last.
pub(crate) fn ids(transactions: &[WaitingTransaction]) -> (i64, i64) {
    let first = transactions.iter().map(|transaction| transaction.first_id).min();
    let last = transactions.iter().map(|transaction| transaction.last_id).max();
    (first.unwrap_or(0), last.unwrap_or(0))
}

/// A commit that is being filled.
#[derive(Default)]
struct Open {
    transactions: Vec<WaitingTransaction>,
    rows: usize,
    bytes: usize,
    /// The ids of all of them, from the first to the last.
    first_id: i64,
    last_id: i64,
}

impl Open {
    fn has_room_for(&self, next: &WaitingTransaction, limits: Limits) -> bool {
        let Some(last) = self.transactions.last() else { return true };
        let span = self.last_id.max(next.last_id) - self.first_id.min(next.first_id);
        let rows = self.rows + next.rows;
        let rows_signed = i64::try_from(rows).unwrap_or(i64::MAX);
        rows <= limits.rows_max
            && self.bytes + next.bytes <= limits.bytes_max
            && span <= rows_signed.saturating_mul(IDS_PER_ROW_MAX).saturating_add(IDS_SLACK)
            // What failed before fails alone.
            && !next.retried
            && !last.retried
    }

    fn take(&mut self, transaction: WaitingTransaction) {
        if self.transactions.is_empty() {
            (self.first_id, self.last_id) = (transaction.first_id, transaction.last_id);
        }
        self.first_id = self.first_id.min(transaction.first_id);
        self.last_id = self.last_id.max(transaction.last_id);
        self.rows += transaction.rows;
        self.bytes += transaction.bytes;
        self.transactions.push(transaction);
    }

    fn close(&mut self, steps: &mut VecDeque<BatchAction>) {
        let open = std::mem::take(self);
        if !open.transactions.is_empty() {
            steps.push_back(BatchAction::Whole(open.transactions));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { rows_max: 10, bytes_max: 1_000 };

    fn transaction(txid: i64, rows: usize) -> WaitingTransaction {
        WaitingTransaction {
            txid,
            first_id: txid * 100,
            last_id: txid * 100 + i64::try_from(rows).expect("few rows"),
            rows,
            bytes: rows,
            special: false,
            nested: false,
            retried: false,
        }
    }

    fn cut(waiting: Vec<WaitingTransaction>) -> Vec<Vec<i64>> {
        let txids = |step: BatchAction| match step {
            BatchAction::Whole(transactions) => transactions.iter().map(|one| one.txid).collect(),
            BatchAction::Chunks(one, rows) => {
                vec![-one.txid, i64::try_from(rows).expect("few rows")]
            }
        };
        steps(waiting, LIMITS).into_iter().map(txids).collect()
    }

    #[test]
    fn transactions_are_taken_whole_and_in_order() {
        let waiting = vec![transaction(1, 4), transaction(2, 6), transaction(3, 1)];
        assert_eq!(cut(waiting), [vec![1, 2], vec![3]]);
    }

    #[test]
    fn one_that_is_too_large_goes_in_chunks_between_the_others() {
        let waiting = vec![transaction(1, 1), transaction(2, 25), transaction(3, 1)];
        assert_eq!(cut(waiting), [vec![1], vec![-2, 10], vec![3]]);
        let heavy = WaitingTransaction { bytes: 4_000, ..transaction(2, 8) };
        assert_eq!(cut(vec![heavy]), [vec![-2, 2]], "so many that they are not too heavy");
        let one_row = WaitingTransaction { bytes: 4_000, ..transaction(2, 1) };
        assert_eq!(cut(vec![one_row]), [vec![2]], "a row cannot be cut");
    }

    #[test]
    fn what_failed_before_goes_alone() {
        let retried = WaitingTransaction { retried: true, ..transaction(2, 1) };
        let waiting = vec![transaction(1, 1), retried, transaction(3, 1), transaction(4, 1)];
        assert_eq!(cut(waiting), [vec![1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn a_long_walk_over_the_index_is_a_commit_of_its_own() {
        let long = WaitingTransaction { first_id: 1, last_id: 5_000_000, ..transaction(7, 2) };
        assert_eq!(cut(vec![transaction(50_000, 1), long]), [vec![50_000], vec![7]]);
    }

    #[test]
    fn halves_keep_the_order() {
        let all = vec![transaction(1, 1), transaction(2, 1), transaction(3, 1)];
        let (first, second) = halves(all).expect("there are several");
        assert_eq!((first.len(), second[0].txid, second[1].txid), (1, 2, 3));
        assert_eq!(halves(first), None);
    }
}
