//! Sessions: loading what changes are decided against, saving what was decided, and reading.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tokio::sync::broadcast;

use super::error::{broken, now_ms};
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::session::{
    FollowedRow, FollowedStream, LoadedSessions, Owner, RequiredSessions, Session, SessionChange,
    SessionOutcome, SessionPlan, SessionRow, SessionSignal, SessionSubscription, decide,
    position_of,
};

/// Where signals go.
pub(crate) type Signals = broadcast::Sender<SessionSignal>;

/// Carries out changes in one commit.
pub(crate) fn change(
    writer: &mut Writer,
    epoch: Epoch,
    changes: &[SessionChange],
    signals: &Signals,
) -> Result<Vec<SessionOutcome>, StoreError> {
    let failed = broken("change sessions");
    let transaction = writer.transaction()?;
    let loaded = load(&transaction, epoch, changes, now_ms()).map_err(&failed)?;
    let (outcomes, plan) = decide(loaded, changes);
    if !plan.is_empty() {
        save(&transaction, epoch, &plan).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        announce(signals, plan);
    }
    Ok(outcomes)
}

/// Says whose subscriptions a plan has changed, once it is durable.
pub(crate) fn announce(signals: &Signals, plan: SessionPlan) {
    for session in plan.changed {
        // Nobody may be listening.
        let _ = signals.send(SessionSignal::Changed(session));
    }
}

/// What changes are decided against.
pub(crate) fn load(
    transaction: &Transaction<'_>,
    epoch: Epoch,
    changes: &[SessionChange],
    now_ms: i64,
) -> rusqlite::Result<LoadedSessions> {
    let required = RequiredSessions::by(changes);
    let mut loaded = LoadedSessions::new(now_ms);
    let mut query = transaction.prepare_cached(sql!("session_wanted"))?;
    for (id, counted) in required.sessions {
        let of_row = |row: &Row<'_>| Ok((session_of_row(row)?, row.get(8)?, row.get(9)?));
        if let Some((row, count, kept)) = query.query_row((id, counted), of_row).optional()? {
            loaded.put(id.to_owned(), row, count, kept);
        }
    }
    let mut query = transaction.prepare_cached(sql!("session_subscription_wanted"))?;
    for (session, stream, name) in required.followed {
        let of_row = |row: &Row<'_>| followed_of_row(row, 0, epoch);
        for followed in query.query_map((session, stream, name), of_row)? {
            loaded.put_followed(session, followed?);
        }
    }
    Ok(loaded)
}

/// Writes what was decided. It is for the caller to commit and to announce.
pub(crate) fn save(
    transaction: &Transaction<'_>,
    epoch: Epoch,
    plan: &SessionPlan,
) -> rusqlite::Result<()> {
    save_sessions(transaction, plan)?;
    for (session, stream) in &plan.removed {
        let key = (session, stream);
        transaction.prepare_cached(sql!("session_subscription_remove"))?.execute(key)?;
        transaction.prepare_cached(sql!("session_offset_remove"))?.execute(key)?;
    }
    for FollowedRow { session, user_id, expires_at_ms, followed } in &plan.subscriptions {
        let SessionSubscription { stream, query_id, epoch: number, live_since, .. } =
            &followed.subscription;
        let live = live_since.map(|position| position.in_epoch(epoch).to_string());
        transaction.prepare_cached(sql!("session_subscription_save"))?.execute(params![
            session,
            user_id,
            stream,
            number,
            expires_at_ms,
            query_id,
            live
        ])?;
    }
    for FollowedRow { session, user_id, followed, .. } in &plan.pointers {
        let SessionSubscription { stream, epoch: number, pointer, .. } = &followed.subscription;
        transaction.prepare_cached(sql!("session_offset_save"))?.execute(params![
            session,
            user_id,
            stream,
            number,
            pointer.in_epoch(epoch).to_string(),
            followed.updated_at_ms
        ])?;
    }
    for (stream, difference) in &plan.counts {
        transaction.prepare_cached(sql!("subscriber_count_add"))?.execute((
            stream,
            difference,
            plan.now_ms,
        ))?;
        transaction.prepare_cached(sql!("subscriber_count_remove"))?.execute([stream])?;
    }
    Ok(())
}

fn save_sessions(transaction: &Transaction<'_>, plan: &SessionPlan) -> rusqlite::Result<()> {
    for (id, row) in &plan.sessions {
        transaction.prepare_cached(sql!("session_save"))?.execute(params![
            id,
            row.owner.user_id,
            row.owner.host_id,
            row.revision,
            row.created_at_ms,
            row.expires_at_ms,
            row.node,
            row.served_until_ms
        ])?;
    }
    for renewed in &plan.renewed {
        let mut renew = transaction.prepare_cached(sql!("session_subscriptions_renew"))?;
        renew.execute((&renewed.0, renewed.1))?;
    }
    for id in &plan.sessions_removed {
        transaction.prepare_cached(sql!("session_remove"))?.execute([id])?;
    }
    Ok(())
}

/// A session that has not expired.
pub(crate) fn session(
    connection: &Connection,
    epoch: Epoch,
    id: &str,
) -> Result<Option<Session>, StoreError> {
    let read = || -> rusqlite::Result<Option<Session>> {
        let mut query = connection.prepare_cached(sql!("session"))?;
        let mut rows = query.query((id, now_ms()))?;
        let mut session = None;
        while let Some(row) = rows.next()? {
            let session = session.get_or_insert(Session {
                id: id.to_owned(),
                owner: Owner { user_id: row.get(0)?, host_id: row.get(1)? },
                revision: row.get(2)?,
                subscriptions: Vec::new(),
            });
            if row.get_ref(3)? != rusqlite::types::ValueRef::Null {
                session.subscriptions.push(followed_of_row(row, 3, epoch)?.subscription);
            }
        }
        Ok(session)
    };
    read().map_err(broken("read a session"))
}

/// The revisions of sessions that have not expired.
pub(crate) fn revisions(
    connection: &mut Connection,
    ids: &[String],
) -> Result<Vec<(String, u64)>, StoreError> {
    let mut read = || -> rusqlite::Result<Vec<(String, u64)>> {
        let snapshot = connection.transaction()?;
        let mut query = snapshot.prepare_cached(sql!("session_revision"))?;
        let now_ms = now_ms();
        let mut revisions = Vec::new();
        for id in ids {
            let revision = query.query_row((id, now_ms), |row| row.get(0)).optional()?;
            revisions.extend(revision.map(|revision| (id.clone(), revision)));
        }
        Ok(revisions)
    };
    read().map_err(broken("read the revisions of sessions"))
}

/// How many sessions follow a stream.
pub(crate) fn subscriber_count(connection: &Connection, stream: &str) -> Result<u64, StoreError> {
    let read = || -> rusqlite::Result<Option<i64>> {
        let mut query = connection.prepare_cached(sql!("subscriber_count"))?;
        query.query_row([stream], |row| row.get(0)).optional()
    };
    let count = read().map_err(broken("read how many follow a stream"))?;
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
}

/// A session's row, from the columns that the queries of whole rows begin with.
pub(crate) fn session_of_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        owner: Owner { user_id: row.get(1)?, host_id: row.get(2)? },
        revision: row.get(3)?,
        created_at_ms: row.get(4)?,
        expires_at_ms: row.get(5)?,
        node: row.get(6)?,
        served_until_ms: row.get(7)?,
    })
}

/// What a session follows, from six columns.
fn followed_of_row(row: &Row<'_>, first: usize, epoch: Epoch) -> rusqlite::Result<FollowedStream> {
    let live: Option<String> = row.get(first + 3)?;
    let pointer: Option<String> = row.get(first + 4)?;
    let position = |text: Option<String>| text.and_then(|text| position_of(&text, epoch));
    Ok(FollowedStream {
        subscription: SessionSubscription {
            stream: row.get(first)?,
            query_id: row.get(first + 1)?,
            epoch: row.get(first + 2)?,
            pointer: position(pointer).unwrap_or(Position::START),
            live_since: position(live),
        },
        updated_at_ms: row.get::<_, Option<i64>>(first + 5)?.unwrap_or(0),
    })
}
