//! Tests of the rules of subscriptions: links, fencing, leases and retries, on a clock that only the
//! test moves.

mod webhooks;

use std::collections::BTreeMap;

use super::{
    Change, Config, Context, Delivery, Fence, Kind, Link, Op, Reply, Subscription, Wake, apply,
};
use crate::offset::Position;

const LEASE_MS: i64 = 10_000;
const ATTEMPT_MS: u64 = 30_000;
const DONE: Reply = Reply::Done { next_wake: false };
const WOKEN: Reply = Reply::Done { next_wake: true };

/// One subscription, kept between operations as a store would.
struct Bench {
    now_ms: i64,
    wakes: u32,
    tails: BTreeMap<String, Position>,
    subscription: Option<Subscription>,
    announced: Vec<String>,
}

impl Bench {
    /// A subscription of `a` and of `b/*`, made when `a` was at position 5.
    fn new(kind: Kind) -> Bench {
        let mut bench = Bench {
            now_ms: 1_000,
            wakes: 0,
            tails: BTreeMap::from([("a".to_owned(), Position::new(5))]),
            subscription: None,
            announced: Vec::new(),
        };
        let config = Config {
            kind,
            pattern: Some("b/*".to_owned()),
            streams: vec!["a".to_owned()],
            lease_ttl_ms: LEASE_MS.unsigned_abs(),
            description: None,
        };
        assert!(matches!(bench.ask(Op::Create(config)), Reply::Subscription { new: true, .. }));
        bench
    }

    fn pull() -> Bench {
        Bench::new(Kind::PullWake { wake_stream: "wakes".to_owned() })
    }

    fn webhook() -> Bench {
        Bench::new(Kind::Webhook { url: "https://example.org".to_owned() })
    }

    fn ask(&mut self, op: Op) -> Reply {
        self.wakes += 1;
        let context = Context {
            now_ms: self.now_ms,
            wake_id: format!("wake-{}", self.wakes),
            tails: self.tails.clone(),
            starts: BTreeMap::new(),
        };
        let Change { reply, save, announce, .. } =
            apply("s", self.subscription.clone(), &op, &context);
        if let Some(save) = save {
            self.subscription = save;
        }
        self.announced.extend(announce.map(|announce| announce.event));
        reply
    }

    /// A stream grows to a position, and the subscription is told.
    fn grow(&mut self, stream: &str, tail: u64) -> Reply {
        self.tails.insert(stream.to_owned(), Position::new(tail));
        // A store loads the ends of linked streams afresh with every operation.
        if let Some(link) = self.subscription.as_mut().and_then(|s| s.links.get_mut(stream)) {
            link.tail = Position::new(tail);
        }
        self.ask(Op::Grown { stream: stream.to_owned() })
    }

    fn claim(&mut self) -> Reply {
        self.ask(Op::Claim { worker: "w".to_owned() })
    }

    fn ack(&mut self, fence: &Fence, acks: &[(&str, u64)], done: bool) -> Reply {
        let acks = acks.iter().map(|&(name, at)| (name.to_owned(), Position::new(at))).collect();
        self.ask(Op::Ack { fence: fence.clone(), acks, done })
    }

    fn due(&mut self) -> Reply {
        self.ask(Op::Due { attempt_ms: ATTEMPT_MS })
    }

    fn delivered(&mut self, outcome: Delivery) -> Reply {
        let generation = self.now().generation;
        self.ask(Op::Delivered { generation, outcome })
    }

    fn now(&self) -> &Subscription {
        self.subscription.as_ref().expect("the subscription is there")
    }

    fn wake(&self) -> &Wake {
        self.now().wake.as_ref().expect("a wake is under way")
    }

    fn fence(&self) -> Fence {
        let generation = self.now().generation;
        Fence { token_generation: generation, generation, wake_id: self.wake().id.clone() }
    }

    fn acked(&self, stream: &str) -> u64 {
        self.now().links[stream].acked.number()
    }
}

#[test]
fn every_operation_on_no_subscription_is_not_found() {
    let fence = Fence { token_generation: 1, generation: 1, wake_id: "w".to_owned() };
    for op in [
        Op::Delete,
        Op::AddStreams(vec!["a".to_owned()]),
        Op::RemoveStream("a".to_owned()),
        Op::Grown { stream: "a".to_owned() },
        Op::Claim { worker: "w".to_owned() },
        Op::Ack { fence: fence.clone(), acks: Vec::new(), done: true },
        Op::Release { fence },
        Op::Due { attempt_ms: 1 },
        Op::Delivered { generation: 1, outcome: Delivery::Done },
    ] {
        let mut bench = Bench { subscription: None, ..Bench::pull() };
        assert_eq!(bench.ask(op), Reply::NotFound);
        assert_eq!(bench.subscription, None);
    }
}

#[test]
fn a_stream_that_is_named_and_matches_is_linked_both_ways() {
    let mut bench = Bench::pull();
    bench.subscription = None;
    bench.tails.insert("b/1".to_owned(), Position::new(3));
    let config = Config { streams: vec!["b/1".to_owned()], ..Bench::pull().now().config.clone() };
    bench.tails.remove("a");
    bench.ask(Op::Create(config));
    let both =
        Link { explicit: true, by_pattern: true, acked: Position::new(3), tail: Position::new(3) };
    assert_eq!(bench.now().links["b/1"], both);
    bench.ask(Op::RemoveStream("b/1".to_owned()));
    assert_eq!(bench.now().links["b/1"], Link { explicit: false, ..both });
}

#[test]
fn only_the_present_wake_passes_the_fence() {
    let mut bench = Bench::pull();
    bench.grow("a", 6);
    assert!(matches!(bench.claim(), Reply::Claimed(_)));
    let good = bench.fence();
    for stale in [
        Fence { token_generation: 0, ..good.clone() },
        Fence { generation: 2, ..good.clone() },
        Fence { wake_id: "wake-0".to_owned(), ..good.clone() },
    ] {
        let before = bench.now().clone();
        assert_eq!(bench.ack(&stale, &[("a", 6)], true), Reply::Fenced, "{stale:?}");
        assert_eq!(bench.ask(Op::Release { fence: stale.clone() }), Reply::Fenced, "{stale:?}");
        assert_eq!(*bench.now(), before, "{stale:?}");
    }
    assert_eq!(bench.ack(&good, &[("a", 6)], true), DONE);
    assert_eq!(bench.ack(&good, &[], true), Reply::Fenced, "a wake ends once");
}

#[test]
fn a_lease_lasts_to_its_end_and_not_beyond() {
    let mut bench = Bench::pull();
    bench.grow("a", 6);
    bench.claim();
    let first = bench.fence();
    let taken = Reply::AlreadyClaimed { holder: "w".to_owned(), generation: 1 };
    bench.now_ms += LEASE_MS - 1;
    assert_eq!(bench.claim(), taken);
    assert_eq!(bench.due(), DONE, "the lease holds");
    assert_eq!(bench.ack(&first, &[], false), DONE, "a sign of life renews it");
    bench.now_ms += LEASE_MS - 1;
    assert_eq!(bench.claim(), taken);
    bench.now_ms += 1;
    assert_eq!(bench.due(), WOKEN, "the lease is over and the work still there");
    assert_eq!(bench.ack(&first, &[], true), Reply::Fenced);
    assert_eq!((bench.now().generation, bench.announced.len()), (2, 2));
}

#[test]
fn a_lease_that_ran_out_on_finished_work_wakes_nobody() {
    let mut bench = Bench::pull();
    bench.grow("a", 6);
    bench.claim();
    assert_eq!(bench.ack(&bench.fence(), &[("a", 6)], false), DONE);
    bench.now_ms += LEASE_MS;
    assert_eq!(bench.due(), DONE);
    assert_eq!((&bench.now().wake, bench.announced.len()), (&None, 1));
    assert_eq!(bench.claim(), Reply::NoPendingWork);
}

#[test]
fn a_claim_takes_over_from_a_lease_that_ran_out() {
    let mut bench = Bench::pull();
    bench.grow("a", 6);
    bench.claim();
    bench.now_ms += LEASE_MS;
    let Reply::Claimed(taken_over) = bench.ask(Op::Claim { worker: "w2".to_owned() }) else {
        panic!("the work was not there to claim");
    };
    assert_eq!(taken_over.generation, 2);
    assert_eq!(bench.wake().holder.as_deref(), Some("w2"));
    assert_eq!(bench.wake().lease_until_ms, Some(bench.now_ms + LEASE_MS));
}

#[test]
fn an_ack_is_taken_whole_or_not_at_all() {
    let mut bench = Bench::pull();
    bench.grow("a", 7);
    bench.grow("b/1", 8);
    bench.claim();
    let fence = bench.fence();
    for (acks, fine) in [
        (&[("a", 4), ("b/1", 8)], false),
        (&[("a", 7), ("b/1", 9)], false),
        (&[("a", 7), ("c", 1)], false),
        (&[("a", 6), ("b/1", 8)], true),
    ] {
        let reply = bench.ack(&fence, acks, false);
        assert_eq!(matches!(reply, Reply::InvalidAck { .. }), !fine, "{acks:?}: {reply:?}");
        let expected = if fine { (6, 8) } else { (5, 0) };
        assert_eq!((bench.acked("a"), bench.acked("b/1")), expected, "{acks:?}");
    }
}

#[test]
fn a_claim_shows_the_latest_ends() {
    let mut bench = Bench::pull();
    bench.grow("a", 6);
    assert_eq!(bench.wake().snapshot["a"], Position::new(6));
    assert_eq!(bench.grow("a", 7), DONE, "the wake is under way already");
    bench.claim();
    assert_eq!(bench.wake().snapshot["a"], Position::new(7));
    assert_eq!(bench.announced.len(), 1);
}
