//! Every kind, under a name that is free, its own, another's or the session's, with room and without.

use tidewire_query::Subscriber;
use tidewire_store::{Epoch, Position};
use tokio::sync::mpsc;

use super::*;
use crate::audience::ViewMode;
use crate::connection::{SessionLink, StartFrom};
use crate::kinds::Kind as Subject;
use crate::kinds::entities::{EntityFollow, EntityRequest};
use crate::kinds::query;
use crate::log_feed::StreamRequest;
use crate::lookup::Reach;
use crate::min_offset::MinOffset;
use crate::transport::{ServerSent, Transport};
use tidewire_access::auth::Identity;
use tidewire_access::options::Access;

/// How many there may be: subscriptions, entities, queries.
#[derive(Clone, Copy)]
struct Limits(usize, usize, usize);

const ROOM: Limits = Limits(9, 9, 9);
/// There is what there is, and no more.
const FULL: Limits = Limits(5, 2, 1);

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
}

/// A query that is asked for, of which the name is all that counts.
struct QueryNamed(Arc<str>);

impl KindRequest for QueryNamed {
    fn query_id(&self) -> &Arc<str> {
        &self.0
    }

    fn over_one_cursor(&self) -> Result<(), Problem> {
        query::over_one_cursor()
    }

    fn fits(&self, at: &Connection, beside: SameName, options: &Options) -> Result<(), Problem> {
        query::fits(at, beside, options)
    }
}

fn stream(name: &str, stream: &str, to_table: bool, epoch: Option<u64>) -> StreamRequest {
    StreamRequest {
        query_id: name.into(),
        stream: stream.into(),
        reach: Reach::everything(),
        start: StartFrom::Now,
        min_offset: MinOffset::default(),
        link: epoch.map(|epoch| SessionLink { epoch, went_live: true }),
        mode: ViewMode { to_table, view: None },
        patterns: None,
    }
}

fn entities(name: &str, code: &str, ids: &[&str], adds: bool) -> EntityRequest {
    EntityRequest {
        query_id: name.into(),
        code: code.into(),
        ids: ids.iter().map(|id| Arc::from(*id)).collect(),
        start: StartFrom::Now,
        min_offset: MinOffset::default(),
        identity: Identity::of_this_machine(),
        adds,
        kept: false,
    }
}

fn add(connection: &mut Connection, request: StreamRequest) {
    let (query_id, link) = (Arc::clone(&request.query_id), request.link);
    connection.put(query_id, link, request.kind(), false);
}

impl Followed {
    fn new() -> Followed {
        let transport = Transport::ServerSent(ServerSent { body: mpsc::channel(1).0 });
        let mut connection = Connection::new(1, crate::testing::connection_info("c"), transport, 0);
        add(&mut connection, stream("Stream", "doc", false, None));
        add(&mut connection, stream("Table", "table/orders", true, None));
        let identity = Identity::of_this_machine();
        let mut interest = EntityFollow::new(&"project".into(), identity, Epoch::FIRST);
        interest.ids.extend([("1".into(), Position::START), ("2".into(), Position::START)]);
        connection.put("Entities".into(), None, Subject::Entities(Box::new(interest)), false);
        let query = query::tests::live_query(Subscriber(1));
        connection.put("Query".into(), None, Subject::Query(Box::new(query)), false);
        add(&mut connection, stream("session", "kept", false, Some(7)));
        connection.unread.push(("unread".into(), "secret".into()));
        Followed { connection }
    }

    fn admits(&self, wanted: &dyn KindRequest, limits: Limits) -> Result<Admitted, &'static str> {
        let mut options = Options::new(Access::OpenOnLoopback);
        options.live.subscriptions_max = limits.0;
        options.live.entities_max = limits.1;
        options.queries.per_connection_max = limits.2;
        self.connection.admits(wanted, false, &options).map_err(|problem| problem.code())
    }
}

fn asked(kind: Kind, name: &str, adds: bool) -> Box<dyn KindRequest> {
    match kind {
        Kind::Stream => Box::new(stream(name, "another", false, None)),
        Kind::Table => Box::new(stream(name, "table/others", true, None)),
        Kind::Entities => Box::new(entities(name, "project", &["1", "2"], adds)),
        Kind::Query => Box::new(QueryNamed(name.into())),
    }
}

fn named(kind: Kind) -> String {
    format!("{kind:?}")
}

#[test]
fn a_free_name_is_taken_while_there_is_room() {
    let followed = Followed::new();
    for kind in KINDS {
        let asked = asked(kind, "free", false);
        assert_eq!(followed.admits(&*asked, ROOM), Ok(Admitted::New), "{kind:?}");
        let full = match kind {
            Kind::Stream | Kind::Table => "too_many_subscriptions",
            Kind::Entities => "too_many_entities",
            Kind::Query => "too_many_queries",
        };
        assert_eq!(followed.admits(&*asked, FULL), Err(full), "{kind:?}");
    }
}

#[test]
fn the_connections_own_name_is_begun_anew_by_every_kind() {
    let followed = Followed::new();
    for kind in KINDS {
        for own in KINDS {
            let slot = followed.connection.find(&named(own)).expect("there");
            let asked = asked(kind, &named(own), false);
            let admitted = followed.admits(&*asked, ROOM);
            assert_eq!(admitted, Ok(Admitted::InPlaceOf(slot)), "{kind:?} over {own:?}");
            // What goes makes room for what comes, if it is of the same kind.
            let full = match kind {
                Kind::Entities if own != kind => Err("too_many_entities"),
                Kind::Query if own != kind => Err("too_many_queries"),
                _ => Ok(Admitted::InPlaceOf(slot)),
            };
            assert_eq!(followed.admits(&*asked, FULL), full, "{kind:?} over {own:?}");
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
                    let admitted = followed.admits(&*asked(kind, name, adds), limits);
                    assert_eq!(admitted, Err("query_id_in_use"), "{kind:?} as {name}");
                }
            }
        }
    }
}

#[test]
fn what_the_store_says_of_the_session_is_begun() {
    let followed = Followed::new();
    let admits = |name: &str, epoch, limits| {
        followed.admits(&stream(name, "kept", false, Some(epoch)), limits)
    };
    let slot = followed.connection.find("session").expect("there");
    assert_eq!(admits("session", 7, FULL), Ok(Admitted::Known));
    assert_eq!(admits("session", 8, FULL), Ok(Admitted::InPlaceOf(slot)));
    assert_eq!(admits("unread", 8, ROOM), Ok(Admitted::New));
    for own in KINDS {
        let slot = followed.connection.find(&named(own)).expect("there");
        assert_eq!(admits(&named(own), 8, FULL), Ok(Admitted::InPlaceOf(slot)), "over {own:?}");
    }
}

#[test]
fn entities_come_to_those_of_their_code() {
    let followed = Followed::new();
    let slot = followed.connection.find("Entities").expect("there");
    let adds = asked(Kind::Entities, "Entities", true);
    assert_eq!(followed.admits(&*adds, FULL), Ok(Admitted::Adds(slot)), "none is new");
    let more = entities("Entities", "project", &["2", "3", "3"], true);
    assert_eq!(followed.admits(&more, FULL), Err("too_many_entities"));
    assert_eq!(followed.admits(&more, ROOM), Ok(Admitted::Adds(slot)));
    let other = entities("Entities", "task", &["2", "3"], true);
    assert_eq!(followed.admits(&other, ROOM), Ok(Admitted::InPlaceOf(slot)));
}

#[test]
fn a_query_is_not_for_one_cursor() {
    let followed = Followed::new();
    let options = Options::new(Access::OpenOnLoopback);
    let refused = followed.connection.admits(&QueryNamed("free".into()), true, &options);
    assert_eq!(refused.map_err(|problem| problem.code()), Err("unsupported_subscription"));
}
