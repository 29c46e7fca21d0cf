//! Giving up what is past its limits, and removing it. One node at a time does it, step by step, each
//! a short transaction without the offset lock: an event that is not the tip never becomes it.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::error::broken;
use super::pool::PooledConnection;
use super::query::{Params, execute, query, query_one, sql, unsigned};
use super::{PostgresStore, partitions};
use tidewire_store::error::StoreError;
use tidewire_store::groups::Filter;
use tidewire_store::log::PURGE_DELAY_MS;
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::retention::{
    BUCKET_OFFSETS, BUCKETS_PAGE, Bucket, Cuts, EVENT_BYTES, Hold, Limit, MEASURED_MAX, Measured,
    RETIRED_MAX, Retained, RetentionRules, STREAM_EVENTS_MAX, STREAMS_PAGE, Survey, Trim, before,
    previous, retired,
};
use tidewire_store::session::position_of;

/// Held in each step by the node whose turn it is: `tide` and 8.
pub(crate) const RETENTION_LOCK: i64 = 0x7469_6465_0000_0008;

/// Events removed a call: few enough that appends do not notice.
const EVENTS_MAX: i64 = 2_000;

/// One call: measure, look, give up, remove.
pub(super) async fn retain(
    store: &PostgresStore,
    rules: &RetentionRules,
    from: &str,
) -> Result<Retained, StoreError> {
    let pool = &store.pool;
    let mut retained = Retained { next: from.to_owned(), ..Retained::default() };
    let measured =
        |client: PooledConnection| async move { in_turn(&client, measure(&client)).await };
    let Some(more) = pool.write(measured).await? else {
        retained.elsewhere = true;
        return Ok(retained);
    };
    retained.more = more;
    let look =
        |client: PooledConnection| async move { survey(&client, store.epoch, rules, from).await };
    let found = pool.read(look).await?;
    retained.captured_events = found.events;
    retained.captured_bytes = found.bytes;
    retained.oldest_ms = found.oldest_ms;
    retained.streams_held_back = found.survey.held_back;
    retained.next = found.next;
    if !found.survey.trims.is_empty() {
        let trims = &found.survey.trims;
        let give_up =
            |client: PooledConnection| async move { in_turn(&client, trim(&client, trims)).await };
        retained.streams_trimmed = pool.write(give_up).await?.unwrap_or(0);
        retained.lagging = found.survey.lagging;
    }
    let remove =
        |client: PooledConnection| async move { in_turn(&client, remove_some(&client)).await };
    let removed = pool.write(remove).await?.unwrap_or_default();
    retained.events_removed = removed.events;
    retained.bytes_removed = removed.bytes;
    retained.events_archived = removed.archived;
    retained.more |= removed.more;
    if !found.retired.is_empty() {
        let (buckets, full) = (&found.retired, found.retired.len() >= RETIRED_MAX);
        let retire = |client: PooledConnection| async move {
            in_turn(&client, retire(&client, buckets)).await
        };
        pool.write(retire).await?;
        retained.more |= full;
    }
    if !retained.more {
        let drop = |client: PooledConnection| async move { partitions::drop_empty(&client).await };
        retained.partitions_dropped = pool.read(drop).await?;
    }
    Ok(retained)
}

/// Does a step in a transaction, if no other node is at it.
async fn in_turn<T>(
    client: &ClientWrapper,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, StoreError> {
    let work = async {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let turn = query_one(client, sql!("retention_turn"), &[&RETENTION_LOCK]).await?;
        let done = if turn.try_get(0)? { Some(step.await?) } else { None };
        client.batch_execute("COMMIT").await?;
        Ok(done)
    };
    work.await.map_err(broken("remove what is past its limits"))
}

/// Measures the next events of the log. Returns whether there are more.
async fn measure(client: &ClientWrapper) -> Result<bool, Error> {
    let (after, ..) = measured(client).await?;
    let tip = query_one(client, sql!("tip"), &[]).await?;
    let tip = Position::from_sql(tip.try_get(0)?);
    let up_to = tip.min(Position::from_sql(after.to_sql() + MEASURED_MAX));
    if up_to <= after {
        return Ok(false);
    }
    let (after, to) = (after.to_sql(), up_to.to_sql());
    execute(client, sql!("retention_measure"), &[&after, &to, &BUCKET_OFFSETS, &EVENT_BYTES])
        .await?;
    Ok(up_to < tip)
}

async fn measured(client: &ClientWrapper) -> Result<(Position, u64, u64), Error> {
    let row = query_one(client, sql!("retention_measured"), &[]).await?;
    let [events, bytes] = [row.try_get(1)?, row.try_get(2)?].map(unsigned);
    Ok((Position::from_sql(row.try_get(0)?), events, bytes))
}

/// What a look found.
struct RetentionFindings {
    survey: Survey,
    retired: Vec<Bucket>,
    events: u64,
    bytes: u64,
    oldest_ms: Option<i64>,
    next: String,
}

async fn survey(
    client: &ClientWrapper,
    epoch: Epoch,
    rules: &RetentionRules,
    from: &str,
) -> Result<RetentionFindings, StoreError> {
    let work = async {
        let row = query_one(client, sql!("tip_and_clock"), &[]).await?;
        let tip = Position::from_sql(row.try_get(0)?);
        let groups = groups(client).await?;
        RetentionSnapshot { client, epoch, rules, now_ms: row.try_get(1)?, tip, groups }
            .all(from)
            .await
    };
    work.await.map_err(broken("look for what is past its limits"))
}

/// One look at the store. What it decides holds though the log grows meanwhile, and what must not be
/// done to a stream that has changed is refused by the statement that does it.
struct RetentionSnapshot<'a> {
    client: &'a ClientWrapper,
    epoch: Epoch,
    rules: &'a RetentionRules,
    now_ms: i64,
    tip: Position,
    groups: Vec<GroupReader>,
}

/// A group of consumers, or a program that keeps its place beside them.
struct GroupReader {
    group: String,
    filter: Filter,
    /// All of its partitions have read this.
    read: Position,
}

/// All who keep their place in the log.
async fn groups(client: &ClientWrapper) -> Result<Vec<GroupReader>, Error> {
    let of_row = |row: &Row| {
        let filter = Filter { tables: row.try_get(2)?, streams: row.try_get(3)? };
        let read = Position::from_sql(row.try_get(1)?);
        Ok(GroupReader { group: row.try_get(0)?, filter, read })
    };
    query(client, sql!("retention_groups"), &[]).await?.iter().map(of_row).collect()
}

impl RetentionSnapshot<'_> {
    async fn all(&self, from: &str) -> Result<RetentionFindings, Error> {
        let (up_to, events, bytes) = measured(self.client).await?;
        let readable = up_to.min(previous(self.tip)).min(self.read_by_all().await?);
        let (soft, hard) = (self.rules.soft(self.now_ms), self.rules.hard(self.now_ms));
        let mut cuts = Cuts::new(soft, hard, bytes);
        let buckets = self.buckets(&mut cuts).await?;
        for bucket in cuts.boundaries() {
            cuts.refine(bucket, &self.rows(&bucket).await?);
        }
        cuts.at_most(readable);
        let mut survey = Survey::default();
        self.tables(&cuts, &mut survey).await?;
        let next = self.documents(from, readable, &mut survey).await?;
        let reach = cuts.reach();
        let done = |bucket: &&Bucket| retired(bucket, reach, self.now_ms);
        let retired = buckets.iter().filter(done).take(RETIRED_MAX).copied().collect();
        let oldest_ms = buckets.iter().find(|bucket| bucket.events > 0).map(|b| b.newest_ms);
        Ok(RetentionFindings { survey, retired, events, bytes, oldest_ms, next })
    }

    /// What every living node has read.
    async fn read_by_all(&self) -> Result<Position, Error> {
        let row = query_one(self.client, sql!("retention_nodes"), &[]).await?;
        let position: Option<i64> = row.try_get(0)?;
        Ok(position.map_or(Position::new(u64::MAX), Position::from_sql))
    }

    /// Shows the cuts all buckets that they ask for, and returns those.
    async fn buckets(&self, cuts: &mut Cuts) -> Result<Vec<Bucket>, Error> {
        let mut buckets: Vec<Bucket> = Vec::new();
        while !cuts.found() {
            let after = buckets.last().map_or(-1, |bucket| bucket.number);
            let params: Params<'_> = &[&after, &BUCKETS_PAGE];
            let page = query(self.client, sql!("retention_buckets"), params).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                let [events, bytes] = [row.try_get(1)?, row.try_get(2)?].map(unsigned);
                let [number, newest_ms] = [row.try_get(0)?, row.try_get(3)?];
                let bucket = Bucket { number, events, bytes, newest_ms };
                cuts.take(bucket);
                buckets.push(bucket);
            }
        }
        Ok(buckets)
    }

    async fn rows(&self, bucket: &Bucket) -> Result<Vec<Measured>, Error> {
        let (after, up_to) = (bucket.before().to_sql(), bucket.last().to_sql());
        let of_row = |row: &Row| {
            let position = Position::from_sql(row.try_get(0)?);
            let (bytes, created_ms) = (unsigned(row.try_get(1)?), row.try_get(2)?);
            Ok(Measured { position, bytes, created_ms })
        };
        let params: Params<'_> = &[&after, &up_to, &EVENT_BYTES];
        let rows = query(self.client, sql!("retention_rows"), params).await?;
        rows.iter().map(of_row).collect()
    }

    async fn tables(&self, cuts: &Cuts, survey: &mut Survey) -> Result<(), Error> {
        let reach = cuts.reach().to_sql();
        for row in query(self.client, sql!("retention_tables"), &[&reach]).await? {
            let trim = trim_of_row(&row, self.rules.archive)?;
            let limit = cuts.limit(self.hold(&trim.stream).await?);
            let up_to = self.last(&trim, limit.up_to).await?;
            survey.note(trim, &limit, up_to);
        }
        Ok(())
    }

    /// Looks at some of the streams that have rules, and returns where to go on.
    async fn documents(
        &self,
        from: &str,
        readable: Position,
        survey: &mut Survey,
    ) -> Result<String, Error> {
        if self.rules.streams.is_empty() {
            return Ok(String::new());
        }
        let rows = query(self.client, sql!("retention_streams"), &[&from, &STREAMS_PAGE]).await?;
        for row in &rows {
            let trim = trim_of_row(row, false)?;
            let Some(age_ms) = self.rules.age_of(&trim.stream) else { continue };
            let older_than = before(self.now_ms, Some(age_ms)).unwrap_or(i64::MIN);
            if row.try_get::<_, Option<i64>>(3)?.is_none_or(|oldest| oldest > older_than) {
                continue;
            }
            let hard = before(self.now_ms, self.rules.hard_age_ms).unwrap_or(i64::MIN);
            let soft = self.older(&trim, older_than, readable).await?;
            let hard = self.older(&trim, hard.min(older_than), readable).await?;
            let limit = Limit::of(soft, hard, self.hold(&trim.stream).await?);
            let up_to = self.last(&trim, limit.up_to).await?;
            survey.note(trim, &limit, up_to);
        }
        let full = i64::try_from(rows.len()).is_ok_and(|count| count >= STREAMS_PAGE);
        rows.last().filter(|_| full).map_or(Ok(String::new()), |row| row.try_get(0))
    }

    /// The last of a stream's events before which all are as old.
    async fn older(&self, trim: &Trim, than_ms: i64, up_to: Position) -> Result<Position, Error> {
        let (after, up_to) = (trim.after.to_sql(), up_to.to_sql());
        let params: Params<'_> = &[&trim.stream, &after, &up_to, &STREAM_EVENTS_MAX];
        let mut last = trim.after;
        for row in query(self.client, sql!("retention_events"), params).await? {
            if row.try_get::<_, i64>(1)? > than_ms {
                break;
            }
            last = Position::from_sql(row.try_get(0)?);
        }
        Ok(last)
    }

    /// How far the last of those who follow a stream has got.
    async fn hold(&self, stream: &str) -> Result<Hold, Error> {
        let epoch = format!("{:04}_", self.epoch.number());
        let row = query_one(self.client, sql!("retention_hold"), &[&stream, &epoch]).await?;
        let session: Option<&str> = row.try_get(0)?;
        let session = session.map(|offset| position_of(offset, self.epoch).unwrap_or_default());
        let subscription: Option<i64> = row.try_get(1)?;
        let groups = self.groups.iter().filter(|reader| reader.filter.takes(stream));
        let held = session.into_iter().chain(subscription.map(Position::from_sql));
        Ok(held.chain(groups.map(|reader| reader.read)).min())
    }

    /// The stream's last event up to a place.
    async fn last(&self, trim: &Trim, up_to: Position) -> Result<Option<Position>, Error> {
        let (after, up_to) = (trim.after.to_sql(), up_to.to_sql());
        let params: Params<'_> = &[&trim.stream, &after, &up_to];
        let rows = query(self.client, sql!("retention_last"), params).await?;
        rows.first().map(|row| row.try_get(0).map(Position::from_sql)).transpose()
    }
}

fn trim_of_row(row: &Row, archive: bool) -> Result<Trim, Error> {
    let after = Position::from_sql(row.try_get(2)?);
    let created = Position::from_sql(row.try_get(1)?);
    Ok(Trim { stream: row.try_get(0)?, created, after, up_to: after, archive })
}

/// Gives events up. Returns of how many streams.
async fn trim(client: &ClientWrapper, trims: &[Trim]) -> Result<usize, Error> {
    let readers = groups(client).await?;
    let mut streams = 0;
    for Trim { stream, created, after, up_to, archive } in trims {
        let [created, after, up_to] = [created, after, up_to].map(|position| position.to_sql());
        let params: Params<'_> = &[stream, &created, &up_to, &after, archive, &PURGE_DELAY_MS];
        if execute(client, sql!("retention_trim"), params).await? == 0 {
            continue;
        }
        streams += 1;
        for reader in readers.iter().filter(|reader| reader.filter.takes(stream)) {
            if execute(client, sql!("retention_lost"), &[&reader.group, &up_to]).await? > 0 {
                let group = &reader.group;
                tracing::warn!(group, stream, up_to, "a group has lost events, and is stopped");
            }
        }
    }
    Ok(streams)
}

#[derive(Default)]
struct Removed {
    events: u64,
    bytes: u64,
    archived: u64,
    more: bool,
}

/// Removes some of what was given up, at most [`EVENTS_MAX`] events.
async fn remove_some(client: &ClientWrapper) -> Result<Removed, Error> {
    let due = query(client, sql!("retention_due"), &[]).await?;
    let Some(due) = due.first() else { return Ok(Removed::default()) };
    let (stream, after, up_to): (&str, i64, i64) =
        (due.try_get(0)?, due.try_get(1)?, due.try_get(2)?);
    let (archive, purge): (bool, bool) = (due.try_get(3)?, due.try_get(4)?);
    let params: Params<'_> =
        &[&stream, &after, &up_to, &EVENTS_MAX, &archive, &BUCKET_OFFSETS, &EVENT_BYTES];
    let row = query_one(client, sql!("retention_remove"), params).await?;
    let (count, last): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(2)?);
    let (done, advance) = if purge {
        (sql!("purge_done"), sql!("purge_advance"))
    } else {
        (sql!("retention_done"), sql!("retention_advance"))
    };
    match last {
        Some(last) if count >= EVENTS_MAX => {
            execute(client, advance, &[&stream, &after, &last]).await?
        }
        _ => execute(client, done, &[&stream, &after]).await?,
    };
    let events = unsigned(count);
    let archived = if archive { events } else { 0 };
    Ok(Removed { events, bytes: unsigned(row.try_get(1)?), archived, more: true })
}

/// Finishes with buckets of which nothing is left but what they told.
async fn retire(client: &ClientWrapper, buckets: &[Bucket]) -> Result<(), Error> {
    for bucket in buckets {
        let (after, up_to) = (bucket.before().to_sql(), bucket.last().to_sql());
        execute(client, sql!("retention_news"), &[&after, &up_to, &bucket.number]).await?;
    }
    Ok(())
}
