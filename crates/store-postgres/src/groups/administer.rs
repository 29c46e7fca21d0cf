//! Making, changing and removing groups. One at a time: the rows of a group's partitions come and go.
//!
//! Locks are taken in one order, so that nobody waits in a circle: the turn, the rows of partitions by number,
//! the group's row. Who holds a partition may stop the group.

use deadpool_postgres::ClientWrapper;

use super::super::query::{Params, execute, query_one, sql};
use super::pages;
use super::step::StepResult;
use super::view;
use tidewire_store::groups::{
    Filter, GROUPS_MAX, GroupError, GroupSettings, GroupView, OnDead, PARTITIONS_MAX, is_group_name,
};
use tidewire_store::offset::Epoch;

/// Held by who administers groups: `tide` and 9.
const GROUPS_LOCK: i64 = 0x7469_6465_0000_0009;

/// What a new group has unless it is told otherwise.
const PARTITIONS: u32 = 8;
const MAX_ATTEMPTS: u32 = 5;

/// Waits for the turn. Those who hold a partition may take their time, and so may who administers before.
pub(super) async fn take_turn(client: &ClientWrapper) -> StepResult<()> {
    client
        .batch_execute("SET LOCAL lock_timeout = '30s'; SET LOCAL statement_timeout = '60s'")
        .await?;
    query_one(client, sql!("group_turn"), &[&GROUPS_LOCK]).await?;
    Ok(())
}

/// Refuses what no group can be.
pub(super) fn check(
    partitions: Option<u32>,
    filter: Option<&Filter>,
    max_attempts: Option<u32>,
) -> Result<(), GroupError> {
    if partitions.is_some_and(|count| !(1..=PARTITIONS_MAX).contains(&count)) {
        let text = format!("a group has 1 to {PARTITIONS_MAX} partitions");
        return Err(GroupError::Invalid(text));
    }
    if max_attempts.is_some_and(|count| count == 0 || i32::try_from(count).is_err()) {
        let text = format!("max_attempts is at least 1 and at most {}", i32::MAX);
        return Err(GroupError::Invalid(text));
    }
    filter.map_or(Ok(()), |filter| filter.check().map_err(GroupError::Invalid))
}

/// What a wish has that the group has otherwise.
fn differs(name: &str, group: &GroupView, wish: &GroupSettings) -> Option<GroupError> {
    if let Some(wanted) = wish.partitions
        && wanted != group.total
    {
        return Some(GroupError::Differs(format!(
            "the group {name} has {} partitions, not {wanted}; ask for {}, or change it: \
             `tidewire groups change {name} --partitions {wanted}`",
            group.total, group.total
        )));
    }
    if wish.filter.as_ref().is_some_and(|filter| !same(filter, &group.filter)) {
        return Some(GroupError::Differs(format!(
            "the group {name} reads other tables and streams than these; ask for the same, or change \
             it with `tidewire groups change {name}`"
        )));
    }
    None
}

/// The order of names does not matter.
fn same(a: &Filter, b: &Filter) -> bool {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        names
    };
    sorted(&a.tables) == sorted(&b.tables) && sorted(&a.streams) == sorted(&b.streams)
}

/// Whether a group that is there is as it is wished to be; None if it is not there.
pub(super) async fn found(
    client: &ClientWrapper,
    name: &str,
    wish: &GroupSettings,
) -> StepResult<Option<GroupView>> {
    if !is_group_name(name) {
        let text = "a group's name has 1 to 255 bytes, no slash and no control characters";
        return Err(GroupError::Invalid(text.to_owned()).into());
    }
    check(wish.partitions, wish.filter.as_ref(), wish.max_attempts)?;
    let Some(group) = view::group(client, name).await? else { return Ok(None) };
    match differs(name, &group, wish) {
        Some(error) => Err(error.into()),
        None => Ok(Some(group)),
    }
}

/// Makes a group, unless it is there by now. Says whether it was made.
pub(super) async fn make(
    client: &ClientWrapper,
    epoch: Epoch,
    name: &str,
    wish: &GroupSettings,
) -> StepResult<(GroupView, bool)> {
    take_turn(client).await?;
    if let Some(group) = found(client, name, wish).await? {
        return Ok((group, false));
    }
    let count: i64 = query_one(client, sql!("groups_count"), &[]).await?.try_get(0)?;
    if u64::try_from(count).is_ok_and(|count| count >= GROUPS_MAX) {
        return Err(GroupError::TooMany { limit: "groups_max", max: GROUPS_MAX }.into());
    }
    let there = query_one(client, sql!("group_rows_there"), &[&name]).await?;
    let (rows, first, last): (i64, i32, i32) =
        (there.try_get(0)?, there.try_get(1)?, there.try_get(2)?);
    let adopted = u32::try_from(rows).unwrap_or(0);
    let total = wish.partitions.unwrap_or(if adopted > 0 { adopted } else { PARTITIONS });
    if adopted > 0 && (adopted != total || first != 0 || i64::from(last) + 1 != rows) {
        return Err(GroupError::Differs(format!(
            "consumer_offsets has {rows} rows of {name} that another program made, and they are not \
             the partitions 0 to {}; remove them, or ask for as many",
            total - 1
        ))
        .into());
    }
    let total = i32::try_from(total).unwrap_or(i32::MAX);
    if adopted > PARTITIONS_MAX {
        let text = format!("a group has 1 to {PARTITIONS_MAX} partitions");
        return Err(GroupError::Invalid(text).into());
    }
    if adopted == 0 {
        let next = pages::place_at(client, epoch, wish.start).await?.to_sql();
        execute(client, sql!("group_partitions_add"), &[&name, &total, &next]).await?;
    } else {
        execute(client, sql!("group_adopt"), &[&name]).await?;
    }
    let filter = wish.filter.clone().unwrap_or_default();
    let attempts = wish.max_attempts.unwrap_or(MAX_ATTEMPTS);
    let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
    let on_dead = wish.on_dead.unwrap_or(OnDead::Park).as_str();
    let params: Params<'_> = &[&name, &total, &filter.tables, &filter.streams, &attempts, &on_dead];
    execute(client, sql!("group_add"), params).await?;
    query_one(client, sql!("group_notify"), &[&name]).await?;
    match view::group(client, name).await? {
        Some(group) => Ok((group, true)),
        None => Err(GroupError::NotFound.into()),
    }
}
