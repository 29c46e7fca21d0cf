//! The key of an event: its host decides the partition, host and user together the order.

use std::num::NonZeroU32;

use aws_lc_rs::digest::{Context, SHA256, digest};

/// The tenant and the user of events that are handled in order. None and the empty text are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key {
    /// The tenant.
    pub host: Box<str>,
    /// The user.
    pub user: Box<str>,
}

impl Key {
    /// The key of an event's host and user.
    pub fn of(host: Option<&str>, user: Option<&str>) -> Key {
        Key { host: host.unwrap_or_default().into(), user: user.unwrap_or_default().into() }
    }

    /// Whether it is the key of an event's host and user.
    pub fn is_of(&self, host: Option<&str>, user: Option<&str>) -> bool {
        *self.host == *host.unwrap_or_default() && *self.user == *user.unwrap_or_default()
    }

    /// By this the store finds it: names have no bound on their length, indexes do.
    pub fn hash(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(self.host.as_bytes());
        context.update(&[0]);
        context.update(self.user.as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }
}

/// The partition of a host. SHA-256, because progress is kept by partition for years: no database's own hash
/// is promised to stay.
pub fn partition_of(host: &str, total: NonZeroU32) -> u32 {
    let hash = digest(&SHA256, host.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_ref()[..4]);
    u32::from_be_bytes(first) % total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_partition_it_always_had() {
        let eight = NonZeroU32::new(8).expect("eight");
        for (host, hash) in [("", 0xe3b0_c442_u32), ("abc", 0xba78_16bf), ("hello", 0x2cf2_4dba)] {
            assert_eq!(partition_of(host, eight), hash % 8, "{host:?}");
        }
    }

    #[test]
    fn none_and_empty_are_one_key() {
        assert_eq!(Key::of(None, Some("u")), Key::of(Some(""), Some("u")));
        assert_ne!(Key::of(Some("a"), Some("b")).hash(), Key::of(Some("ab"), None).hash());
    }
}
