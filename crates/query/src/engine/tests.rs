//! What an engine says, one thing at a time. Tables are those of the simulation: `t` and `u`, with the
//! columns `k` (the key), `a` and `b`.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::simulation::bound;
use super::*;
use crate::delta::Delta;
use crate::snapshot::Snapshot;

const OPTIONS: EngineOptions = EngineOptions {
    rows_max: 5,
    transaction_rows_max: 100,
    state_bytes_max: 4000,
    total_state_bytes_max: 10_000,
    unindexed_max: 1_000,
};

const FILTER: &str = "SELECT k, b FROM t WHERE a = 1";
const JOIN: &str = "SELECT t.k, u.b FROM t JOIN u ON t.b = u.b WHERE t.a > 1";

type Image = Option<[i64; 3]>;

struct TestEngine {
    engine: Engine,
    out: Vec<Output>,
    last: u64,
}

impl TestEngine {
    fn new() -> TestEngine {
        TestEngine { engine: Engine::new(OPTIONS, Position(10)), out: Vec::new(), last: 0 }
    }

    fn subscribe(&mut self, sql: &str) -> Subscriber {
        self.last += 1;
        let who = Subscriber(self.last);
        self.engine.subscribe(bound(sql), who, &mut self.out);
        who
    }

    /// The one ask among what was said since.
    fn asked(&mut self) -> (AskId, AskKind) {
        let asks = self.out.iter().filter_map(|output| match output {
            Output::Ask { ask, kind, .. } => Some((*ask, *kind)),
            _ => None,
        });
        let asks = asks.collect::<Vec<_>>();
        assert_eq!(asks.len(), 1, "{:?}", self.out);
        asks[0]
    }

    fn said(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Answers the one ask, whose read saw everything in the log and nothing else.
    fn answer(&mut self, rows: &[&[i64]]) {
        let (ask, _) = self.asked();
        self.said();
        self.give(ask, self.engine.position(), Snapshot::Position, true, rows);
    }

    fn give(
        &mut self,
        ask: AskId,
        tip: Position,
        snapshot: Snapshot,
        settled: bool,
        rows: &[&[i64]],
    ) {
        let value = |value: &i64| RawValue::from_string(value.to_string()).expect("JSON");
        let rows = rows.iter().map(|row| row.iter().map(value).collect()).collect();
        self.engine.rows(ask, Ok(Rows { tip, snapshot, settled, rows }), &mut self.out);
    }

    /// The next event of the log.
    fn event(&mut self, txid: i64, tx_last: bool, change: Option<(&str, Image, Image)>) {
        let image =
            |image: Image| image.map(|[k, a, b]| format!("{{\"k\": {k}, \"a\": {a}, \"b\": {b}}}"));
        let images = change.map(|(_, before, after)| (image(before), image(after)));
        let (before, after) = images.unwrap_or_default();
        let change = change.map(|(table, was, is)| Change {
            table,
            kind: match (was, is) {
                (None, Some(_)) => Kind::Insert,
                (Some(_), Some(_)) => Kind::Update,
                (Some(_), None) => Kind::Delete,
                (None, None) => Kind::Truncate,
            },
            before: before.as_ref().map(String::as_bytes),
            after: after.as_ref().map(String::as_bytes),
        });
        self.tell(Some(txid), tx_last, change);
    }

    fn tell(&mut self, txid: Option<i64>, tx_last: bool, change: Option<Change<'_>>) {
        let at = Position(self.engine.position().0 + 1);
        self.engine.apply(&Event { at, txid, tx_last, change }, &mut self.out);
    }

    /// The one change that was said.
    fn changed(&mut self) -> (Delta, Option<Position>) {
        let said = self.said();
        let [Output::Change { delta, at, .. }] = said.as_slice() else { panic!("{said:?}") };
        (Delta::clone(delta), *at)
    }
}

fn texts(rows: &[&str]) -> Vec<crate::delta::RowText> {
    rows.iter().map(|row| (*row).into()).collect()
}

#[test]
fn a_filter_tells_rows_that_enter_change_and_leave() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[&[1, 0]]);
    let said = test.said();
    let [Output::Begin { rows, at: Some(Position(10)), reset: false, .. }] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!(rows.to_vec(), texts(&[r#"{"k":1,"b":0}"#]));

    test.event(7, true, Some(("t", Some([2, 0, 0]), Some([2, 1, 0]))));
    let (delta, at) = test.changed();
    assert_eq!((delta.inserted, at), (texts(&[r#"{"k":2,"b":0}"#]), Some(Position(11))));
    test.event(8, true, Some(("t", Some([2, 1, 0]), Some([2, 1, 5]))));
    assert_eq!(test.changed().0.updated.len(), 1);
    test.event(9, true, Some(("t", Some([2, 1, 5]), Some([2, 3, 5]))));
    assert_eq!(test.changed().0.deleted, texts(&[r#"{"k":2,"b":5}"#]));
    test.event(10, true, Some(("t", Some([2, 3, 5]), None)));
    assert!(test.said().is_empty(), "a row that is none of its");
}

#[test]
fn a_transaction_is_told_at_its_end_whatever_table_that_is_of() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[]);
    test.said();
    test.event(7, false, Some(("t", None, Some([1, 1, 1]))));
    test.tell(None, false, None);
    test.event(7, false, Some(("t", None, Some([2, 1, 1]))));
    assert!(test.said().is_empty(), "it is open");
    test.event(7, true, None);
    let (delta, at) = test.changed();
    assert_eq!((delta.inserted.len(), at), (2, Some(Position(14))));
}

#[test]
fn a_long_transaction_holds_up_nobody_who_begins() {
    for sql in [FILTER, JOIN, "SELECT k, a FROM t ORDER BY a, k LIMIT 3"] {
        let mut test = TestEngine::new();
        test.subscribe(sql);
        test.answer(&[]);
        test.said();
        let second = test.subscribe(sql);
        let asks = test.said().into_iter().filter_map(|output| match output {
            Output::Ask { ask, .. } => Some(ask),
            _ => None,
        });
        let ask = asks.last();
        test.event(7, false, Some(("u", None, Some([1, 1, 1]))));
        if let Some(ask) = ask {
            test.give(ask, Position(10), Snapshot::Position, true, &[]);
            let said = test.said();
            assert!(matches!(said[..], [Output::Begin { at: Some(Position(10)), .. }]), "{said:?}");
        }
        test.engine.again(second, &mut test.out);
        let begun = |it: &Output| matches!(it, Output::Begin { at: Some(Position(10)), .. });
        let asked = |it: &Output| matches!(it, Output::Ask { .. });
        let said = test.said();
        assert!(said.len() == 1 && (begun(&said[0]) || asked(&said[0])), "{said:?}");
    }
}

#[test]
fn a_transaction_without_an_end_ends_where_another_begins() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[]);
    test.said();
    test.event(7, false, Some(("t", None, Some([1, 1, 1]))));
    test.event(8, true, None);
    assert_eq!(test.changed().1, Some(Position(11)));
}

#[test]
fn an_event_that_comes_twice_counts_once() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[]);
    test.said();
    test.event(7, true, Some(("t", None, Some([1, 1, 1]))));
    test.said();
    let change = Change {
        table: "t",
        kind: Kind::Insert,
        before: None,
        after: Some(br#"{"k": 1, "a": 1, "b": 1}"#),
    };
    let event = Event { at: Position(11), txid: Some(7), tx_last: true, change: Some(change) };
    test.engine.apply(&event, &mut test.out);
    assert!(test.said().is_empty());
}

#[test]
fn who_waits_for_the_same_read_shares_it_and_what_is_kept_is_read_once() {
    for (sql, asks) in [(FILTER, 1), (JOIN, 0)] {
        let mut test = TestEngine::new();
        test.subscribe(sql);
        let (ask, _) = test.asked();
        test.subscribe(sql);
        assert_eq!(test.asked().0, ask, "the second one waits for the first one's read");
        test.answer(&[]);
        assert_eq!(test.said().len(), 1, "rows for both");
        test.subscribe(sql);
        let asked = test.said().iter().filter(|it| matches!(it, Output::Ask { .. })).count();
        assert_eq!(asked, asks, "{sql}");
        assert_eq!((test.engine.stats().queries, test.engine.stats().subscribers), (1, 3));
    }
}

#[test]
fn rows_that_are_not_settled_in_time_have_no_place_until_they_are() {
    for sql in [FILTER, JOIN] {
        let mut test = TestEngine::new();
        test.subscribe(sql);
        let (ask, _) = test.asked();
        test.said();
        let snapshot = Snapshot::parse("5:9:6").expect("a snapshot");
        test.give(ask, Position(10), snapshot, false, &[&[1, 2]]);
        assert!(test.said().is_empty(), "there is time");
        test.engine.unsettled_in_time(ask, &mut test.out);
        assert!(matches!(test.said()[..], [Output::Begin { at: None, .. }]));
        // Transaction 8 was seen, so what it did is in the rows.
        test.event(8, true, Some(("t", None, Some([1, 1, 2]))));
        test.engine.settled(ask, Position(12), &mut test.out);
        assert!(test.said().is_empty(), "the mark is not there yet");
        test.event(9, true, None);
        let said = test.said();
        assert!(matches!(said[..], [Output::Settled { at: Position(12), .. }]), "{said:?}");
    }
}

#[test]
fn rows_of_a_read_stand_before_the_first_transaction_that_it_did_not_see() {
    let mut test = TestEngine::new();
    test.subscribe(JOIN);
    let (ask, _) = test.asked();
    test.said();
    test.event(6, true, Some(("t", None, Some([1, 2, 2]))));
    let snapshot = Snapshot::parse("6:9:6").expect("a snapshot");
    test.give(ask, Position(10), snapshot, true, &[]);
    let said = test.said();
    let [Output::Begin { at, .. }, Output::Ask { kind: AskKind::Requery, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(*at, Some(Position(10)));
}

#[test]
fn a_change_that_a_query_does_not_read_does_not_run_it_again() {
    let mut test = TestEngine::new();
    test.subscribe(JOIN);
    test.answer(&[]);
    test.said();
    test.event(7, true, Some(("t", None, Some([1, 0, 0]))));
    test.event(8, true, Some(("u", Some([1, 0, 0]), Some([1, 9, 0]))));
    assert!(test.said().is_empty(), "not a row it asks for, and not a column it reads");
    test.event(9, true, Some(("u", Some([1, 9, 0]), Some([1, 9, 1]))));
    assert_eq!(test.asked().1, AskKind::Requery);
}

#[test]
fn what_changed_during_a_read_and_was_seen_by_it_is_not_read_again() {
    let mut test = TestEngine::new();
    test.subscribe(JOIN);
    test.answer(&[]);
    test.said();
    test.event(7, true, Some(("t", None, Some([1, 2, 0]))));
    let (ask, _) = test.asked();
    test.said();
    test.event(8, true, Some(("t", None, Some([2, 2, 0]))));
    assert!(test.said().is_empty(), "one read at a time");
    test.give(ask, Position(12), Snapshot::Position, true, &[&[1, 0], &[2, 0]]);
    let (delta, at) = test.changed();
    assert_eq!((delta.inserted.len(), at), (2, Some(Position(12))));
}

#[test]
fn truncate_gives_followers_of_a_filter_all_rows_and_others_the_difference() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[&[1, 0]]);
    test.said();
    test.event(7, true, Some(("t", None, None)));
    test.answer(&[]);
    assert!(matches!(test.said()[..], [Output::Begin { reset: true, .. }]));

    let mut test = TestEngine::new();
    test.subscribe(JOIN);
    test.answer(&[&[1, 0]]);
    test.said();
    test.event(7, true, Some(("t", None, None)));
    test.answer(&[]);
    assert_eq!(test.changed().0.deleted.len(), 1);
}

#[test]
fn a_filter_whose_images_do_not_tell_is_run_again_after_the_third_time() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    test.answer(&[]);
    test.said();
    for time in 1..=3 {
        let change = Change { table: "t", kind: Kind::Update, before: None, after: None };
        test.tell(Some(time), true, Some(change));
        let plan = test.out.iter().any(|output| matches!(output, Output::Plan { .. }));
        assert_eq!(plan, time == 3);
        if time < 3 {
            test.answer(&[]);
            test.said();
        }
    }
    let said = test.said();
    let asks = said.iter().filter_map(|output| match output {
        Output::Ask { ask, sql, kind, query } => Some((*ask, sql.clone(), *kind, *query)),
        _ => None,
    });
    let (ask, sql, kind, query) = asks.collect::<Vec<_>>().pop().expect("it is read");
    assert_eq!(kind, AskKind::Requery);
    assert_eq!(*sql, *bound(FILTER).rerun);
    assert_eq!(test.engine.plan(query), Some(PlanName::Requery));
    assert_eq!(test.engine.stats().demotions, 1);
    test.give(ask, test.engine.position(), Snapshot::Position, true, &[&[4, 0]]);
    assert!(matches!(test.said()[..], [Output::Begin { reset: true, .. }]));
}

#[test]
fn events_from_before_a_table_was_attended_are_not_held_against_a_query() {
    for sql in [FILTER, "SELECT k, a FROM t ORDER BY a, k LIMIT 3"] {
        let mut test = TestEngine::new();
        test.subscribe(sql);
        let (ask, _) = test.asked();
        test.said();
        for txid in 1..6 {
            let change = Change { table: "t", kind: Kind::Update, before: None, after: None };
            test.tell(Some(txid), true, Some(change));
        }
        test.give(ask, Position(15), Snapshot::Position, true, &[]);
        let said = test.said();
        assert!(matches!(said[..], [Output::Begin { at: Some(Position(15)), .. }]), "{said:?}");
    }
}

#[test]
fn an_answer_to_a_read_that_no_longer_counts_is_nothing() {
    let mut test = TestEngine::new();
    test.subscribe(FILTER);
    let (old, _) = test.asked();
    test.said();
    test.engine.table("t", TableNews::Reread, &mut test.out);
    let (new, _) = test.asked();
    assert_ne!(old, new);
    test.said();
    test.give(old, Position(10), Snapshot::Position, true, &[&[1, 0]]);
    assert!(test.said().is_empty());
    test.give(new, Position(10), Snapshot::Position, true, &[]);
    assert!(matches!(test.said()[..], [Output::Begin { .. }]));
}

#[test]
fn results_that_are_too_large_end_with_a_reason() {
    for sql in [FILTER, JOIN] {
        let mut test = TestEngine::new();
        test.subscribe(sql);
        let row: &[i64] = &[1, 2];
        test.answer(&[row; 6]);
        let said = test.said();
        let [Output::End { reason, .. }] = &said[..] else { panic!("{said:?}") };
        assert_eq!(reason.code, "result_too_large");
        assert_eq!(test.engine.stats(), EngineStats::default());
    }
}

#[test]
fn queries_that_no_index_finds_are_so_many_and_no_more() {
    let options = EngineOptions { unindexed_max: 2, ..OPTIONS };
    let mut test = TestEngine { engine: Engine::new(options, Position(10)), ..TestEngine::new() };
    let all = ["SELECT k FROM t", "SELECT a FROM t", "SELECT b FROM t"];
    for sql in &all[..2] {
        test.subscribe(sql);
    }
    assert_eq!(test.engine.unindexed(), 2);
    test.said();
    let late = test.subscribe(all[2]);
    let ends = test.said().into_iter().find_map(|output| match output {
        Output::End { to: Recipients::Only(_, members), reason } => Some((members, reason.code)),
        _ => None,
    });
    assert_eq!(ends, Some((vec![late], "too_many_unindexed")));
    assert_eq!(test.engine.unindexed(), 2, "it is not kept");
    // Whoever follows one that is there, or one that an index finds, is let in; and there is room again
    // when one is gone.
    let same = test.subscribe(all[0]);
    test.subscribe(FILTER);
    for who in [Subscriber(1), same] {
        test.engine.unsubscribe(who, &mut test.out);
    }
    let query = bound(all[2]);
    test.engine.resume(query, Subscriber(9), &[], &mut test.out);
    assert!(!test.said().iter().any(|output| matches!(output, Output::End { .. })));
    test.engine.resume(bound(all[0]), Subscriber(10), &[], &mut test.out);
    assert!(test.said().iter().any(|output| matches!(output, Output::End { .. })));
    assert_eq!(test.engine.unindexed(), 2);
}

#[test]
fn a_query_that_cannot_be_read_ends_and_one_that_can_later_does_not() {
    let mut test = TestEngine::new();
    test.subscribe(JOIN);
    let (ask, _) = test.asked();
    test.said();
    test.engine.rows(ask, Err(ReadFailed::Later), &mut test.out);
    assert!(test.said().is_empty());
    let reason = EndReason { code: "query_too_slow", message: None };
    test.engine.rows(ask, Err(ReadFailed::Ended(reason)), &mut test.out);
    assert!(matches!(test.said()[..], [Output::End { .. }]));
    assert_eq!(test.engine.stats().queries, 0);
}

#[test]
fn queries_that_are_bound_anew_give_all_rows_and_the_others_end_each_for_its_own_reason() {
    let mut test = TestEngine::new();
    let gone = test.subscribe("SELECT b FROM t WHERE a <> 2");
    test.answer(&[]);
    test.said();
    test.subscribe(FILTER);
    test.answer(&[]);
    test.said();
    let refused = test.subscribe("SELECT b FROM t WHERE a <> 3");
    test.answer(&[]);
    test.said();
    let [first, second, third] = test.engine.queries_of("t")[..] else { panic!("three queries") };
    let otherwise = EndReason { code: "schema_changed", message: None };
    let own = EndReason { code: "schema_changed", message: Some("there is no column a".into()) };
    let goes_on = (second, Ok(bound(FILTER)));
    let bound = HashMap::from([goes_on, (third, Err(own.clone()))]);
    let news = TableNews::Rebound { bound, otherwise: otherwise.clone() };
    test.engine.table("t", news, &mut test.out);
    let ended = test.out.iter().filter_map(|output| match output {
        Output::End { to, reason } => Some((to.clone(), reason.clone())),
        _ => None,
    });
    let ended: Vec<_> = ended.collect();
    let wanted = [
        (Recipients::Only(first, vec![gone]), otherwise),
        (Recipients::Only(third, vec![refused]), own),
    ];
    assert_eq!(ended, wanted);
    test.answer(&[&[1, 0]]);
    assert!(matches!(test.said()[..], [Output::Begin { reset: true, .. }]));
}

#[test]
fn who_comes_back_gets_what_happened_since_and_no_rows() {
    let mut test = TestEngine::new();
    let change = |after| Change { table: "t", kind: Kind::Insert, before: None, after };
    let row = |at, txid, after| Event {
        at: Position(at),
        txid: Some(txid),
        tx_last: true,
        change: Some(change(after)),
    };
    let past = [
        row(9, 6, Some(br#"{"k": 1, "a": 1, "b": 1}"#.as_slice())),
        row(10, 7, Some(br#"{"k": 2, "a": 0, "b": 1}"#.as_slice())),
    ];
    test.engine.resume(bound(FILTER), Subscriber(1), &past, &mut test.out);
    let said = test.said();
    let [Output::Change { at, .. }, Output::Settled { at: until, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*at, *until), (Some(Position(9)), Position(10)));
    test.event(8, true, Some(("t", None, Some([3, 1, 1]))));
    assert_eq!(test.changed().0.inserted.len(), 1);

    test.engine.resume(bound(FILTER), Subscriber(2), &[row(11, 8, None)], &mut test.out);
    test.answer(&[]);
    assert!(matches!(test.said()[..], [Output::Begin { reset: true, .. }]));
}

#[test]
fn an_engine_can_go_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Engine>();
}
