//! What is to be saved of sessions, by column, as `columns` does it for the log.

use super::columns::signed;
use super::query::Param;
use tidewire_store::error::StoreError;
use tidewire_store::offset::Epoch;
use tidewire_store::session::{FollowedRow, SessionRow};

/// Sessions' rows.
#[derive(Default)]
pub(crate) struct SessionColumns<'a> {
    ids: Vec<&'a str>,
    users: Vec<&'a str>,
    hosts: Vec<Option<&'a str>>,
    revisions: Vec<i64>,
    created_at_ms: Vec<i64>,
    expires_at_ms: Vec<i64>,
    nodes: Vec<Option<&'a str>>,
    served_until_ms: Vec<Option<i64>>,
}

impl<'a> SessionColumns<'a> {
    pub(crate) fn of(rows: &'a [(String, SessionRow)]) -> Result<SessionColumns<'a>, StoreError> {
        let mut columns = SessionColumns::default();
        for (id, row) in rows {
            columns.ids.push(id);
            columns.users.push(&row.owner.user_id);
            columns.hosts.push(row.owner.host_id.as_deref());
            columns.revisions.push(signed(row.revision)?);
            columns.created_at_ms.push(row.created_at_ms);
            columns.expires_at_ms.push(row.expires_at_ms);
            columns.nodes.push(row.node.as_deref());
            columns.served_until_ms.push(row.served_until_ms);
        }
        Ok(columns)
    }

    /// For `sessions_save.sql`.
    pub(crate) fn params(&self) -> [Param<'_>; 8] {
        [
            &self.ids,
            &self.users,
            &self.hosts,
            &self.revisions,
            &self.created_at_ms,
            &self.expires_at_ms,
            &self.nodes,
            &self.served_until_ms,
        ]
    }
}

/// What sessions follow: two tables, each of which takes some of these columns.
#[derive(Default)]
pub(crate) struct FollowedColumns<'a> {
    sessions: Vec<&'a str>,
    users: Vec<&'a str>,
    streams: Vec<&'a str>,
    epochs: Vec<i64>,
    expires_at_ms: Vec<i64>,
    query_ids: Vec<&'a str>,
    live_offsets: Vec<Option<String>>,
    last_offsets: Vec<String>,
    updated_at_ms: Vec<i64>,
}

impl<'a> FollowedColumns<'a> {
    pub(crate) fn of(
        rows: &'a [FollowedRow],
        epoch: Epoch,
    ) -> Result<FollowedColumns<'a>, StoreError> {
        let mut columns = FollowedColumns::default();
        for FollowedRow { session, user_id, expires_at_ms, followed } in rows {
            let subscription = &followed.subscription;
            let live = subscription.live_since.map(|live| live.in_epoch(epoch).to_string());
            columns.sessions.push(session);
            columns.users.push(user_id);
            columns.streams.push(&subscription.stream);
            columns.epochs.push(signed(subscription.epoch)?);
            columns.expires_at_ms.push(*expires_at_ms);
            columns.query_ids.push(&subscription.query_id);
            columns.live_offsets.push(live);
            columns.last_offsets.push(subscription.pointer.in_epoch(epoch).to_string());
            columns.updated_at_ms.push(followed.updated_at_ms);
        }
        Ok(columns)
    }

    /// For `session_subscriptions_save.sql`.
    pub(crate) fn subscriptions(&self) -> [Param<'_>; 7] {
        [
            &self.sessions,
            &self.users,
            &self.streams,
            &self.epochs,
            &self.expires_at_ms,
            &self.query_ids,
            &self.live_offsets,
        ]
    }

    /// For `session_offsets_save.sql`.
    pub(crate) fn pointers(&self) -> [Param<'_>; 6] {
        [
            &self.sessions,
            &self.users,
            &self.streams,
            &self.epochs,
            &self.last_offsets,
            &self.updated_at_ms,
        ]
    }
}
