//! The one admission: whether a connection may have a subscription, and in whose place.
//!
//! A name that a connection has in use is begun anew, whatever it was: that is how gaps are mended. But one
//! that belongs to its session is the session's for as long as that follows its stream: anything else under
//! this name would hide the stream, which the store keeps on following. A session's own stream is never
//! refused here. The store has decided who has the name.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::http::StatusCode;

use super::connection::{Connection, Key, SessionLink, Subscription};
use super::outbox::Slot;
use super::shard::Shard;
use crate::access::options::Options;
use crate::access::problem::Problem;
use crate::hub::kinds::entities::{self, Interest};
use crate::hub::kinds::query::engine;

/// What is asked for, as far as admission cares.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) enum Asked<'a> {
    /// A stream, of the session if there is a link.
    Stream(Option<SessionLink>),
    /// A table's rows.
    Table,
    /// Entities, which come to those that are there where it `adds`.
    Entities { code: &'a str, ids: &'a [Arc<str>], adds: bool },
    /// A live query.
    Query,
}

/// How many of each there may be on a connection.
#[derive(Debug, Clone, Copy)]
struct Limits {
    subscriptions_max: usize,
    entities_max: usize,
    queries_max: usize,
}

/// What becomes of a request that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    New,
    InPlaceOf(Slot),
    Adds(Slot),
    /// It is there already.
    Known,
}

/// What a request that was admitted does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Admission {
    /// It begins a subscription, in the place of an earlier one of its name or not.
    Begins { renewed: bool },
    /// It adds to one.
    Adds(Slot),
}

impl Limits {
    fn of(options: &Options) -> Limits {
        Limits {
            subscriptions_max: options.live.subscriptions_max,
            entities_max: options.live.entities_max,
            queries_max: options.queries.per_connection_max,
        }
    }
}

impl Shard {
    /// Admits a request, and makes room for it; or tells the client why not. None if there is nothing to
    /// begin.
    pub(in crate::hub) fn admit(
        &mut self,
        key: Key,
        query_id: &str,
        asked: Asked<'_>,
    ) -> Option<Admission> {
        let limits = Limits::of(&self.hub.options);
        let connection = self.connection(key)?;
        let one_cursor = connection.dialect().has_one_cursor();
        match connection.admits(query_id, asked, limits, one_cursor) {
            Ok(Admitted::New) => Some(Admission::Begins { renewed: false }),
            Ok(Admitted::InPlaceOf(slot)) => {
                connection.outbox.withdraw(slot);
                self.drop_subscription(key, slot);
                Some(Admission::Begins { renewed: true })
            }
            Ok(Admitted::Adds(slot)) => Some(Admission::Adds(slot)),
            Ok(Admitted::Known) => None,
            Err(problem) => {
                self.say(key, &problem.message(Some(query_id)));
                None
            }
        }
    }
}

impl Connection {
    /// Decides, and changes nothing.
    fn admits(
        &self,
        query_id: &str,
        asked: Asked<'_>,
        limits: Limits,
        one_cursor: bool,
    ) -> Result<Admitted, Problem> {
        let existing = self.slots().find(|(_, s)| *s.query_id == *query_id);
        let known = existing.and_then(|(_, subscription)| subscription.link);
        if let Asked::Stream(Some(link)) = asked {
            // What a session's change brought here first is the same subscription.
            if known.is_some_and(|known| known.epoch == link.epoch) {
                return Ok(Admitted::Known);
            }
        } else if let Some(stream) = self.of_session(query_id, existing.map(|(_, s)| s)) {
            return Err(taken_by_session(stream));
        }
        if matches!(asked, Asked::Query) && one_cursor {
            return Err(engine::not_over_sse());
        }
        let extended = existing.filter(|(_, s)| asked.adds_to(s));
        let replaced = existing.filter(|_| extended.is_none()).map(|(slot, _)| slot);
        self.fits(asked, extended.and_then(|(_, s)| s.kind.entities()), replaced, limits)?;
        match (extended, replaced) {
            (Some((slot, _)), _) => Ok(Admitted::Adds(slot)),
            (None, Some(slot)) => Ok(Admitted::InPlaceOf(slot)),
            (None, None) if self.slots().count() >= limits.subscriptions_max => {
                Err(too_many(limits.subscriptions_max))
            }
            (None, None) => Ok(Admitted::New),
        }
    }

    /// The stream that the connection's session follows under a name.
    fn of_session<'a>(
        &'a self,
        query_id: &str,
        existing: Option<&'a Subscription>,
    ) -> Option<&'a str> {
        if let Some(subscription) = existing.filter(|subscription| subscription.link.is_some()) {
            return subscription.kind.feed().map(|feed| &*feed.stream);
        }
        let unread = self.unread.iter().find(|(name, _)| **name == *query_id);
        unread.map(|(_, stream)| &**stream)
    }

    /// Whether there is room among those of its kind, when what it replaces is gone.
    fn fits(
        &self,
        asked: Asked<'_>,
        extended: Option<&Interest>,
        replaced: Option<Slot>,
        limits: Limits,
    ) -> Result<(), Problem> {
        match asked {
            Asked::Stream(_) | Asked::Table => {}
            Asked::Entities { ids, .. } => {
                let more = entities::not_among(extended, ids).len();
                if self.entity_count(replaced) + more > limits.entities_max {
                    return Err(entities::too_many(limits.entities_max));
                }
            }
            Asked::Query => {
                let others = self.slots().filter(|(slot, _)| Some(*slot) != replaced);
                if others.filter(|(_, s)| s.kind.query().is_some()).count() >= limits.queries_max {
                    return Err(engine::too_many("queries.per_connection_max", limits.queries_max));
                }
            }
        }
        Ok(())
    }
}

impl Asked<'_> {
    /// Whether it adds to a subscription, and does not take its place.
    fn adds_to(&self, subscription: &Subscription) -> bool {
        let Asked::Entities { code, adds: true, .. } = self else { return false };
        subscription.kind.entities().is_some_and(|interest| interest.is_of(code))
    }
}

/// The name belongs to what a session follows.
pub(crate) fn taken_by_session(stream: &str) -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "query_id_in_use",
        format!("the session follows {stream:?} under this name"),
        "unsubscribe from that stream first, or choose another query_id",
    )
}

fn too_many(subscriptions_max: usize) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_subscriptions",
        format!("a connection has at most {subscriptions_max} (live.subscriptions_max)"),
        "unsubscribe from something, or use another connection",
    )
}
