//! What a client that reads slowly gets of a query: pieces, then what happened meanwhile, or that it is
//! to get all rows anew.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use tidewire_query::{QueryId, RowText, Subscriber};
use tidewire_store::{LiveQueryRow, Position};

use super::LiveQuery;
use super::begin::Pieces;
use crate::access::auth::Who;
use crate::hub::connection::Connection;
use crate::hub::flush::{Departing, Room};
use crate::hub::frames::Dialect;
use crate::hub::kinds::Kind;
use crate::hub::kinds::query::engine::{QuerySeats, Registry};
use crate::hub::outbox::{Cargo, Parcel, Slot};
use crate::hub::outlet::{Outlet, ServerSent};
use crate::hub::stats::Stats;
use crate::wire::seats::Seats;

/// A connection that follows one query, of which the test is the other end.
struct Client {
    connection: Connection,
    body: mpsc::Receiver<Bytes>,
    slot: Slot,
    got: String,
    /// How often all rows were asked for.
    asked: usize,
}

/// A query that has not begun.
pub(in crate::hub) fn live_query(who: Subscriber) -> LiveQuery {
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
    let seat = Seats::default().take(Who::Admin, 1).expect("a seat");
    let seats = QuerySeats::new(seat, Vec::new());
    LiveQuery::new(who, "c-q".into(), false, seats, counts)
}

/// One that has begun, and has its rows.
pub(in crate::hub) fn begun(who: Subscriber, query: QueryId) -> LiveQuery {
    let mut live = live_query(who);
    live.query = Some(query);
    live.begun = true;
    live
}

impl Client {
    fn new() -> Client {
        let (sender, body) = mpsc::channel(1);
        let outlet = Outlet::ServerSent(ServerSent { body: sender });
        let mut connection = Connection::new(1, crate::testing::facts("c"), outlet, 0);
        let mut query = live_query(Subscriber(1));
        query.begun = true;
        let slot = connection.put("q".into(), None, Kind::Query(Box::new(query)), false);
        Client { connection, body, slot, got: String::new(), asked: 0 }
    }

    fn query(&mut self) -> &mut LiveQuery {
        let subscription = self.connection.subscription(self.slot).expect("there");
        subscription.kind.query_mut().expect("a query")
    }

    /// A result of which the first rows are out.
    fn begins(&mut self, rows: Vec<RowText>) {
        let query = self.query();
        query.results += 1;
        let results = query.results;
        query.pieces = Some(Pieces::after(rows.into(), 0));
        let cargo = Cargo::Turn { slot: self.slot, ticket: results };
        self.connection.queue(Bytes::new(), cargo, 0);
    }

    fn change(&self, text: &'static str) -> Parcel {
        let cargo = Cargo::live(self.slot, (Position::START, Position::START), 1, 0);
        Parcel { bytes: Bytes::from_static(text.as_bytes()), cargo, queued_ms: 0 }
    }

    fn reads(&mut self, pieces: usize) {
        let stats = Stats::default();
        for _ in 0..=pieces {
            let Connection { outbox, outlet, subscriptions, .. } = &mut self.connection;
            let room = Room {
                stats: &stats,
                deflater: &mut None,
                dialect: Dialect::ServerSent,
                wall_ms: 0,
            };
            let mut departing = Departing { subscriptions, room, go_on: Vec::new() };
            outbox.flush(outlet, &mut departing);
            self.asked += departing.go_on.len();
            while let Ok(bytes) = self.body.try_recv() {
                self.got.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
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
    client.reads(20);
    assert_eq!(client.got.matches("initial_batch").count(), 5, "a piece has 64 KiB at most");
    assert_eq!(client.got.matches("\"more\":false").count(), 1);
    let (last, change) = (client.got.rfind("initial_batch"), client.got.find("CHANGE"));
    assert!(last < change, "the change is the last");
    assert!(client.query().has_all());
}

#[test]
fn who_lost_something_is_asked_for_once_and_gets_nothing_of_before() {
    let mut client = Client::new();
    for text in ["ONE", "TWO"] {
        let change = client.change(text);
        client.connection.queue_live(client.slot, change);
    }
    client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.reads(10);
    assert_eq!((client.asked, client.got.as_str()), (1, ""));
    assert!(!client.query().has_all());
}

#[test]
fn rows_of_one_result_go_out_after_those_of_another() {
    let mut client = Client::new();
    let other = Slot { index: client.slot.index + 1, serial: client.slot.serial + 1 };
    assert!(!client.connection.is_crowded(other, true, 0));
    client.begins(large(5));
    assert!(client.connection.is_crowded(other, true, usize::MAX), "pieces of another go out");
    assert!(!client.connection.is_crowded(other, false, usize::MAX), "it is small");
    assert!(!client.connection.is_crowded(client.slot, true, usize::MAX), "it is its own");
    client.connection.queue(Bytes::from_static(b"much"), Cargo::Replayed, 0);
    assert!(client.connection.is_crowded(other, false, 3), "too much waits");
    client.reads(20);
    assert!(!client.connection.is_crowded(other, true, 3));
}

#[test]
fn who_is_postponed_waits_once() {
    let mut client = Client::new();
    let slot = client.slot;
    client.connection.postpone(slot, false);
    client.connection.postpone(slot, false);
    assert!(!client.query().has_all());
    assert_eq!(client.connection.postponed, [slot]);
}

#[test]
fn a_piece_of_a_result_that_was_given_up_is_not_sent() {
    let mut client = Client::new();
    client.begins(large(5));
    client.connection.lose(client.slot, (Position::START, Position::START), 0);
    client.reads(20);
    assert_eq!((client.asked, client.got.as_str()), (1, ""));
    let rows: Vec<RowText> = vec![Arc::from("{\"x\":1}")];
    client.begins(rows);
    client.reads(20);
    assert_eq!(client.got.matches("initial_batch").count(), 1);
}
