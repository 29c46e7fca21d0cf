//! Groups as they are: the rows that tell of them.

use deadpool_postgres::ClientWrapper;
use futures_util::future::{try_join, try_join3, try_join4};
use serde_json::value::RawValue;
use tokio_postgres::{Error, Row};

use super::super::query::{Params, prepare, query, sql, unsigned};
use super::step::StepResult;
use tidewire_store::groups::{
    Filter, GroupError, GroupView, Holdings, Key, MemberKind, MemberReport, MemberView, OnDead,
    PartitionView, Verdict,
};
use tidewire_store::offset::Position;

/// A group with everything, if it is there. Its partitions are read first: what is read after them is as new or
/// newer, and if it is newer their generations do not fit any more.
pub(super) async fn group(client: &ClientWrapper, name: &str) -> Result<Option<GroupView>, Error> {
    let [partitions, group, members, counts] = prepare(
        client,
        [
            sql!("group_partitions"),
            sql!("group"),
            sql!("group_members"),
            sql!("group_letter_counts"),
        ],
    )
    .await?;
    let params: Params<'_> = &[&name];
    let (partitions, group, members, counts) = try_join4(
        client.query(&partitions, params),
        client.query_opt(&group, params),
        client.query(&members, params),
        client.query_one(&counts, params),
    )
    .await?;
    let Some(mut view) = group.as_ref().map(of_row).transpose()? else { return Ok(None) };
    view.partitions = partitions.iter().map(partition_of_row).collect::<Result<_, _>>()?;
    view.members = members.iter().map(|row| member_of_row(name, row)).collect::<Result<_, _>>()?;
    view.dead = unsigned(counts.try_get(0)?);
    view.parked = unsigned(counts.try_get(1)?);
    Ok(Some(view))
}

/// All groups, by name.
pub(super) async fn groups(client: &ClientWrapper) -> Result<Vec<GroupView>, Error> {
    let mut views = Vec::new();
    for row in query(client, sql!("groups"), &[]).await? {
        let name: &str = row.try_get(0)?;
        // One that is removed meanwhile is left out.
        views.extend(group(client, name).await?);
    }
    Ok(views)
}

/// What must be known to work on a partition. Its row is read first: what is read after it is as new or
/// newer, and if it is newer the generation that was read does not fit any more.
pub(super) async fn holdings(
    client: &ClientWrapper,
    name: &str,
    partition: u32,
) -> StepResult<Holdings> {
    let number = i32::try_from(partition).map_err(|_| GroupError::NotFound)?;
    let [of_partition, of_group, parked, attempts, dead] = prepare(
        client,
        [
            sql!("group_partition"),
            sql!("group"),
            sql!("group_parked_keys"),
            sql!("group_attempts"),
            sql!("group_dead_ahead"),
        ],
    )
    .await?;
    let params: Params<'_> = &[&name, &number];
    let group: Params<'_> = &[&name];
    let ((partition, group), (parked, attempts, dead)) = try_join(
        try_join(client.query_opt(&of_partition, params), client.query_opt(&of_group, group)),
        try_join3(
            client.query(&parked, params),
            client.query(&attempts, params),
            client.query(&dead, params),
        ),
    )
    .await?;
    let (Some(partition), Some(group)) = (partition, group) else {
        return Err(GroupError::NotFound.into());
    };
    let key = |row: &Row| -> Result<Key, Error> {
        Ok(Key::of(Some(row.try_get(0)?), Some(row.try_get(1)?)))
    };
    let parked = parked.iter().map(|row| {
        let from: i64 = row.try_get(2)?;
        Ok((key(row)?, Position::from_sql(from)))
    });
    let attempts = attempts.iter().map(|row| {
        let verdict = Verdict::parse(row.try_get(3)?).unwrap_or(Verdict::Retry);
        Ok((key(row)?, (small(row.try_get(2)?), verdict)))
    });
    let dead = dead.iter().map(|row| Ok(Position::from_sql(row.try_get(0)?)));
    Ok(Holdings {
        group: of_row(&group)?,
        partition: partition_of_row(&partition)?,
        parked: parked.collect::<Result<_, Error>>()?,
        attempts: attempts.collect::<Result<_, Error>>()?,
        dead: dead.collect::<Result<_, Error>>()?,
    })
}

/// A group without its lists.
pub(super) fn of_row(row: &Row) -> Result<GroupView, Error> {
    Ok(GroupView {
        group: row.try_get(0)?,
        total: small(row.try_get(1)?),
        wanted: row.try_get::<_, Option<i32>>(2)?.map(small),
        barrier: row.try_get::<_, Option<i64>>(3)?.map(Position::from_sql),
        filter: Filter { tables: row.try_get(4)?, streams: row.try_get(5)? },
        max_attempts: small(row.try_get(6)?),
        on_dead: OnDead::parse(row.try_get(7)?).unwrap_or(OnDead::Park),
        stopped: row.try_get(8)?,
        lost_to: Position::from_sql(row.try_get(9)?),
        created_at_ms: row.try_get(10)?,
        partitions: Vec::new(),
        members: Vec::new(),
        dead: 0,
        parked: 0,
    })
}

fn partition_of_row(row: &Row) -> Result<PartitionView, Error> {
    let retry_in_ms: Option<i64> = row.try_get(7)?;
    Ok(PartitionView {
        partition: small(row.try_get(0)?),
        next: Position::from_sql(row.try_get(1)?),
        generation: unsigned(row.try_get(2)?),
        member: row.try_get(3)?,
        moved_at_ms: row.try_get(4)?,
        lease_ms: row.try_get(5)?,
        leased_to: row.try_get::<_, Option<i64>>(6)?.map(Position::from_sql),
        retry_in_ms: retry_in_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0),
        failing: small(row.try_get(8)?),
        parked: small(row.try_get(9)?),
        redrive: row.try_get(10)?,
        trouble: row.try_get(11)?,
    })
}

fn member_of_row(group: &str, row: &Row) -> Result<MemberView, Error> {
    let counts: String = row.try_get(5)?;
    Ok(MemberView {
        report: MemberReport {
            group: group.to_owned(),
            member: row.try_get(0)?,
            kind: MemberKind::parse(row.try_get(1)?).unwrap_or(MemberKind::Library),
            pinned: row.try_get::<_, Option<i32>>(2)?.map(small),
            // The database wrote it, so it is JSON.
            counts: RawValue::from_string(counts).unwrap_or_default(),
        },
        joined_at_ms: row.try_get(3)?,
        lease_ms: unsigned(row.try_get(4)?),
    })
}

/// A number that is never negative.
pub(super) fn small(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
