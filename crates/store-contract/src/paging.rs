//! Everyone who reads the log in pieces: whatever the sizes of the events and the limits, the pieces
//! together are all events, once, in order, and a piece that says that it is the last is the last.
//! (Invariant 3, for the stores.)
//!
//! Webhooks and wakes have no test here, because they read no events: what is sent names a stream and positions in
//! it, and streams are found by their names, which have one. A backup copies the file, whatever is in it.

use std::num::NonZeroU32;
use std::sync::Arc;

use rand::Rng as _;
use serde_json::json;

use super::Opener;
use super::group_fixture::{GROUP, letter, wish};
use super::paging_history::{
    Builder, CODE, ENTITIES, HOST, History, ORDERS, TRANSACTION_ROWS_MAX, USER, any_image,
    ordinary_image, random_limit,
};
use super::retention::Captured;
use super::test_store::TestStore;
use tidewire_store::groups::{
    Begun, Claim, Ending, Entry, Filter, GroupEvent, Key, LetterSelection, LogPage, PAGE_BYTES_MAX,
    Wants,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;
use tidewire_store::retention::RetentionRules;
use tidewire_store::row::RowChange;

/// Limits that each test reads by.
const LIMITS: usize = 6;

fn numbers(positions: impl IntoIterator<Item = Position>) -> Vec<u64> {
    positions.into_iter().map(Position::number).collect()
}

/// Reads a stream to its end, and holds every page to what it says of itself.
async fn read_stream(
    store: &TestStore,
    stream: &str,
    from: u64,
    limit: PageLimit,
    expected: &[u64],
    about: &str,
) {
    let expected: Vec<u64> = expected.iter().copied().filter(|at| *at > from).collect();
    let (mut got, mut after) = (Vec::new(), Position::new(from));
    loop {
        let page = store.page(stream, after, limit).await;
        assert!(page.events.len() <= limit.events, "{about}: too many events");
        got.extend(numbers(page.events.iter().map(|event| event.position)));
        let seen = page.scanned_to.number();
        let known: Vec<u64> = expected.iter().copied().filter(|at| *at <= seen).collect();
        assert_eq!(got, known, "{about}: not all up to {seen}, which the page has looked at");
        let next = page.next(after);
        if page.up_to_date() {
            break;
        }
        assert!(next > after, "{about}: a page that is not the last moves the reader");
        assert!(got.len() < expected.len(), "{about}: the last page does not say so");
        after = next;
    }
    assert_eq!(got, expected, "{about}: a page says that it is the last, and is not");
}

/// A table such as users have, read by the limits that a subscriber who comes back is served by.
pub async fn ordinary_rows_are_read_whole(data: &dyn Opener) {
    let mut builder = Builder::new(data, 0).await;
    for _ in 0..10 {
        builder.rows(200, ordinary_image).await;
    }
    let (store, history, _) = builder.finish().await;
    for bytes in [64 << 10, 256 << 10, 512 << 10, 1 << 20] {
        let limit = PageLimit { events: 2_000, bytes };
        read_stream(&store, ORDERS, 0, limit, &history.rows, &format!("{limit:?}")).await;
    }
}

/// Rows whose text repeats itself take little on disk, and no more of them are read at once for that.
pub async fn rows_that_compress_well_fill_a_page_as_texts(data: &dyn Opener) {
    const IMAGE_BYTES: usize = 40_000;
    let mut builder = Builder::new(data, 8).await;
    builder
        .rows(50, |_, id| json!({ "id": id, "note": "again and ".repeat(IMAGE_BYTES / 10) }))
        .await;
    let (store, history, _) = builder.finish().await;
    let limit = PageLimit { events: 1_000, bytes: 4 * IMAGE_BYTES };
    // The event that reaches the limit is part of the page.
    let is_within = |changes: &[usize]| changes.iter().rev().skip(1).sum::<usize>() < limit.bytes;
    let bytes = |change: &Option<Arc<RowChange>>| change.as_ref().map_or(0, |row| row.bytes());

    let page = store.page(ORDERS, Position::START, limit).await;
    let sizes: Vec<usize> = page.events.iter().map(|event| bytes(&event.row)).collect();
    assert!(!page.up_to_date() && is_within(&sizes), "a page: {sizes:?}");

    let everything = Arc::new(|_: &str| true);
    let page = store.follow(Position::START, limit, everything).await.expect("the log is followed");
    let sizes: Vec<usize> = page.iter().map(|event| bytes(&event.row)).collect();
    assert!(is_within(&sizes), "the log: {sizes:?}");

    for tables in [[].as_slice(), &["orders"]] {
        let (tip, wants) = (Position::new(history.tip), wants(None, tables, limit.bytes));
        let page = store.groups().log_page(Position::START, tip, &wants).await.expect("a page");
        let events = page.entries.iter().filter_map(|entry| entry.event.as_ref());
        let sizes: Vec<usize> = events.map(|event| bytes(&event.change)).collect();
        assert!(is_within(&sizes), "a group's page of {tables:?}: {sizes:?}");
    }
}

/// Streams of texts, of messages, of changes of rows, and forks, whose events lie in several runs.
pub async fn streams_are_read_whole_in_pieces(data: &dyn Opener) {
    let (store, history, mut rng) = Builder::mixed(data, 1).await;
    let streams = [(ORDERS, &history.rows), ("doc", &history.texts), ("json", &history.messages)];
    let forks = history.forks.iter().map(|(name, positions)| (*name, positions));
    for (stream, positions) in streams.into_iter().chain(forks) {
        for _ in 0..LIMITS {
            let limit = random_limit(&mut rng);
            let from = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..history.tip) };
            let about = format!("{stream} after {from} by {limit:?}");
            read_stream(&store, stream, from, limit, positions, &about).await;
        }
    }
}

/// The log itself, with the payloads of some streams or of all.
pub async fn the_log_is_followed_whole_in_pieces(data: &dyn Opener) {
    let (store, history, mut rng) = Builder::mixed(data, 2).await;
    for wanted in ["", "doc", ORDERS] {
        for _ in 0..LIMITS {
            let limit = random_limit(&mut rng);
            let (mut got, mut after) = (Vec::new(), Position::START);
            loop {
                let wants = Arc::new(move |stream: &str| wanted.is_empty() || stream == wanted);
                let page = store.follow(after, limit, wants).await.expect("the log is followed");
                let Some(last) = page.last() else { break };
                assert!(page.len() <= limit.events, "{limit:?}: too many events");
                after = last.position;
                got.extend(page);
            }
            let about = format!("{wanted:?} by {limit:?}");
            let positions = numbers(got.iter().map(|event| event.position));
            assert_eq!(positions, (1..=history.tip).collect::<Vec<_>>(), "{about}");
            for event in got.iter().filter(|event| event.control.is_none()) {
                let is_wanted = wanted.is_empty() || event.stream == wanted;
                let has_content = event.payload.is_some() || event.row.is_some();
                assert_eq!(has_content, is_wanted, "{about}: {event:?}");
            }
        }
    }
}

fn wants(partitions: Option<u32>, tables: &[&str], page_bytes: usize) -> Arc<Wants> {
    let tables = tables.iter().map(|table| (*table).to_owned()).collect();
    Arc::new(Wants {
        filter: Filter { tables, streams: Vec::new() },
        total: NonZeroU32::new(4).expect("some"),
        partitions: partitions.map(|partition| [partition].into()),
        page_bytes,
    })
}

/// The log as groups read it: all of it, a partition's, a table's.
pub async fn groups_read_the_log_whole_in_pieces(data: &dyn Opener) {
    let (store, history, mut rng) = Builder::mixed(data, 3).await;
    let groups = store.groups();
    let partition = tidewire_store::groups::partition_of(HOST, NonZeroU32::new(4).expect("some"));
    for (partitions, tables) in
        [(None, [].as_slice()), (Some(partition), [].as_slice()), (None, ["orders"].as_slice())]
    {
        for _ in 0..LIMITS {
            let limit = random_limit(&mut rng);
            let wants = wants(partitions, tables, limit.bytes);
            let (mut entries, mut after): (Vec<Entry>, _) = (Vec::new(), 0);
            while after < history.tip {
                // The end of a read may lie past the tip.
                let up_to = Position::new(after + limit.events as u64);
                let page = groups.log_page(Position::new(after), up_to, &wants).await;
                let LogPage { entries: read, scanned_to, .. } = page.expect("a page");
                entries.extend(read);
                let positions = numbers(entries.iter().map(|entry| entry.position));
                let all: Vec<u64> = (1..=scanned_to.number()).collect();
                assert_eq!(positions, all, "{wants:?}: not all that was looked at");
                assert!(scanned_to.number() > after, "{wants:?}: reading does not move");
                after = scanned_to.number();
            }
            assert_eq!(after, history.tip, "{wants:?}: a page reaches past the tip");
            let whole = entries.iter().filter(|entry| entry.event.is_some());
            let whole = numbers(whole.map(|entry| entry.position));
            let wanted = entries.iter().filter(|entry| {
                let is_row = history.rows.contains(&entry.position.number());
                !entry.control
                    && partitions.is_none_or(|wanted| wanted == entry.partition)
                    && (tables.is_empty() || is_row)
            });
            assert_eq!(whole, numbers(wanted.map(|entry| entry.position)), "{wants:?}");
        }
    }
}

/// A group with a letter of each change of a row, all of one key.
async fn letters(data: &dyn Opener, seed: u64) -> (TestStore, History, rand::rngs::StdRng) {
    let (store, history, rng) = Builder::mixed(data, seed).await;
    let groups = store.groups();
    let (_, made) = groups.put_group(GROUP, &wish(1)).await.expect("a group is made");
    assert!(made);
    let (tip, all) = (Position::new(history.tip), wants(None, &["orders"], PAGE_BYTES_MAX));
    let page = groups.log_page(Position::START, tip, &all).await.expect("a page");
    assert_eq!(page.scanned_to, tip, "so little is one page");
    let events: Vec<Arc<GroupEvent>> = page.entries.into_iter().filter_map(|e| e.event).collect();
    let holdings = groups.holdings(GROUP, 0).await.expect("holdings");
    let claim = Claim {
        group: GROUP.to_owned(),
        partition: 0,
        member: "m".to_owned(),
        generation: holdings.partition.generation,
        next: holdings.partition.next,
        timeout_ms: 20_000,
    };
    let Begun::Work(work) = groups.begin(&claim).await.expect("work") else { panic!("no work") };
    let ending = Ending {
        next: tip.next(),
        dead: vec![letter(&events[0], "poison")],
        park: events[1..].to_vec(),
        parked_from: vec![(Key::of(Some(HOST), Some(USER)), events[0].position)],
        ..Ending::default()
    };
    work.finish(&ending).await.expect("the batch ends");
    (store, history, rng)
}

/// Letters, as a person lists them.
pub async fn letters_are_listed_whole_in_pieces(data: &dyn Opener) {
    let (store, History { rows, .. }, mut rng) = letters(data, 4).await;
    let groups = store.groups();
    for _ in 0..LIMITS {
        let limit = random_limit(&mut rng);
        let (mut got, mut after) = (Vec::new(), Position::START);
        loop {
            let page = groups.letters(GROUP, after, limit, None).await.expect("letters");
            assert!(page.letters.len() <= limit.events, "{limit:?}: too many");
            got.extend(numbers(page.letters.iter().map(|view| view.letter.event.position)));
            assert_eq!(page.more, got.len() < rows.len(), "{limit:?}: {} letters", got.len());
            let Some(last) = page.letters.last().filter(|_| page.more) else { break };
            after = last.letter.event.position;
        }
        assert_eq!(got, rows, "{limit:?}");
    }
}

/// Letters, as they are worked off again: a piece is a beginning of all, never empty, and ends where a transaction
/// does.
pub async fn letters_that_are_due_come_in_whole_units(data: &dyn Opener) {
    let (store, History { rows, transactions, .. }, mut rng) = letters(data, 5).await;
    let groups = store.groups();
    groups.redrive(GROUP, &LetterSelection::All).await.expect("they are marked");
    for _ in 0..LIMITS {
        let limit = random_limit(&mut rng);
        let batch = groups.letters_due(GROUP, 0, limit).await.expect("letters").expect("due");
        let events = batch.groups.iter().flat_map(|group| &group.events);
        let got = numbers(events.map(|event| event.position));
        // Of the last transaction more may be taken than were asked for, rather than a part.
        let most = limit.events + TRANSACTION_ROWS_MAX - 1;
        assert!(!got.is_empty() && got.len() <= most, "{limit:?}: {got:?}");
        assert_eq!(got, rows[..got.len()], "{limit:?}");
        let (last, next) = (transactions[got.len() - 1], transactions.get(got.len()));
        assert_ne!(Some(&last), next, "{limit:?}: a transaction is torn apart after {got:?}");
    }
    let everything = PageLimit { events: usize::MAX, bytes: usize::MAX };
    let batch = groups.letters_due(GROUP, 0, everything).await.expect("letters").expect("due");
    assert_eq!(batch.groups[0].events.len(), rows.len(), "all fit, and are all");
}

/// What became of entities. Among what is found for them some is told to nobody, and that must not be
/// taken for the end.
pub async fn what_became_of_entities_is_read_whole_in_pieces(data: &dyn Opener) {
    let (store, history, mut rng) = Builder::mixed(data, 6).await;
    for _ in 0..LIMITS {
        let most = random_limit(&mut rng).events;
        let ids: Vec<u64> = (0..ENTITIES).filter(|_| rng.random_bool(0.5)).collect();
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let told = history.told.iter().filter(|(_, id)| ids.contains(id));
        let expected: Vec<u64> = told.map(|(position, _)| *position).collect();
        let (mut got, mut next) = (Vec::new(), Some(Position::START));
        while let Some(after) = next {
            let page = store.entity_changes(CODE, &names, after, most).await.expect("changes");
            assert!(page.changes.len() <= most, "{most}: too many");
            got.extend(numbers(page.changes.iter().map(|past| past.position)));
            next = page.next;
            let seen = next.map_or(u64::MAX, Position::number);
            let known: Vec<u64> = expected.iter().copied().filter(|at| *at <= seen).collect();
            assert_eq!(got, known, "{ids:?} by {most}: not all up to {next:?}");
            assert!(next.is_none_or(|next| next > after), "{most}: reading does not move");
        }
        assert_eq!(got, expected, "{ids:?} by {most}");
    }
}

/// Retention measures the log in pieces, cuts it by bytes and removes in pieces. What goes is a beginning of the
/// rows, all that has to go, and no row more.
pub async fn what_is_too_much_is_given_up_whole_in_pieces(data: &dyn Opener) {
    // More than both images of any row here, in either store's measure.
    const ROW_BYTES_MAX: u64 = 50_000;
    let mut builder = Builder::new(data, 10).await;
    for count in [200, 2_500, 200, 2_500, 200] {
        // More than one range of offsets, and more than is removed at once.
        builder.rows(count, if count > 200 { ordinary_image } else { any_image }).await;
        builder.documents().await;
    }
    let (store, History { rows, .. }, mut rng) = builder.finish().await;
    let log = Captured { data, store };
    let settled = async |bytes_max: Option<u64>| {
        let rules = RetentionRules { bytes_max, ..RetentionRules::default() };
        log.retains(&rules).await;
        log.a_minute_passes().await;
        let removed = log.retains(&rules).await;
        let left = log.retains(&rules).await;
        (removed.events_removed, removed.bytes_removed, left.captured_events, left.captured_bytes)
    };
    let (_, _, mut events, mut bytes) = settled(None).await;
    assert_eq!(events, rows.len() as u64, "without limits all is kept");
    for _ in 0..LIMITS {
        let most = rng.random_range(bytes / 2..bytes);
        // And one byte too many is one row too many.
        for one_by_one in [false, true] {
            let bytes_max = if one_by_one { bytes - 1 } else { most };
            let about = format!("{bytes_max} of {bytes} bytes");
            let (removed, removed_bytes, left, left_bytes) = settled(Some(bytes_max)).await;
            assert!(left_bytes <= bytes_max, "{about}: {left_bytes} are left");
            let is_needed = left_bytes + ROW_BYTES_MAX > bytes_max;
            assert!(is_needed, "{about}: only {left_bytes} are left");
            assert!(!one_by_one || removed == 1, "{about}: {removed} rows went");
            assert_eq!((left + removed, left_bytes + removed_bytes), (events, bytes), "{about}");
            let kept = &rows[rows.len() - usize::try_from(left).expect("so many were made")..];
            assert_eq!(numbers(log.positions(ORDERS).await), kept, "{about}");
            (events, bytes) = (left, left_bytes);
        }
        assert_eq!(settled(Some(bytes)).await, (0, 0, events, bytes), "what has room stays");
    }
}

/// Names of streams.
pub async fn names_are_listed_whole_in_pieces(data: &dyn Opener) {
    let mut builder = Builder::new(data, 7).await;
    let mut expected = Vec::new();
    for number in 0..60 {
        let length = builder.rng.random_range(1..200);
        let name = format!("n/{}{number}", "x".repeat(length));
        builder.store.create_text(&name).await;
        expected.push(name);
    }
    expected.sort();
    for most in [1, 2, 7, 59, 60, 61, 1_000] {
        let (mut got, mut after): (Vec<String>, _) = (Vec::new(), String::new());
        loop {
            let names = builder.store.names("n/", &after, most).await.expect("names");
            let Some(last) = names.last() else { break };
            after.clone_from(last);
            got.extend(names);
        }
        assert_eq!(got, expected, "{most} at a time");
    }
}
