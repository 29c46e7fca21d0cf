//! Pages of the log as groups read them.

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, STREAM, host_in, wish};
use tidewire_store::groups::{Entry, Filter};
use tidewire_store::offset::Position;
use tidewire_store::row::Operation;

/// Numbers of entries, and of those that have an event to hand out.
fn numbers(entries: &[Entry]) -> (Vec<u64>, Vec<u64>) {
    let number = |entry: &Entry| entry.position.number();
    let whole = entries.iter().filter(|entry| entry.event.is_some() && !entry.control);
    (entries.iter().map(number).collect(), whole.map(number).collect())
}

/// Every event has its header, and the wanted ones are whole.
pub async fn a_page_has_all_headers_and_the_wanted_events(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 4).await;
    let hosts = [host_in(1, 4), host_in(2, 4), host_in(3, 4)];
    let first = fixture.say(&hosts[0], "u", &["1"]).await;
    fixture.say(&hosts[1], "u", &["2", "3"]).await;
    let tip = fixture.say(&hosts[2], "", &["4"]).await;
    let all = fixture.page(0, tip, &fixture.wants(Filter::default(), None).await).await;
    let (positions, _) = numbers(&all.entries);
    assert_eq!(positions, (1..=tip.number()).collect::<Vec<u64>>());
    assert_eq!((all.after, all.scanned_to), (Position::START, tip));
    assert!(all.entries[0].control, "the stream's beginning is handed to nobody");
    let partitions: Vec<u32> = all.entries[1..].iter().map(|entry| entry.partition).collect();
    assert_eq!(partitions, [1, 2, 2, 3]);
    assert!(all.entries[1..].iter().all(|entry| entry.event.is_some() && !entry.control));
    let lasts: Vec<bool> = all.entries.iter().map(|entry| entry.tx_last).collect();
    assert_eq!(lasts, [true, true, false, true, true]);
    let some = fixture.page(0, tip, &fixture.wants(Filter::default(), Some(&[2])).await).await;
    let (positions, whole) = numbers(&some.entries);
    assert_eq!(positions, (1..=tip.number()).collect::<Vec<u64>>());
    assert_eq!(whole, [first.number() + 1, first.number() + 2]);
    let none = fixture.page(0, tip, &fixture.wants(Filter::default(), Some(&[])).await).await;
    assert_eq!(numbers(&none.entries), ((1..=tip.number()).collect(), Vec::new()));
    let part = fixture.page(1, first, &fixture.wants(Filter::default(), None).await).await;
    assert_eq!((numbers(&part.entries).0, part.scanned_to), (vec![first.number()], first));
}

/// What a filter leaves out has its header all the same: it may end a transaction.
pub async fn a_filter_leaves_events_out_but_not_their_headers(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.store.create(tidewire_store::testing::commands::create_json("chat/a")).await;
    let row = fixture.row("h", 7, false, 1_700_000_000).await.number();
    let last = fixture.row("h", 7, true, 1_700_000_000).await.number();
    let said = fixture.say("h", "u", &["1"]).await;
    let chat = tidewire_store::testing::commands::append_json("chat/a", &["2"]);
    let tip = fixture.store.append(chat).await;
    let (said, chatted) = (said.number(), tip.number());
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (tables, streams, wanted) in [
        (vec![], vec![], vec![row, last, said, chatted]),
        (vec!["t"], vec![], vec![row, last]),
        (vec!["other"], vec!["chat/*"], vec![chatted]),
        (vec!["t"], vec![STREAM], vec![row, last, said]),
        (vec![], vec!["**"], vec![said, chatted]),
    ] {
        let filter = Filter { tables: owned(&tables), streams: owned(&streams) };
        let wants = fixture.wants(filter, None).await;
        let page = fixture.page(0, tip, &wants).await;
        let (positions, whole) = numbers(&page.entries);
        assert_eq!(positions, (1..=chatted).collect::<Vec<u64>>(), "{tables:?} {streams:?}");
        assert_eq!(whole, wanted, "{tables:?} {streams:?}");
        let of_row = page.entries.iter().find(|entry| entry.position.number() == row);
        let header = of_row.map(|entry| (entry.txid, entry.tx_last));
        assert_eq!(header, Some((Some(7), false)));
    }
}

/// An event is told with all that is known of it.
pub async fn events_are_told_whole(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let row = fixture.row("h", 7, true, 1_700_000_000).await;
    let tip = fixture.say("h", "u", &["{\"a\": 1}", "2"]).await;
    for partitions in [None, Some([0, 1].as_slice())] {
        let page = fixture.page(1, tip, &fixture.wants(Filter::default(), partitions).await).await;
        let events: Vec<_> = page.entries.iter().filter_map(|entry| entry.event.as_ref()).collect();
        let [change, first, second] = events[..] else { panic!("{events:?}") };
        assert_eq!((change.position, change.stream.as_str()), (row, "table/t"));
        assert_eq!((change.txid, change.tx_last), (Some(7), true));
        assert_eq!(change.created_at_ms, 1_700_000_000_000);
        assert!(change.payload.is_none());
        let of_row = change.change.as_ref().expect("a change");
        assert_eq!((of_row.table.as_str(), of_row.operation), ("t", Operation::Update));
        assert_eq!(of_row.entity_id.as_deref(), Some(row.number().to_string().as_str()));
        let json = |image: &Option<bytes::Bytes>| -> serde_json::Value {
            serde_json::from_slice(image.as_ref().expect("an image")).expect("JSON")
        };
        assert_eq!(json(&of_row.before), serde_json::json!({"id": 1}));
        assert_eq!(json(&of_row.after), serde_json::json!({"id": 2}));
        assert_eq!((first.append_id, second.append_id), (first.position, first.position));
        assert_eq!((first.txid, first.tx_last, second.tx_last), (None, false, true));
        assert_eq!((first.host_id.as_deref(), first.user_id.as_deref()), (Some("h"), Some("u")));
        assert_eq!(first.payload.as_deref(), Some(b"{\"a\": 1}".as_slice()));
        assert_eq!(first.content_type.as_deref(), Some("application/json"));
        assert_eq!(first.trace_context.as_deref(), Some("00-trace"));
        assert!(first.change.is_none() && first.created_at_ms > 1_700_000_000_000);
    }
}

/// A page ends early rather than hold gigabytes, and the next one goes on.
pub async fn a_page_of_a_group_ends_once_it_has_its_bytes(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let large = format!("\"{}\"", "x".repeat(3 << 20));
    let huge = format!("\"{}\"", "x".repeat(9 << 20));
    let mut tip = Position::START;
    for text in [&large, &large, &large, &huge, &large] {
        tip = fixture.say("h", "u", &[text]).await;
    }
    for partitions in [None, Some([0, 1].as_slice())] {
        let wants = fixture.wants(Filter::default(), partitions).await;
        let (mut after, mut seen, mut pages) = (0, Vec::new(), 0);
        while after < tip.number() {
            let page = fixture.page(after, tip, &wants).await;
            assert!(page.scanned_to.number() > after, "reading always moves");
            let (positions, whole) = numbers(&page.entries);
            assert!(positions.iter().all(|p| (after + 1..=page.scanned_to.number()).contains(p)));
            assert!(whole.len() <= 4, "{whole:?} are too many bytes");
            seen.extend(positions);
            (after, pages) = (page.scanned_to.number(), pages + 1);
        }
        assert_eq!(seen, (1..=tip.number()).collect::<Vec<u64>>());
        assert!(pages > 1, "all of it in one page");
    }
}

/// Where events were removed a page has holes, and is read over them.
pub async fn removed_events_are_holes(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    for text in ["2", "3", "4", "5"] {
        fixture.say("h", "u", &[text]).await;
    }
    data.run_sql("DELETE FROM tidewire.log WHERE c_offset IN (1, 3, 4)").await;
    let wants = fixture.wants(Filter::default(), None).await;
    let page = fixture.page(0, Position::new(5), &wants).await;
    assert_eq!((numbers(&page.entries).0, page.scanned_to.number()), (vec![2, 5], 5));
    let page = fixture.page(2, Position::new(4), &wants).await;
    assert_eq!((page.entries.len(), page.scanned_to.number()), (0, 4));
    let batch = fixture.batch(0).await;
    assert_eq!(batch.next.number(), 6);
}

/// Hosts have the partitions that they always had.
pub async fn partitions_of_hosts_stay(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    fixture.makes(GROUP, &wish(1_000)).await;
    let mut tip = Position::START;
    for host in ["", "host-1", "ünïcode ☃"] {
        tip = fixture.say(host, "u", &["1"]).await;
    }
    let page = fixture.page(1, tip, &fixture.wants(Filter::default(), None).await).await;
    let partitions: Vec<u32> = page.entries.iter().map(|entry| entry.partition).collect();
    // The first four bytes of SHA-256 as a big-endian number, modulo 1,000.
    assert_eq!(partitions, [610, 884, 864]);
}
