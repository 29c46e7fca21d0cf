//! Upkeep of sessions: those whose node is gone, what has expired, what is stale, and the counts.

use rusqlite::{Row, Transaction};

use super::error::{broken, now_ms};
use super::sessions::{Signals, announce, load, save, session_of_row};
use super::sql;
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::offset::Epoch;
use tidewire_store::session::{
    Pointer, STREAMS_MAX, SessionPlan, SessionRow, SessionRules, StreamCount, SweepCursor,
    SweepTimes, SweptSession, SweptSessions, decide, expired, first_sessions, let_go,
    next_pointers, next_streams, recounted, stale,
};

/// One transaction of upkeep.
struct Sweep<'a> {
    transaction: &'a Transaction<'a>,
    epoch: Epoch,
    rows_max: usize,
    times: SweepTimes,
    /// What it did, for the metrics.
    swept: SweptSessions,
    /// What is to be announced.
    plans: Vec<SessionPlan>,
}

/// Sweeps once, from where the cursor stands, and moves it on.
pub(crate) fn sweep(
    writer: &mut Writer,
    epoch: Epoch,
    rules: &SessionRules,
    cursor: &mut SweepCursor,
    signals: &Signals,
) -> Result<SweptSessions, StoreError> {
    let failed = broken("sweep sessions");
    let transaction = writer.transaction()?;
    let mut sweep = Sweep {
        transaction: &transaction,
        epoch,
        rows_max: rules.rows_max.max(1),
        times: SweepTimes::new(now_ms(), rules),
        swept: SweptSessions::default(),
        plans: Vec::new(),
    };
    let mut next = cursor.clone();
    sweep.nodes().map_err(&failed)?;
    sweep.expired().map_err(&failed)?;
    next.pointer = sweep.stale(&cursor.pointer).map_err(&failed)?;
    next.stream = sweep.counts(&cursor.stream).map_err(&failed)?;
    let Sweep { swept, plans, .. } = sweep;
    transaction.commit().map_err(&failed)?;
    *cursor = next;
    for plan in plans {
        announce(signals, plan);
    }
    Ok(swept)
}

/// A limit as SQLite takes it.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Sweep<'_> {
    /// Lets go of the sessions of nodes whose lease has ended, or who never had one.
    fn nodes(&mut self) -> rusqlite::Result<()> {
        let SweepTimes { now_ms, expires_at_ms, .. } = self.times;
        for node in texts(self.transaction, sql!("nodes_dead"), [now_ms])? {
            let at_ms = Some(expires_at_ms);
            let_go_of(self.transaction, self.epoch, &node, self.rows_max, now_ms, at_ms)?;
            self.swept.nodes +=
                self.transaction.prepare_cached(sql!("node_remove"))?.execute((&node, now_ms))?;
        }
        for node in texts(self.transaction, sql!("nodes_unknown"), [])? {
            let_go_of(self.transaction, self.epoch, &node, self.rows_max, now_ms, None)?;
        }
        Ok(())
    }

    fn expired(&mut self) -> rusqlite::Result<()> {
        let found: Vec<SweptSession<()>> = {
            let mut query = self.transaction.prepare_cached(sql!("sessions_expired"))?;
            let of_row = |row: &Row<'_>| {
                Ok(SweptSession { id: row.get(0)?, row: (), subscriptions: row.get(1)? })
            };
            query
                .query_map((self.times.now_ms, limit(self.rows_max)), of_row)?
                .collect::<rusqlite::Result<_>>()?
        };
        let sessions = first_sessions(found, self.rows_max);
        let mut followed = Vec::new();
        let mut query = self.transaction.prepare_cached(sql!("session_subscriptions_of"))?;
        for session in &sessions {
            let rows = query.query_map([&session.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for row in rows {
                followed.push(row?);
            }
        }
        self.swept.sessions += sessions.len();
        self.save(expired(sessions, followed, self.times.now_ms))
    }

    /// Ends stale subscriptions among the next pointers, and returns the last one looked at.
    fn stale(&mut self, after: &(String, String)) -> rusqlite::Result<(String, String)> {
        let (now_ms, stale_before_ms) = (self.times.now_ms, self.times.stale_before_ms);
        let page: Vec<Pointer> = {
            let mut query = self.transaction.prepare_cached(sql!("session_offsets_page"))?;
            let of_row = |row: &Row<'_>| {
                Ok(Pointer {
                    session: row.get(0)?,
                    stream: row.get(1)?,
                    stale: row.get(2)?,
                    orphan: row.get(3)?,
                })
            };
            query
                .query_map((&after.0, &after.1, limit(self.rows_max), stale_before_ms), of_row)?
                .collect::<rusqlite::Result<_>>()?
        };
        let (page, next) = next_pointers(page, self.rows_max);
        let (changes, orphans) = stale(&page, now_ms);
        let loaded = load(self.transaction, self.epoch, &changes, now_ms)?;
        let (_, ended) = decide(loaded, &changes);
        self.save(orphans)?;
        self.save(ended)?;
        Ok(next)
    }

    /// Puts the counts of the next streams right, and returns the last one looked at.
    fn counts(&mut self, after: &str) -> rusqlite::Result<String> {
        let page: Vec<(String, Option<i64>)> = {
            let mut query = self.transaction.prepare_cached(sql!("subscriber_counts_page"))?;
            query
                .query_map((after, limit(STREAMS_MAX)), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?
        };
        let (page, next) = next_streams(page);
        let mut query = self.transaction.prepare_cached(sql!("subscribers"))?;
        let mut counts = Vec::with_capacity(page.len());
        for (stream, kept) in page {
            let right = query.query_row([&stream], |row| row.get(0))?;
            counts.push(StreamCount { stream, kept, right });
        }
        let plan = recounted(counts, self.times.now_ms);
        self.swept.counts += plan.counts.len();
        self.save(plan)?;
        Ok(next)
    }

    fn save(&mut self, plan: SessionPlan) -> rusqlite::Result<()> {
        save(self.transaction, self.epoch, &plan)?;
        self.swept.subscriptions += plan.removed.len();
        self.plans.push(plan);
        Ok(())
    }
}

/// Lets go of some sessions of a node that is gone.
pub(crate) fn let_go_of(
    transaction: &Transaction<'_>,
    epoch: Epoch,
    node: &str,
    rows_max: usize,
    now_ms: i64,
    expires_at_ms: Option<i64>,
) -> rusqlite::Result<()> {
    let found: Vec<SweptSession<SessionRow>> = {
        let mut query = transaction.prepare_cached(sql!("sessions_of_node"))?;
        let of_row = |row: &Row<'_>| {
            let (id, subscriptions) = (row.get(0)?, row.get(8)?);
            Ok(SweptSession { id, row: session_of_row(row)?, subscriptions })
        };
        query.query_map((node, limit(rows_max)), of_row)?.collect::<rusqlite::Result<_>>()?
    };
    let sessions = first_sessions(found, rows_max);
    save(transaction, epoch, &let_go(sessions, now_ms, expires_at_ms))
}

/// The first column of a query's rows.
fn texts(
    transaction: &Transaction<'_>,
    sql: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<String>> {
    transaction.prepare_cached(sql)?.query_map(params, |row| row.get(0))?.collect()
}
