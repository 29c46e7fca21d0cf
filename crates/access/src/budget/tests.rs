//! What is held, by whom, and who is refused.

use proptest::prelude::*;

use super::*;
use crate::testing::access_control;

const MAX: usize = 8_000;

fn holding(budget: &Budget, account: &Arc<Account>, bytes: usize) -> Option<MemoryLease> {
    let mut held = budget.open(Purpose::Body, account);
    held.grow_to(bytes).ok().map(|()| held)
}

fn used(budget: &Budget) -> usize {
    budget.0.used.load(Ordering::Relaxed)
}

#[test]
fn what_is_held_is_given_back() {
    let (budget, account) = (Budget::new(MAX), Arc::default());
    let mut first = holding(&budget, &account, 4_000).expect("there is room");
    assert!(holding(&budget, &account, 4_000).is_none(), "over three quarters");
    first.shrink_to(1_000);
    let second = holding(&budget, &account, 4_000).expect("there is room for what was given back");
    drop(first);
    assert_eq!(used(&budget), 4_000);
    drop(second);
    assert_eq!((used(&budget), account.used.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn one_credential_leaves_a_quarter_to_the_others() {
    let budget = Budget::new(MAX);
    let (greedy, other) = (Arc::default(), Arc::default());
    let _most = holding(&budget, &greedy, 6_000).expect("three quarters");
    assert!(holding(&budget, &greedy, 1).is_none());
    let _rest = holding(&budget, &other, 2_000).expect("the rest");
    assert!(holding(&budget, &other, 1).is_none(), "all is taken");
}

#[test]
fn strangers_share_an_eighth() {
    let budget = Budget::new(MAX);
    let strangers = Arc::clone(budget.strangers());
    let _first = holding(&budget, &strangers, 600).expect("there is room");
    let _second = holding(&budget, &strangers, 400).expect("there is room");
    assert!(holding(&budget, &strangers, 1).is_none(), "an eighth is taken");
    assert!(holding(&budget, &Arc::default(), 6_000).is_some(), "others are not concerned");
}

#[test]
fn what_is_larger_than_all_of_it_goes_alone() {
    let (budget, account) = (Budget::new(MAX), Arc::default());
    let mut large = holding(&budget, &account, 10_000).expect("nobody else is there");
    assert!(holding(&budget, &Arc::default(), 1).is_none());
    large.grow_to(20_000).expect("still nobody");
    drop(large);
    let _small = holding(&budget, &Arc::default(), 1).expect("it is gone");
    assert!(holding(&budget, &account, 10_000).is_none(), "somebody is there");
}

#[test]
fn bytes_are_held_for_as_long_as_anyone_has_them() {
    let (budget, account) = (Budget::new(MAX), Arc::default());
    let held = holding(&budget, &account, 2).expect("there is room");
    let bytes = held.with(Bytes::from_static(b"{}"));
    let part = bytes.slice(1..);
    drop(bytes);
    assert_eq!(used(&budget), 2);
    drop(part);
    assert_eq!(used(&budget), 0);
}

#[test]
fn refusals_are_counted_by_what_was_refused() {
    let budget = Budget::new(MAX);
    assert!(budget.refused(Purpose::Message).is_temporary());
    let mut text = String::new();
    budget.write_metrics(&mut text).expect("text");
    assert!(text.contains("tidewire_inflight_refusals_total{purpose=\"message\"} 1"), "{text}");
    assert!(text.contains("tidewire_inflight_refusals_total{purpose=\"body\"} 0"), "{text}");
    assert!(text.contains("tidewire_inflight_budget_bytes 8000"), "{text}");
}

proptest! {
    /// Whatever is held and given back in whichever order, the sums are right and within the budget.
    #[test]
    fn nothing_is_lost_of_the_budget(
        steps in proptest::collection::vec((0usize..4, 0usize..4, 0usize..4_000), 1..100),
    ) {
        let budget = Budget::new(MAX);
        let accounts: [Arc<Account>; 4] =
            [Arc::default(), Arc::default(), Arc::default(), Arc::clone(budget.strangers())];
        let mut held: Vec<Option<MemoryLease>> = vec![None, None, None, None];
        for (slot, account, bytes) in steps {
            match &mut held[slot] {
                Some(held) if bytes % 3 == 0 => held.shrink_to(bytes),
                Some(held) => { let _ = held.grow_to(bytes); }
                empty => *empty = holding(&budget, &accounts[account], bytes),
            }
            if bytes % 5 == 0 {
                held[slot] = None;
            }
            let sum: usize = held.iter().flatten().map(|held| held.bytes).sum();
            prop_assert_eq!(used(&budget), sum);
            prop_assert!(sum <= MAX);
        }
        held.clear();
        prop_assert_eq!(used(&budget), 0);
        prop_assert!(accounts.iter().all(|account| account.used.load(Ordering::Relaxed) == 0));
    }
}

/// Answers of every route are held until they are sent, and those that only tell something are refused where there
/// is no room.
#[test]
fn an_answer_is_held_until_it_is_sent() {
    let access = access_control();
    let account = Arc::default();
    let small_bytes = usize::try_from(SMALL_ANSWER_BYTES).expect("a size");
    let answer = |bytes: usize| Response::new(Body::from(vec![b'x'; bytes]));
    let held = || access.budget.tally(Purpose::Answer).bytes.load(Ordering::Relaxed);
    let hold = |bytes, method| {
        let held = access.hold_answer(answer(bytes), &account, &method);
        held.map_err(|problem| problem.code())
    };
    let small = hold(small_bytes, Method::GET).expect("it is small");
    assert_eq!(held(), 0);
    let large = small_bytes + 1;
    let told = hold(large, Method::GET).expect("there is room");
    assert_eq!(held(), large);
    drop((small, told));
    assert_eq!(held(), 0);
    let mut all = access.budget.open(Purpose::Body, &Arc::default());
    all.grow_anyway(access.options.limits.inflight_bytes_max);
    let refused = hold(large, Method::GET).expect_err("there is no room");
    assert_eq!(refused, "inflight_bytes_exhausted");
    let done = hold(large, Method::POST).expect("what is done is told");
    assert_eq!(held(), large);
    drop(done);
}
