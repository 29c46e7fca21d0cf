//! What to do next with a partition: decided once, for both who drive groups.
//!
//! The library works on partitions in transactions of its own, the server hands them to workers by leases. Both ask
//! here whether a partition may be handed out and of what, when it writes down that it has passed what is not its
//! own, and when it is told that a transaction's end is missing. Nothing here waits, reads or knows the time: what is
//! known comes in, and the decision goes out.

use std::time::{Duration, Instant};

use super::holdings::Holdings;
use super::view::{GroupView, PartitionView};
use crate::offset::Position;

/// A partition that somebody else holds without a lease is tried again after this.
pub const TAKEN_WAIT: Duration = Duration::from_millis(250);
/// A partition without events of its own writes down that it has passed others' when they are so many,
const SKIP_OFFSETS: u64 = 10_000;
/// or when it has been behind for so long.
const SKIP_AFTER: Duration = Duration::from_secs(5);
/// A transaction whose end does not come into the log for so long is told of, and again after as long.
const UNFINISHED_TOLD_AFTER: Duration = Duration::from_secs(60);

/// What a partition is handed out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The next events of the log.
    Log,
    /// Letters that are to be worked off again.
    Letters,
}

/// What is to be done with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is handed out: of the first of these that has something.
    HandOut(&'static [Source]),
    /// Nothing until somebody acts: the group stands still, or the partition does.
    Stopped,
    /// Nothing until a lease is over, which is no later than this.
    Leased(Duration),
    /// Nothing for so long, for it failed.
    Failed(Duration),
    /// Nothing until all partitions stand at the barrier.
    AtBarrier,
}

/// Decides what to do with a partition of a group. The log and letters take turns, so that neither waits for all of
/// the other; `letters_were_last` says whose turn was the last one.
pub fn decide(group: &GroupView, at: &PartitionView, letters_were_last: bool) -> Decision {
    if group.stopped.is_some() || at.trouble.is_some() {
        return Decision::Stopped;
    }
    let lease = at.lease_ms.and_then(|left| u64::try_from(left).ok()).filter(|left| *left > 0);
    let retry = at.retry_in_ms.filter(|wait| *wait > 0);
    let wait = Duration::from_millis(lease.max(retry).unwrap_or(0));
    if lease.is_some() {
        return Decision::Leased(wait);
    }
    if retry.is_some() {
        return Decision::Failed(wait);
    }
    let at_barrier = group.barrier.is_some_and(|barrier| at.next >= barrier);
    match (at_barrier, at.redrive, letters_were_last) {
        (true, false, _) => Decision::AtBarrier,
        // They lie before the barrier, and need not wait for others to get there.
        (true, true, _) => Decision::HandOut(&[Source::Letters]),
        (false, false, _) => Decision::HandOut(&[Source::Log]),
        (false, true, false) => Decision::HandOut(&[Source::Letters, Source::Log]),
        (false, true, true) => Decision::HandOut(&[Source::Log, Source::Letters]),
    }
}

/// Whether a change of the number of partitions can be ended.
pub fn is_at_barrier(group: &GroupView) -> bool {
    group.barrier.is_some_and(|barrier| group.partitions.iter().all(|at| at.next >= barrier))
}

/// In how long a partition is to write down that it has passed what is not its own, up to a place: each time is a
/// write, which is not worth while for a few events. None if there is nothing to pass.
pub fn skip_in(held: &Holdings, to: Position, idle_for: Duration) -> Option<Duration> {
    let passed = to.number().saturating_sub(held.partition.next.number());
    if passed == 0 {
        return None;
    }
    let at_barrier = held.group.barrier.is_some_and(|barrier| to >= barrier);
    let at_once = at_barrier || passed >= SKIP_OFFSETS;
    Some(if at_once { Duration::ZERO } else { SKIP_AFTER.saturating_sub(idle_for) })
}

/// A transaction whose end is not in the log, before which a partition stands. Mostly the end is there a moment
/// later; it may also never come, if it was set aside or retired. The next transaction that is captured makes that
/// known.
#[derive(Debug, Clone, Copy)]
pub struct Unfinished {
    next: Position,
    since: Instant,
}

impl Unfinished {
    /// Notes that a partition at `next` waits for an end. Says whether to tell somebody.
    pub fn is_to_be_told(known: &mut Option<Unfinished>, next: Position, now: Instant) -> bool {
        let since = known.filter(|known| known.next == next).map_or(now, |known| known.since);
        let told = now.saturating_duration_since(since) >= UNFINISHED_TOLD_AFTER;
        *known = Some(Unfinished { next, since: if told { now } else { since } });
        told
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::view::tests::{group, partition};
    use super::*;

    fn at(next: u64, redrive: bool) -> PartitionView {
        PartitionView { next: Position::new(next), redrive, ..partition() }
    }

    fn with_barrier(barrier: Option<u64>) -> GroupView {
        GroupView { barrier: barrier.map(Position::new), ..group(3) }
    }

    #[test]
    fn the_log_and_letters_take_turns() {
        use Source::{Letters, Log};
        let group = with_barrier(None);
        for (redrive, letters_were_last, sources) in [
            (false, false, &[Log] as &[_]),
            (false, true, &[Log]),
            (true, false, &[Letters, Log]),
            (true, true, &[Log, Letters]),
        ] {
            let decision = decide(&group, &at(5, redrive), letters_were_last);
            assert_eq!(decision, Decision::HandOut(sources), "{redrive} {letters_were_last}");
        }
    }

    #[test]
    fn letters_need_not_wait_at_the_barrier() {
        let group = with_barrier(Some(5));
        assert_eq!(decide(&group, &at(4, false), false), Decision::HandOut(&[Source::Log]));
        assert_eq!(decide(&group, &at(5, false), false), Decision::AtBarrier);
        assert_eq!(decide(&group, &at(5, true), true), Decision::HandOut(&[Source::Letters]));
    }

    #[test]
    fn a_lease_and_a_failure_are_both_waited_for() {
        let both = PartitionView { lease_ms: Some(5), retry_in_ms: Some(9), ..partition() };
        let ms = Duration::from_millis;
        assert_eq!(decide(&group(3), &both, false), Decision::Leased(ms(9)));
        let over = PartitionView { lease_ms: Some(-1), ..both };
        assert_eq!(decide(&group(3), &over, false), Decision::Failed(ms(9)));
        let free = PartitionView { lease_ms: Some(0), retry_in_ms: Some(0), ..partition() };
        assert_eq!(decide(&group(3), &free, false), Decision::HandOut(&[Source::Log]));
    }

    proptest! {
        #[test]
        fn what_is_held_back_for_any_reason_is_not_handed_out(
            stopped in any::<bool>(),
            trouble in any::<bool>(),
            lease_ms in prop::option::of(-3i64..3),
            retry_in_ms in prop::option::of(0u64..3),
            barrier in prop::option::of(1u64..6),
            next in 1u64..6,
            redrive in any::<bool>(),
            letters_were_last in any::<bool>(),
        ) {
            let group = GroupView {
                stopped: stopped.then(|| "paused".to_owned()),
                ..with_barrier(barrier)
            };
            let trouble = trouble.then(|| "parked_full: …".to_owned());
            let at = PartitionView { lease_ms, retry_in_ms, trouble, ..at(next, redrive) };
            let decision = decide(&group, &at, letters_were_last);
            let waits = lease_ms.is_some_and(|left| left > 0) || retry_in_ms.is_some_and(|left| left > 0);
            let stands = group.stopped.is_some() || at.trouble.is_some();
            let past = barrier.is_some_and(|barrier| next >= barrier);
            match decision {
                Decision::HandOut(sources) => {
                    prop_assert!(!waits && !stands && !sources.is_empty());
                    prop_assert_eq!(sources.contains(&Source::Log), !past);
                    prop_assert_eq!(sources.contains(&Source::Letters), redrive);
                }
                Decision::Stopped => prop_assert!(stands),
                Decision::Leased(wait) | Decision::Failed(wait) => {
                    prop_assert!(waits && !wait.is_zero());
                }
                Decision::AtBarrier => prop_assert!(past && !redrive),
            }
        }
    }

    #[test]
    fn a_change_can_be_ended_when_all_stand_at_the_barrier() {
        let of = |nexts: &[u64], barrier| GroupView {
            partitions: nexts.iter().map(|next| at(*next, false)).collect(),
            ..with_barrier(barrier)
        };
        assert!(is_at_barrier(&of(&[7, 7], Some(7))));
        assert!(!is_at_barrier(&of(&[7, 6], Some(7))) && !is_at_barrier(&of(&[7, 7], None)));
    }

    #[test]
    fn what_is_not_its_own_is_passed_when_that_is_worth_a_write() {
        let held = |barrier| {
            Holdings::of_quiet(&with_barrier(barrier), &at(10, false)).expect("nothing failed")
        };
        let (none, some) = (Duration::ZERO, Duration::from_secs(3));
        let skip = |barrier, to, idle| skip_in(&held(barrier), Position::new(to), idle);
        assert_eq!(skip(None, 10, some), None);
        assert_eq!(skip(None, 11, none), Some(SKIP_AFTER));
        assert_eq!(skip(None, 11, some), Some(Duration::from_secs(2)));
        assert_eq!(skip(None, 11, SKIP_AFTER * 2), Some(none));
        assert_eq!(skip(None, 10 + SKIP_OFFSETS, none), Some(none));
        assert_eq!(skip(Some(12), 11, none), Some(SKIP_AFTER));
        assert_eq!(skip(Some(12), 12, none), Some(none), "others wait for it there");
    }

    #[test]
    fn a_missing_end_is_told_now_and_then_and_for_each_place_anew() {
        let (begun, place) = (Instant::now(), Position::new);
        let mut known = None;
        let mut told = |next, seconds| {
            let now = begun + Duration::from_secs(seconds);
            Unfinished::is_to_be_told(&mut known, place(next), now)
        };
        assert!(!told(5, 0) && !told(5, 59) && told(5, 60));
        assert!(!told(5, 61) && told(5, 120), "again after as long");
        assert!(!told(6, 500) && told(6, 560), "another place waits from the beginning");
    }
}
