//! Rate limits: how often an identity or an address may ask.
//!
//! One number for each: the time at which it would have used up what it asked for so far (the generic
//! cell rate algorithm). Those who have not asked for a while take no memory, and the number of those
//! who have is bounded.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::options::Rate;

/// Entries that one table holds, before those who have paused long enough are forgotten.
const ENTRIES_MAX: usize = 100_000;

/// How often each of many may ask.
#[derive(Debug)]
pub struct Rates<K>(Mutex<State<K>>);

#[derive(Debug)]
struct State<K> {
    rate: Rate,
    /// When each would have used up what it asked for.
    used_up: HashMap<K, Instant>,
}

impl<K: Hash + Eq> Rates<K> {
    pub fn new(rate: Rate) -> Rates<K> {
        Rates(Mutex::new(State { rate, used_up: HashMap::new() }))
    }

    /// Changes how often.
    pub fn set(&self, rate: Rate) {
        self.state().rate = rate;
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one. The error is how long to wait for the next.
    pub fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        let State { rate: Rate { per_second, burst }, used_up } = &mut *state;
        if *per_second == 0 {
            return Ok(());
        }
        let each = Duration::from_secs(1) / *per_second;
        let allowance = each * (*burst).max(1);
        if used_up.len() >= ENTRIES_MAX && !used_up.contains_key(&key) {
            used_up.retain(|_, at| *at > now);
            if used_up.len() >= ENTRIES_MAX {
                // So many at once is an attack, and the newcomers are the likely ones.
                return Err(each);
            }
        }
        let entry = used_up.entry(key).or_insert(now);
        let next = (*entry).max(now) + each;
        if next > now + allowance {
            return Err(next - (now + allowance));
        }
        *entry = next;
        Ok(())
    }

    /// Whether one could be taken now.
    pub fn check(&self, key: &K, now: Instant) -> Result<(), Duration> {
        let state = self.state();
        let State { rate: Rate { per_second, burst }, used_up } = &*state;
        if *per_second == 0 {
            return Ok(());
        }
        let each = Duration::from_secs(1) / *per_second;
        let next = used_up.get(key).map_or(now, |at| (*at).max(now)) + each;
        let allowed = now + each * (*burst).max(1);
        if next > allowed { Err(next - allowed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn never_more_than_the_burst_and_the_rate(
            pauses_ms in proptest::collection::vec(0u64..40, 1..200),
            per_second in 1u32..200,
            burst in 1u32..20,
        ) {
            let rates = Rates::new(Rate { per_second, burst });
            let start = Instant::now();
            let (mut now, mut taken) = (start, 0u32);
            for pause in pauses_ms {
                now += Duration::from_millis(pause);
                match rates.take("someone", now) {
                    Ok(()) => taken += 1,
                    // Who waits as told is served.
                    Err(wait) => proptest::prop_assert!(rates.check(&"someone", now + wait).is_ok()),
                }
                let elapsed = (now - start).as_secs_f64();
                let most = f64::from(burst) + elapsed * f64::from(per_second) + 1e-6;
                proptest::prop_assert!(f64::from(taken) <= most, "{taken} in {elapsed} s");
            }
        }
    }

    #[test]
    fn one_does_not_use_up_what_is_anothers() {
        let rates = Rates::new(Rate { per_second: 1, burst: 2 });
        let now = Instant::now();
        assert!(rates.take("a", now).is_ok() && rates.take("a", now).is_ok());
        assert_eq!(rates.take("a", now), Err(Duration::from_secs(1)));
        assert!(rates.take("b", now).is_ok());
        assert!(rates.take("a", now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn no_rate_is_no_limit() {
        let rates = Rates::new(Rate::UNLIMITED);
        let now = Instant::now();
        assert!((0..10_000).all(|_| rates.take("a", now).is_ok()));
    }
}
