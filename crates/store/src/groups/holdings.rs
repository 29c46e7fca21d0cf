//! What must be known to work on a partition, and what follows from it for its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::Rng;

use super::key::Key;
use super::retry::retry_in;
use super::view::{Failure, GroupView, PartitionView, Verdict};
use crate::offset::Position;

/// What must be known to work on a partition: good for one generation.
#[derive(Debug, Clone)]
pub struct Holdings {
    /// The group; its lists of partitions and members may be empty.
    pub group: GroupView,
    /// The partition.
    pub partition: PartitionView,
    /// Keys that are parked, and from where on.
    pub parked: BTreeMap<Key, Position>,
    /// Keys with failed attempts: how many, and what the last one was.
    pub attempts: BTreeMap<Key, (u32, Verdict)>,
    /// Dead letters of the partition at or past its `next`. A nack makes them without moving on: they are not
    /// to be handled, also where their keys are not parked.
    pub dead: BTreeSet<Position>,
}

/// A partition as somebody knew it who wants to work on it.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// Who.
    pub member: String,
    /// Its generation.
    pub generation: u64,
    /// Its `next`.
    pub next: Position,
    /// The work's transaction is given up by the store after this.
    pub timeout_ms: u64,
}

impl Holdings {
    /// Of a partition of which the view says that no key failed and no letter is there. None if there may be some:
    /// then the store must be asked.
    pub fn of_quiet(group: &GroupView, partition: &PartitionView) -> Option<Holdings> {
        let quiet = partition.failing == 0
            && partition.parked == 0
            && !partition.redrive
            && group.dead == 0;
        quiet.then(|| Holdings {
            group: group.alone(),
            partition: partition.clone(),
            parked: BTreeMap::new(),
            attempts: BTreeMap::new(),
            dead: BTreeSet::new(),
        })
    }

    /// A claim of the partition as it is known.
    pub fn claim(&self, member: &str, timeout_ms: u64) -> Claim {
        Claim {
            group: self.group.group.clone(),
            partition: self.partition.partition,
            member: member.to_owned(),
            generation: self.partition.generation,
            next: self.partition.next,
            timeout_ms,
        }
    }

    /// How often a key's events failed.
    pub fn attempts_of(&self, key: &Key) -> u32 {
        self.attempts.get(key).map_or(0, |(attempts, _)| *attempts)
    }

    /// Whether a key that fails once more has failed for good.
    pub fn is_last_attempt(&self, key: &Key) -> bool {
        self.attempts_of(key).saturating_add(1) >= self.group.max_attempts
    }

    /// How long the partition waits after these failures: by the key that failed most often.
    pub fn wait_after(
        &self,
        failures: &[Failure],
        base: Duration,
        cap: Duration,
        rng: &mut impl Rng,
    ) -> Duration {
        let most = failures.iter().map(|failure| self.attempts_of(&failure.key)).max();
        most.map_or(Duration::ZERO, |most| retry_in(most.saturating_add(1), base, cap, rng))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::super::view::tests::{group, partition};
    use super::*;

    fn key(user: &str) -> Key {
        Key::of(Some("h"), Some(user))
    }

    fn failing(attempts: u32) -> Holdings {
        let mut held = Holdings::of_quiet(&group(3), &partition()).expect("nothing failed");
        held.attempts = BTreeMap::from([(key("u"), (attempts, Verdict::Retry))]);
        held
    }

    #[test]
    fn the_last_attempt_is_the_one_that_makes_the_number_full() {
        let last = |attempts| failing(attempts).is_last_attempt(&key("u"));
        assert!(!last(0) && !last(1) && last(2) && last(3) && last(u32::MAX));
        assert!(!failing(2).is_last_attempt(&key("v")), "each key has its own");
    }

    #[test]
    fn the_key_that_failed_most_decides_how_long_to_wait() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(30));
        let failure = |user| Failure {
            key: key(user),
            first: Position::START,
            verdict: Verdict::Retry,
            error: String::new(),
        };
        let wait = |failures: &[Failure]| {
            failing(3).wait_after(failures, base, cap, &mut StdRng::seed_from_u64(7))
        };
        assert_eq!(wait(&[]), Duration::ZERO, "nothing is to be tried again");
        assert!(wait(&[failure("v")]) <= base);
        assert!(wait(&[failure("v"), failure("u")]) >= base * 4, "its fourth failure");
    }

    #[test]
    fn only_what_is_known_to_be_quiet_need_not_be_asked_for() {
        let (of_group, at) = (group(3), partition());
        assert!(Holdings::of_quiet(&of_group, &at).is_some());
        let dead = GroupView { dead: 1, ..group(3) };
        assert!(Holdings::of_quiet(&dead, &at).is_none(), "a letter may be ahead of the partition");
        for noisy in [
            PartitionView { failing: 1, ..partition() },
            PartitionView { parked: 1, ..partition() },
            PartitionView { redrive: true, ..partition() },
        ] {
            assert!(Holdings::of_quiet(&of_group, &noisy).is_none(), "{noisy:?}");
        }
    }
}
