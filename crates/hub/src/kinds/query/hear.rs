//! Delivers the query engine's updates to the followers that they concern.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use tidewire_query::{EndReason, QueryId, Recipients};
use tidewire_store::Position;

use super::begin::Beginning;
use super::cohorts::AffectedFollowers;
use crate::audience::Follower;
use crate::forms::Forms;
use crate::frames::{Dialect, put};
use crate::kinds::News;
use crate::kinds::query::engine::{self, Change, News as Said, QueryUpdates};
use crate::messages::{Progress, ServerMessage as _};
use crate::outbox::OutboxItem;
use crate::round::{ROUND_BYTES_MAX, Round, Serving};
use crate::shard::Shard;
use tidewire_wire::websocket::deflate::Deflater;

/// What was said of a query, to followers of whom all are told the same.
#[derive(Debug)]
pub struct QueryNews {
    pub query: QueryId,
    /// Set for changes that all followers of one name are told: what comes for them later can be told
    /// together.
    pub query_id: Option<Arc<str>>,
    /// One thing, or several changes.
    said: Vec<(Arc<Said>, Frames)>,
    /// Of the changes.
    bytes: usize,
}

impl QueryNews {
    fn new(query: QueryId, said: &Arc<Said>, name: Option<Arc<str>>) -> QueryNews {
        let (query_id, bytes) = match &**said {
            Said::Change { change, .. } => (name, change.bytes()),
            _ => (None, 0),
        };
        QueryNews { query, query_id, said: vec![(Arc::clone(said), Frames::default())], bytes }
    }

    /// Takes along changes that come after it for the same followers. Gives them back if they must be a
    /// round of their own.
    pub fn absorb(&mut self, later: Box<QueryNews>) -> Result<(), Box<QueryNews>> {
        let alike = self.query_id.is_some() && self.query_id == later.query_id;
        if !alike || self.bytes + later.bytes > ROUND_BYTES_MAX {
            return Err(later);
        }
        self.bytes += later.bytes;
        self.said.extend(later.said);
        Ok(())
    }
}

/// A change as bytes, for those who have one name for its query. Made by each shard for itself: what a query's
/// followers are told waits for nobody on another.
#[derive(Debug, Default)]
struct Frames {
    query_id: Option<Arc<str>>,
    forms: Forms,
}

impl Frames {
    fn of(
        &mut self,
        change: &Change,
        dialect: Dialect,
        query_id: &Arc<str>,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        if self.query_id.as_ref() != Some(query_id) {
            *self = Frames { query_id: Some(Arc::clone(query_id)), forms: Forms::default() };
        }
        self.forms.of(dialect, || change.encode(dialect, query_id, deflater))
    }
}

impl Shard {
    /// Hands out what one turn of the query engine brought.
    pub(crate) fn hear(&mut self, batch: &QueryUpdates) {
        let alone = batch.news.len() == 1;
        for said in &batch.news {
            let to = match &**said {
                Said::Behind { query, behind } => {
                    self.rosters.queries.set_behind(*query, *behind);
                    continue;
                }
                Said::Begin { to, .. } | Said::Resumed { to, .. } => {
                    self.enter_circle(to);
                    to
                }
                Said::Change { to, .. } | Said::Settled { to, .. } | Said::End { to, .. } => to,
            };
            let query = engine::query_of(to);
            let round = |AffectedFollowers { query_id, followers }| {
                let news = QueryNews::new(query, said, query_id);
                Round::new(News::Query(Box::new(news)), followers)
            };
            let rounds = self.rosters.queries.affected(to).into_iter().map(round).collect();
            self.fan_out(rounds, alone);
        }
        self.rosters.queries.position = batch.position;
    }

    /// Those to whom all rows are given follow their query from here on.
    fn enter_circle(&mut self, to: &Recipients) {
        let Recipients::Only(query, named) = to else { return };
        for who in named {
            let Some(follower) = self.rosters.queries.follower(*who) else { continue };
            let connection = self.connection(follower.key);
            let Some(subscription) = connection.and_then(|c| c.subscription(follower.slot)) else {
                continue;
            };
            let query_id = Arc::clone(&subscription.query_id);
            if let Some(live) = subscription.kind.query_mut() {
                live.query = Some(*query);
                self.rosters.queries.begin(*query, &query_id, follower);
            }
        }
    }

    fn tell_settled(&mut self, follower: Follower, at: Position, serving: &mut Serving) {
        let offset = self.hub.offset(at);
        let connection = self.connections.get_mut(follower.key.index);
        let connection = connection.filter(|c| c.serial == follower.key.serial && !c.closing);
        let Some(connection) = connection else { return };
        let dialect = connection.dialect();
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let query_id = Arc::clone(&subscription.query_id);
        let Some(query) = subscription.kind.query_mut().filter(|query| query.begun) else {
            return;
        };
        if !std::mem::replace(&mut query.unsettled, false) {
            return;
        }
        let message = Progress { query_id: Some(&query_id), offset }.text();
        let mut bytes = BytesMut::new();
        put(&mut bytes, dialect, message.as_bytes(), None, &mut self.deflater);
        // Given up with the changes before it, whose place it tells.
        let item = OutboxItem::live(follower.slot, (at, at), 0, 0);
        self.hand_over(follower, bytes.freeze(), item, serving);
    }

    /// The query engine keeps a query no longer, for one who follows it or waits to.
    fn end_query(&mut self, follower: Follower, reason: &EndReason) {
        let connection = self.connection(follower.key);
        let subscription = connection.and_then(|c| c.subscription(follower.slot));
        let Some(subscription) = subscription else { return };
        let announced = subscription.announced;
        if let Some(query) = subscription.kind.query_mut() {
            query.ended = true;
        }
        if announced {
            self.end_with(follower.key, follower.slot, reason.code, reason.message.as_deref());
        } else {
            self.fail(follower.key, follower.slot, &engine::ended(reason));
        }
    }
}

impl QueryNews {
    /// Tells one follower.
    pub fn tell(&mut self, shard: &mut Shard, follower: Follower, serving: &mut Serving) {
        // Several go out in one write.
        serving.alone &= self.said.len() == 1;
        for (said, frames) in &mut self.said {
            tell(said, frames, shard, follower, serving);
        }
    }
}

fn tell(
    said: &Said,
    frames: &mut Frames,
    shard: &mut Shard,
    follower: Follower,
    serving: &mut Serving,
) {
    let begins = match said {
        Said::Begin { compiled, plan, rows, at, reset, .. } => {
            Beginning { compiled, plan: *plan, rows: Some(rows), at: *at, reset: *reset }
        }
        Said::Resumed { compiled, plan, from, .. } => {
            let at = Some(*from);
            Beginning { compiled, plan: *plan, rows: None, at, reset: false }
        }
        Said::Change { change, .. } => {
            return tell_change(frames, shard, follower, change, serving);
        }
        Said::Settled { at, .. } => return shard.tell_settled(follower, *at, serving),
        Said::End { reason, .. } => return shard.end_query(follower, reason),
        Said::Behind { .. } => return,
    };
    shard.begin_result(follower, &begins);
}

fn tell_change(
    frames: &mut Frames,
    shard: &mut Shard,
    follower: Follower,
    change: &Change,
    serving: &mut Serving,
) {
    let lag_ms = shard.wall_ms - change.created_at_ms;
    let connection = shard.connections.get_mut(follower.key.index);
    let connection = connection.filter(|c| c.serial == follower.key.serial && !c.closing);
    let Some(connection) = connection else { return };
    let (dialect, queue_depth) = (connection.dialect(), connection.outbox.events);
    let Some(subscription) = connection.subscription(follower.slot) else { return };
    let Some(query) = subscription.kind.query_mut().filter(|query| query.begun) else { return };
    query.unsettled = change.at.is_none();
    let lag_ms = u64::try_from(lag_ms).ok().filter(|_| change.created_at_ms > 0);
    query.counts.count(lag_ms, queue_depth, change.plan, &shard.hub.queries.registry);
    let bytes = frames.of(change, dialect, &subscription.query_id, &mut shard.deflater);
    let to = change.at.unwrap_or(Position::START);
    let item = OutboxItem::live(follower.slot, (to, to), change.rows, change.created_at_ms);
    shard.hand_over(follower, bytes, item, serving);
}
