//! Waiting until something is true.
//!
//! A story never sleeps and hopes: it looks again until it sees what it waits for. The deadline is
//! there to end a test that hangs, so it is far longer than anything takes on a loaded machine.

use std::time::Duration;

use tokio::time::Instant;

/// No story waits longer for one thing. Shorter than nextest's patience with the whole test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks: short enough not to be noticed, long enough not to load the machine.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks until there is something to see, and returns it. `what` completes "did not happen: …".
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "did not happen within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The outcome of something that must come to an end by itself.
pub async fn within_patience<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("did not end within {PATIENCE:?}: {what}"),
    }
}
