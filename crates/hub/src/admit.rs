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

use super::connection::{Connection, Key, Subscription};
use super::outbox::Slot;
use super::shard::Shard;
use crate::kinds::{KindRequest, SameName};
use crate::messages::AsMessage as _;
use tidewire_access::options::Options;
use tidewire_access::problem::Problem;

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
pub enum Admission {
    /// It begins a subscription, in the place of an earlier one of its name or not.
    Begins { renewed: bool },
    /// It adds to one.
    Adds(Slot),
}

impl Shard {
    /// Admits a request, and makes room for it; or tells the client why not. None if there is nothing to
    /// begin.
    pub(crate) fn admit(&mut self, key: Key, wanted: &dyn KindRequest) -> Option<Admission> {
        let hub = Arc::clone(&self.hub);
        let connection = self.connection(key)?;
        let one_cursor = connection.dialect().has_one_cursor();
        match connection.admits(wanted, one_cursor, &hub.options) {
            Ok(Admitted::New) => Some(Admission::Begins { renewed: false }),
            Ok(Admitted::InPlaceOf(slot)) => {
                connection.outbox.withdraw(slot);
                self.drop_subscription(key, slot);
                Some(Admission::Begins { renewed: true })
            }
            Ok(Admitted::Adds(slot)) => Some(Admission::Adds(slot)),
            Ok(Admitted::Known) => None,
            Err(problem) => {
                self.say(key, &problem.message(Some(wanted.query_id())));
                None
            }
        }
    }
}

impl Connection {
    /// Decides, and changes nothing.
    fn admits(
        &self,
        wanted: &dyn KindRequest,
        one_cursor: bool,
        options: &Options,
    ) -> Result<Admitted, Problem> {
        let query_id = &**wanted.query_id();
        let existing = self.slots().find(|(_, s)| *s.query_id == *query_id);
        let known = existing.and_then(|(_, subscription)| subscription.link);
        if let Some(link) = wanted.link() {
            // What a session's change brought here first is the same subscription.
            if known.is_some_and(|known| known.epoch == link.epoch) {
                return Ok(Admitted::Known);
            }
        } else if let Some(stream) = self.of_session(query_id, existing.map(|(_, s)| s)) {
            return Err(taken_by_session(stream));
        }
        if one_cursor {
            wanted.over_one_cursor()?;
        }
        let beside = match existing {
            None => SameName::Nothing,
            Some((slot, subscription)) if wanted.adds_to(subscription) => SameName::AddsTo(slot),
            Some((slot, _)) => SameName::InPlaceOf(slot),
        };
        wanted.fits(self, beside, options)?;
        let subscriptions_max = options.live.subscriptions_max;
        match beside {
            SameName::AddsTo(slot) => Ok(Admitted::Adds(slot)),
            SameName::InPlaceOf(slot) => Ok(Admitted::InPlaceOf(slot)),
            SameName::Nothing if self.slots().count() >= subscriptions_max => {
                Err(too_many(subscriptions_max))
            }
            SameName::Nothing => Ok(Admitted::New),
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
}

/// The name belongs to what a session follows.
pub fn taken_by_session(stream: &str) -> Problem {
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
