//! Reading streams: pages that join exactly, and how far each one has looked.

use super::Opener;
use super::test_store::{EVERYTHING, TestStore, text};
use tidewire_store::command::Append;
use tidewire_store::log::{Found, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{append, close, create};

/// A stream of ten texts, with another stream's appends between them.
async fn ten_texts(store: &TestStore) -> Vec<String> {
    store.create_text("a").await;
    store.create_text("other").await;
    let bodies: Vec<String> = (0..10).map(|number| format!("text {number}")).collect();
    for body in &bodies {
        store.append_text("a", body).await;
        store.append_text("other", "noise").await;
    }
    bodies
}

/// Whoever comes late reads all that was written, in order, and nothing of other streams.
pub async fn a_late_reader_sees_everything(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let bodies = ten_texts(&store).await;
    let page = store.page("a", Position::START, EVERYTHING).await;
    let texts: Vec<String> = page.events.iter().map(|event| text(&event.payload)).collect();
    assert_eq!(texts, bodies);
    assert!(page.events.is_sorted_by(|a, b| a.position < b.position));
    assert!(page.up_to_date());
}

/// Reading a page at a time gives the same as reading at once, whatever the page's limits.
pub async fn pages_join_without_gap_or_overlap(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let bodies = ten_texts(&store).await;
    for limit in [
        PageLimit { events: 1, bytes: EVERYTHING.bytes },
        PageLimit { events: 3, bytes: EVERYTHING.bytes },
        PageLimit { events: 10, bytes: EVERYTHING.bytes },
        PageLimit { events: 100, bytes: 1 },
        PageLimit { events: 100, bytes: 20 },
        PageLimit { events: 2, bytes: 7 },
    ] {
        let (mut after, mut texts) = (Position::START, Vec::new());
        loop {
            let page = store.page("a", after, limit).await;
            assert!(page.events.len() <= limit.events, "{limit:?}: too many events");
            texts.extend(page.events.iter().map(|event| text(&event.payload)));
            let next = page.next(after);
            if page.up_to_date() {
                assert_eq!(next, page.view.tail, "{limit:?}");
                break;
            }
            assert!(next > after, "{limit:?}: a page that is not the last moves the reader");
            after = next;
        }
        assert_eq!(texts, bodies, "{limit:?}");
    }
}

/// A page ends with the event that reaches its limit of bytes; a larger event is returned alone.
pub async fn a_page_ends_once_it_has_its_bytes(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let large = "x".repeat(100_000);
    for body in ["1234", "5678", large.as_str(), "9"] {
        store.append_text("a", body).await;
    }
    let sizes = async |after: u64, bytes: usize| -> Vec<usize> {
        let limit = PageLimit { events: 100, bytes };
        let page = store.page("a", Position::new(after), limit).await;
        page.events.iter().map(|event| event.payload.len()).collect()
    };
    assert_eq!(sizes(0, 4).await, [4]);
    assert_eq!(sizes(0, 5).await, [4, 4]);
    assert_eq!(sizes(0, 8).await, [4, 4]);
    assert_eq!(sizes(0, 9).await, [4, 4, 100_000], "the event that reaches the limit is the last");
    assert_eq!(sizes(3, 10).await, [100_000], "a single large event is still returned");
    assert_eq!(sizes(3, 200_000).await, [100_000, 1]);
}

/// `scanned_to` is the log's tip once the stream's end is reached, else the last event returned.
pub async fn a_page_says_how_far_it_looked(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    ten_texts(&store).await;
    let tip = store.log_tip().await;
    let tail = store.view("a").await.tail;
    assert!(tail < tip, "the other stream has the last word");
    let look = async |after: Position, events: usize| {
        let limit = PageLimit { events, ..EVERYTHING };
        let page = store.page("a", after, limit).await;
        assert_eq!(page.view.tail, tail);
        (page.events.len(), page.scanned_to, page.up_to_date())
    };
    let start = Position::START;
    let third = store.events("a").await[2].position;
    assert_eq!(look(start, 100).await, (10, tip, true), "all of it");
    assert_eq!(look(start, 3).await, (3, third, false), "cut short");
    assert_eq!(look(start, 10).await, (10, tip, true), "cut exactly at the end");
    assert_eq!(look(tail, 100).await, (0, tip, true), "from the end");
    assert_eq!(look(tip, 100).await, (0, tip, true), "from the tip, past the end");
    assert_eq!(store.page("a", tip, EVERYTHING).await.next(tip), tip, "a reader never goes back");
    assert_eq!(look(start, 0).await, (0, start, false), "a look at the stream only");
    assert_eq!(look(third, 0).await, (0, third, false), "a look at the stream only, further on");
    assert_eq!(look(tail, 0).await, (0, tip, true), "a look from the end");
}

/// An empty stream and a closed one have an end like any other.
pub async fn a_stream_without_more_to_come_is_up_to_date(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("empty").await;
    store.create_text("closed").await;
    store.append(Append { close: true, ..append("closed", "end") }).await;
    let empty = store.page("empty", Position::START, EVERYTHING).await;
    assert!(empty.up_to_date() && empty.events.is_empty());
    assert_eq!(empty.next(Position::START), Position::START);
    let closed = store.page("closed", Position::START, EVERYTHING).await;
    assert!(closed.up_to_date());
    assert_eq!(closed.next(Position::START), closed.view.tail);
    let at_end = store.page("closed", closed.view.tail, EVERYTHING).await;
    assert!(at_end.up_to_date() && at_end.events.is_empty());
    assert_eq!(at_end.next(closed.view.tail), closed.view.tail);
}

/// Control events have positions in the log but are no part of what a stream shows.
pub async fn control_events_do_not_show_in_a_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append_text("a", "x").await;
    store.append(close("a")).await;
    assert_eq!(store.texts("a").await, ["x"]);
    assert_eq!(store.log_tip().await, Position::new(3));
    assert_eq!(store.view("a").await.tail, Position::new(2), "nor do they move its end");
}

/// There is no stream, and the answer says so.
pub async fn reading_no_stream_finds_nothing(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let found = store.find("a", Position::START, EVERYTHING).await;
    assert!(matches!(found, Found::NotFound), "{found:?}");
}

/// Names come in the order of their bytes, a page at a time, and only those with the prefix: no
/// character in it is special.
pub async fn names_are_paged_in_byte_order(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for name in ["b", "a/2", "a/10", "a_x", "abx", "A/1", "a%", "ä", "a/Z", "a/a", "gone", "a\\x"]
    {
        store.create(create(name)).await;
    }
    store.delete("gone").await;
    let names = async |prefix: &str, after: &str, limit: usize| {
        store.names(prefix, after, limit).await.expect("names can be listed")
    };
    let all = ["A/1", "a%", "a/10", "a/2", "a/Z", "a/a", "a\\x", "a_x", "abx", "b", "ä"];
    assert_eq!(names("", "", 100).await, all);
    assert_eq!(names("a/", "", 100).await, ["a/10", "a/2", "a/Z", "a/a"]);
    assert_eq!(names("a_", "", 100).await, ["a_x"]);
    assert_eq!(names("a%", "", 100).await, ["a%"]);
    assert_eq!(names("a\\", "", 100).await, ["a\\x"]);
    assert_eq!(names("a/", "a/2", 1).await, ["a/Z"]);
    assert_eq!(names("a/", "a/a", 10).await, [] as [&str; 0]);
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = names("", &after, 3).await;
        let Some(last) = page.last() else { break };
        after.clone_from(last);
        paged.extend(page);
    }
    assert_eq!(paged, all);
}

/// Also where no next character exists, or none that is one.
pub async fn a_prefix_may_end_in_any_character(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let endings = ["a", "z", "~", "\u{7f}", "\u{d7ff}", "\u{ffff}", "\u{10ffff}"];
    for ending in endings {
        for name in [format!("p{ending}"), format!("p{ending}/x"), format!("p{ending}\u{10ffff}")] {
            store.create(create(&name)).await;
        }
    }
    for ending in endings {
        let prefix = format!("p{ending}");
        let names = store.names(&prefix, "", 100).await.expect("names can be listed");
        let expected = [prefix.clone(), format!("{prefix}/x"), format!("{prefix}\u{10ffff}")];
        assert_eq!(names, expected, "{prefix:?}");
    }
}
