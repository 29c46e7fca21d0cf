//! What a reader of the database has seen, transaction by transaction.

use crate::position::Position;

/// Which transactions a read saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Snapshot {
    /// PostgreSQL: those before `xmin`, and those before `xmax` that were not running.
    Transactions {
        /// All below had ended.
        xmin: u64,
        /// None from here on had begun.
        xmax: u64,
        /// Those between that had not ended, in order.
        running: Box<[u64]>,
    },
    /// SQLite: those whose events are in the log by the position that was read with the rows.
    Position,
}

impl Snapshot {
    /// Reads what `pg_current_snapshot()` writes: `10:20:10,14`.
    pub fn parse(text: &str) -> Option<Snapshot> {
        let mut parts = text.splitn(3, ':');
        let xmin = parts.next()?.parse().ok()?;
        let xmax = parts.next()?.parse().ok()?;
        let listed = parts.next()?;
        let listed = listed.split(',').filter(|id| !id.is_empty());
        let mut running = listed.map(|id| id.parse().ok()).collect::<Option<Vec<u64>>>()?;
        running.sort_unstable();
        Some(Snapshot::Transactions { xmin, xmax, running: running.into() })
    }

    /// Whether a read that found the log's end at `tip` saw what an event at `at` of this transaction
    /// did. What is in the log is visible to every later snapshot (invariant 10).
    pub fn saw(&self, tip: Position, at: Position, txid: Option<i64>) -> bool {
        if at <= tip {
            return true;
        }
        let txid = txid.and_then(|txid| u64::try_from(txid).ok());
        match (self, txid) {
            (Snapshot::Transactions { xmin, xmax, running }, Some(txid)) => {
                txid < *xmin || (txid < *xmax && running.binary_search(&txid).is_err())
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_saw_what_had_ended_when_it_was_taken() {
        let snapshot = Snapshot::parse("10:20:12,14").expect("a snapshot");
        let saw = |txid| snapshot.saw(Position(5), Position(6), Some(txid));
        assert!(saw(9) && saw(10) && saw(13) && saw(19));
        assert!(!saw(12) && !saw(14) && !saw(20));
        assert!(
            snapshot.saw(Position(5), Position(5), Some(20)),
            "it is in the log, so it was visible"
        );
        assert!(!snapshot.saw(Position(5), Position(6), None));
    }

    #[test]
    fn a_place_says_all_where_rows_and_log_are_one() {
        assert!(Snapshot::Position.saw(Position(5), Position(5), Some(1)));
        assert!(!Snapshot::Position.saw(Position(5), Position(6), Some(1)));
    }

    #[test]
    fn what_is_no_snapshot_is_not_read() {
        for text in ["", "1", "1:2", "a:b:", "1:2:x"] {
            assert_eq!(Snapshot::parse(text), None, "{text}");
        }
        assert!(Snapshot::parse("1:2:").is_some());
    }
}
