//! What is said to many, as bytes in each dialect: made when the first one needs it, and shared.

use std::sync::OnceLock;

use bytes::Bytes;

use super::frames::Dialect;

/// The same in each of the forms that live connections take.
#[derive(Debug, Default)]
pub struct Forms([OnceLock<Bytes>; Dialect::COUNT]);

impl Forms {
    /// What it is in a dialect. Shards that share it wait for the one that makes it.
    pub(crate) fn of(&self, dialect: Dialect, make: impl FnOnce() -> Bytes) -> Bytes {
        self.0[dialect as usize].get_or_init(make).clone()
    }
}
