//! Batches against a model that knows the whole log: any log, any cuts into pages, any keys parked.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::groups::view::tests::{group, partition};
use crate::groups::{Filter, GroupView, PAGE_BYTES_MAX, PartitionView, Verdict, Wants};

/// An event of the partition under test is for host "own"; any other host is of another partition.
const OWN: u32 = 1;

/// What a log is made of.
#[derive(Debug, Clone)]
enum Source {
    Append(Vec<Row>),
    /// Rows, after how many of them an append comes between, and whether the end is there.
    Transaction {
        rows: Vec<Row>,
        append_after: Option<usize>,
        ends: bool,
    },
}

/// One event: whose, whether it is of the partition, handed to nobody, or left out by the filter; its bytes,
/// and whether retention took it.
#[derive(Debug, Clone)]
struct Row {
    user: u8,
    own: bool,
    control: bool,
    filtered: bool,
    bytes: usize,
    removed: bool,
}

/// How much a batch may have, and the barrier.
#[derive(Debug, Clone)]
struct Bounds {
    limits: Limits,
    stop_at: Option<u64>,
}

fn row() -> impl Strategy<Value = Row> {
    let bytes = prop_oneof![8 => 0usize..50, 1 => 500usize..2_000];
    (0u8..4, any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1), bytes, 0u8..10)
        .prop_map(|(user, own, control, filtered, bytes, luck)| Row {
            user,
            own,
            control,
            filtered,
            bytes,
            removed: luck == 0,
        })
}

fn source() -> impl Strategy<Value = Source> {
    let rows = |most| prop::collection::vec(row(), 1..most);
    prop_oneof![
        rows(4).prop_map(Source::Append),
        (rows(12), prop::option::of(1usize..8), prop::bool::weighted(0.9)).prop_map(
            |(rows, append_after, ends)| Source::Transaction { rows, append_after, ends }
        ),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let stop_at = prop::option::weighted(0.3, 1u64..60);
    (1usize..12, 300usize..6_000, 1usize..16, 300usize..6_000, stop_at).prop_map(
        |(batch_events, batch_bytes, transaction_events_max, transaction_bytes_max, stop_at)| {
            let limits =
                Limits { batch_events, batch_bytes, transaction_events_max, transaction_bytes_max };
            Bounds { limits, stop_at }
        },
    )
}

/// What is known of the partition's keys.
#[derive(Debug, Clone, Default)]
struct KeyStates {
    parked: BTreeMap<Key, Position>,
    dead: BTreeSet<Position>,
    failed: Option<Key>,
}

impl KeyStates {
    /// How often a key failed.
    fn attempt(&self, key: &Key) -> u32 {
        u32::from(self.failed.as_ref() == Some(key)) * 2
    }

    fn held(&self, bounds: &Bounds) -> Holdings {
        let failed = self.failed.iter().map(|key| (key.clone(), (2, Verdict::Retry)));
        Holdings {
            group: GroupView { barrier: bounds.stop_at.map(Position::new), ..group(5) },
            partition: PartitionView { partition: OWN, ..partition() },
            parked: self.parked.clone(),
            attempts: failed.collect(),
            dead: self.dead.clone(),
        }
    }
}

/// The log: positions are given without gaps, then some are removed.
fn entries(sources: &[Source]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut position = 0;
    for (txid, source) in (100..).zip(sources) {
        let mut put = |row: &Row, txid: Option<i64>, append_id: u64, tx_last: bool| {
            position += 1;
            if !row.removed {
                entries.push(entry(position, append_id.min(position), row, txid, tx_last));
            }
            position
        };
        match source {
            Source::Append(rows) => {
                let mut first = u64::MAX;
                for (index, row) in rows.iter().enumerate() {
                    first = first.min(put(row, None, first, index + 1 == rows.len()));
                }
            }
            Source::Transaction { rows, append_after, ends } => {
                for (index, row) in rows.iter().enumerate() {
                    if *append_after == Some(index) {
                        let first = put(&rows[0], None, u64::MAX, false);
                        put(row, None, first, true);
                    }
                    put(row, Some(txid), u64::MAX, *ends && index + 1 == rows.len());
                }
            }
        }
    }
    entries
}

fn entry(number: u64, append_id: u64, row: &Row, txid: Option<i64>, tx_last: bool) -> Entry {
    let (position, append_id) = (Position::new(number), Position::new(append_id));
    let event = GroupEvent {
        position,
        append_id,
        stream: "s".to_owned(),
        host_id: row.own.then(|| "own".to_owned()),
        user_id: (row.user > 0).then(|| row.user.to_string()),
        txid,
        tx_last,
        created_at_ms: 0,
        trace_context: None,
        change: None,
        payload: Some(Bytes::from(vec![0; row.bytes])),
        content_type: None,
    };
    Entry {
        position,
        partition: if row.own { OWN } else { 0 },
        txid,
        append_id,
        tx_last,
        control: row.control,
        created_at_ms: 0,
        event: (!row.filtered).then(|| Arc::new(event)),
    }
}

/// Pages over `(0, tip]` that end at the given positions.
fn pages(entries: &[Entry], tip: u64, cuts: &BTreeSet<u64>) -> Vec<LogPage> {
    let total = NonZeroU32::new(2).expect("two");
    let wants = Arc::new(Wants {
        filter: Filter::default(),
        total,
        partitions: None,
        page_bytes: PAGE_BYTES_MAX,
    });
    let mut after = 0;
    let ends = cuts.iter().copied().filter(|cut| *cut > 0 && *cut < tip).chain([tip]);
    ends.map(|end| {
        let inside = |entry: &&Entry| (after + 1..=end).contains(&entry.position.number());
        let page = LogPage {
            wants: Arc::clone(&wants),
            after: Position::new(after),
            scanned_to: Position::new(end),
            entries: entries.iter().filter(inside).cloned().collect(),
            bytes: 0,
        };
        after = end;
        page
    })
    .collect()
}

/// What the model and the assembler are compared by.
#[derive(Debug, PartialEq)]
enum Compared {
    Batch { next: u64, groups: Vec<(Key, u32, Vec<u64>)>, park: Vec<u64> },
    Nothing { next: u64 },
    Incomplete,
    TooLarge,
}

fn numbers(events: &[Arc<GroupEvent>]) -> Vec<u64> {
    events.iter().map(|event| event.position.number()).collect()
}

fn told(assembled: Assembled, from: u64) -> Compared {
    match assembled {
        Assembled::Batch(batch) => {
            assert_eq!(batch.from.number(), from);
            let groups = batch.groups.iter();
            let told =
                |group: &KeyEvents| (group.key.clone(), group.attempt, numbers(&group.events));
            let groups = groups.map(told).collect();
            Compared::Batch { next: batch.next.number(), groups, park: numbers(&batch.park) }
        }
        Assembled::Nothing { next } => Compared::Nothing { next: next.number() },
        Assembled::Incomplete { .. } => Compared::Incomplete,
        Assembled::TooLarge(_) => Compared::TooLarge,
    }
}

fn assemble(pages: &[LogPage], bounds: &Bounds, known: &KeyStates, from: u64) -> Compared {
    let held = known.held(bounds);
    let mut assembler = Assembler::new(&held, bounds.limits, Position::new(from));
    for page in pages.iter().filter(|page| page.scanned_to.number() >= from) {
        if !assembler.feed(page) {
            break;
        }
    }
    told(assembler.finish(), from)
}

/// The whole truth about a log up to a tip.
struct Model<'a> {
    entries: &'a [Entry],
    boundaries: BTreeSet<u64>,
    tip: u64,
}

impl Model<'_> {
    /// Each source is open from its first event until before its end, wherever that is said.
    fn new(entries: &[Entry], tip: u64) -> Model<'_> {
        let seen = entries.partition_point(|entry| entry.position.number() <= tip);
        let entries = &entries[..seen];
        let same = |a: &Entry, b: &Entry| match (a.txid, b.txid) {
            (None, None) => a.append_id == b.append_id,
            (a, b) => a == b,
        };
        let mut boundaries: BTreeSet<u64> = (0..=tip).collect();
        for (index, first) in entries.iter().enumerate() {
            let end = entries[index..].iter().find_map(|later| {
                let place = later.position.number();
                let ends_by_other =
                    !same(first, later) && (later.txid.is_some() || first.txid.is_none());
                match (same(first, later) && later.tx_last, ends_by_other) {
                    (true, _) => Some(place),
                    (_, true) => Some(place - 1),
                    _ => None,
                }
            });
            for place in first.position.number()..end.unwrap_or(tip + 1) {
                boundaries.remove(&place);
            }
        }
        Model { entries, boundaries, tip }
    }

    /// The partition's events from one place up to another.
    fn own(&self, from: u64, to: u64) -> Vec<Arc<GroupEvent>> {
        let mine = self.entries.iter().filter(|entry| {
            entry.partition == OWN
                && !entry.control
                && (from..=to).contains(&entry.position.number())
        });
        mine.filter_map(|entry| entry.event.clone()).collect()
    }

    fn assemble(&self, bounds: &Bounds, known: &KeyStates, from: u64) -> Compared {
        let limits = &bounds.limits;
        let stop = bounds.stop_at.unwrap_or(u64::MAX).max(from);
        let to = self.tip.min(stop - 1);
        let size =
            |own: &[Arc<GroupEvent>]| -> usize { own.iter().map(|event| event.bytes()).sum() };
        // The last transaction has more than one may have, or more than fits beside those before it.
        let over = |before: &[Arc<GroupEvent>], own: &[Arc<GroupEvent>]| {
            let last = &own[before.len()..];
            let alone = last.len() > limits.transaction_events_max
                || size(last) > limits.transaction_bytes_max;
            let events_max = limits.batch_events.max(limits.transaction_events_max);
            let beside = own.len() > events_max || size(own) > limits.batch_bytes;
            own.len() > 1 && (alone || (!before.is_empty() && beside))
        };
        let (mut best, mut own) = (from - 1, Vec::new());
        for place in from..=to {
            if !self.boundaries.contains(&place) && place != stop - 1 {
                continue;
            }
            let up_to = self.own(from, place);
            if over(&own, &up_to) {
                break;
            }
            (best, own) = (place, up_to);
            let full = own.len() >= limits.batch_events || size(&own) >= limits.batch_bytes;
            if !own.is_empty() && full {
                break;
            }
        }
        let all = self.own(from, to);
        match (own.is_empty(), all.is_empty()) {
            (false, _) => self::batch(best + 1, &own, known),
            (true, true) => Compared::Nothing { next: best + 1 },
            (true, false) if over(&[], &all) => Compared::TooLarge,
            (true, false) => Compared::Incomplete,
        }
    }
}

fn batch(next: u64, own: &[Arc<GroupEvent>], known: &KeyStates) -> Compared {
    let mut groups: Vec<(Key, u32, Vec<u64>)> = Vec::new();
    let mut park = Vec::new();
    for event in own.iter().filter(|event| !known.dead.contains(&event.position)) {
        let (key, number) = (event.key(), event.position.number());
        if known.parked.get(&key).is_some_and(|from| event.position >= *from) {
            park.push(number);
        } else if let Some(group) = groups.iter_mut().find(|group| group.0 == key) {
            group.2.push(number);
        } else {
            let attempt = known.attempt(&key);
            groups.push((key, attempt, vec![number]));
        }
    }
    Compared::Batch { next, groups, park }
}

fn known() -> impl Strategy<Value = KeyStates> {
    let parked = prop::collection::btree_map(0u8..4, 1u64..60, 0..3);
    let dead = prop::collection::btree_set(1u64..60, 0..12);
    (parked, dead, prop::option::of(0u8..4)).prop_map(|(parked, dead, failed)| {
        let user = |user: u8| (user > 0).then(|| user.to_string());
        let key = |number: u8| Key::of(Some("own"), user(number).as_deref());
        let parked = parked.into_iter().map(|(user, from)| (key(user), Position::new(from)));
        let dead = dead.into_iter().map(Position::new);
        KeyStates { parked: parked.collect(), dead: dead.collect(), failed: failed.map(key) }
    })
}

proptest! {
    #[test]
    fn a_log_is_worked_off_as_the_model_says(
        sources in prop::collection::vec(source(), 1..12),
        cuts in prop::collection::btree_set(1u64..80, 0..12),
        missing in 0u64..6,
        bounds in bounds(),
        known in known(),
    ) {
        let entries = entries(&sources);
        let last = entries.last().map_or(0, |entry| entry.position.number());
        let tip = last.saturating_sub(missing).max(1);
        let model = Model::new(&entries, tip);
        let (cut, whole) = (pages(&entries, tip, &cuts), pages(&entries, tip, &BTreeSet::new()));
        let (mut next, mut handled) = (1, Vec::new());
        loop {
            let told = assemble(&cut, &bounds, &known, next);
            prop_assert_eq!(&told, &assemble(&whole, &bounds, &known, next), "another cut, at {}", next);
            prop_assert_eq!(&told, &model.assemble(&bounds, &known, next), "the model, at {}", next);
            let Compared::Batch { next: after, groups, park } = told else {
                if let Compared::Nothing { next: after } = told {
                    prop_assert!(model.own(next, after - 1).is_empty());
                    next = after;
                }
                break;
            };
            let mut events: Vec<u64> = groups.into_iter().flat_map(|group| group.2).chain(park).collect();
            events.sort_unstable();
            prop_assert!(after > next && events.iter().all(|event| (next..after).contains(event)));
            handled.extend(events);
            next = after;
        }
        let mut own = model.own(1, next - 1);
        own.retain(|event| !known.dead.contains(&event.position));
        prop_assert_eq!(handled, numbers(&own), "each event once, and letters never");
        let wished = bounds.stop_at.is_some_and(|stop_at| next == stop_at);
        prop_assert!(wished || model.boundaries.contains(&(next - 1)), "{} is no boundary", next - 1);
    }
}

/// Rows of one host and one user.
fn rows(count: usize) -> Vec<Row> {
    let row =
        Row { user: 1, own: true, control: false, filtered: false, bytes: 10, removed: false };
    vec![row; count]
}

fn whole(rows: Vec<Row>) -> Source {
    Source::Transaction { rows, append_after: None, ends: true }
}

const BOUNDS: Bounds = Bounds {
    limits: Limits {
        batch_events: 100,
        batch_bytes: 1 << 30,
        transaction_events_max: 10_000,
        transaction_bytes_max: 1 << 30,
    },
    stop_at: None,
};

#[test]
fn a_batch_is_extended_to_the_end_of_its_transaction() {
    let entries = entries(&[whole(rows(120)), whole(rows(3))]);
    let pages = pages(&entries, 123, &BTreeSet::from([100]));
    let told = assemble(&pages, &BOUNDS, &KeyStates::default(), 1);
    let Compared::Batch { next: 121, groups, .. } = told else { panic!("{told:?}") };
    assert_eq!(groups[0].2.len(), 120);
}

#[test]
fn a_transaction_that_has_not_ended_is_waited_for() {
    let unfinished = Source::Transaction { rows: rows(9), append_after: Some(4), ends: false };
    let mut log = vec![whole(rows(2)), unfinished];
    let behind = |log: &[Source], from| {
        let entries = entries(log);
        let tip = entries.last().expect("events").position.number();
        assemble(&pages(&entries, tip, &BTreeSet::new()), &BOUNDS, &KeyStates::default(), from)
    };
    assert!(matches!(behind(&log, 1), Compared::Batch { next: 3, .. }));
    assert_eq!(behind(&log, 3), Compared::Incomplete);
    log.push(Source::Append(rows(1)));
    assert_eq!(behind(&log, 3), Compared::Incomplete, "an append may lie within it");
    log.push(whole(rows(1)));
    assert!(
        matches!(behind(&log, 3), Compared::Batch { next: 16, .. }),
        "another transaction ends it"
    );
}

#[test]
fn units_are_what_one_transaction_or_append_did_for_a_key() {
    let within = Source::Transaction { rows: rows(4), append_after: Some(2), ends: true };
    let entries = entries(&[Source::Append(rows(2)), Source::Append(rows(1)), within]);
    let events: Vec<_> = entries.iter().filter_map(|entry| entry.event.clone()).collect();
    let group = KeyEvents { key: events[0].key(), attempt: 0, events };
    let lengths: Vec<usize> = group.units().map(<[_]>::len).collect();
    assert_eq!(lengths, [2, 1, 2, 2, 2]);
}

#[test]
#[should_panic(expected = "partition 1")]
fn a_page_that_was_read_for_others_is_refused() {
    let mut pages = pages(&entries(&[whole(rows(1))]), 1, &BTreeSet::new());
    let others = Wants { partitions: Some(BTreeSet::from([0])), ..(*pages[0].wants).clone() };
    pages[0].wants = Arc::new(others);
    assemble(&pages, &BOUNDS, &KeyStates::default(), 1);
}
