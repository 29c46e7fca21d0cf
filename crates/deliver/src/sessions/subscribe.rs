//! A session begins to follow a stream, asked over HTTP or by a WebSocket's message.

use tidewire_store::{SessionChange, SessionOutcome, SessionSubscription, Start};

use super::Sessions;
use crate::access::problem::Problem;
use crate::hub::lookup::{Reach, not_lost, view, within_log};
use crate::hub::{Hub, StartFrom};

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
}

/// Makes the subscription, or finds it made.
pub(crate) async fn subscribe(
    sessions: &Sessions,
    hub: &Hub,
    following: Following<'_>,
) -> Result<SessionSubscription, Problem> {
    let Following { session, reach, stream, query_id, start } = following;
    // Asked first: a session that is not there is answered alike, whatever else is wrong.
    sessions.load(session).await?;
    let view = view(hub, stream, reach).await?.view;
    let start = match start {
        Some(StartFrom::After(position)) => {
            within_log(hub, position).await?;
            not_lost(hub, &view, position)?;
            Start::At(position)
        }
        Some(StartFrom::Now) => Start::At(view.tail),
        None => Start::Unless(view.tail),
    };
    let subscribe = SessionChange::Subscribe {
        session: session.to_owned(),
        stream: stream.to_owned(),
        query_id: query_id.to_owned(),
        start,
        ttl_ms: sessions.ttl_ms(),
    };
    match sessions.change(subscribe).await? {
        SessionOutcome::Subscribed(made) => Ok(made),
        other => Err(super::refusal(other)),
    }
}
