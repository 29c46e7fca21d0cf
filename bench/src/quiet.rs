//! Measuring beside others: on a shared machine, a measurement during somebody's build is worth
//! nothing, so with patience it waits for a quiet moment and is repeated if that did not last.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cpu;

/// Below this share of all cores used by others, a measurement counts as undisturbed. The kernel's
/// own threads take a few per cent.
pub(crate) const OTHERS_SHARE_MAX: f64 = 0.1;
const LOOK: Duration = Duration::from_millis(500);

/// A measurement that knows what share of all cores others used meanwhile.
pub(crate) trait Disturbed {
    fn others_share(&self) -> f64;
}

/// Measures once others are quiet, and again if they were not; gives up after `patience` and
/// returns the least disturbed. With no patience, measures once.
pub(crate) fn measure<T: Disturbed>(
    patience: Duration,
    mut measure: impl FnMut() -> Result<T>,
) -> Result<T> {
    let sleep = |_: &mut (), duration| {
        thread::sleep(duration);
        Ok(())
    };
    measure_on(patience, &mut (), sleep, |()| measure())
}

/// The same for a subject that must be looked after while it waits: `idle` does that for so long.
pub(crate) fn measure_on<S, T: Disturbed>(
    patience: Duration,
    subject: &mut S,
    mut idle: impl FnMut(&mut S, Duration) -> Result<()>,
    mut measure: impl FnMut(&mut S) -> Result<T>,
) -> Result<T> {
    let gives_up = Instant::now() + patience;
    let mut best: Option<T> = None;
    loop {
        wait(gives_up, || idle(subject, LOOK))?;
        let measured = measure(subject)?;
        let best_share = best.as_ref().map_or(f64::INFINITY, Disturbed::others_share);
        let best_so_far = match best.take() {
            Some(earlier) if best_share <= measured.others_share() => earlier,
            _ => measured,
        };
        if best_so_far.others_share() < OTHERS_SHARE_MAX || Instant::now() >= gives_up {
            return Ok(best_so_far);
        }
        best = Some(best_so_far);
    }
}

/// Returns when the machine has been idle for a moment, or at `gives_up`.
fn wait(gives_up: Instant, mut look: impl FnMut() -> Result<()>) -> Result<()> {
    let cores = thread::available_parallelism()?.get() as f64;
    while Instant::now() < gives_up {
        let before = cpu::machine_seconds()?;
        let looked_from = Instant::now();
        look()?;
        let busy = cpu::machine_seconds()? - before;
        if busy / (looked_from.elapsed().as_secs_f64() * cores) < OTHERS_SHARE_MAX {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Disturbed for f64 {
        fn others_share(&self) -> f64 {
            *self
        }
    }

    #[test]
    fn without_patience_it_measures_once() -> Result<()> {
        let mut shares = [0.9, 0.0].into_iter();
        let measured = measure(Duration::ZERO, || Ok(shares.next().unwrap_or(1.0)))?;
        assert_eq!((measured, shares.len()), (0.9, 1));
        Ok(())
    }
}
