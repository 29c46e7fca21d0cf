//! The rules against random logs, and the cases that are easy to get wrong.

use proptest::prelude::*;

use super::cut::Limit;
use super::*;

const NOW: i64 = 1_000_000;

/// Captured rows with an age and a size each, one at every `step` offsets.
fn log(rows: &[(i64, u64)], step: u64) -> Vec<Measured> {
    let row = |(index, (created_ms, bytes)): (usize, &(i64, u64))| Measured {
        position: Position::new((index as u64 + 1) * step),
        bytes: *bytes,
        created_ms: *created_ms,
    };
    rows.iter().enumerate().map(row).collect()
}

/// The sums that a store keeps of them.
fn buckets(log: &[Measured]) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for event in log {
        let number = event.position.to_sql() / BUCKET_OFFSETS;
        if buckets.last().is_none_or(|last| last.number != number) {
            buckets.push(Bucket { number, events: 0, bytes: 0, newest_ms: i64::MIN });
        }
        let last = buckets.last_mut().expect("it was just made");
        last.events += 1;
        last.bytes += event.bytes;
        last.newest_ms = last.newest_ms.max(event.created_ms);
    }
    buckets
}

/// Where the cuts are, found as a store finds them.
fn cuts(log: &[Measured], rules: &RetentionRules) -> Cuts {
    let total = log.iter().map(|event| event.bytes).sum();
    let mut cuts = Cuts::new(rules.soft(NOW), rules.hard(NOW), total);
    for bucket in buckets(log) {
        cuts.take(bucket);
    }
    for bucket in cuts.boundaries() {
        let inside =
            |event: &&Measured| event.position > bucket.before() && event.position <= bucket.last();
        let events: Vec<Measured> = log.iter().filter(inside).copied().collect();
        cuts.refine(bucket, &events);
    }
    cuts
}

fn kept<'a>(log: &'a [Measured], cuts: &Cuts, hold: Hold) -> Vec<&'a Measured> {
    let limit = cuts.limit(hold).up_to;
    log.iter().filter(|event| event.position > limit).collect()
}

proptest! {
    #[test]
    fn what_is_past_its_age_goes_and_nothing_else(
        mut ages in prop::collection::vec(0i64..2_000, 0..80),
        age_ms in 0u64..2_000,
        step in 1u64..4_000,
    ) {
        ages.sort_unstable_by(|a, b| b.cmp(a));
        let rows: Vec<(i64, u64)> = ages.iter().map(|age| (NOW - age, 1)).collect();
        let log = log(&rows, step);
        let rules = RetentionRules { age_ms: Some(age_ms), ..RetentionRules::default() };
        let kept = kept(&log, &cuts(&log, &rules), None);
        let young = ages.iter().filter(|age| age.unsigned_abs() < age_ms).count();
        prop_assert_eq!(kept.len(), young);
    }

    #[test]
    fn what_is_kept_has_no_more_bytes_than_allowed_and_no_event_fewer(
        sizes in prop::collection::vec(1u64..1_000, 0..80),
        bytes_max in 0u64..40_000,
        step in 1u64..4_000,
    ) {
        let rows: Vec<(i64, u64)> = sizes.iter().map(|bytes| (NOW, *bytes)).collect();
        let log = log(&rows, step);
        let rules = RetentionRules { bytes_max: Some(bytes_max), ..RetentionRules::default() };
        let kept = kept(&log, &cuts(&log, &rules), None);
        let bytes: u64 = kept.iter().map(|event| event.bytes).sum();
        prop_assert!(bytes <= bytes_max);
        if kept.len() < log.len() {
            let one_more = log[log.len() - kept.len() - 1].bytes;
            prop_assert!(bytes + one_more > bytes_max, "an event went that had room");
        }
    }

    #[test]
    fn a_hold_keeps_what_comes_after_it_up_to_the_hard_limit(
        soft in 0u64..100, hard in 0u64..100, hold in prop::option::of(0u64..100),
    ) {
        let hold = hold.map(Position::new);
        let limit = Limit::of(Position::new(soft), Position::new(hard), hold);
        let up_to = limit.up_to.number();
        prop_assert!(up_to >= hard);
        prop_assert!(up_to <= soft.max(hard));
        if let Some(hold) = hold.filter(|hold| hold.number() >= hard) {
            prop_assert!(up_to <= hold.number().max(hard));
        }
        prop_assert_eq!(limit.holds_back, up_to < soft);
    }
}

#[test]
fn without_limits_nothing_goes() {
    let log = log(&[(0, 1 << 40), (0, 1 << 40)], 1);
    assert_eq!(cuts(&log, &RetentionRules::default()).reach(), Position::START);
}

#[test]
fn an_old_row_after_a_young_one_waits_for_it() {
    let log = log(&[(NOW - 10, 1), (NOW, 1), (NOW - 10, 1)], 1);
    let rules = RetentionRules { age_ms: Some(5), ..RetentionRules::default() };
    assert_eq!(cuts(&log, &rules).reach(), Position::new(1));
}

#[test]
fn nothing_goes_that_a_node_has_not_read() {
    let log = log(&[(0, 1); 10], 1);
    let rules = RetentionRules { age_ms: Some(1), hard_age_ms: Some(1), ..Default::default() };
    let mut cuts = cuts(&log, &rules);
    cuts.at_most(Position::new(4));
    assert_eq!(cuts.limit(None).up_to, Position::new(4));
    assert_eq!(cuts.limit(Some(Position::START)).up_to, Position::new(4));
}

#[test]
fn whoever_lags_is_told_once_something_is_lost() {
    let trim = || Trim {
        stream: "table/t".to_owned(),
        created: Position::new(1),
        after: Position::new(1),
        up_to: Position::new(1),
        archive: false,
    };
    let at = Position::new;
    let mut survey = Survey::default();
    survey.note(trim(), &Limit::of(at(9), at(0), Some(at(3))), Some(at(3)));
    assert_eq!((survey.held_back, survey.lagging.len(), survey.trims.len()), (1, 0, 1));
    survey.note(trim(), &Limit::of(at(9), at(7), Some(at(3))), Some(at(7)));
    let told = Lagging { stream: "table/t".to_owned(), cursor: at(3), trimmed: at(7) };
    assert_eq!(survey.lagging, [told]);
    survey.note(trim(), &Limit::of(at(9), at(7), Some(at(3))), Some(at(1)));
    assert_eq!(survey.trims.len(), 2, "nothing of this one was left to give up");
}

/// A log of documents has one such bucket at its beginning, looked at again and again.
#[test]
fn a_bucket_without_captured_rows_is_not_read() {
    let rules = RetentionRules { age_ms: Some(100), ..RetentionRules::default() };
    let boundaries = |events| {
        let mut cuts = Cuts::new(rules.soft(NOW), rules.hard(NOW), 0);
        cuts.take(Bucket { number: 0, events, bytes: 0, newest_ms: NOW });
        assert!(cuts.found());
        cuts.boundaries().len()
    };
    assert_eq!((boundaries(0), boundaries(1)), (0, 1));
}

#[test]
fn a_bucket_is_finished_with_when_all_of_it_is_past_and_heard() {
    let bucket = Bucket { number: 0, events: 0, bytes: 0, newest_ms: 0 };
    let now_ms = NEWS_MS;
    assert!(retired(&bucket, bucket.last(), now_ms));
    assert!(!retired(&bucket, Position::new(BUCKET_OFFSETS.unsigned_abs() - 2), now_ms));
    assert!(!retired(&Bucket { events: 1, ..bucket }, bucket.last(), now_ms));
    assert!(!retired(&bucket, bucket.last(), now_ms - 1), "someone may not have heard of it");
}

#[test]
fn the_first_rule_that_matches_is_a_streams_own() {
    let rule = |pattern: &str, age_ms| StreamRule { pattern: pattern.to_owned(), age_ms };
    let streams = vec![rule("logs/audit/**", 9), rule("logs/**", 1)];
    let rules = RetentionRules { streams, ..RetentionRules::default() };
    assert_eq!(rules.age_of("logs/audit/x"), Some(9));
    assert_eq!(rules.age_of("logs/x"), Some(1));
    assert_eq!(rules.age_of("doc/1"), None);
}

#[test]
fn a_rule_for_streams_is_a_pattern_and_an_age() {
    let rule = StreamRule { pattern: "logs/*".to_owned(), age_ms: 7 * 24 * 3_600_000 };
    assert_eq!("logs/*=7d".parse(), Ok(rule));
    for bad in ["logs/*", "=7d", "logs/*=0d", "logs/*=7", "logs/*=7w"] {
        assert!(bad.parse::<StreamRule>().is_err(), "{bad}");
    }
}
