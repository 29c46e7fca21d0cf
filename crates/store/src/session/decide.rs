//! What changes do to sessions, as pure code.
//!
//! A store loads the rows that changes are about into a [`LoadedSessions`], has [`decide`] go through them
//! in order, and saves the [`SessionPlan`] that comes of it, all in one transaction in which nobody else
//! changes sessions. Both stores behave alike because both ask this code.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Owner, SESSION_SUBSCRIPTIONS_MAX, SessionChange, SessionOutcome, SessionSubscription, Start,
};
use crate::offset::{Epoch, Offset, Position};

/// An acknowledgement that moves nothing is written at most this often. It keeps its subscription
/// from going stale, which is a matter of hours.
const REPEATED_MS: i64 = 60_000;

/// A session's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub owner: Owner,
    pub revision: u64,
    pub created_at_ms: i64,
    pub expires_at_ms: i64,
    /// The node that serves it.
    pub node: Option<String>,
    /// When a node last ceased to serve it.
    pub served_until_ms: Option<i64>,
}

/// What a session follows, and when its pointer was last acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedStream {
    pub subscription: SessionSubscription,
    pub updated_at_ms: i64,
}

/// The time `ms` after `now_ms`, as far as the clock goes.
pub fn after(now_ms: i64, ms: u64) -> i64 {
    now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// The position of an offset that was kept as text. One of another epoch of the log is none: its
/// history is gone.
pub fn position_of(text: &str, epoch: Epoch) -> Option<Position> {
    let offset: Offset = text.parse().ok()?;
    (offset.position().in_epoch(epoch) == offset).then_some(offset.position())
}

/// What a store has to load before it can decide.
#[derive(Debug, Default)]
pub struct RequiredSessions<'a> {
    /// Sessions, and whether their subscriptions are to be counted.
    pub sessions: BTreeMap<&'a str, bool>,
    /// Subscriptions, by session: that of a stream, and that which has a name.
    pub followed: BTreeSet<(&'a str, &'a str, Option<&'a str>)>,
}

impl<'a> RequiredSessions<'a> {
    pub fn by(changes: &'a [SessionChange]) -> RequiredSessions<'a> {
        let mut required = RequiredSessions::default();
        for change in changes {
            let (session, stream) = change.about();
            let name = match change {
                SessionChange::Subscribe { query_id, .. } => Some(query_id.as_str()),
                _ => None,
            };
            *required.sessions.entry(session).or_default() |= name.is_some();
            required.followed.extend(stream.map(|stream| (session, stream, name)));
        }
        required
    }
}

impl SessionChange {
    /// The session it is about, and the stream if it is about one.
    fn about(&self) -> (&str, Option<&str>) {
        match self {
            SessionChange::Subscribe { session, stream, .. }
            | SessionChange::Unsubscribe { session, stream }
            | SessionChange::Acknowledge { session, stream, .. }
            | SessionChange::WentLive { session, stream, .. } => (session, Some(stream)),
            SessionChange::Open { session, .. }
            | SessionChange::Heartbeat { session, .. }
            | SessionChange::Connect { session, .. }
            | SessionChange::Disconnect { session, .. } => (session, None),
        }
    }
}

/// Sessions as they are at one moment.
#[derive(Debug)]
pub struct LoadedSessions {
    now_ms: i64,
    sessions: BTreeMap<String, SessionState>,
}

/// What is known of a session, and what is to become of it.
#[derive(Debug)]
struct SessionState {
    before: Option<SessionRow>,
    row: SessionRow,
    /// A node that has, or had, a lease serves it: it does not expire.
    kept: bool,
    /// How many streams it follows; only known if it was asked for.
    subscriptions: usize,
    /// What it follows, of the streams and names that were asked for.
    followed: BTreeMap<String, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    before: Option<FollowedStream>,
    now: Option<FollowedStream>,
}

impl LoadedSessions {
    pub fn new(now_ms: i64) -> LoadedSessions {
        LoadedSessions { now_ms, sessions: BTreeMap::new() }
    }

    /// When that moment is, by the store's clock.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// A session that is there, with the number of its subscriptions. `kept` says that the node that
    /// serves it is known.
    pub fn put(&mut self, id: String, row: SessionRow, subscriptions: usize, kept: bool) {
        let before = Some(row.clone());
        let followed = BTreeMap::new();
        self.sessions.insert(id, SessionState { before, row, kept, subscriptions, followed });
    }

    /// What a session follows. To be put after the session.
    pub fn put_followed(&mut self, session: &str, followed: FollowedStream) {
        if let Some(known) = self.sessions.get_mut(session) {
            let stream = followed.subscription.stream.clone();
            let entry = Entry { before: Some(followed.clone()), now: Some(followed) };
            known.followed.insert(stream, entry);
        }
    }

    fn apply(&mut self, change: &SessionChange) -> SessionOutcome {
        let now_ms = self.now_ms;
        if let SessionChange::Open { session, owner, ttl_ms } = change {
            return self.open(session, owner, after(now_ms, *ttl_ms));
        }
        let found = self.sessions.get_mut(change.about().0);
        let Some(known) = found.filter(|known| known.lives(now_ms)) else {
            return SessionOutcome::NoSession;
        };
        match change {
            SessionChange::Open { .. } => {}
            SessionChange::Subscribe { stream, query_id, start, ttl_ms, .. } => {
                let outcome = known.subscribe(stream, query_id, *start, now_ms);
                if matches!(outcome, SessionOutcome::Subscribed(_)) {
                    known.row.expires_at_ms = after(now_ms, *ttl_ms);
                }
                return outcome;
            }
            SessionChange::Unsubscribe { stream, .. } => known.unsubscribe(stream),
            SessionChange::Heartbeat { ttl_ms, .. } => {
                known.row.expires_at_ms = after(now_ms, *ttl_ms);
            }
            SessionChange::Acknowledge { stream, epoch, position, .. } => {
                known.acknowledge(stream, *epoch, *position, now_ms);
            }
            SessionChange::WentLive { stream, epoch, position, .. } => {
                if let Some(followed) = known.of_epoch(stream, *epoch) {
                    followed.subscription.live_since.get_or_insert(*position);
                }
            }
            SessionChange::Connect { node, .. } => {
                known.row.node = Some(node.clone());
                known.kept = true;
            }
            SessionChange::Disconnect { node, ttl_ms, .. } => {
                if known.row.node.as_ref() == Some(node) {
                    known.row.detach(now_ms, after(now_ms, *ttl_ms));
                    known.kept = false;
                }
            }
        }
        SessionOutcome::Done
    }

    /// An id is given once. Opening it again is only for a caller who did not hear the answer.
    fn open(&mut self, session: &str, owner: &Owner, expires_at_ms: i64) -> SessionOutcome {
        let now_ms = self.now_ms;
        let Some(known) = self.sessions.get_mut(session) else {
            let row = SessionRow {
                owner: owner.clone(),
                revision: 0,
                created_at_ms: now_ms,
                expires_at_ms,
                node: None,
                served_until_ms: None,
            };
            let followed = BTreeMap::new();
            let known = SessionState { before: None, row, kept: false, subscriptions: 0, followed };
            self.sessions.insert(session.to_owned(), known);
            return SessionOutcome::Done;
        };
        if !known.lives(now_ms) || known.row.owner != *owner {
            return SessionOutcome::NoSession;
        }
        known.row.expires_at_ms = expires_at_ms;
        SessionOutcome::Done
    }

    fn into_plan(self) -> SessionPlan {
        let mut plan = SessionPlan { now_ms: self.now_ms, ..SessionPlan::default() };
        for (id, known) in self.sessions {
            let SessionState { before, row, followed, .. } = known;
            for (stream, entry) in followed {
                plan.add_followed(&id, &row, stream, entry);
            }
            if before.as_ref().map_or(0, |before| before.revision) != row.revision {
                plan.changed.insert(id.clone());
            }
            if before.as_ref().is_some_and(|before| before.expires_at_ms != row.expires_at_ms) {
                plan.renewed.push((id.clone(), row.expires_at_ms));
            }
            if before.as_ref() != Some(&row) {
                plan.sessions.push((id, row));
            }
        }
        plan
    }
}

impl SessionState {
    fn lives(&self, now_ms: i64) -> bool {
        self.kept || self.row.expires_at_ms > now_ms
    }

    fn subscribe(
        &mut self,
        stream: &str,
        query_id: &str,
        start: Start,
        now_ms: i64,
    ) -> SessionOutcome {
        if let Some(other) = self.named(query_id).filter(|other| *other != stream) {
            return SessionOutcome::NameTaken(other.to_owned());
        }
        let entry = self.followed.entry(stream.to_owned()).or_default();
        let (pointer, unless_followed) = match start {
            Start::At(position) => (position, false),
            Start::Unless(position) => (position, true),
        };
        match &entry.now {
            Some(FollowedStream { subscription, .. }) if subscription.query_id != query_id => {
                return SessionOutcome::NamedOtherwise(subscription.query_id.clone());
            }
            Some(FollowedStream { subscription, .. }) if unless_followed => {
                return SessionOutcome::Subscribed(subscription.clone());
            }
            Some(_) => {}
            None if self.subscriptions >= SESSION_SUBSCRIPTIONS_MAX => {
                return SessionOutcome::TooMany;
            }
            None => self.subscriptions += 1,
        }
        self.row.revision += 1;
        let subscription = SessionSubscription {
            stream: stream.to_owned(),
            query_id: query_id.to_owned(),
            epoch: self.row.revision,
            pointer,
            live_since: None,
        };
        entry.now =
            Some(FollowedStream { subscription: subscription.clone(), updated_at_ms: now_ms });
        SessionOutcome::Subscribed(subscription)
    }

    /// The stream that it follows under a name.
    fn named(&self, query_id: &str) -> Option<&str> {
        let mut followed = self.followed.values().filter_map(|entry| entry.now.as_ref());
        let followed = followed.find(|followed| followed.subscription.query_id == query_id)?;
        Some(&followed.subscription.stream)
    }

    fn unsubscribe(&mut self, stream: &str) {
        let removed = self.followed.get_mut(stream).and_then(|entry| entry.now.take());
        if removed.is_some() {
            self.row.revision += 1;
            self.subscriptions = self.subscriptions.saturating_sub(1);
        }
    }

    fn acknowledge(&mut self, stream: &str, epoch: u64, position: Position, now_ms: i64) {
        let Some(followed) = self.of_epoch(stream, epoch) else { return };
        let pointer = &mut followed.subscription.pointer;
        let moves = position > *pointer;
        if moves || now_ms.saturating_sub(followed.updated_at_ms) >= REPEATED_MS {
            *pointer = position.max(*pointer);
            followed.updated_at_ms = now_ms;
        }
    }

    /// What it follows, if it is the subscription of that epoch.
    fn of_epoch(&mut self, stream: &str, epoch: u64) -> Option<&mut FollowedStream> {
        let followed = self.followed.get_mut(stream)?.now.as_mut()?;
        (followed.subscription.epoch == epoch).then_some(followed)
    }
}

impl SessionRow {
    /// No node serves it any more.
    pub fn detach(&mut self, now_ms: i64, expires_at_ms: i64) {
        self.node = None;
        self.served_until_ms = Some(now_ms);
        self.expires_at_ms = expires_at_ms;
    }
}

/// What is to be written.
#[derive(Debug, Default)]
pub struct SessionPlan {
    pub now_ms: i64,
    /// Sessions that are new or changed.
    pub sessions: Vec<(String, SessionRow)>,
    /// Sessions that go. What they follow is in `removed`.
    pub sessions_removed: Vec<String>,
    /// Sessions that expire at another time than before: the rows of their subscriptions say so
    /// too.
    pub renewed: Vec<(String, i64)>,
    /// Rows of `session_subscriptions` that are new or changed.
    pub subscriptions: Vec<FollowedRow>,
    /// Rows of `session_offsets` that are new or changed.
    pub pointers: Vec<FollowedRow>,
    /// Rows of both that go before any is written, by session and stream.
    pub removed: Vec<(String, String)>,
    /// By how much the number of sessions that follow a stream rises or falls.
    pub counts: BTreeMap<String, i64>,
    /// Sessions whose subscriptions changed.
    pub changed: BTreeSet<String>,
}

/// What a session follows, with what its rows repeat of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedRow {
    pub session: String,
    pub user_id: String,
    pub expires_at_ms: i64,
    pub followed: FollowedStream,
}

impl SessionPlan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.sessions_removed.is_empty()
            && self.subscriptions.is_empty()
            && self.pointers.is_empty()
            && self.removed.is_empty()
            && self.counts.is_empty()
    }

    fn add_followed(&mut self, session: &str, row: &SessionRow, stream: String, entry: Entry) {
        let Entry { before, now } = entry;
        let Some(now) = now else {
            if before.is_some() {
                self.remove(session.to_owned(), stream);
            }
            return;
        };
        let is = &now.subscription;
        let was = before.as_ref().map(|before| &before.subscription);
        let named = |s: &SessionSubscription| (s.query_id.clone(), s.epoch, s.live_since);
        let renamed = was.map(named) != Some(named(is));
        let moved = was.map(|was| (was.epoch, was.pointer)) != Some((is.epoch, is.pointer))
            || before.as_ref().map(|before| before.updated_at_ms) != Some(now.updated_at_ms);
        if before.is_none() {
            *self.counts.entry(stream.clone()).or_default() += 1;
        }
        let written = FollowedRow {
            session: session.to_owned(),
            user_id: row.owner.user_id.clone(),
            expires_at_ms: row.expires_at_ms,
            followed: now,
        };
        if was.is_some_and(|was| was.query_id != written.followed.subscription.query_id) {
            // Another stream may have its old name in the same commit, whatever is written first.
            self.removed.push((session.to_owned(), stream.clone()));
        }
        if renamed {
            self.subscriptions.push(written.clone());
        }
        if moved {
            self.pointers.push(written);
        }
    }

    /// A session follows a stream no longer.
    pub fn remove(&mut self, session: String, stream: String) {
        *self.counts.entry(stream.clone()).or_default() -= 1;
        self.removed.push((session, stream));
    }
}

/// Goes through changes in order: what becomes of each, and what is to be written.
pub fn decide(
    mut loaded: LoadedSessions,
    changes: &[SessionChange],
) -> (Vec<SessionOutcome>, SessionPlan) {
    let outcomes = changes.iter().map(|change| loaded.apply(change)).collect();
    (outcomes, loaded.into_plan())
}

#[cfg(test)]
mod tests;
