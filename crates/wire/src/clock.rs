//! What time it is: by the wall, and by a clock that only moves forwards.

use std::sync::LazyLock;
use std::time::Instant;

/// Milliseconds since the Unix epoch by this machine's clock: for headers and hints, never for what is
/// stored.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Milliseconds of a clock that all connections of the process share, and that only moves forwards.
pub fn clock_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A moment as text, in UTC.
pub fn moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}
