//! `Stream-Cursor`: lets caches collapse the requests of many readers without ever serving one of
//! them the same answer for ever.
//!
//! The cursor counts intervals of 20 s. A client sends back the cursor it got, so requests of one
//! interval share a URL. When the client's cursor is not behind the clock, the answer's must be
//! strictly greater, with jitter, or a cached answer could lead back to itself.

use rand::Rng;

/// 2024-10-09 00:00:00 UTC.
const EPOCH_S: i64 = 1_728_432_000;
const INTERVAL_S: i64 = 20;
/// The jitter, at most: an hour of intervals.
const JITTER_INTERVALS_MAX: u64 = 180;

/// The number of the interval that `now_ms` lies in.
pub fn interval(now_ms: i64) -> u64 {
    u64::try_from((now_ms / 1000 - EPOCH_S) / INTERVAL_S).unwrap_or(0)
}

/// The cursor that a client sent. What is not one counts as none.
pub fn parse(client: Option<&str>) -> Option<u64> {
    client.and_then(|text| text.parse().ok())
}

/// The cursor to answer a client with.
pub fn next(client: Option<u64>, now_ms: i64, random: &mut impl Rng) -> u64 {
    let now = interval(now_ms);
    match client {
        Some(theirs) if theirs >= now => {
            theirs.saturating_add(random.random_range(1..=JITTER_INTERVALS_MAX))
        }
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_cursor_that_is_not_behind_is_answered_with_a_greater_one() {
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        let now_ms = (EPOCH_S + 100 * INTERVAL_S) * 1000;
        for behind in [None, Some("99"), Some("junk")] {
            assert_eq!(next(parse(behind), now_ms, &mut random), 100);
        }
        for theirs in [100, 101, 5_000] {
            assert!(next(parse(Some(&theirs.to_string())), now_ms, &mut random) > theirs);
        }
    }
}
