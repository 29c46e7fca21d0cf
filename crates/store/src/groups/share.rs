//! Who works on which partition: the same answer for everyone who knows the same members.
//!
//! The answer is a function of the members alone, so that nobody must lead. It is found as if they had
//! joined one after the other: the first has everything, and each that comes takes its part from those who
//! have most. So a newcomer moves what it takes and nothing else, and when it goes, only that moves back.
//! Which ones it takes is drawn by its name: then those who came later take mostly the same again after an
//! older one has gone.
//!
//! It is advice. Members that know of others for a moment want one partition twice or not at all; the row's
//! lock decides, and the next sign of life mends it.

use std::cmp::Reverse;

/// A living member.
#[derive(Debug, Clone, Copy)]
pub struct LiveMember<'a> {
    /// Its name.
    pub id: &'a str,
    /// When it joined: those who are there longer keep what they have.
    pub joined_at_ms: i64,
    /// The one partition it wants, if it wants only one.
    pub pinned: Option<u32>,
}

/// The member of each partition, by its place in `members`. A pinned member has its partition; of several,
/// the one that joined first. The others share the rest, one more or less each.
pub fn shares(members: &[LiveMember<'_>], total: u32) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&place| (members[place].joined_at_ms, members[place].id));
    let mut taken = vec![None; total as usize];
    for &place in &order {
        let wanted = members[place].pinned.and_then(|partition| taken.get_mut(partition as usize));
        if let Some(owner @ None) = wanted {
            *owner = Some(place);
        }
    }
    order.retain(|&place| members[place].pinned.is_none());
    let rest: Vec<usize> = (0..taken.len()).filter(|&p| taken[p].is_none()).collect();
    for (partition, owner) in rest.iter().zip(divided(&rest, &order, members)) {
        taken[*partition] = owner;
    }
    taken
}

/// The owners of partitions that nobody is pinned to.
fn divided(rest: &[usize], order: &[usize], members: &[LiveMember<'_>]) -> Vec<Option<usize>> {
    let mut owners = vec![None; rest.len()];
    let Some((&first, later)) = order.split_first() else { return owners };
    owners.fill(Some(first));
    let mut counts = vec![0; members.len()];
    counts[first] = rest.len();
    for (before, &newcomer) in (1..).zip(later) {
        let part = rest.len() / (before + 1);
        let seed = seed_of(members[newcomer].id);
        // One at a time from whoever has most: that leaves all the others within one of each other.
        while counts[newcomer] < part {
            let chosen =
                (0..rest.len()).filter(|&p| owners[p] != Some(newcomer)).max_by_key(|&p| {
                    (owners[p].map_or(0, |owner| counts[owner]), drawn(seed, rest[p]), Reverse(p))
                });
            let Some(chosen) = chosen else { break };
            if let Some(owner) = owners[chosen].replace(newcomer) {
                counts[owner] -= 1;
            }
            counts[newcomer] += 1;
        }
    }
    owners
}

/// FNV-1a over a name.
fn seed_of(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A number for a member and a partition that has nothing to do with any other (the end of splitmix64).
fn drawn(seed: u64, partition: usize) -> u64 {
    let mut mixed = seed ^ (partition as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A member: its name's number, when it joined, where it is pinned.
    type TestMember = (u16, i64, Option<u32>);

    /// The names of the owners.
    fn owners(made: &[TestMember], total: u32) -> Vec<Option<u16>> {
        let names: Vec<String> = made.iter().map(|(name, ..)| format!("m-{name}")).collect();
        let members: Vec<LiveMember<'_>> = names
            .iter()
            .zip(made)
            .map(|(id, &(_, joined_at_ms, pinned))| LiveMember { id, joined_at_ms, pinned })
            .collect();
        shares(&members, total).into_iter().map(|owner| owner.map(|place| made[place].0)).collect()
    }

    fn free(names: impl IntoIterator<Item = u16>) -> Vec<TestMember> {
        names.into_iter().map(|name| (name, i64::from(name), None)).collect()
    }

    fn moved(before: &[Option<u16>], after: &[Option<u16>]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    fn some_members() -> impl Strategy<Value = Vec<TestMember>> {
        let one =
            (any::<u16>(), 0i64..4, prop_oneof![3 => Just(None), 1 => (0u32..40).prop_map(Some)]);
        prop::collection::vec(one, 0..24).prop_map(|mut all| {
            all.sort_unstable_by_key(|(name, ..)| *name);
            all.dedup_by_key(|(name, ..)| *name);
            all
        })
    }

    proptest! {
        #[test]
        fn everyone_has_its_share(made in some_members(), total in 1u32..64) {
            let owners = owners(&made, total);
            for (partition, owner) in (0..).zip(&owners) {
                let mut pinned: Vec<&TestMember> =
                    made.iter().filter(|member| member.2 == Some(partition)).collect();
                pinned.sort_by_key(|(name, joined, _)| (*joined, format!("m-{name}")));
                match pinned.first() {
                    Some(first) => prop_assert_eq!(*owner, Some(first.0)),
                    None => {
                        let is_free = |name| made.iter().any(|m| m.0 == name && m.2.is_none());
                        prop_assert_eq!(owner.is_some_and(is_free), made.iter().any(|m| m.2.is_none()));
                    }
                }
            }
            let counts: Vec<usize> = made
                .iter()
                .filter(|member| member.2.is_none())
                .map(|member| owners.iter().filter(|owner| **owner == Some(member.0)).count())
                .collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{:?}", counts);
        }

        #[test]
        fn the_order_in_which_members_are_told_does_not_matter(made in some_members(), total in 1u32..64) {
            let told: Vec<TestMember> = made.iter().rev().copied().collect();
            prop_assert_eq!(owners(&made, total), owners(&told, total));
        }

        #[test]
        fn a_newcomer_takes_its_part_and_moves_nothing_else(made in some_members(), total in 1u32..64) {
            let mut more = made.clone();
            more.push((u16::MAX, 9, None));
            prop_assume!(made.iter().all(|member| member.0 != u16::MAX));
            let (before, after) = (owners(&made, total), owners(&more, total));
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(before == after || *after == Some(u16::MAX));
            }
        }
    }

    #[test]
    fn few_partitions_move_when_an_older_member_goes() {
        for (count, total) in [(3, 8), (4, 64), (10, 64), (20, 256)] {
            let all = free(0..count);
            let before = owners(&all, total);
            let moves: usize = (0..count)
                .map(|gone| {
                    moved(&before, &owners(&free((0..count).filter(|&n| n != gone)), total))
                })
                .sum();
            // Each partition had one owner, so `total` moves over all goings could not be avoided.
            assert!(moves <= 5 * total as usize, "{count} members, {total} partitions: {moves}");
        }
    }

    #[test]
    fn more_members_than_partitions_leave_some_idle() {
        let owners = owners(&free(0..1_000), 4);
        let mut names: Vec<u16> = owners.iter().flatten().copied().collect();
        names.sort_unstable();
        assert_eq!(names, [0, 1, 2, 3]);
    }
}
