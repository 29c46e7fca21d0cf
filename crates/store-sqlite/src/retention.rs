//! Giving up what is past its limits, and removing it. What is looked at is read beside the writer;
//! what is written is a piece at a time between its commits.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::error::{broken, now_ms};
use super::groups;
use super::writer::Writer;
use super::{SqliteStore, capture, load, sql};
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

/// Events removed a call. The one writer does nothing else meanwhile, so it is a few milliseconds.
const EVENTS_MAX: usize = 500;

/// One call: measure, look, give up, remove.
pub(super) async fn retain(
    store: &SqliteStore,
    rules: &RetentionRules,
    from: &str,
) -> Result<Retained, StoreError> {
    let mut retained = Retained::default();
    let sums = store.readers.run(measure).await?;
    if let Some(sums) = sums {
        retained.more = sums.more;
        store.exclusively(move |writer| keep_sums(writer, &sums)).await?;
    }
    let (epoch, rules, from) = (store.epoch, rules.clone(), from.to_owned());
    let look = move |connection: &mut Connection| survey(connection, epoch, &rules, &from);
    let found = store.readers.run(look).await?;
    retained.captured_events = found.events;
    retained.captured_bytes = found.bytes;
    retained.oldest_ms = found.oldest_ms;
    retained.streams_held_back = found.survey.held_back;
    retained.lagging = found.survey.lagging;
    retained.next = found.next;
    if !found.survey.trims.is_empty() {
        let trims = found.survey.trims;
        retained.streams_trimmed = store.exclusively(move |writer| trim(writer, &trims)).await?;
        if !retained.lagging.is_empty() {
            // A group may be among those who were passed, and stands still.
            store.runtime.signal();
        }
    }
    let removed = store.exclusively(remove).await?;
    retained.events_removed = removed.events;
    retained.bytes_removed = removed.bytes;
    retained.events_archived = removed.archived;
    retained.more |= removed.more;
    if !found.retired.is_empty() {
        retained.more |= found.retired.len() >= RETIRED_MAX;
        store.exclusively(move |writer| retire(writer, &found.retired)).await?;
    }
    Ok(retained)
}

/// What the next events of the log add to the buckets.
struct Sums {
    after: Position,
    up_to: Position,
    buckets: Vec<Bucket>,
    more: bool,
}

fn measured(connection: &Connection) -> rusqlite::Result<(Position, u64, u64)> {
    connection
        .prepare_cached(sql!("retention_measured"))?
        .query_row([], |row| Ok((Position::from_sql(row.get(0)?), row.get(1)?, row.get(2)?)))
}

fn bucket_of_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Bucket> {
    let [number, newest_ms] = [row.get(0)?, row.get(3)?];
    Ok(Bucket { number, events: row.get(1)?, bytes: row.get(2)?, newest_ms })
}

fn measure(connection: &mut Connection) -> Result<Option<Sums>, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    let tip = load::tip(&snapshot)?;
    let read = || -> rusqlite::Result<Option<Sums>> {
        let after = measured(&snapshot)?.0;
        let up_to = tip.min(Position::from_sql(after.to_sql() + MEASURED_MAX));
        if up_to <= after {
            return Ok(None);
        }
        let mut query = snapshot.prepare_cached(sql!("retention_sums"))?;
        let parameters = (after.to_sql(), up_to.to_sql(), BUCKET_OFFSETS, EVENT_BYTES);
        let buckets = query.query_map(parameters, bucket_of_row)?.collect::<Result<_, _>>()?;
        Ok(Some(Sums { after, up_to, buckets, more: up_to < tip }))
    };
    read().map_err(broken("measure the log"))
}

fn keep_sums(writer: &mut Writer, sums: &Sums) -> Result<(), StoreError> {
    let failed = broken("note the log's measure");
    let transaction = writer.transaction()?;
    let save = || -> rusqlite::Result<()> {
        let events: u64 = sums.buckets.iter().map(|bucket| bucket.events).sum();
        let bytes: u64 = sums.buckets.iter().map(|bucket| bucket.bytes).sum();
        let noted = transaction.prepare_cached(sql!("retention_measured_add"))?.execute((
            sums.after.to_sql(),
            sums.up_to.to_sql(),
            events,
            bytes,
        ))?;
        if noted == 0 {
            return Ok(());
        }
        let mut add = transaction.prepare_cached(sql!("retention_bucket_add"))?;
        for Bucket { number, events, bytes, newest_ms } in &sums.buckets {
            add.execute((number, events, bytes, newest_ms))?;
        }
        Ok(())
    };
    save().map_err(&failed)?;
    transaction.commit().map_err(&failed)
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

fn survey(
    connection: &mut Connection,
    epoch: Epoch,
    rules: &RetentionRules,
    from: &str,
) -> Result<RetentionFindings, StoreError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    let tip = load::tip(&snapshot)?;
    let failed = broken("look for what is past its limits");
    let groups = readers(&snapshot).map_err(&failed)?;
    let look =
        RetentionSnapshot { connection: &snapshot, epoch, rules, now_ms: now_ms(), tip, groups };
    look.all(from).map_err(&failed)
}

/// One look at the store, in one snapshot.
struct RetentionSnapshot<'a> {
    connection: &'a Connection,
    epoch: Epoch,
    rules: &'a RetentionRules,
    now_ms: i64,
    tip: Position,
    groups: Vec<GroupReader>,
}

impl RetentionSnapshot<'_> {
    fn all(&self, from: &str) -> rusqlite::Result<RetentionFindings> {
        let (up_to, events, bytes) = measured(self.connection)?;
        let readable = up_to.min(previous(self.tip)).min(self.read_by_all()?);
        let (soft, hard) = (self.rules.soft(self.now_ms), self.rules.hard(self.now_ms));
        let mut cuts = Cuts::new(soft, hard, bytes);
        let buckets = self.buckets(&mut cuts)?;
        for bucket in cuts.boundaries() {
            cuts.refine(bucket, &self.rows(&bucket)?);
        }
        cuts.at_most(readable);
        let mut survey = Survey::default();
        self.tables(&cuts, &mut survey)?;
        let next = self.documents(from, readable, &mut survey)?;
        let reach = cuts.reach();
        let done = |bucket: &&Bucket| retired(bucket, reach, self.now_ms);
        let retired = buckets.iter().filter(done).take(RETIRED_MAX).copied().collect();
        let oldest_ms = buckets.iter().find(|bucket| bucket.events > 0).map(|b| b.newest_ms);
        Ok(RetentionFindings { survey, retired, events, bytes, oldest_ms, next })
    }

    /// What every living node has read.
    fn read_by_all(&self) -> rusqlite::Result<Position> {
        let mut query = self.connection.prepare_cached(sql!("retention_nodes"))?;
        let position: Option<i64> = query.query_row([self.now_ms], |row| row.get(0))?;
        Ok(position.map_or(Position::new(u64::MAX), Position::from_sql))
    }

    /// Shows the cuts all buckets that they ask for, and returns those.
    fn buckets(&self, cuts: &mut Cuts) -> rusqlite::Result<Vec<Bucket>> {
        let mut query = self.connection.prepare_cached(sql!("retention_buckets"))?;
        let mut buckets: Vec<Bucket> = Vec::new();
        while !cuts.found() {
            let after = buckets.last().map_or(-1, |bucket| bucket.number);
            let page = query.query_map((after, BUCKETS_PAGE), bucket_of_row)?;
            let page = page.collect::<Result<Vec<_>, _>>()?;
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|bucket| cuts.take(*bucket));
            buckets.extend(page);
        }
        Ok(buckets)
    }

    fn rows(&self, bucket: &Bucket) -> rusqlite::Result<Vec<Measured>> {
        let mut query = self.connection.prepare_cached(sql!("retention_rows"))?;
        let of_row = |row: &rusqlite::Row<'_>| {
            let position = Position::from_sql(row.get(0)?);
            Ok(Measured { position, bytes: row.get(1)?, created_ms: row.get(2)? })
        };
        let parameters = (bucket.before().to_sql(), bucket.last().to_sql(), EVENT_BYTES);
        query.query_map(parameters, of_row)?.collect()
    }

    fn tables(&self, cuts: &Cuts, survey: &mut Survey) -> rusqlite::Result<()> {
        let mut query = self.connection.prepare_cached(sql!("retention_tables"))?;
        let mut rows = query.query([cuts.reach().to_sql()])?;
        while let Some(row) = rows.next()? {
            let trim = trim_of_row(row, self.rules.archive)?;
            let limit = cuts.limit(self.hold(&trim.stream)?);
            let up_to = self.last(&trim, limit.up_to)?;
            survey.note(trim, &limit, up_to);
        }
        Ok(())
    }

    /// Looks at some of the streams that have rules, and returns where to go on.
    fn documents(
        &self,
        from: &str,
        readable: Position,
        survey: &mut Survey,
    ) -> rusqlite::Result<String> {
        if self.rules.streams.is_empty() {
            return Ok(String::new());
        }
        let mut query = self.connection.prepare_cached(sql!("retention_streams"))?;
        let mut rows = query.query((from, STREAMS_PAGE))?;
        let (mut next, mut count) = (String::new(), 0);
        while let Some(row) = rows.next()? {
            let trim = trim_of_row(row, false)?;
            count += 1;
            next.clone_from(&trim.stream);
            let Some(age_ms) = self.rules.age_of(&trim.stream) else { continue };
            let older_than = before(self.now_ms, Some(age_ms)).unwrap_or(i64::MIN);
            if row.get::<_, Option<i64>>(3)?.is_none_or(|oldest| oldest > older_than) {
                continue;
            }
            let hard = before(self.now_ms, self.rules.hard_age_ms).unwrap_or(i64::MIN);
            let soft = self.older(&trim, older_than, readable)?;
            let hard = self.older(&trim, hard.min(older_than), readable)?;
            let limit = Limit::of(soft, hard, self.hold(&trim.stream)?);
            let up_to = self.last(&trim, limit.up_to)?;
            survey.note(trim, &limit, up_to);
        }
        Ok(if count < STREAMS_PAGE { String::new() } else { next })
    }

    /// The last of a stream's events before which all are as old.
    fn older(&self, trim: &Trim, than_ms: i64, up_to: Position) -> rusqlite::Result<Position> {
        let mut query = self.connection.prepare_cached(sql!("retention_events"))?;
        let parameters = (&trim.stream, trim.after.to_sql(), up_to.to_sql(), STREAM_EVENTS_MAX);
        let mut rows = query.query(parameters)?;
        let mut last = trim.after;
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(1)? > than_ms {
                break;
            }
            last = Position::from_sql(row.get(0)?);
        }
        Ok(last)
    }

    /// How far the last of those who follow a stream has got.
    fn hold(&self, stream: &str) -> rusqlite::Result<Hold> {
        let mut query = self.connection.prepare_cached(sql!("retention_hold"))?;
        let epoch = format!("{:04}_", self.epoch.number());
        let (session, subscription): (Option<String>, Option<i64>) =
            query.query_row((stream, epoch), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let session = session.map(|offset| position_of(&offset, self.epoch).unwrap_or_default());
        let reading = self.groups.iter().filter(|group| group.reads(stream));
        let read = reading.map(|group| previous(group.next));
        Ok(session.into_iter().chain(subscription.map(Position::from_sql)).chain(read).min())
    }

    /// The stream's last event up to a place.
    fn last(&self, trim: &Trim, up_to: Position) -> rusqlite::Result<Option<Position>> {
        let mut query = self.connection.prepare_cached(sql!("retention_last"))?;
        let parameters = (&trim.stream, trim.after.to_sql(), up_to.to_sql());
        let last: Option<i64> = query.query_row(parameters, |row| row.get(0))?;
        Ok(last.map(Position::from_sql))
    }
}

fn trim_of_row(row: &rusqlite::Row<'_>, archive: bool) -> rusqlite::Result<Trim> {
    let after = Position::from_sql(row.get(2)?);
    let created = Position::from_sql(row.get(1)?);
    Ok(Trim { stream: row.get(0)?, created, after, up_to: after, archive })
}

/// Gives events up. Returns of how many streams.
fn trim(writer: &mut Writer, trims: &[Trim]) -> Result<usize, StoreError> {
    let failed = broken("give up old events");
    let transaction = writer.transaction()?;
    let save = || -> rusqlite::Result<usize> {
        let mut streams = 0;
        let readers = readers(&transaction)?;
        for Trim { stream, created, after, up_to, archive } in trims {
            let (after, up_to) = (after.to_sql(), up_to.to_sql());
            let trimmed = transaction.prepare_cached(sql!("retention_trim"))?.execute((
                stream,
                created.to_sql(),
                up_to,
            ))?;
            if trimmed > 0 {
                let passed = readers.iter().filter(|group| group.reads(stream));
                for group in passed.filter(|group| group.next.to_sql() <= up_to) {
                    group.stop(&transaction, stream, up_to)?;
                }
                transaction.prepare_cached(sql!("retention_trim_add"))?.execute((
                    stream,
                    after,
                    up_to,
                    archive,
                    now_ms() + PURGE_DELAY_MS,
                ))?;
                streams += 1;
            }
        }
        Ok(streams)
    };
    let streams = save().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    trims.iter().for_each(|trim| writer.forget(&trim.stream));
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
fn remove(writer: &mut Writer) -> Result<Removed, StoreError> {
    let failed = broken("remove old events");
    let transaction = writer.transaction()?;
    let removed = remove_some(&transaction).map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(removed)
}

fn remove_some(transaction: &Transaction<'_>) -> rusqlite::Result<Removed> {
    type Due = (String, i64, i64, bool, bool);
    let of_row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Due> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let due = transaction.prepare_cached(sql!("retention_due"))?.query_row([now_ms()], of_row);
    let Some((stream, after, up_to, archive, purge)) = due.optional()? else {
        return Ok(Removed::default());
    };
    let events_max = i64::try_from(EVENTS_MAX).unwrap_or(i64::MAX);
    let chosen: Vec<(i64, u64)> = transaction
        .prepare_cached(sql!("retention_chosen"))?
        .query_map((&stream, after, up_to, events_max, EVENT_BYTES), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut removed = Removed { more: true, ..Removed::default() };
    if let Some((last, _)) = chosen.last() {
        if archive {
            transaction.prepare_cached(sql!("retention_archive"))?.execute((
                &stream,
                after,
                last,
                now_ms(),
            ))?;
            removed.archived = chosen.len() as u64;
        }
        capture::before_removal(transaction, &stream, Position::from_sql(*last))?;
        transaction.prepare_cached(sql!("retention_remove"))?.execute((&stream, after, last))?;
        removed.events = chosen.len() as u64;
        removed.bytes = chosen.iter().map(|(_, bytes)| bytes).sum();
        if stream.starts_with(tidewire_store::row::TABLE_PREFIX) {
            lower(transaction, &chosen)?;
        }
    }
    let over = chosen.len() < EVENTS_MAX;
    let (done, advance) = if purge {
        (sql!("purge_done"), sql!("purge_advance"))
    } else {
        (sql!("retention_done"), sql!("retention_advance"))
    };
    match chosen.last() {
        Some((last, _)) if !over => {
            transaction.prepare_cached(advance)?.execute((&stream, after, last))?
        }
        _ => transaction.prepare_cached(done)?.execute((&stream, after))?,
    };
    Ok(removed)
}

/// Takes removed rows out of what was measured.
fn lower(transaction: &Transaction<'_>, chosen: &[(i64, u64)]) -> rusqlite::Result<()> {
    let up_to = measured(transaction)?.0.to_sql();
    let mut buckets: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    for (position, bytes) in chosen.iter().filter(|(position, _)| *position <= up_to) {
        let sums = buckets.entry(position / BUCKET_OFFSETS).or_default();
        *sums = (sums.0 + 1, sums.1 + bytes);
    }
    let mut lower = transaction.prepare_cached(sql!("retention_bucket_lower"))?;
    for (bucket, (events, bytes)) in &buckets {
        lower.execute((bucket, events, bytes))?;
    }
    let events: u64 = buckets.values().map(|(events, _)| events).sum();
    let bytes: u64 = buckets.values().map(|(_, bytes)| bytes).sum();
    transaction.prepare_cached(sql!("retention_measured_lower"))?.execute((events, bytes))?;
    Ok(())
}

/// Finishes with buckets of which nothing is left but what they told.
fn retire(writer: &mut Writer, buckets: &[Bucket]) -> Result<(), StoreError> {
    let failed = broken("remove old control events");
    let transaction = writer.transaction()?;
    let work = || -> rusqlite::Result<()> {
        for bucket in buckets {
            let range = (bucket.before().to_sql(), bucket.last().to_sql());
            transaction.prepare_cached(sql!("retention_news"))?.execute(range)?;
            let mut remove = transaction.prepare_cached(sql!("retention_bucket_remove"))?;
            remove.execute([bucket.number])?;
        }
        Ok(())
    };
    work().map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

/// A group as one of those who read the log.
#[derive(Debug)]
struct GroupReader {
    name: String,
    /// The first event that one of its partitions may not have seen.
    next: Position,
    filter: Filter,
}

/// All groups, and rows of `consumer_offsets` without one, which read everything.
fn readers(connection: &Connection) -> rusqlite::Result<Vec<GroupReader>> {
    let mut query = connection.prepare_cached(sql!("retention_groups"))?;
    let of_row = |row: &rusqlite::Row<'_>| {
        let filter = match row.get::<_, Option<String>>(2)? {
            Some(_) => Filter { tables: groups::names(row, 2)?, streams: groups::names(row, 3)? },
            None => Filter::default(),
        };
        Ok(GroupReader { name: row.get(0)?, next: Position::from_sql(row.get(1)?), filter })
    };
    query.query_map([], of_row)?.collect()
}

impl GroupReader {
    /// Whether it reads a stream.
    fn reads(&self, stream: &str) -> bool {
        self.filter.takes(stream)
    }

    /// Stops it, because events of a stream are given up that it may not have seen.
    fn stop(&self, connection: &Connection, stream: &str, up_to: i64) -> rusqlite::Result<()> {
        let group = &self.name;
        tracing::warn!(group, stream, up_to, "a group lost events: they reached the hard limit");
        let mut lost = connection.prepare_cached(sql!("retention_group_lost"))?;
        lost.execute((group, up_to))?;
        Ok(())
    }
}
