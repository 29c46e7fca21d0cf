//! Options of rate limits.

/// So many a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run. 0 is no limit.
    pub per_second: u32,
    /// After a pause.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate { per_second: 0, burst: 0 };
}
