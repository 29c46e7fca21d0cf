//! How long to wait before trying again: exponential, with full jitter.
//!
//! The wait is random between zero and a ceiling that doubles, so that clients which lost the same server at the
//! same moment reconnect spread out instead of in waves.

use std::time::Duration;

use rand::Rng;

/// Waits between attempts. `base <= ceiling <= cap`.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    ceiling: Duration,
}

impl Backoff {
    /// Waits of up to `base` at first, and never more than `cap`.
    pub fn new(base: Duration, cap: Duration) -> Backoff {
        Backoff { base: base.min(cap), cap, ceiling: base.min(cap) }
    }

    /// The wait before the next attempt. The randomness comes from the caller, so that tests can
    /// seed it.
    pub fn next_wait(&mut self, rng: &mut impl Rng) -> Duration {
        let wait = jitter(self.ceiling, rng);
        self.ceiling = (self.ceiling * 2).min(self.cap);
        wait
    }

    /// Something worked: the next wait is short again.
    pub fn reset(&mut self) {
        self.ceiling = self.base;
    }
}

/// Any duration from zero to `ceiling`.
pub fn jitter(ceiling: Duration, rng: &mut impl Rng) -> Duration {
    ceiling.mul_f64(rng.random_range(0.0..=1.0))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn the_ceiling_doubles_up_to_the_cap_and_falls_back_on_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        let mut rng = StdRng::seed_from_u64(1);
        let mut ceilings = Vec::new();
        for _ in 0..4 {
            let ceiling = backoff.ceiling;
            assert!(backoff.next_wait(&mut rng) <= ceiling);
            ceilings.push(ceiling.as_millis());
        }
        assert_eq!(ceilings, [100, 200, 350, 350]);
        backoff.reset();
        assert_eq!(backoff.ceiling, Duration::from_millis(100));
    }

    #[test]
    fn waits_are_spread_over_the_whole_range() {
        let mut rng = StdRng::seed_from_u64(7);
        let ceiling = Duration::from_secs(1);
        let waits: Vec<_> = (0..1_000).map(|_| jitter(ceiling, &mut rng)).collect();
        assert!(waits.iter().any(|wait| *wait < ceiling / 10));
        assert!(waits.iter().any(|wait| *wait > ceiling / 10 * 9));
    }
}
