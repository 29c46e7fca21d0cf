//! Rendezvous hashing: which of several places something belongs to, so that everyone who asks gets
//! the same answer, and a place that comes or goes moves only its own share.

use aws_lc_rs::digest;

/// The index of the place where a tenant's session belongs: where its hash with the place's name is
/// highest. `None` if there are no places.
pub fn pick(places: &[impl AsRef<str>], tenant: &str, session: &str) -> Option<usize> {
    let weight = |index: &usize| weight(places[*index].as_ref(), tenant, session);
    match places.len() {
        0 => None,
        1 => Some(0),
        count => (0..count).max_by_key(weight),
    }
}

/// A hash that is the same on every node and in every version: nodes must agree.
fn weight(place: &str, tenant: &str, session: &str) -> u64 {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [place, tenant, session] {
        context.update(part.as_bytes());
        // No part can contain it, so no two triples are alike.
        context.update(&[0]);
    }
    let hash = context.finish();
    hash.as_ref().first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A place that comes takes its share from the others and moves nothing between them; seen
        /// the other way round, one that goes gives up its own share only.
        #[test]
        fn a_place_that_comes_moves_only_its_share(
            places in proptest::collection::btree_set("[a-z0-9]{1,12}", 2..8),
            newcomer in "[A-Z]{1,12}",
            tenant in "[a-z]{0,5}",
        ) {
            let before: Vec<String> = places.into_iter().collect();
            let mut after = before.clone();
            after.push(newcomer.clone());
            let mut moved = 0;
            for session in 0..500 {
                let session = format!("tws_{session}");
                let old = &before[pick(&before, &tenant, &session).expect("a place")];
                let new = &after[pick(&after, &tenant, &session).expect("a place")];
                if old != new {
                    prop_assert_eq!(new, &newcomer);
                    moved += 1;
                }
            }
            let share = 500 / after.len();
            prop_assert!(moved > share / 3 && moved < share * 3, "{} of about {}", moved, share);
        }

        #[test]
        fn the_order_of_places_does_not_matter(mut places in proptest::collection::vec("[a-z]{1,9}", 1..6)) {
            let chosen = places[pick(&places, "t", "s").expect("a place")].clone();
            places.reverse();
            prop_assert_eq!(&places[pick(&places, "t", "s").expect("a place")], &chosen);
        }
    }

    #[test]
    fn without_places_there_is_no_choice() {
        assert_eq!(pick(&[] as &[&str], "t", "s"), None);
    }
}
