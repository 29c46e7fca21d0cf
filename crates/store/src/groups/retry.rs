//! How long to wait before something that failed is tried again.

use std::time::Duration;

use rand::Rng;

/// The wait before an attempt, the first being 1: doubled each time up to a cap, half of it by chance, so that
/// those who failed together do not come back together.
pub fn retry_in(attempt: u32, base: Duration, cap: Duration, rng: &mut impl Rng) -> Duration {
    let doublings = attempt.saturating_sub(1).min(20);
    let whole = base.saturating_mul(1 << doublings).min(cap);
    whole.mul_f64(rng.random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_capped() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(30));
        let mut rng = rand::rng();
        for (attempt, whole) in [(1, 100), (2, 200), (5, 1_600), (40, 30_000), (u32::MAX, 30_000)] {
            let wait = retry_in(attempt, base, cap, &mut rng);
            let whole = Duration::from_millis(whole);
            assert!(wait <= whole && wait >= whole / 2, "{attempt}: {wait:?}");
        }
    }
}
