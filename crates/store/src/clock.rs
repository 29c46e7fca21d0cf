//! The clock that a store goes by, as something that is passed in: a simulation moves it by hand.
//!
//! PostgreSQL has a clock of its own, by which all its nodes go; SQLite's is the system's.

use std::fmt;
use std::sync::Arc;

/// Says what time it is. Cheap to share.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// A clock that says what a function says: milliseconds since the Unix epoch.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now_ms))
    }

    /// The system's.
    pub fn system() -> Clock {
        Clock::new(system_ms)
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now_ms()).finish()
    }
}

/// What the system's clock says, in milliseconds since the Unix epoch.
pub fn system_ms() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}
