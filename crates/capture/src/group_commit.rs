//! Many transactions at the same time share a commit. Pure.
//!
//! Those who write one after the other wait for each commit, and what they did goes out at once. Where many
//! write at the same time, a commit for every few of them would take the processor and the disk from
//! those who make them: after one, the next is not begun for a while, for longer the more it took.

use std::time::Duration;

/// Transactions of one commit that are a crowd: more than one or two clients make that wait for their
/// commits one after the other.
pub(crate) const CROWD_MIN: usize = 4;
/// After a crowd, the pause is so many times as long as the work…
const PAUSE_FACTOR: u32 = 4;
/// …and not longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How long to pause after so many transactions, which took so long to bring into the log.
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
    fn a_few_do_not_wait_and_a_crowd_waits_as_it_took() {
        let took = Duration::from_millis(2);
        assert_eq!(pause(CROWD_MIN - 1, took), Duration::ZERO);
        assert_eq!(pause(CROWD_MIN, took), took * PAUSE_FACTOR);
        assert_eq!(pause(CROWD_MIN, Duration::from_secs(1)), PAUSE_MAX);
    }
}
