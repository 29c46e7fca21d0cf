//! Every kind, under a name that is free, its own, another's or the session's, with room and without.

use tidewire_query::{PlanName, Subscriber};
use tidewire_store::{Epoch, Position};
use tokio::sync::mpsc;

use super::*;
use crate::access::auth::{Identity, Who};
use crate::hub::audience::Manner;
use crate::hub::connection::{Request, StartFrom};
use crate::hub::horizon::Horizon;
use crate::hub::kinds::Kind as Subject;
use crate::hub::kinds::query::LiveQuery;
use crate::hub::kinds::query::engine::QuerySeats;
use crate::hub::lookup::Reach;
use crate::hub::outlet::{Outlet, ServerSent};
use crate::wire::seats::Seats;

const ROOM: Limits = Limits { subscriptions_max: 9, entities_max: 9, queries_max: 9 };
/// There is what there is, and no more.
const FULL: Limits = Limits { subscriptions_max: 5, entities_max: 2, queries_max: 1 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stream,
    Table,
    Entities,
    Query,
}

const KINDS: [Kind; 4] = [Kind::Stream, Kind::Table, Kind::Entities, Kind::Query];

/// A connection that follows one of each kind under its kind's name, and a stream of its session.
struct Followed {
    connection: Connection,
    ids: Vec<Arc<str>>,
}

fn add(connection: &mut Connection, name: &str, stream: &str, epoch: Option<u64>) -> Slot {
    let request = Request {
        query_id: name.into(),
        stream: stream.into(),
        reach: Reach::everything(),
        start: StartFrom::Now,
        horizon: Horizon::default(),
        link: epoch.map(|epoch| SessionLink { epoch, went_live: true }),
        manner: Manner { to_table: name == "Table", view: None },
        patterns: None,
    };
    connection.add(request, false)
}

impl Followed {
    fn new() -> Followed {
        let outlet = Outlet::ServerSent(ServerSent { body: mpsc::channel(1).0 });
        let mut connection = Connection::new(1, crate::testing::facts("c"), outlet, 0);
        add(&mut connection, "Stream", "doc", None);
        add(&mut connection, "Table", "table/orders", None);
        let identity = Identity::of_this_machine();
        let mut interest = Interest::new(&"project".into(), identity, Epoch::FIRST);
        interest.ids.extend([("1".into(), Position::START), ("2".into(), Position::START)]);
        connection.put("Entities".into(), None, Subject::Entities(Box::new(interest)), false);
        let seat = Seats::default().take(Who::Admin, 1).expect("a seat");
        let seats = QuerySeats::new(seat, Vec::new());
        let query = LiveQuery::new(Subscriber(1), "c-q".into(), PlanName::Filter, false, seats);
        connection.put("Query".into(), None, Subject::Query(Box::new(query)), false);
        add(&mut connection, "session", "kept", Some(7));
        connection.unread.push(("unread".into(), "secret".into()));
        Followed { connection, ids: vec!["1".into(), "2".into()] }
    }

    fn asked(&self, kind: Kind, adds: bool) -> Asked<'_> {
        match kind {
            Kind::Stream => Asked::Stream(None),
            Kind::Table => Asked::Table,
            Kind::Entities => Asked::Entities { code: "project", ids: &self.ids, adds },
            Kind::Query => Asked::Query,
        }
    }

    fn admits(
        &self,
        name: &str,
        asked: Asked<'_>,
        limits: Limits,
    ) -> Result<Admitted, &'static str> {
        self.connection.admits(name, asked, limits, false).map_err(|problem| problem.code())
    }
}

fn named(kind: Kind) -> String {
    format!("{kind:?}")
}

#[test]
fn a_free_name_is_taken_while_there_is_room() {
    let followed = Followed::new();
    for kind in KINDS {
        let asked = followed.asked(kind, false);
        assert_eq!(followed.admits("free", asked, ROOM), Ok(Admitted::New), "{kind:?}");
        let full = match kind {
            Kind::Stream | Kind::Table => "too_many_subscriptions",
            Kind::Entities => "too_many_entities",
            Kind::Query => "too_many_queries",
        };
        assert_eq!(followed.admits("free", asked, FULL), Err(full), "{kind:?}");
    }
}

#[test]
fn the_connections_own_name_is_begun_anew_by_every_kind() {
    let followed = Followed::new();
    for kind in KINDS {
        for own in KINDS {
            let slot = followed.connection.find(&named(own)).expect("there");
            let asked = followed.asked(kind, false);
            let admitted = followed.admits(&named(own), asked, ROOM);
            assert_eq!(admitted, Ok(Admitted::InPlaceOf(slot)), "{kind:?} over {own:?}");
            // What goes makes room for what comes, if it is of the same kind.
            let full = match kind {
                Kind::Entities if own != kind => Err("too_many_entities"),
                Kind::Query if own != kind => Err("too_many_queries"),
                _ => Ok(Admitted::InPlaceOf(slot)),
            };
            assert_eq!(followed.admits(&named(own), asked, FULL), full, "{kind:?} over {own:?}");
        }
    }
}

#[test]
fn a_name_of_the_session_is_the_sessions() {
    let followed = Followed::new();
    for kind in KINDS {
        for name in ["session", "unread"] {
            for limits in [ROOM, FULL] {
                for adds in [false, true] {
                    let admitted = followed.admits(name, followed.asked(kind, adds), limits);
                    assert_eq!(admitted, Err("query_id_in_use"), "{kind:?} as {name}");
                }
            }
        }
    }
}

#[test]
fn what_the_store_says_of_the_session_is_begun() {
    let followed = Followed::new();
    let asked = |epoch| Asked::Stream(Some(SessionLink { epoch, went_live: false }));
    let slot = followed.connection.find("session").expect("there");
    assert_eq!(followed.admits("session", asked(7), FULL), Ok(Admitted::Known));
    assert_eq!(followed.admits("session", asked(8), FULL), Ok(Admitted::InPlaceOf(slot)));
    assert_eq!(followed.admits("unread", asked(8), ROOM), Ok(Admitted::New));
    for own in KINDS {
        let slot = followed.connection.find(&named(own)).expect("there");
        let admitted = followed.admits(&named(own), asked(8), FULL);
        assert_eq!(admitted, Ok(Admitted::InPlaceOf(slot)), "over {own:?}");
    }
}

#[test]
fn entities_come_to_those_of_their_code() {
    let followed = Followed::new();
    let slot = followed.connection.find("Entities").expect("there");
    let adds = followed.asked(Kind::Entities, true);
    assert_eq!(followed.admits("Entities", adds, FULL), Ok(Admitted::Adds(slot)), "none is new");
    let ids: Vec<Arc<str>> = vec!["2".into(), "3".into(), "3".into()];
    let more = Asked::Entities { code: "project", ids: &ids, adds: true };
    assert_eq!(followed.admits("Entities", more, FULL), Err("too_many_entities"));
    assert_eq!(followed.admits("Entities", more, ROOM), Ok(Admitted::Adds(slot)));
    let other = Asked::Entities { code: "task", ids: &ids, adds: true };
    assert_eq!(followed.admits("Entities", other, ROOM), Ok(Admitted::InPlaceOf(slot)));
}

#[test]
fn a_query_is_not_for_one_cursor() {
    let followed = Followed::new();
    let refused = followed.connection.admits("free", Asked::Query, ROOM, true);
    assert_eq!(refused.map_err(|problem| problem.code()), Err("unsupported_subscription"));
}
