//! Sessions: loading what changes are decided against, keeping what was decided, and reading.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::PoisonError;

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::session_sweep::sweep;
use super::{MemoryStore, Rows};
use crate::error::StoreError;
use crate::session::{
    FollowedStream, LoadedSessions, RequiredSessions, Session, SessionChange, SessionOutcome,
    SessionPlan, SessionRow, SessionRules, SessionSignal, Sessions, SweptSessions, decide,
};

/// What is kept of sessions.
#[derive(Debug, Default)]
pub(super) struct SessionTables {
    /// By id.
    pub(super) rows: BTreeMap<String, SessionRow>,
    /// What they follow, and how far they have got, by session and stream.
    pub(super) followed: BTreeMap<(String, String), FollowedStream>,
    /// How many follow a stream. Nobody changes rows by hand here, so it is always right.
    counts: BTreeMap<String, u64>,
}

impl SessionTables {
    /// What a session follows, by stream.
    pub(super) fn followed_by(&self, session: &str) -> impl Iterator<Item = &FollowedStream> {
        let from = (session.to_owned(), String::new());
        let from = self.followed.range((Included(from), Unbounded));
        from.take_while(move |((of, _), _)| of == session).map(|(_, followed)| followed)
    }

    /// What a session follows under a name.
    fn named(&self, session: &str, name: &str) -> Option<&FollowedStream> {
        self.followed_by(session).find(|followed| followed.subscription.query_id == name)
    }

    /// Keeps what was decided.
    pub(super) fn save(&mut self, plan: &SessionPlan) {
        for (id, row) in &plan.sessions {
            self.rows.insert(id.clone(), row.clone());
        }
        for id in &plan.sessions_removed {
            self.rows.remove(id);
        }
        for key in &plan.removed {
            self.followed.remove(key);
        }
        for row in plan.subscriptions.iter().chain(&plan.pointers) {
            let key = (row.session.clone(), row.followed.subscription.stream.clone());
            self.followed.insert(key, row.followed.clone());
        }
        for (stream, difference) in &plan.counts {
            let count = self.counts.get(stream).copied().unwrap_or(0);
            match count.saturating_add_signed(*difference) {
                0 => self.counts.remove(stream),
                count => self.counts.insert(stream.clone(), count),
            };
        }
    }
}

impl Rows {
    /// What changes are decided against.
    pub(super) fn loaded_sessions(&self, changes: &[SessionChange], now_ms: i64) -> LoadedSessions {
        let required = RequiredSessions::by(changes);
        let mut loaded = LoadedSessions::new(now_ms);
        for (id, counted) in required.sessions {
            if let Some(row) = self.sessions.rows.get(id) {
                let count = if counted { self.sessions.followed_by(id).count() } else { 0 };
                loaded.put(id.to_owned(), row.clone(), count, self.is_kept(row));
            }
        }
        for (session, stream, name) in required.followed {
            let key = (session.to_owned(), stream.to_owned());
            let named = |name| self.sessions.named(session, name);
            let of_stream = self.sessions.followed.get(&key);
            for followed in of_stream.into_iter().chain(name.and_then(named)) {
                loaded.put_followed(session, followed.clone());
            }
        }
        loaded
    }

    /// Whether a node that is known serves a session, also after its lease has ended: the sweep gives
    /// it the time it lives on.
    fn is_kept(&self, row: &SessionRow) -> bool {
        row.node.as_ref().is_some_and(|node| self.nodes.0.contains_key(node))
    }

    /// A session that has not expired.
    fn living(&self, id: &str, now_ms: i64) -> Option<&SessionRow> {
        let row = self.sessions.rows.get(id)?;
        (row.expires_at_ms > now_ms || self.is_kept(row)).then_some(row)
    }
}

#[async_trait]
impl Sessions for MemoryStore {
    async fn change_sessions(
        &self,
        changes: Vec<SessionChange>,
    ) -> Result<Vec<SessionOutcome>, StoreError> {
        let change = |rows: &mut Rows, now_ms| {
            let (outcomes, plan) = decide(rows.loaded_sessions(&changes, now_ms), &changes);
            rows.sessions.save(&plan);
            (outcomes, plan)
        };
        let (outcomes, plan) = self.run(change).await?;
        self.announce(plan);
        Ok(outcomes)
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, StoreError> {
        let find = |rows: &mut Rows, now_ms| {
            let row = rows.living(id, now_ms)?;
            let followed = rows.sessions.followed_by(id);
            Some(Session {
                id: id.to_owned(),
                owner: row.owner.clone(),
                revision: row.revision,
                subscriptions: followed.map(|followed| followed.subscription.clone()).collect(),
            })
        };
        self.run(find).await
    }

    async fn session_revisions(&self, ids: &[String]) -> Result<Vec<(String, u64)>, StoreError> {
        let find = |rows: &mut Rows, now_ms| {
            let living = ids.iter().filter_map(|id| Some((id, rows.living(id, now_ms)?)));
            living.map(|(id, row)| (id.clone(), row.revision)).collect()
        };
        self.run(find).await
    }

    fn session_signals(&self) -> broadcast::Receiver<SessionSignal> {
        self.data.sessions.subscribe()
    }

    async fn sweep_sessions(&self, rules: SessionRules) -> Result<SweptSessions, StoreError> {
        let work = |rows: &mut Rows, now_ms| {
            let mut cursor = self.sweep_cursor.lock().unwrap_or_else(PoisonError::into_inner);
            sweep(rows, &rules, &mut cursor, now_ms)
        };
        let (swept, plans) = self.run(work).await?;
        plans.into_iter().for_each(|plan| self.announce(plan));
        Ok(swept)
    }

    async fn subscriber_count(&self, stream: &str) -> Result<u64, StoreError> {
        self.run(|rows, _| rows.sessions.counts.get(stream).copied().unwrap_or(0)).await
    }
}

impl MemoryStore {
    /// Says whose subscriptions a plan has changed.
    fn announce(&self, plan: SessionPlan) {
        for session in plan.changed {
            // Nobody may be listening.
            let _ = self.data.sessions.send(SessionSignal::Changed(session));
        }
    }
}
