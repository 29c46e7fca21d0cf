//! Groups, partitions and members as their rows tell them.

use std::collections::BTreeMap;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::value::RawValue;

use crate::error::{broken, now_ms};
use crate::sql;
use tidewire_store::groups::{
    Claim, Filter, GroupError, GroupView, Holdings, Key, MemberKind, MemberReport, MemberView,
    OnDead, PartitionView, Verdict,
};
use tidewire_store::offset::Position;

/// A row that this version cannot have written.
fn strange(column: usize, what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

/// Names as the table keeps them.
pub(crate) fn names(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| strange(column, &error.to_string()))
}

/// The same, to be kept.
pub(super) fn names_text(names: &[String]) -> String {
    serde_json::Value::from(names).to_string()
}

fn group_of_row(row: &Row<'_>) -> rusqlite::Result<GroupView> {
    let on_dead = row.get_ref(7)?.as_str()?;
    Ok(GroupView {
        group: row.get(0)?,
        total: row.get(1)?,
        wanted: row.get(2)?,
        barrier: row.get::<_, Option<i64>>(3)?.map(Position::from_sql),
        filter: Filter { tables: names(row, 4)?, streams: names(row, 5)? },
        max_attempts: row.get(6)?,
        on_dead: OnDead::parse(on_dead).ok_or_else(|| strange(7, "no such choice"))?,
        stopped: row.get(8)?,
        lost_to: Position::from_sql(row.get(9)?),
        created_at_ms: row.get(10)?,
        partitions: Vec::new(),
        members: Vec::new(),
        dead: 0,
        parked: 0,
    })
}

/// A group's own row.
pub(super) fn group(connection: &Connection, name: &str) -> rusqlite::Result<Option<GroupView>> {
    connection.prepare_cached(sql!("group_find"))?.query_row([name], group_of_row).optional()
}

fn partition_of_row(row: &Row<'_>, now_ms: i64) -> rusqlite::Result<PartitionView> {
    let retry_at_ms: Option<i64> = row.get(7)?;
    let retry_in_ms = retry_at_ms.and_then(|at| u64::try_from(at - now_ms).ok());
    Ok(PartitionView {
        partition: row.get(0)?,
        next: Position::from_sql(row.get(1)?),
        generation: row.get(2)?,
        member: row.get(3)?,
        moved_at_ms: row.get(4)?,
        lease_ms: row.get::<_, Option<i64>>(5)?.map(|until| until - now_ms),
        leased_to: row.get::<_, Option<i64>>(6)?.map(Position::from_sql),
        retry_in_ms: retry_in_ms.filter(|left| *left > 0),
        failing: row.get(8)?,
        parked: row.get(9)?,
        redrive: row.get(10)?,
        trouble: row.get(11)?,
    })
}

/// The partitions of a group.
pub(super) fn partitions(
    connection: &Connection,
    group: &str,
) -> rusqlite::Result<Vec<PartitionView>> {
    let now_ms = now_ms();
    let mut query = connection.prepare_cached(sql!("group_offsets"))?;
    query.query_map([group], |row| partition_of_row(row, now_ms))?.collect()
}

fn members(connection: &Connection, group: &str) -> rusqlite::Result<Vec<MemberView>> {
    let mut query = connection.prepare_cached(sql!("group_members"))?;
    let of_row = |row: &Row<'_>| {
        let kind = MemberKind::parse(row.get_ref(1)?.as_str()?);
        let counts = RawValue::from_string(row.get(3)?);
        Ok(MemberView {
            report: MemberReport {
                group: group.to_owned(),
                member: row.get(0)?,
                kind: kind.ok_or_else(|| strange(1, "no such kind"))?,
                pinned: row.get(2)?,
                counts: counts.map_err(|error| strange(3, &error.to_string()))?,
            },
            joined_at_ms: row.get(4)?,
            lease_ms: row.get(5)?,
        })
    };
    query.query_map((group, now_ms()), of_row)?.collect()
}

/// Letters of a group: dead ones, and parked ones.
pub(super) fn letter_counts(connection: &Connection, group: &str) -> rusqlite::Result<(u64, u64)> {
    let mut query = connection.prepare_cached(sql!("group_letter_counts"))?;
    let mut rows = query.query([group])?;
    let mut counts = (0, 0);
    while let Some(row) = rows.next()? {
        let count = if row.get_ref(0)?.as_str()? == "dead" { &mut counts.0 } else { &mut counts.1 };
        *count = row.get(1)?;
    }
    Ok(counts)
}

/// A group with all that is told of it.
pub(super) fn whole(connection: &Connection, name: &str) -> rusqlite::Result<Option<GroupView>> {
    let Some(mut view) = group(connection, name)? else { return Ok(None) };
    view.partitions = partitions(connection, name)?;
    view.members = members(connection, name)?;
    (view.dead, view.parked) = letter_counts(connection, name)?;
    Ok(Some(view))
}

/// All groups.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<GroupView>> {
    let mut query = connection.prepare_cached(sql!("group_names"))?;
    let names: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let views = names.iter().filter_map(|name| whole(connection, name).transpose());
    views.collect()
}

/// What must be known to work on a partition.
pub(super) fn holdings(
    connection: &Connection,
    name: &str,
    partition: u32,
) -> rusqlite::Result<Option<Holdings>> {
    let Some(group) = group(connection, name)? else { return Ok(None) };
    let now_ms = now_ms();
    let place = (name, partition);
    let mut query = connection.prepare_cached(sql!("group_offset"))?;
    let view = query.query_row(place, |row| partition_of_row(row, now_ms)).optional()?;
    let Some(view) = view else { return Ok(None) };
    let mut query = connection.prepare_cached(sql!("group_parked"))?;
    let parked = query
        .query_map(place, |row| Ok((key_of_row(row)?, Position::from_sql(row.get(2)?))))?
        .collect::<Result<BTreeMap<_, _>, _>>()?;
    let mut query = connection.prepare_cached(sql!("group_attempts"))?;
    let attempt = |row: &Row<'_>| {
        let verdict = Verdict::parse(row.get_ref(3)?.as_str()?);
        let verdict = verdict.ok_or_else(|| strange(3, "no such verdict"))?;
        Ok((key_of_row(row)?, (row.get(2)?, verdict)))
    };
    let attempts = query.query_map(place, attempt)?.collect::<Result<BTreeMap<_, _>, _>>()?;
    let mut query = connection.prepare_cached(sql!("group_dead_ahead"))?;
    let ahead = (name, partition, view.next.to_sql());
    let dead = query
        .query_map(ahead, |row| Ok(Position::from_sql(row.get(0)?)))?
        .collect::<Result<_, _>>()?;
    Ok(Some(Holdings { group, partition: view, parked, attempts, dead }))
}

/// The key whose host and user are a row's first columns.
pub(super) fn key_of_row(row: &Row<'_>) -> rusqlite::Result<Key> {
    Ok(Key::of(row.get_ref(0)?.as_str_or_null()?, row.get_ref(1)?.as_str_or_null()?))
}

/// What decides whether a partition can be worked on.
#[derive(Debug)]
pub(super) struct PartitionReadiness {
    pub(super) next: Position,
    pub(super) generation: u64,
    pub(super) lease_until_ms: Option<i64>,
    pub(super) leased_to: Option<Position>,
    retry_at_ms: Option<i64>,
    stands_still: bool,
}

impl PartitionReadiness {
    /// How a partition stands; none if it, or its group, is not there.
    pub(super) fn load(
        connection: &Connection,
        group: &str,
        partition: u32,
    ) -> Result<Option<PartitionReadiness>, GroupError> {
        let of_row = |row: &Row<'_>| {
            Ok(PartitionReadiness {
                next: Position::from_sql(row.get(0)?),
                generation: row.get(1)?,
                lease_until_ms: row.get(2)?,
                leased_to: row.get::<_, Option<i64>>(3)?.map(Position::from_sql),
                retry_at_ms: row.get(4)?,
                stands_still: row.get::<_, Option<String>>(5)?.is_some()
                    || row.get::<_, Option<String>>(6)?.is_some(),
            })
        };
        let query = connection.prepare_cached(sql!("group_standing"));
        let found =
            query.and_then(|mut query| query.query_row((group, partition), of_row).optional());
        Ok(found.map_err(broken("look at a group's partition"))?)
    }

    /// Nobody has a lease, it need not wait, and nothing is wrong with it.
    pub(super) fn is_free(&self, now_ms: i64) -> bool {
        let over = |at: Option<i64>| at.is_none_or(|at| at <= now_ms);
        over(self.lease_until_ms) && over(self.retry_at_ms) && !self.stands_still
    }

    /// It is as somebody knew it.
    pub(super) fn is_as(&self, claim: &Claim) -> bool {
        self.next == claim.next && self.generation == claim.generation
    }
}
