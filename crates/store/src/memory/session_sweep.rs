//! Upkeep of sessions: those whose node is gone, what has expired, and what is stale. Counts are
//! never wrong here.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::Rows;
use crate::session::{
    FollowedStream, Pointer, SessionPlan, SessionRow, SessionRules, SweepCursor, SweepTimes,
    SweptSession, SweptSessions, decide, expired, first_sessions, let_go, next_pointers, stale,
};

/// Sweeps once, from where the cursor stands, and moves it on. Gives what is to be announced, too.
pub(super) fn sweep(
    rows: &mut Rows,
    rules: &SessionRules,
    cursor: &mut SweepCursor,
    now_ms: i64,
) -> (SweptSessions, Vec<SessionPlan>) {
    let (times, rows_max) = (SweepTimes::new(now_ms, rules), rules.rows_max.max(1));
    let nodes = sweep_nodes(rows, &times, rows_max);
    let mut plans = Vec::new();

    let over = sweep_expired(rows, now_ms, rows_max);
    let sessions = over.sessions_removed.len();
    rows.sessions.save(&over);
    plans.push(over);

    let (page, next) = next_pointers(pointers(rows, cursor, &times, rows_max), rows_max);
    let (changes, orphans) = stale(&page, now_ms);
    let (_, ended) = decide(rows.loaded_sessions(&changes, now_ms), &changes);
    for plan in [orphans, ended] {
        rows.sessions.save(&plan);
        plans.push(plan);
    }
    cursor.pointer = next;

    let subscriptions = plans.iter().map(|plan| plan.removed.len()).sum();
    (SweptSessions { sessions, subscriptions, nodes, counts: 0 }, plans)
}

/// Lets go of the sessions of nodes whose lease has ended, or who never had one. Says how many nodes
/// went with their last session.
fn sweep_nodes(rows: &mut Rows, times: &SweepTimes, rows_max: usize) -> usize {
    let mut removed = 0;
    for node in rows.nodes.dead(times.now_ms) {
        rows.let_go_of(&node, rows_max, times.now_ms, Some(times.expires_at_ms));
        removed += usize::from(rows.forget_node(&node, times.now_ms));
    }
    let named = rows.sessions.rows.values().filter_map(|row| row.node.as_ref());
    let unknown = named.filter(|node| !rows.nodes.0.contains_key(*node));
    let unknown: BTreeSet<String> = unknown.cloned().collect();
    for node in unknown {
        rows.let_go_of(&node, rows_max, times.now_ms, None);
    }
    removed
}

/// The longest expired, and all that they follow. What a node serves does not expire.
fn sweep_expired(rows: &Rows, now_ms: i64, rows_max: usize) -> SessionPlan {
    let is_over = |row: &SessionRow| row.node.is_none() && row.expires_at_ms <= now_ms;
    let over = rows.sessions.rows.iter().filter(|(_, row)| is_over(row));
    let mut over: Vec<(i64, &String)> = over.map(|(id, row)| (row.expires_at_ms, id)).collect();
    over.sort_unstable();
    let found = over.into_iter().take(rows_max).map(|(_, id)| rows.found(id, ())).collect();
    let sessions = first_sessions(found, rows_max);
    let followed = |session: &SweptSession<()>| {
        let id = session.id.clone();
        let followed = rows.sessions.followed_by(&session.id);
        let stream = |followed: &FollowedStream| followed.subscription.stream.clone();
        followed.map(move |followed| (id.clone(), stream(followed))).collect::<Vec<_>>()
    };
    let followed = sessions.iter().flat_map(followed).collect();
    expired(sessions, followed, now_ms)
}

/// Some pointers in order, with whether each is stale: nobody has acknowledged or served it since.
fn pointers(
    rows: &Rows,
    cursor: &SweepCursor,
    times: &SweepTimes,
    rows_max: usize,
) -> Vec<Pointer> {
    let before_ms = times.stale_before_ms;
    let unused =
        |row: &SessionRow| row.node.is_none() && row.served_until_ms.unwrap_or(0) < before_ms;
    let after = (Excluded(cursor.pointer.clone()), Unbounded);
    let page = rows.sessions.followed.range(after).take(rows_max);
    page.map(|((session, stream), followed)| {
        let row = rows.sessions.rows.get(session);
        Pointer {
            session: session.clone(),
            stream: stream.clone(),
            stale: followed.updated_at_ms < before_ms && row.is_none_or(unused),
            orphan: row.is_none(),
        }
    })
    .collect()
}

impl Rows {
    fn found<T>(&self, id: &str, row: T) -> SweptSession<T> {
        SweptSession {
            id: id.to_owned(),
            row,
            subscriptions: self.sessions.followed_by(id).count(),
        }
    }

    /// Lets go of some sessions of a node that is gone.
    pub(super) fn let_go_of(
        &mut self,
        node: &str,
        rows_max: usize,
        now_ms: i64,
        expires_at_ms: Option<i64>,
    ) {
        let of_node = |row: &&SessionRow| row.node.as_deref() == Some(node);
        let sessions = self.sessions.rows.iter().filter(|(_, row)| of_node(row)).take(rows_max);
        let found = sessions.map(|(id, row)| self.found(id, row.clone())).collect();
        let plan = let_go(first_sessions(found, rows_max), now_ms, expires_at_ms);
        self.sessions.save(&plan);
    }
}
