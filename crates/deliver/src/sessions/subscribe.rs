//! A session begins to follow a stream, asked over HTTP or by a WebSocket's message.

use axum::http::StatusCode;

use tidewire_store::{Reach, SessionChange, SessionOutcome, SessionSubscription, Start};

use crate::access::problem::Problem;
use crate::hub::StartFrom;
use crate::hub::lookup::within_log;
use crate::hub::lookup::{not_lost, view};
use crate::node::Node;

/// What a session is to follow.
#[derive(Debug)]
pub(crate) struct Following<'a> {
    pub(crate) session: &'a str,
    /// Whose streams can be reached.
    pub(crate) reach: &'a Reach,
    pub(crate) stream: &'a str,
    pub(crate) query_id: &'a str,
    /// Where to begin. If nothing is said: where it stands, or else at the stream's end.
    pub(crate) start: Option<StartFrom>,
    /// Whether it takes the place of another stream of this `query_id`.
    pub(crate) replaces: bool,
}

/// Makes the subscription, or finds it made.
pub(crate) async fn subscribe(
    node: &Node,
    following: Following<'_>,
) -> Result<SessionSubscription, Problem> {
    let Following { session, reach, stream, query_id, start, replaces } = following;
    // Asked first: a session that is not there is answered alike, whatever else is wrong.
    let known = node.sessions.load(session).await?;
    let named = known.subscriptions.into_iter();
    let replaced = named.filter(|s| s.query_id == query_id && s.stream != stream);
    let replaced: Vec<SessionSubscription> = replaced.collect();
    if let (Some(other), false) = (replaced.first(), replaces) {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "query_id_in_use",
            format!("the session follows {:?} under this name", other.stream),
            "unsubscribe from that stream first",
        ));
    }
    let view = view(node, stream, reach).await?.view;
    let start = match start {
        Some(StartFrom::After(position)) => {
            within_log(node, position).await?;
            not_lost(node, &view, position)?;
            Start::At(position)
        }
        Some(StartFrom::Now) => Start::At(view.tail),
        None => Start::Unless(view.tail),
    };
    let unsubscribe = |other: SessionSubscription| SessionChange::Unsubscribe {
        session: session.to_owned(),
        stream: other.stream,
    };
    let subscribe = SessionChange::Subscribe {
        session: session.to_owned(),
        stream: stream.to_owned(),
        query_id: query_id.to_owned(),
        start,
        ttl_ms: node.sessions.ttl_ms(),
    };
    let changes = replaced.into_iter().map(unsubscribe).chain([subscribe]);
    match node.sessions.change_all(changes).await? {
        SessionOutcome::Subscribed(made) => Ok(made),
        other => Err(super::refusal(other)),
    }
}
