//! What a client that reads slowly gets of a query: pieces, then what happened meanwhile, or that it is
//! to get all rows anew.

use std::sync::Arc;

use bytes::Bytes;

use tidewire_query::{QueryId, RowText, Subscriber};
use tidewire_store::{LiveQueryRow, Position};

use super::LiveQuery;
use super::begin::Pieces;
use crate::kinds::Kind;
use crate::kinds::query::engine::{QuerySeats, Registry};
use crate::outbox::{OutboxItem, QueuedItem, Slot};
use crate::slow_client::SlowClient;
use tidewire_access::auth::Who;
use tidewire_wire::keyed_permits::KeyedPermits;

/// A client that follows one query.
struct Client {
    client: SlowClient,
    slot: Slot,
}

/// A query that has not begun.
pub fn live_query(who: Subscriber) -> LiveQuery {
    let row = LiveQueryRow {
        live_id: "c-q".to_owned(),
        connection_id: "c".to_owned(),
        query_id: "q".to_owned(),
        user_id: String::new(),
        query: "SELECT 1".to_owned(),
        node: "n".to_owned(),
        plan: "filter".to_owned(),
        user_agent: None,
        address: None,
    };
    let counts = Registry::default().opened(row);
    let seat = KeyedPermits::default().take(Who::Admin, 1).expect("a seat");
    let seats = QuerySeats::new(seat, Vec::new());
    LiveQuery::new(who, "c-q".into(), false, seats, counts)
}

/// One that has begun, and has its rows.
pub fn begun(who: Subscriber, query: QueryId) -> LiveQuery {
    let mut live = live_query(who);
    live.query = Some(query);
    live.begun = true;
    live
}

impl Client {
    fn new() -> Client {
        let mut client = SlowClient::new();
        let mut query = live_query(Subscriber(1));
        query.begun = true;
        let kind = Kind::Query(Box::new(query));
        let slot = client.connection.put("q".into(), None, kind, false);
        Client { client, slot }
    }

    fn query(&mut self) -> &mut LiveQuery {
        let subscription = self.client.connection.subscription(self.slot).expect("there");
        subscription.kind.query_mut().expect("a query")
    }

    /// A result of which the first rows are out.
    fn begins(&mut self, rows: Vec<RowText>) {
        let query = self.query();
        query.results += 1;
        let results = query.results;
        query.pieces = Some(Pieces::after(rows.into(), 0));
        let item = OutboxItem::Turn { slot: self.slot, ticket: results };
        self.client.connection.queue(Bytes::new(), item, 0);
    }

    fn change(&self, text: &'static str) -> QueuedItem {
        let item = OutboxItem::live(self.slot, (Position::START, Position::START), 1, 0);
        QueuedItem { bytes: Bytes::from_static(text.as_bytes()), item, queued_ms: 0 }
    }
}

fn large(count: usize) -> Vec<RowText> {
    let row: RowText = format!("{{\"x\":\"{}\"}}", "x".repeat(40 << 10)).into();
    vec![row; count]
}

#[test]
fn what_happens_while_rows_go_out_comes_after_them() {
    let mut client = Client::new();
    client.begins(large(5));
    let change = client.change("CHANGE");
    client.query().held.push(change);
    client.client.reads(20);
    assert_eq!(client.client.got.matches("initial_batch").count(), 5, "a piece has 64 KiB at most");
    assert_eq!(client.client.got.matches("\"more\":false").count(), 1);
    let (last, change) =
        (client.client.got.rfind("initial_batch"), client.client.got.find("CHANGE"));
    assert!(last < change, "the change is the last");
    assert!(client.query().has_all());
}

#[test]
fn who_lost_something_is_asked_for_once_and_gets_nothing_of_before() {
    let mut client = Client::new();
    for text in ["ONE", "TWO"] {
        let change = client.change(text);
        client.client.connection.queue_live(client.slot, change);
    }
    client.client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.client.reads(10);
    assert_eq!((client.client.went_on, client.client.got.as_str()), (1, ""));
    assert!(!client.query().has_all());
}

#[test]
fn rows_of_one_result_go_out_after_those_of_another() {
    let mut client = Client::new();
    let other = Slot { index: client.slot.index + 1, serial: client.slot.serial + 1 };
    assert!(!client.client.connection.is_crowded(other, true, 0));
    client.begins(large(5));
    assert!(
        client.client.connection.is_crowded(other, true, usize::MAX),
        "pieces of another go out"
    );
    assert!(!client.client.connection.is_crowded(other, false, usize::MAX), "it is small");
    assert!(!client.client.connection.is_crowded(client.slot, true, usize::MAX), "it is its own");
    client.client.connection.queue(Bytes::from_static(b"much"), OutboxItem::Replayed, 0);
    assert!(client.client.connection.is_crowded(other, false, 3), "too much waits");
    client.client.reads(20);
    assert!(!client.client.connection.is_crowded(other, true, 3));
}

#[test]
fn who_is_postponed_waits_once() {
    let mut client = Client::new();
    let slot = client.slot;
    client.client.connection.postpone(slot, false);
    client.client.connection.postpone(slot, false);
    assert!(!client.query().has_all());
    assert_eq!(client.client.connection.postponed, [slot]);
}

#[test]
fn a_piece_of_a_result_that_was_given_up_is_not_sent() {
    let mut client = Client::new();
    client.begins(large(5));
    client.client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.client.reads(20);
    assert_eq!((client.client.went_on, client.client.got.as_str()), (1, ""));
    let rows: Vec<RowText> = vec![Arc::from("{\"x\":1}")];
    client.begins(rows);
    client.client.reads(20);
    assert_eq!(client.client.got.matches("initial_batch").count(), 1);
}
