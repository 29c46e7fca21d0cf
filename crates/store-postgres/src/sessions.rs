//! Sessions: loading what changes are decided against, saving what was decided, and reading.
//!
//! A batch of changes is two round trips, however many they are: begin, lock and load; save, notify and
//! commit.

use deadpool_postgres::ClientWrapper;
use futures_util::future::try_join5;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::pipeline::{self, AfterPipeline, Query};
use super::query::{Params, prepare, query, sql, unsigned};
use super::session_columns::{self as columns, SessionColumns};
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::session::{
    FollowedStream, LoadedSessions, Owner, RequiredSessions, Session, SessionChange,
    SessionOutcome, SessionPlan, SessionRow, SessionSubscription, decide, position_of,
};

/// Whoever changes sessions holds this advisory lock: nodes that change the same rows in different
/// orders do not deadlock, and what was loaded still holds when it is saved. `tide` and 4.
pub(crate) const SESSION_LOCK: i64 = 0x7469_6465_0000_0004;

const OPERATION: &str = "change sessions";

/// Carries out changes in one commit.
pub(crate) async fn change(
    client: &ClientWrapper,
    epoch: Epoch,
    changes: &[SessionChange],
) -> Result<Vec<SessionOutcome>, StoreError> {
    let loaded = begin(client, epoch, changes).await?;
    let (outcomes, plan) = decide(loaded, changes);
    if plan.is_empty() {
        client.batch_execute("ROLLBACK").await.map_err(broken("end a transaction"))?;
    } else {
        save(client, epoch, &plan, AfterPipeline::Commit).await?;
    }
    Ok(outcomes)
}

/// Begins a transaction, takes the lock, and loads what changes are decided against, in one round trip.
/// Each statement after the lock sees what the lock's last holder committed.
pub(crate) async fn begin(
    client: &ClientWrapper,
    epoch: Epoch,
    changes: &[SessionChange],
) -> Result<LoadedSessions, StoreError> {
    let required = Keys::by(changes);
    let load = async {
        let [lock, clock, sessions, followed] = prepare(
            client,
            [
                sql!("lock"),
                sql!("clock"),
                sql!("sessions_wanted"),
                sql!("session_subscriptions_wanted"),
            ],
        )
        .await?;
        let (_, _, at, sessions, followed) = try_join5(
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            client.execute(&lock, &[&SESSION_LOCK]),
            client.query_one(&clock, &[]),
            client.query(&sessions, &required.sessions()),
            client.query(&followed, &required.followed()),
        )
        .await?;
        world_of_rows(at.try_get(0)?, epoch, &sessions, &followed)
    };
    load.await.map_err(broken(OPERATION))
}

/// Loads what changes are decided against, in a transaction that holds the lock.
pub(crate) async fn load(
    client: &ClientWrapper,
    epoch: Epoch,
    changes: &[SessionChange],
    now_ms: i64,
) -> Result<LoadedSessions, StoreError> {
    let required = Keys::by(changes);
    let load = async {
        let sessions = query(client, sql!("sessions_wanted"), &required.sessions()).await?;
        let followed =
            query(client, sql!("session_subscriptions_wanted"), &required.followed()).await?;
        world_of_rows(now_ms, epoch, &sessions, &followed)
    };
    load.await.map_err(broken(OPERATION))
}

/// What is to be loaded, by column. PostgreSQL's text holds every character but one, so what has it
/// in its name is not there.
#[derive(Default)]
struct Keys<'a> {
    sessions: Vec<&'a str>,
    counted: Vec<bool>,
    followed_sessions: Vec<&'a str>,
    followed_streams: Vec<&'a str>,
    names: Vec<Option<&'a str>>,
}

impl<'a> Keys<'a> {
    fn by(changes: &'a [SessionChange]) -> Keys<'a> {
        let required = RequiredSessions::by(changes);
        let storable = |text: &str| !text.contains('\0');
        let sessions = required.sessions.into_iter().filter(|(id, _)| storable(id));
        let (sessions, counted) = sessions.unzip();
        let mut keys = Keys { sessions, counted, ..Keys::default() };
        for (session, stream, name) in required.followed {
            if storable(session) && storable(stream) {
                keys.followed_sessions.push(session);
                keys.followed_streams.push(stream);
                keys.names.push(name.filter(|name| storable(name)));
            }
        }
        keys
    }

    fn sessions(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 2] {
        [&self.sessions, &self.counted]
    }

    fn followed(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 3] {
        [&self.followed_sessions, &self.followed_streams, &self.names]
    }
}

fn world_of_rows(
    now_ms: i64,
    epoch: Epoch,
    sessions: &[Row],
    followed: &[Row],
) -> Result<LoadedSessions, Error> {
    let mut loaded = LoadedSessions::new(now_ms);
    for row in sessions {
        let (id, session) = session_of_row(row)?;
        loaded.put(id, session, count_of(row, 8)?, row.try_get(9)?);
    }
    for row in followed {
        loaded.put_followed(row.try_get(6)?, followed_of_row(row, 0, epoch)?);
    }
    Ok(loaded)
}

/// Writes what was decided, and tells all nodes whose subscriptions changed.
pub(crate) async fn save(
    client: &ClientWrapper,
    epoch: Epoch,
    plan: &SessionPlan,
    then: AfterPipeline,
) -> Result<(), StoreError> {
    let sessions = SessionColumns::of(&plan.sessions)?;
    let subscriptions = columns::FollowedColumns::of(&plan.subscriptions, epoch)?;
    let pointers = columns::FollowedColumns::of(&plan.pointers, epoch)?;
    let (renewed, until): (Vec<&str>, Vec<i64>) =
        plan.renewed.iter().map(|(session, at_ms)| (session.as_str(), *at_ms)).unzip();
    let (removed, streams): (Vec<&str>, Vec<&str>) =
        plan.removed.iter().map(|(session, stream)| (session.as_str(), stream.as_str())).unzip();
    let (counted, differences): (Vec<&str>, Vec<i64>) =
        plan.counts.iter().map(|(stream, by)| (stream.as_str(), *by)).unzip();
    let changed: Vec<&str> = plan.changed.iter().map(String::as_str).collect();
    let gone: Params<'_> = &[&removed, &streams];
    let queries: [Query<'_>; 10] = [
        (!plan.sessions.is_empty(), sql!("sessions_save"), &sessions.params()),
        (!renewed.is_empty(), sql!("session_subscriptions_renew"), &[&renewed, &until]),
        (!plan.sessions_removed.is_empty(), sql!("sessions_remove"), &[&plan.sessions_removed]),
        (!removed.is_empty(), sql!("session_subscriptions_remove"), gone),
        (!removed.is_empty(), sql!("session_offsets_remove"), gone),
        (
            !plan.subscriptions.is_empty(),
            sql!("session_subscriptions_save"),
            &subscriptions.subscriptions(),
        ),
        (!plan.pointers.is_empty(), sql!("session_offsets_save"), &pointers.pointers()),
        (
            !counted.is_empty(),
            sql!("subscriber_counts_add"),
            &[&counted, &differences, &plan.now_ms],
        ),
        (!counted.is_empty(), sql!("subscriber_counts_remove"), &[&counted]),
        (!changed.is_empty(), sql!("session_notify"), &[&changed]),
    ];
    pipeline::send(client, OPERATION, &queries, then).await
}

/// A session that has not expired.
pub(crate) async fn session(
    client: &ClientWrapper,
    epoch: Epoch,
    id: &str,
) -> Result<Option<Session>, StoreError> {
    if id.contains('\0') {
        return Ok(None);
    }
    let read = async {
        let rows = query(client, sql!("session"), &[&id]).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        let mut session = Session {
            id: id.to_owned(),
            owner: Owner { user_id: first.try_get(0)?, host_id: first.try_get(1)? },
            revision: unsigned(first.try_get(2)?),
            subscriptions: Vec::with_capacity(rows.len()),
        };
        for row in &rows {
            if row.try_get::<_, Option<&str>>(3)?.is_some() {
                session.subscriptions.push(followed_of_row(row, 3, epoch)?.subscription);
            }
        }
        Ok(Some(session))
    };
    read.await.map_err(broken("read a session"))
}

/// The revisions of sessions that have not expired.
pub(crate) async fn revisions(
    client: &ClientWrapper,
    ids: &[String],
) -> Result<Vec<(String, u64)>, StoreError> {
    let ids: Vec<&String> = ids.iter().filter(|id| !id.contains('\0')).collect();
    let read = async {
        let rows = query(client, sql!("session_revisions"), &[&ids]).await?;
        let of_row = |row: &Row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)));
        rows.iter().map(of_row).collect::<Result<_, Error>>()
    };
    read.await.map_err(broken("read the revisions of sessions"))
}

/// How many sessions follow a stream.
pub(crate) async fn subscriber_count(
    client: &ClientWrapper,
    stream: &str,
) -> Result<u64, StoreError> {
    if stream.contains('\0') {
        return Ok(0);
    }
    let read = async {
        let rows = query(client, sql!("subscriber_count"), &[&stream]).await?;
        rows.first().map_or(Ok(0), |row| row.try_get(0).map(unsigned))
    };
    read.await.map_err(broken("read how many follow a stream"))
}

/// A session, from the columns that the queries of whole rows begin with.
pub(crate) fn session_of_row(row: &Row) -> Result<(String, SessionRow), Error> {
    let session = SessionRow {
        owner: Owner { user_id: row.try_get(1)?, host_id: row.try_get(2)? },
        revision: unsigned(row.try_get(3)?),
        created_at_ms: row.try_get(4)?,
        expires_at_ms: row.try_get(5)?,
        node: row.try_get(6)?,
        served_until_ms: row.try_get(7)?,
    };
    Ok((row.try_get(0)?, session))
}

/// A column that counts.
pub(crate) fn count_of(row: &Row, column: usize) -> Result<usize, Error> {
    Ok(usize::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

/// What a session follows, from six columns.
fn followed_of_row(row: &Row, first: usize, epoch: Epoch) -> Result<FollowedStream, Error> {
    let live: Option<&str> = row.try_get(first + 3)?;
    let pointer: Option<&str> = row.try_get(first + 4)?;
    let position = |text: Option<&str>| text.and_then(|text| position_of(text, epoch));
    Ok(FollowedStream {
        subscription: SessionSubscription {
            stream: row.try_get(first)?,
            query_id: row.try_get(first + 1)?,
            epoch: unsigned(row.try_get(first + 2)?),
            pointer: position(pointer).unwrap_or(Position::START),
            live_since: position(live),
        },
        updated_at_ms: row.try_get::<_, Option<i64>>(first + 5)?.unwrap_or(0),
    })
}
