//! Limits how many connections there may be: all together, and from one address.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::keyed_permits::{KeyedPermit, KeyedPermits};
use crate::peer::{Network, holder, is_among};

/// How many places there are.
#[derive(Debug)]
pub struct SlotLimits {
    pub all_max: usize,
    /// 0: as many as there are places.
    pub per_address_max: usize,
    /// Those who speak for many.
    pub exempt: Vec<Network>,
}

/// The places that there are.
#[derive(Debug)]
pub struct ConnectionSlots {
    all: Arc<Semaphore>,
    /// 0: as many as there are places.
    per_address_max: usize,
    /// Those who speak for many.
    exempt: Vec<Network>,
    by_address: KeyedPermits<IpAddr>,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    _of_all: OwnedSemaphorePermit,
    _of_address: Option<KeyedPermit<IpAddr>>,
}

impl ConnectionSlots {
    pub fn new(limits: SlotLimits) -> ConnectionSlots {
        ConnectionSlots {
            all: Arc::new(Semaphore::new(limits.all_max)),
            per_address_max: limits.per_address_max,
            exempt: limits.exempt,
            by_address: KeyedPermits::default(),
        }
    }

    /// Waits until there is a place for one more.
    pub async fn vacant(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.all).acquire_owned().await
    }

    /// Takes the place for a client, unless its address has as many as it may.
    pub fn take(&self, vacant: OwnedSemaphorePermit, client: IpAddr) -> Option<ConnectionSlot> {
        if self.per_address_max == 0 || is_among(&self.exempt, client) {
            return Some(ConnectionSlot { _of_all: vacant, _of_address: None });
        }
        let seat = self.by_address.take(holder(client), self.per_address_max)?;
        Some(ConnectionSlot { _of_all: vacant, _of_address: Some(seat) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(per_address_max: usize) -> ConnectionSlots {
        let exempt = vec!["10.0.0.0/8".parse().expect("a network")];
        ConnectionSlots::new(SlotLimits { all_max: 10, per_address_max, exempt })
    }

    fn enter(slots: &ConnectionSlots, address: &str) -> Option<ConnectionSlot> {
        let vacant = Arc::clone(&slots.all).try_acquire_owned().expect("a place");
        slots.take(vacant, address.parse().expect("an address"))
    }

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let slots = slots(2);
        let first = enter(&slots, "192.0.2.1").expect("the first");
        let _second = enter(&slots, "192.0.2.1").expect("the second");
        assert!(enter(&slots, "192.0.2.1").is_none(), "the third");
        let other = enter(&slots, "192.0.2.2").expect("another address");
        drop(first);
        let _again = enter(&slots, "192.0.2.1").expect("after one has left");
        drop(other);
        assert_eq!(slots.by_address.holders(), 1, "those who left are forgotten");
    }

    #[test]
    fn neighbours_of_one_network_count_together() {
        let slots = slots(1);
        let _first = enter(&slots, "2001:db8::1").expect("the first");
        assert!(enter(&slots, "2001:db8::ffff:2").is_none(), "the same 64 bits");
        assert!(enter(&slots, "2001:db8:0:1::1").is_some(), "others");
    }

    #[test]
    fn proxies_have_no_cap_and_nobody_has_one_of_zero() {
        for (slots, address) in [(slots(1), "10.1.1.1"), (slots(0), "192.0.2.1")] {
            let all = [enter(&slots, address), enter(&slots, address)];
            assert!(all.iter().all(Option::is_some));
            assert_eq!(slots.by_address.holders(), 0);
        }
    }
}
