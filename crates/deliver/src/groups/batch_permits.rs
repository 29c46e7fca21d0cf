//! Room for batches: how many bytes of them a node holds, and how many it may
//! (`groups.batch_memory_bytes_max`).
//!
//! A batch has its place from before it is read until its answer was sent, or until it was ended. So what
//! many workers hold at once, and what slow ones have not taken yet, is bounded, whatever they ask for.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use tidewire_access::problem::Problem;

/// How long one who ends a batch waits for room.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes are counted in these, so that all of them fit what a semaphore counts.
const UNIT_BYTES: usize = 1_024;
/// The events, and the answer that is made of them.
const COPIES: usize = 2;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct BatchPermits {
    free: Arc<Semaphore>,
    units: u32,
}

/// A batch's place, given back when dropped.
#[derive(Debug)]
pub(super) struct BatchPermit(OwnedSemaphorePermit);

/// Bytes on their way to a client, with their place.
struct Sent {
    bytes: Bytes,
    _place: BatchPermit,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from((bytes / UNIT_BYTES).saturating_mul(COPIES).saturating_add(1)).unwrap_or(u32::MAX)
}

impl BatchPermits {
    pub(super) fn new(bytes_max: usize) -> BatchPermits {
        let units = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        BatchPermits { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// A place for so many bytes, if there is room. What is larger than all of it has all of it.
    pub(super) fn try_take(&self, bytes: usize) -> Option<BatchPermit> {
        let wanted = units(bytes).min(self.units);
        Arc::clone(&self.free).try_acquire_many_owned(wanted).ok().map(BatchPermit)
    }

    /// The same, and waits a while for it.
    pub(super) async fn take(&self, bytes: usize) -> Result<BatchPermit, Problem> {
        let wanted = units(bytes).min(self.units);
        let free = Arc::clone(&self.free).acquire_many_owned(wanted);
        match tokio::time::timeout(WAIT_MAX, free).await {
            Ok(Ok(permit)) => Ok(BatchPermit(permit)),
            _ => Err(crowded()),
        }
    }
}

impl BatchPermit {
    /// Gives back what so many bytes do not need.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let unneeded = self.0.num_permits().saturating_sub(units(bytes) as usize);
        drop(self.0.split(unneeded));
    }

    /// Has the place kept until the bytes were sent.
    pub(super) fn until_sent(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Sent { bytes, _place: self })
    }
}

/// There is no room.
pub(super) fn crowded() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too_many_batches",
        "the batches that this node has in hand take as much memory as they may \
         (groups.batch_memory_bytes_max)",
        "try again, or go to another node",
    )
    .retry_after_s(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_once_its_bytes_were_sent() {
        let room = BatchPermits::new(64 << 10);
        let mut place = room.try_take(24 << 10).expect("there is room");
        assert!(room.try_take(24 << 10).is_none(), "two do not fit");
        place.shrink_to(4 << 10);
        let other = room.try_take(24 << 10).expect("there is room for what was given back");
        let sent = place.until_sent(Bytes::from_static(b"{}"));
        drop(other);
        assert_eq!(sent, "{}");
        assert!(room.try_take(30 << 10).is_none(), "the answer is still under way");
        drop(sent);
        assert!(room.try_take(30 << 10).is_some());
    }

    #[test]
    fn what_is_larger_than_all_of_it_goes_alone() {
        let room = BatchPermits::new(64 << 10);
        let all = room.try_take(usize::MAX).expect("nobody else is there");
        assert!(room.try_take(0).is_none());
        drop(all);
        assert!(room.try_take(0).is_some());
    }

    #[tokio::test]
    async fn one_who_waits_has_the_place_of_one_who_goes() {
        let room = BatchPermits::new(64 << 10);
        let all = room.try_take(usize::MAX).expect("nobody else is there");
        let (place, ()) = tokio::join!(room.take(1), async { drop(all) });
        assert!(place.is_ok());
        assert!(crowded().is_temporary());
    }
}
