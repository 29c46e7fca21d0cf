//! What dies in batches of the log and of letters, and what follows from it.

use super::*;
use crate::groups::KeyEvents;
use crate::groups::view::tests::{group, partition};

const MAX_ATTEMPTS: u32 = 3;

fn key(user: &str) -> Key {
    Key::of(Some("h"), Some(user))
}

/// Events of one user, each of a transaction of its own.
fn events(user: &str, positions: &[u64]) -> KeyEvents {
    let event = |number: &u64| {
        Arc::new(GroupEvent {
            position: Position::new(*number),
            append_id: Position::new(*number),
            stream: "s".to_owned(),
            host_id: Some("h".to_owned()),
            user_id: Some(user.to_owned()),
            txid: i64::try_from(*number).ok(),
            tx_last: true,
            created_at_ms: 0,
            trace_context: None,
            change: None,
            payload: None,
            content_type: None,
        })
    };
    KeyEvents { key: key(user), attempt: 0, events: positions.iter().map(event).collect() }
}

/// Events 1, 3 and 5 of `a`, 2 of `b`; 4 is parked already.
fn batch() -> Batch {
    Batch {
        from: Position::new(1),
        next: Position::new(6),
        groups: vec![events("a", &[1, 3, 5]), events("b", &[2])],
        park: events("c", &[4]).events,
        redrive: None,
    }
}

/// Letters 1, 3 and 5 of `a`.
fn letters() -> Batch {
    let groups = vec![events("a", &[1, 3, 5])];
    Batch { groups, park: Vec::new(), redrive: Some(key("a")), ..batch() }
}

fn held(on_dead: OnDead, attempts: u32) -> Holdings {
    let mut held = Holdings::of_quiet(&group(MAX_ATTEMPTS), &partition()).expect("nothing failed");
    held.group.on_dead = on_dead;
    if attempts > 0 {
        held.attempts.insert(key("a"), (attempts, Verdict::Retry));
    }
    held
}

/// The events of `a` from one place to before another.
fn dead(batch: &Batch, from: usize, to: usize) -> DeadEvents<'_> {
    let KeyEvents { key, events, .. } = &batch.groups[0];
    DeadEvents { key, events: &events[from..to], error: "no\0".to_owned() }
}

fn numbers<'a>(events: impl IntoIterator<Item = &'a Arc<GroupEvent>>) -> Vec<u64> {
    events.into_iter().map(|event| event.position.number()).collect()
}

fn died(ending: &Ending) -> Vec<u64> {
    numbers(ending.dead.iter().map(|letter| &letter.event))
}

#[test]
fn what_died_is_a_letter_with_its_error_and_its_attempts() {
    let (batch, held) = (batch(), held(OnDead::Park, 2));
    let ending = Ending::of_failures(&batch, &held, &[dead(&batch, 1, 2)]);
    let [letter] = &ending.dead[..] else { panic!("one died: {ending:?}") };
    assert_eq!((letter.event.position.number(), letter.attempts), (3, 3));
    assert_eq!(letter.error, "no\u{fffd}", "as it can be kept");
    assert_eq!(ending.settled, [key("a")], "its attempts are forgotten");
}

#[test]
fn a_key_is_parked_from_the_first_that_died() {
    let (batch, held) = (batch(), held(OnDead::Park, 0));
    let failures = [dead(&batch, 2, 3), dead(&batch, 1, 2), dead(&batch, 2, 3)];
    let ending = Ending::of_failures(&batch, &held, &failures);
    assert_eq!(ending.parked_from, [(key("a"), Position::new(3))]);
    assert_eq!(died(&ending), [5, 3], "each is told once");
    assert_eq!((ending.settled.len(), ending.park.len(), ending.free), (1, 0, None));
}

#[test]
fn a_batch_is_done_but_for_what_died_and_what_is_parked_behind_it() {
    let (batch, held) = (batch(), held(OnDead::Park, 1));
    let ending = batch.done_but(&held, &[dead(&batch, 1, 2)]);
    assert_eq!((died(&ending), numbers(&ending.park)), (vec![3], vec![4, 5]));
    assert_eq!(ending.parked_from, [(key("a"), Position::new(3))]);
    assert_eq!((ending.next, ending.settled), (batch.next, vec![key("a")]));
    assert!(ending.redriven.is_empty() && ending.free.is_none() && ending.give_up.is_none());
    let well = batch.done_but(&held, &[]);
    assert_eq!((numbers(&well.park), well.settled), (vec![4], vec![key("a")]), "it failed before");
    assert!(well.dead.is_empty() && well.parked_from.is_empty());
}

#[test]
fn where_the_dead_are_skipped_all_else_is_done() {
    let (batch, held) = (batch(), held(OnDead::Skip, 0));
    assert!(!batch.stops_behind_dead(&held));
    let ending = batch.done_but(&held, &[dead(&batch, 0, 1), dead(&batch, 2, 3)]);
    assert_eq!((died(&ending), numbers(&ending.park)), (vec![1, 5], vec![4]));
    assert!(ending.parked_from.is_empty());
}

#[test]
fn letters_that_die_again_are_given_up_whatever_the_group_does_with_the_dead() {
    for on_dead in [OnDead::Park, OnDead::Skip] {
        let (batch, held) = (letters(), held(on_dead, 0));
        assert!(batch.stops_behind_dead(&held));
        let ending = batch.done_but(&held, &[dead(&batch, 1, 2)]);
        assert_eq!((died(&ending), ending.redriven.clone()), (vec![3], vec![Position::new(1)]));
        assert_eq!((ending.give_up, ending.free), (Some(key("a")), None));
        assert!(ending.park.is_empty() && ending.parked_from.is_empty(), "they lie there already");
        let well = batch.done_but(&held, &[]);
        assert_eq!((well.give_up, well.free), (None, Some(key("a"))));
        assert_eq!(well.redriven.len(), 3);
        let given_back = Ending::of_failures(&batch, &held, &[dead(&batch, 0, 3)]);
        assert_eq!((given_back.give_up, given_back.free), (Some(key("a")), None));
        assert!(given_back.redriven.is_empty(), "nothing was done");
    }
}

#[test]
fn a_key_fails_for_good_by_its_last_attempt_or_because_it_is_said() {
    let for_good = |attempts, verdict| held(OnDead::Park, attempts).is_for_good(&key("a"), verdict);
    assert!(!for_good(0, Verdict::Retry) && !for_good(1, Verdict::Retry));
    assert!(for_good(2, Verdict::Retry) && for_good(0, Verdict::Dead));
    let retry = Failure::to_retry(&key("a"), &batch().groups[0].events, Verdict::Retry, "no\0");
    assert_eq!((retry.first.number(), &*retry.error), (1, "no\u{fffd}"));
}
