//! Upkeep of sessions: those whose node is gone, what has expired, what is stale, and the counts.
//! Nodes may sweep at the same time: one waits for the other.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::pipeline::AfterPipeline;
use super::query::{execute, limit, query, sql, texts};
use super::sessions::{begin, count_of, load, save, session_of_row};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Epoch;
use tidewire_store::session::{
    Pointer, STREAMS_MAX, SessionPlan, SessionRow, SessionRules, StreamCount, SweepCursor,
    SweepTimes, SweptSession, SweptSessions, decide, expired, first_sessions, let_go,
    next_pointers, next_streams, recounted, stale,
};

const OPERATION: &str = "sweep sessions";

/// One transaction of upkeep.
struct Sweep<'a> {
    client: &'a ClientWrapper,
    epoch: Epoch,
    rows_max: usize,
    times: SweepTimes,
    /// What it did, for the metrics.
    swept: SweptSessions,
}

/// Sweeps once, from where the cursor stands. Returns where it stands then.
pub(crate) async fn sweep(
    client: &ClientWrapper,
    epoch: Epoch,
    rules: &SessionRules,
    cursor: &SweepCursor,
) -> Result<(SweptSessions, SweepCursor), StoreError> {
    let now_ms = begin(client, epoch, &[]).await?.now_ms();
    let mut sweep = Sweep {
        client,
        epoch,
        rows_max: rules.rows_max.max(1),
        times: SweepTimes::new(now_ms, rules),
        swept: SweptSessions::default(),
    };
    sweep.nodes().await?;
    sweep.expired().await?;
    let pointer = sweep.stale(&cursor.pointer).await?;
    let (counts, stream) = sweep.counts(&cursor.stream).await?;
    let swept = sweep.swept;
    save(client, epoch, &counts, AfterPipeline::Commit).await?;
    Ok((swept, SweepCursor { pointer, stream }))
}

impl Sweep<'_> {
    /// Lets go of the sessions of nodes whose lease has ended, or who never had one.
    async fn nodes(&mut self) -> Result<(), StoreError> {
        let (client, epoch, rows_max) = (self.client, self.epoch, self.rows_max);
        let SweepTimes { now_ms, expires_at_ms, .. } = self.times;
        let find = async {
            let dead = texts(&query(client, sql!("nodes_dead"), &[&now_ms]).await?)?;
            let unknown = texts(&query(client, sql!("nodes_unknown"), &[]).await?)?;
            Ok((dead, unknown))
        };
        let (dead, unknown) = find.await.map_err(broken(OPERATION))?;
        let_go_of(client, epoch, &dead, rows_max, now_ms, Some(expires_at_ms)).await?;
        let_go_of(client, epoch, &unknown, rows_max, now_ms, None).await?;
        if !dead.is_empty() {
            let removed = execute(client, sql!("nodes_remove"), &[&dead, &now_ms]).await;
            let removed = removed.map_err(broken(OPERATION))?;
            self.swept.nodes += usize::try_from(removed).unwrap_or(0);
        }
        Ok(())
    }

    async fn expired(&mut self) -> Result<(), StoreError> {
        let (client, now_ms) = (self.client, self.times.now_ms);
        let of_row = |row: &Row| {
            Ok(SweptSession { id: row.try_get(0)?, row: (), subscriptions: count_of(row, 1)? })
        };
        let find = async {
            let most: &i64 = &limit(self.rows_max);
            let rows = query(client, sql!("sessions_expired"), &[&now_ms, most]).await?;
            let found = rows.iter().map(of_row).collect::<Result<Vec<_>, Error>>()?;
            let sessions = first_sessions(found, self.rows_max);
            let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
            let followed = match ids.is_empty() {
                true => Vec::new(),
                false => query(client, sql!("session_subscriptions_of"), &[&ids]).await?,
            };
            let of_row = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
            let followed = followed.iter().map(of_row).collect::<Result<Vec<_>, Error>>()?;
            Ok((sessions, followed))
        };
        let (sessions, followed) = find.await.map_err(broken(OPERATION))?;
        self.swept.sessions += sessions.len();
        self.save(&expired(sessions, followed, now_ms)).await
    }

    /// Ends stale subscriptions among the next pointers, and returns the last one looked at.
    async fn stale(&mut self, after: &(String, String)) -> Result<(String, String), StoreError> {
        let of_row = |row: &Row| {
            Ok(Pointer {
                session: row.try_get(0)?,
                stream: row.try_get(1)?,
                stale: row.try_get(2)?,
                orphan: row.try_get(3)?,
            })
        };
        let (now_ms, stale_before_ms) = (self.times.now_ms, self.times.stale_before_ms);
        let find = async {
            let (session, stream) = after;
            let most: &i64 = &limit(self.rows_max);
            let params = [session as _, stream as _, most as _, &stale_before_ms as _];
            let rows = query(self.client, sql!("session_offsets_page"), &params).await?;
            rows.iter().map(of_row).collect::<Result<Vec<_>, Error>>()
        };
        let page = find.await.map_err(broken(OPERATION))?;
        let (page, next) = next_pointers(page, self.rows_max);
        let (changes, orphans) = stale(&page, now_ms);
        self.save(&orphans).await?;
        if !changes.is_empty() {
            let loaded = load(self.client, self.epoch, &changes, now_ms).await?;
            let (_, ended) = decide(loaded, &changes);
            self.save(&ended).await?;
        }
        Ok(next)
    }

    /// What is wrong with the counts of the next streams, and the last one looked at.
    async fn counts(&mut self, after: &str) -> Result<(SessionPlan, String), StoreError> {
        let of_row = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let find = async {
            let most: &i64 = &limit(STREAMS_MAX);
            let rows = query(self.client, sql!("subscriber_counts_page"), &[&after, most]).await?;
            let found = rows.iter().map(of_row).collect::<Result<Vec<_>, Error>>()?;
            let (page, next) = next_streams(found);
            let streams: Vec<&str> = page.iter().map(|(stream, _)| stream.as_str()).collect();
            let subscribers = match streams.is_empty() {
                true => Vec::new(),
                false => query(self.client, sql!("subscribers"), &[&streams]).await?,
            };
            // One row for each stream, in the order asked for.
            let counts = page.into_iter().zip(&subscribers).map(|((stream, kept), row)| {
                Ok(StreamCount { stream, kept, right: row.try_get(1)? })
            });
            Ok((counts.collect::<Result<Vec<_>, Error>>()?, next))
        };
        let (counts, next) = find.await.map_err(broken(OPERATION))?;
        let plan = recounted(counts, self.times.now_ms);
        self.swept.counts += plan.counts.len();
        Ok((plan, next))
    }

    async fn save(&mut self, plan: &SessionPlan) -> Result<(), StoreError> {
        save(self.client, self.epoch, plan, AfterPipeline::Continue).await?;
        self.swept.subscriptions += plan.removed.len();
        Ok(())
    }
}

/// Lets go of some sessions of nodes that are gone.
pub(crate) async fn let_go_of(
    client: &ClientWrapper,
    epoch: Epoch,
    nodes: &[String],
    rows_max: usize,
    now_ms: i64,
    expires_at_ms: Option<i64>,
) -> Result<(), StoreError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let of_row = |row: &Row| {
        let (id, session) = session_of_row(row)?;
        Ok(SweptSession { id, row: session, subscriptions: count_of(row, 8)? })
    };
    let find = async {
        let rows = query(client, sql!("sessions_of_nodes"), &[&nodes, &limit(rows_max)]).await?;
        rows.iter().map(of_row).collect::<Result<Vec<SweptSession<SessionRow>>, Error>>()
    };
    let found = find.await.map_err(broken(OPERATION))?;
    let plan = let_go(first_sessions(found, rows_max), now_ms, expires_at_ms);
    save(client, epoch, &plan, AfterPipeline::Continue).await
}
