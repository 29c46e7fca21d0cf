//! Taking up a session: its subscriptions, where each continues, and who serves it.

use std::sync::Arc;

use tidewire_hub::messages::AsMessage as _;
use tidewire_store::{Position, Session, SessionChange, SessionSubscription};

use crate::node::Node;
use tidewire_access::auth::{Act, Identity, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::min_offset::MinOffset;
use tidewire_hub::row_filter::View;
use tidewire_hub::{
    Command, Handle, Key, MissingStreams, SessionLink, StartFrom, StreamRequest, ViewMode,
};

/// A session that a connection of this node serves. The session is let go when this is dropped.
#[derive(Debug)]
pub(super) struct Serving {
    node: Arc<Node>,
    session: Arc<str>,
    key: Key,
}

impl Serving {
    /// Takes up a session on a connection. The session was checked to be the identity's. What
    /// changes from here on reaches the connection, so what is read after this cannot be missed.
    pub(super) async fn begin(
        node: &Arc<Node>,
        shard: &Handle,
        key: Key,
        session: Arc<str>,
        identity: &Identity,
        cursor: Option<Position>,
    ) -> Result<Serving, Problem> {
        shard.ask(Command::Identify { key, session: Arc::clone(&session), cursor }).await;
        node.sessions.connected(&session, shard.clone(), key, identity.clone());
        let serving = Serving { node: Arc::clone(node), session, key };
        node.sessions
            .change(SessionChange::Connect {
                session: serving.session.to_string(),
                node: node.hub.id.clone(),
            })
            .await?;
        let session = node.sessions.load(&serving.session).await?;
        node.sessions.seen(&session);
        if !session.subscriptions.is_empty() {
            let resumed = session.subscriptions.iter().any(|s| s.live_since.is_some());
            if resumed {
                node.metrics.resumes.inc();
            }
            follow(node, shard, key, identity, &session, cursor).await;
        }
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.node.sessions.disconnected(&self.node.hub.id, &self.session, self.key);
    }
}

/// Has a connection follow what its session does, of what its credential allows: that may be less
/// than it was when the session began to.
pub(crate) async fn follow(
    node: &Node,
    shard: &Handle,
    key: Key,
    identity: &Identity,
    session: &Session,
    cursor: Option<Position>,
) {
    let mut requests = Vec::with_capacity(session.subscriptions.len());
    let mut unread: Vec<MissingStreams> = Vec::new();
    for subscription in &session.subscriptions {
        let act = Act::Read(&subscription.stream);
        let allowed = identity.may(act);
        let allowed =
            allowed.inspect_err(|p| audit::turned_away(&node.access, Some(identity), act, p));
        let seen = match allowed {
            Ok(()) => node.hub.view(identity, &subscription.stream, None).await,
            Err(problem) => Err(problem),
        };
        match seen {
            Ok(view) => requests.push(request(node, subscription, identity, cursor, view)),
            Err(problem) => {
                let (query_id, stream) = (&*subscription.query_id, &*subscription.stream);
                unread.push((query_id.into(), stream.into()));
                let message = problem.message(Some(query_id));
                shard.ask(Command::Say { key, message }).await;
            }
        }
    }
    shard.ask(Command::Follow { key, requests, unread, revision: session.revision }).await;
}

/// A session's subscription, as a connection is asked to follow it.
fn request(
    node: &Node,
    subscription: &SessionSubscription,
    identity: &Identity,
    cursor: Option<Position>,
    view: Option<View>,
) -> StreamRequest {
    StreamRequest {
        query_id: subscription.query_id.as_str().into(),
        stream: subscription.stream.as_str().into(),
        reach: node.hub.reach(identity, &subscription.stream),
        start: StartFrom::After(resume_at(subscription, cursor)),
        min_offset: MinOffset::default(),
        link: Some(SessionLink {
            epoch: subscription.epoch,
            went_live: subscription.live_since.is_some(),
        }),
        mode: ViewMode { to_table: false, view },
        patterns: None,
    }
}

/// Where a subscription continues for a client that got everything up to a cursor. The cursor covers
/// it only if it was taken up before the cursor's event was sent: a connection sends in the log's
/// order, so that is so if the cursor is past the furthest place sent until then.
fn resume_at(subscription: &SessionSubscription, cursor: Option<Position>) -> Position {
    match (cursor, subscription.live_since) {
        (Some(cursor), Some(live_since)) if cursor > live_since => cursor.max(subscription.pointer),
        _ => subscription.pointer,
    }
}

/// Checks that a session is there and the identity's own.
pub(super) async fn check(
    node: &Node,
    session: &str,
    identity: &Identity,
) -> Result<Arc<str>, Problem> {
    node.sessions.verify(session, identity)?;
    node.sessions.load(session).await?;
    Ok(session.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_covers_only_what_was_live_before_it() {
        let at = |pointer, live_since: Option<u64>| SessionSubscription {
            stream: "s".to_owned(),
            query_id: "s".to_owned(),
            epoch: 1,
            pointer: Position::new(pointer),
            live_since: live_since.map(Position::new),
        };
        let resumed = |subscription: &SessionSubscription, cursor: Option<u64>| {
            resume_at(subscription, cursor.map(Position::new)).number()
        };
        assert_eq!(resumed(&at(10, Some(20)), Some(50)), 50);
        assert_eq!(resumed(&at(10, Some(20)), Some(20)), 10, "it may have been sent before");
        assert_eq!(resumed(&at(10, None), Some(50)), 10, "it was never live");
        assert_eq!(resumed(&at(60, Some(20)), Some(50)), 60, "it acknowledged more since");
        assert_eq!(resumed(&at(10, Some(20)), None), 10);
    }
}
