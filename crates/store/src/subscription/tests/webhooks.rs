//! Tests of delivering by webhook: turns, retries, and what the receiver's answer does.

use super::{ATTEMPT_MS, Bench, DONE, LEASE_MS, WOKEN};
use crate::subscription::{Delivery, Op, Reply};

#[test]
fn failures_are_counted_until_a_delivery_is_accepted() {
    let mut bench = Bench::webhook();
    assert_eq!(bench.due(), DONE, "there is nothing to deliver");
    assert_eq!(bench.grow("a", 6), WOKEN);
    for retry in 0..3 {
        let Reply::Deliver(turn) = bench.due() else { panic!("retry {retry} is not due") };
        assert_eq!((turn.generation, turn.retry_count), (1, retry));
        assert_eq!(bench.due(), DONE, "the turn is taken");
        assert_eq!(bench.delivered(Delivery::Failed { retry_in_ms: 1_000 }), DONE);
        bench.now_ms += 999;
        assert_eq!(bench.due(), DONE, "too early for retry {}", retry + 1);
        bench.now_ms += 1;
    }
    assert!(matches!(bench.due(), Reply::Deliver(_)));
    assert_eq!(bench.delivered(Delivery::Accepted), DONE);
    assert_eq!((bench.now().retry_count, bench.now().next_attempt_at_ms), (0, None));
    assert_eq!(bench.wake().lease_until_ms, Some(bench.now_ms + LEASE_MS));
}

#[test]
fn a_turn_that_nobody_reports_on_passes_on() {
    let mut bench = Bench::webhook();
    bench.grow("a", 6);
    assert!(matches!(bench.due(), Reply::Deliver(_)));
    let wake_id = bench.wake().id.clone();
    bench.now_ms += i64::try_from(ATTEMPT_MS).expect("small");
    assert!(matches!(bench.due(), Reply::Deliver(_)));
    assert_eq!((bench.now().generation, &bench.wake().id), (1, &wake_id));
}

#[test]
fn done_acknowledges_what_was_announced() {
    let mut bench = Bench::webhook();
    bench.grow("a", 6);
    bench.due();
    bench.grow("a", 7);
    bench.grow("b/1", 8);
    assert_eq!(bench.delivered(Delivery::Done), WOKEN);
    assert_eq!((bench.acked("a"), bench.acked("b/1")), (6, 0));
    assert_eq!(bench.now().generation, 2);
    assert!(matches!(bench.due(), Reply::Deliver(_)));
    assert_eq!(bench.delivered(Delivery::Done), DONE);
    assert_eq!((bench.acked("a"), bench.acked("b/1")), (7, 8));
}

#[test]
fn an_answer_after_the_call_back_is_fenced_off() {
    let mut bench = Bench::webhook();
    bench.grow("a", 6);
    bench.due();
    let fence = bench.fence();
    assert_eq!(bench.ack(&fence, &[("a", 6)], true), DONE, "the receiver called back");
    for outcome in [Delivery::Accepted, Delivery::Done, Delivery::Failed { retry_in_ms: 0 }] {
        assert_eq!(bench.delivered(outcome), Reply::Fenced, "{outcome:?}");
    }
    assert_eq!((&bench.now().wake, bench.now().next_attempt_at_ms), (&None, None));
}

#[test]
fn webhooks_are_not_claimed_nor_released() {
    let mut bench = Bench::webhook();
    bench.grow("a", 6);
    let fence = bench.fence();
    assert_eq!(bench.claim(), Reply::NotPullWake);
    assert_eq!(bench.ask(Op::Release { fence }), Reply::NotPullWake);
}

#[test]
fn a_new_wake_counts_its_failures_anew() {
    let mut bench = Bench::webhook();
    bench.grow("a", 6);
    bench.due();
    bench.delivered(Delivery::Failed { retry_in_ms: 60_000 });
    // The receiver had got it after all, calls back, and is not heard of again.
    let fence = bench.fence();
    assert_eq!(bench.ack(&fence, &[], false), DONE);
    bench.now_ms += LEASE_MS;
    let Reply::Deliver(turn) = bench.due() else { panic!("the lease is over") };
    assert_eq!((turn.generation, turn.retry_count), (2, 0));
}
