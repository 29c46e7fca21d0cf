//! Whether the node can serve, as it looked a moment ago.
//!
//! Anyone may ask `/readyz`, as often as they like. So the store is asked now and then by the node itself,
//! and who asks the node is told what came of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use tidewire_store::{Position, SharedStore};

/// How often the store is asked where its tip is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to say so before the node counts as not ready.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// An answer that is older says nothing of the store: the node itself does not get on.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// What the store said last.
#[derive(Debug)]
pub(crate) struct Readiness {
    seen: Mutex<LastProbe>,
}

#[derive(Debug, Clone, Copy)]
struct LastProbe {
    at: Instant,
    tip: Result<Position, &'static str>,
}

impl Readiness {
    /// The store has just said where its tip is.
    pub(crate) fn new(tip: Position) -> Readiness {
        Readiness { seen: Mutex::new(LastProbe { at: Instant::now(), tip: Ok(tip) }) }
    }

    /// Where the store's tip was a moment ago, or why the node cannot serve.
    pub(crate) fn tip(&self, now: Instant) -> Result<Position, &'static str> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(seen.at) > STALE_AFTER {
            return Err("the store was not asked for a while");
        }
        seen.tip
    }

    fn note(&self, tip: Result<Position, &'static str>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = tip
            && seen.tip.is_ok()
        {
            tracing::warn!(why, "not ready");
        } else if tip.is_ok() && seen.tip.is_err() {
            tracing::info!("ready again");
        }
        *seen = LastProbe { at: Instant::now(), tip };
    }
}

/// Asks the store now and then, until the node stops.
pub(crate) async fn keep(store: SharedStore, readiness: Arc<Readiness>, stop: CancellationToken) {
    let mut round = tokio::time::interval(LOOK_EVERY);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            asked = tokio::time::timeout(LOOK_TIMEOUT, store.tip()) => asked,
        };
        readiness.note(match asked {
            Ok(Ok(tip)) => Ok(tip),
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not read the store's latest offset");
                Err("the store does not answer")
            }
            Err(_) => Err("the store takes too long to answer"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_said_holds_for_a_while() {
        let readiness = Readiness::new(Position::new(7));
        let now = Instant::now();
        assert_eq!(readiness.tip(now), Ok(Position::new(7)));
        assert!(readiness.tip(now + STALE_AFTER + LOOK_EVERY).is_err(), "nobody looked since");
        readiness.note(Err("away"));
        assert_eq!(readiness.tip(now), Err("away"));
        readiness.note(Ok(Position::new(8)));
        assert_eq!(readiness.tip(now), Ok(Position::new(8)));
    }
}
