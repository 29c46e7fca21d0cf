//! Transactions that come in crowds. Pure.
//!
//! While they come one by one each goes into the log at once. When they come in crowds the next commit
//! waits a little, for longer the more one costs: so they share it instead of taking the processor from
//! those who make them.

use std::time::Duration;

/// Transactions of one commit that are a crowd: more than one or two clients make that wait for their
/// commits one after the other.
pub(crate) const CROWD_MIN: usize = 4;
/// After a crowd, the pause is so many times as long as the work…
const PAUSE_FACTOR: u32 = 4;
/// …and not longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How long to wait with the next commit after one that took so long, of so many transactions.
pub(crate) fn pause(transactions: usize, took: Duration) -> Duration {
    match transactions {
        ..CROWD_MIN => Duration::ZERO,
        _ => took.saturating_mul(PAUSE_FACTOR).min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_crowd_it_pauses_for_longer_the_more_a_commit_costs() {
        for (took_ms, wait_ms) in [(2, 8), (3, 12), (50, 20)] {
            let took = Duration::from_millis(took_ms);
            assert_eq!(pause(CROWD_MIN, took), Duration::from_millis(wait_ms));
            assert_eq!(pause(CROWD_MIN - 1, took), Duration::ZERO);
        }
    }
}
