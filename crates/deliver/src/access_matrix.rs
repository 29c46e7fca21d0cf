//! That nothing can be asked of the server which the matrix of access does not try.
//!
//! The matrix is `tests/stories/access_matrix.md`, and its story tries every row of it with every kind
//! of credential. Whoever adds a route or a message has to name it here, or it does not compile; and
//! what is named here has to be in the matrix.

use std::collections::BTreeSet;

use crate::administration::keys;
use crate::groups::{self, GroupAction};
use crate::live::message::Message;
use crate::router::Route;
use crate::subscriptions::Part;

const MATRIX: &str = include_str!("../../../tests/stories/access_matrix.md");

/// Names every variant: a function that says which one a value is, and the list of all.
macro_rules! variants {
    ($of:ident, $all:ident, $type:ty, { $($variant:pat => $name:literal,)+ }) => {
        const $all: &[&str] = &[$($name),+];

        fn $of(value: &$type) -> &'static str {
            match value {
                $($variant => $name,)+
            }
        }
    };
}

variants!(route, ROUTES, Route, {
    Route::Page => "the page",
    Route::Healthz => "healthz",
    Route::Readyz => "readyz",
    Route::Metrics => "metrics",
    Route::Stream(_) => "a stream",
    Route::Jwks => "the keys of webhooks",
    Route::Subscription(_, Part::Itself) => "a subscription",
    Route::Subscription(_, Part::Streams) => "a subscription's streams",
    Route::Subscription(_, Part::Stream(_)) => "a subscription's stream",
    Route::Subscription(_, Part::Claim) => "a claim",
    Route::Subscription(_, Part::Callback) => "a callback",
    Route::Subscription(_, Part::Ack) => "an acknowledgement",
    Route::Subscription(_, Part::Release) => "a release",
    Route::Sessions => "sessions",
    Route::SessionSubscriptions => "subscriptions of sessions",
    Route::Heartbeat => "a heartbeat",
    Route::SessionOffsets(_) => "a session's offsets",
    Route::Live(_) => "a session's live connection",
    Route::WebSocket => "a WebSocket",
    Route::Nodes => "nodes",
    Route::Connections => "connections",
    Route::BestNode => "the best node",
    Route::Keys(keys::Part::All) => "keys",
    Route::Keys(keys::Part::One(_)) => "a key",
    Route::Keys(keys::Part::Rotation(_)) => "a key's rotation",
    Route::Tickets => "tickets",
    Route::Cookie => "the cookie",
    Route::Control => "orders",
    Route::Sql => "SQL",
    Route::Watch => "watched tables",
    Route::Capture => "the source of changes",
    Route::Doctor => "what is wrong",
    Route::EntityStats => "subscriptions to entities",
    Route::Groups(groups::Part::All) => "groups",
    Route::Groups(groups::Part::One(_, GroupAction::Itself)) => "a group",
    Route::Groups(groups::Part::One(_, GroupAction::Change)) => "a group's change",
    Route::Groups(groups::Part::One(_, GroupAction::Reset)) => "a group's reset",
    Route::Groups(groups::Part::One(_, GroupAction::Resume)) => "a group's resumption",
    Route::Groups(groups::Part::One(_, GroupAction::Claim)) => "a claim of a group",
    Route::Groups(groups::Part::One(_, GroupAction::Extend)) => "a longer lease of a group",
    Route::Groups(groups::Part::One(_, GroupAction::Ack)) => "an ack of a group",
    Route::Groups(groups::Part::One(_, GroupAction::Nack)) => "a nack of a group",
    Route::Groups(groups::Part::One(_, GroupAction::Dead)) => "a group's letters",
    Route::Groups(groups::Part::One(_, GroupAction::Redrive)) => "redriven letters",
    Route::Groups(groups::Part::One(_, GroupAction::Drop)) => "dropped letters",
    Route::Unknown => "anything else",
});

variants!(message, MESSAGES, Message, {
    Message::Auth { .. } => "auth",
    Message::Subscribe { .. } => "subscribe",
    Message::Unsubscribe(_) => "unsubscribe",
    Message::SubscribeEntities(_) => "SUBSCRIBE",
    Message::UnsubscribeEntities(_) => "UNSUBSCRIBE",
    Message::Ack(_) => "ack",
    Message::Ping => "ping",
});

/// The rows' requests, and what goes with them.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = MATRIX.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    cells.filter(|(request, _)| request.contains(" /"))
}

#[test]
fn the_matrix_tries_every_route() {
    let path = |request: &'static str| request.split([' ', '?']).nth(1).unwrap_or_default();
    let tried: BTreeSet<&str> =
        rows().map(|(request, _)| route(&Route::of(path(request)))).collect();
    let forgotten: Vec<_> = ROUTES.iter().filter(|name| !tried.contains(*name)).collect();
    assert!(forgotten.is_empty(), "tests/stories/access_matrix.md has no row for {forgotten:?}");
}

#[test]
fn the_matrix_says_every_message() {
    let messages: Vec<&str> =
        rows().filter(|(request, _)| request.starts_with("WS ")).map(|(_, with)| with).collect();
    let said =
        |name: &str| messages.iter().any(|text| text.contains(&format!("\"type\": \"{name}\"")));
    let forgotten: Vec<_> = MESSAGES.iter().filter(|name| !said(name)).collect();
    assert!(forgotten.is_empty(), "tests/stories/access_matrix.md has no row for {forgotten:?}");
    assert_eq!(message(&Message::Ping), "ping");
}
