//! How many faults a story goes through, when they strike, and for how long it goes on.

use std::time::Duration;

use rand::Rng as _;

/// Rounds of faults: `usual`, or as many as `TIDEWIRE_FAULT_ROUNDS` says (`./test faults`).
pub fn rounds(usual: usize) -> usize {
    match std::env::var("TIDEWIRE_FAULT_ROUNDS") {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("TIDEWIRE_FAULT_ROUNDS={text} is not a number"))
        }
        Err(_) => usual,
    }
}

/// For how long a story goes round and round: some seconds, or as many minutes as
/// `TIDEWIRE_SOAK_MINUTES` says (`./test soak`).
pub fn soak() -> Duration {
    let Ok(text) = std::env::var("TIDEWIRE_SOAK_MINUTES") else { return Duration::from_secs(5) };
    let minutes = text.parse::<u64>();
    let minutes = minutes.unwrap_or_else(|_| panic!("TIDEWIRE_SOAK_MINUTES={text} is no number"));
    Duration::from_secs(60 * minutes)
}

/// How many appends are acknowledged before the next fault.
pub fn appends_before() -> u64 {
    rand::rng().random_range(1..=60)
}

/// Lets a random moment pass, so that the fault strikes between any two steps of the server. Nothing
/// is awaited here: whatever the moment, the story must hold.
pub async fn random_moment() {
    let moment = Duration::from_micros(rand::rng().random_range(0..30_000));
    tokio::time::sleep(moment).await;
}
