//! What the desk says, told to those whom it concerns.

use std::sync::Arc;

use bytes::BytesMut;

use tidewire_query::{EndReason, PlanName, QueryId, Subscriber, To};
use tidewire_store::Position;

use super::begin::Beginning;
use crate::hub::audience::Member;
use crate::hub::frames::put;
use crate::hub::kinds::query::engine::{Change, News, QuerySight};
use crate::hub::messages::{Progress, ServerMessage as _};
use crate::hub::outbox::{Cargo, Parcel};
use crate::hub::shard::Shard;

impl Shard {
    /// Tells what one turn of the desk brought.
    pub(in crate::hub) fn hear(&mut self, sight: &QuerySight) {
        for news in &sight.news {
            match &**news {
                News::Begin { to, compiled, plan, rows, at, reset } => {
                    let begins = Beginning {
                        compiled,
                        plan: *plan,
                        rows: Some(rows),
                        at: *at,
                        reset: *reset,
                    };
                    for member in self.enter_circle(to) {
                        self.begin_result(member, &begins);
                    }
                }
                News::Resumed { to, compiled, plan, from } => {
                    let begins = Beginning {
                        compiled,
                        plan: *plan,
                        rows: None,
                        at: Some(*from),
                        reset: false,
                    };
                    for member in self.enter_circle(to) {
                        self.begin_result(member, &begins);
                    }
                }
                News::Change { to, change } => {
                    for member in self.concerned(to) {
                        self.tell_change(member, change);
                    }
                }
                News::Settled { to, at } => {
                    for member in self.concerned(to) {
                        self.tell_settled(member, *at);
                    }
                }
                News::Behind { query, behind } => {
                    if let Some(circle) = self.queries.circles.get_mut(query) {
                        circle.behind = *behind;
                    }
                }
                News::Plan { query, plan } => self.note_plan(*query, *plan),
                News::End { to, reason } => self.end_queries(to, reason),
            }
        }
        self.queries.position = sight.position;
    }

    /// Those whom something concerns that follow their query.
    fn concerned(&self, to: &To) -> Vec<Member> {
        match to {
            To::All(query) => {
                let circle = self.queries.circles.get(query);
                circle.into_iter().flat_map(|circle| circle.members.values().copied()).collect()
            }
            To::Only(_, named) => self.members(named).map(|(_, member)| member).collect(),
        }
    }

    fn members(&self, named: &[Subscriber]) -> impl Iterator<Item = (Subscriber, Member)> {
        let found = |who: &Subscriber| Some((*who, *self.queries.members.get(who)?));
        named.iter().filter_map(found)
    }

    /// Those to whom all rows are given, who follow their query from here on.
    fn enter_circle(&mut self, to: &To) -> Vec<Member> {
        let To::Only(query, named) = to else { return self.concerned(to) };
        let entering: Vec<_> = self.members(named).collect();
        for (who, member) in &entering {
            self.queries.circles.entry(*query).or_default().members.insert(*who, *member);
            let connection = self.connection(member.key);
            let subscription = connection.and_then(|c| c.subscription(member.slot));
            if let Some(live) = subscription.and_then(|s| s.kind.query_mut()) {
                live.query = Some(*query);
            }
        }
        entering.into_iter().map(|(_, member)| member).collect()
    }

    fn tell_change(&mut self, member: Member, change: &Change) {
        let (now_ms, lag_ms) = (self.now_ms, self.wall_ms - change.created_at_ms);
        let connection = self.connections.get_mut(member.key.index);
        let connection = connection.filter(|c| c.serial == member.key.serial && !c.closing);
        let Some(connection) = connection else { return };
        let (dialect, queue_depth) = (connection.dialect(), connection.outbox.events);
        let Some(subscription) = connection.subscription(member.slot) else { return };
        let Some(query) = subscription.kind.query_mut().filter(|query| query.begun) else {
            return;
        };
        query.unsettled = change.at.is_none();
        let lag_ms = u64::try_from(lag_ms).ok().filter(|_| change.created_at_ms > 0);
        let (live_id, plan) = (&query.live_id, query.plan.as_str());
        self.hub.queries.registry.counted(live_id, lag_ms, queue_depth, plan);
        let bytes = change.encode(dialect, &subscription.query_id, &mut self.deflater);
        let to = change.at.unwrap_or(Position::START);
        let cargo = Cargo::live(member.slot, (to, to), change.rows, change.created_at_ms);
        self.send_change(member, Parcel { bytes, cargo, queued_ms: now_ms });
    }

    fn tell_settled(&mut self, member: Member, at: Position) {
        let (now_ms, offset) = (self.now_ms, self.hub.offset(at));
        let connection = self.connections.get_mut(member.key.index);
        let connection = connection.filter(|c| c.serial == member.key.serial);
        let Some(connection) = connection else { return };
        let dialect = connection.dialect();
        let Some(subscription) = connection.subscription(member.slot) else { return };
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
        let cargo = Cargo::live(member.slot, (at, at), 0, 0);
        let parcel = Parcel { bytes: bytes.freeze(), cargo, queued_ms: now_ms };
        if query.pieces.is_some() {
            query.held.push(parcel);
        } else {
            connection.queue_live(member.slot, parcel);
            self.touch(member.key.index);
        }
    }

    fn note_plan(&mut self, query: QueryId, plan: PlanName) {
        for member in self.concerned(&To::All(query)) {
            let connection = self.connection(member.key);
            let subscription = connection.and_then(|c| c.subscription(member.slot));
            if let Some(live) = subscription.and_then(|s| s.kind.query_mut()) {
                live.plan = plan;
            }
        }
    }

    /// The desk keeps a query no longer, for some who follow it or wait to.
    fn end_queries(&mut self, to: &To, reason: &EndReason) {
        for member in self.concerned(to) {
            let connection = self.connection(member.key);
            let subscription = connection.and_then(|c| c.subscription(member.slot));
            let Some(subscription) = subscription else { continue };
            let announced = subscription.announced;
            if let Some(query) = subscription.kind.query_mut() {
                query.ended = true;
            }
            if announced {
                self.end_with(member.key, member.slot, reason.code, reason.message.as_deref());
            } else {
                self.fail(
                    member.key,
                    member.slot,
                    &crate::hub::kinds::query::engine::ended(reason),
                );
            }
        }
    }
}
