//! Making and removing groups.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::{pages, view};
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{
    Filter, GROUPS_MAX, GroupError, GroupSettings, GroupView, OnDead, PARTITIONS_MAX, is_group_name,
};
use tidewire_store::offset::{Epoch, Position};

/// What a new group has where nothing is said.
const PARTITIONS: u32 = 8;
const ATTEMPTS_MAX: u32 = 5;

/// Makes a group, or finds that it is as it shall be.
pub(super) fn put(
    writer: &mut Writer,
    epoch: Epoch,
    name: &str,
    wish: &GroupSettings,
) -> Result<(GroupView, bool), GroupError> {
    check_wish(name, wish)?;
    let failed = broken("make a group");
    let transaction = writer.transaction()?;
    if let Some(view) = view::whole(&transaction, name).map_err(&failed)? {
        same(&view, wish)?;
        return Ok((view, false));
    }
    let count: u64 =
        transaction.query_row(sql!("group_count"), [], |row| row.get(0)).map_err(&failed)?;
    if count >= GROUPS_MAX {
        return Err(GroupError::TooMany { limit: "groups_max", max: GROUPS_MAX });
    }
    let there = view::partitions(&transaction, name).map_err(&failed)?;
    let count = u32::try_from(there.len()).unwrap_or(u32::MAX);
    let total = wish.partitions.unwrap_or(if count > 0 { count } else { PARTITIONS });
    check(Some(total), None, None)?;
    let adopted = there.iter().map(|row| row.partition).eq(0..total);
    if !there.is_empty() && !adopted {
        return Err(GroupError::Differs(format!(
            "consumer_offsets has {} rows of {name}, which are not the partitions 0 to {}; request for as \
             many partitions as there are, or delete the rows",
            there.len(),
            total - 1
        )));
    }
    let next =
        if adopted { Position::START } else { pages::place(&transaction, epoch, wish.start)? };
    let add = || -> rusqlite::Result<_> {
        let filter = wish.filter.clone().unwrap_or_default();
        transaction.prepare_cached(sql!("group_add"))?.execute(params![
            name,
            total,
            view::names_text(&filter.tables),
            view::names_text(&filter.streams),
            wish.max_attempts.unwrap_or(ATTEMPTS_MAX),
            wish.on_dead.unwrap_or(OnDead::Park).as_str(),
            now_ms(),
        ])?;
        // The first generation is the time: a lease of a group of this name that is gone never fits.
        let first = now_ms().unsigned_abs();
        if adopted {
            transaction.prepare_cached(sql!("group_adopt"))?.execute((name, first))?;
        } else {
            add_partitions(&transaction, name, total, next, first)?;
        }
        view::whole(&transaction, name)
    };
    let view = add().map_err(&failed)?.ok_or(GroupError::NotFound)?;
    transaction.commit().map_err(&failed)?;
    Ok((view, true))
}

/// Adds all partitions of a group.
pub(super) fn add_partitions(
    connection: &Connection,
    name: &str,
    total: u32,
    next: Position,
    generation: u64,
) -> rusqlite::Result<()> {
    let mut add = connection.prepare_cached(sql!("group_offset_add"))?;
    for partition in 0..total {
        add.execute((name, partition, next.to_sql(), generation))?;
    }
    Ok(())
}

fn check_wish(name: &str, wish: &GroupSettings) -> Result<(), GroupError> {
    if !is_group_name(name) {
        return Err(GroupError::Invalid(format!(
            "{name:?} cannot be the name of a group: it has 1 to 255 bytes, no slash and no control \
             characters"
        )));
    }
    check(wish.partitions, wish.filter.as_ref(), wish.max_attempts)
}

/// Refuses what no group can be.
pub(super) fn check(
    partitions: Option<u32>,
    filter: Option<&Filter>,
    max_attempts: Option<u32>,
) -> Result<(), GroupError> {
    if partitions.is_some_and(|total| !(1..=PARTITIONS_MAX).contains(&total)) {
        let what = format!("a group has 1 to {PARTITIONS_MAX} partitions");
        return Err(GroupError::Invalid(what));
    }
    if max_attempts.is_some_and(|count| count == 0 || i32::try_from(count).is_err()) {
        let what = format!("max_attempts is at least 1 and at most {}", i32::MAX);
        return Err(GroupError::Invalid(what));
    }
    filter.map_or(Ok(()), |filter| filter.check().map_err(GroupError::Invalid))
}

/// Whether a group that is there is as somebody wishes.
fn same(view: &GroupView, wish: &GroupSettings) -> Result<(), GroupError> {
    if let Some(wanted) = wish.partitions.filter(|wanted| *wanted != view.total) {
        let GroupView { group, total, .. } = view;
        return Err(GroupError::Differs(format!(
            "the group has {total} partitions, not {wanted}; request for {total}, or change it: \
             tidewire groups change {group} --partitions {wanted}"
        )));
    }
    if wish.filter.as_ref().is_some_and(|filter| !takes_the_same(filter, &view.filter)) {
        let group = &view.group;
        return Err(GroupError::Differs(format!(
            "the group reads other tables or streams; request for the same, or change it: tidewire groups \
             change {group}"
        )));
    }
    Ok(())
}

/// The order of names does not matter.
fn takes_the_same(a: &Filter, b: &Filter) -> bool {
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    set(&a.tables) == set(&b.tables) && set(&a.streams) == set(&b.streams)
}

/// Removes a group with everything that is known of it.
pub(super) fn remove(writer: &mut Writer, name: &str) -> Result<bool, StoreError> {
    let failed = broken("remove a group");
    let transaction = writer.transaction()?;
    let everywhere = None::<u32>;
    let save = || -> rusqlite::Result<bool> {
        if transaction.prepare_cached(sql!("group_remove"))?.execute([name])? == 0 {
            return Ok(false);
        }
        transaction.prepare_cached(sql!("group_clear_offsets"))?.execute((name, true))?;
        transaction.prepare_cached(sql!("group_clear_members"))?.execute([name])?;
        transaction.prepare_cached(sql!("group_clear_attempts"))?.execute((name, everywhere))?;
        transaction.prepare_cached(sql!("group_clear_parked"))?.execute((name, everywhere))?;
        transaction.prepare_cached(sql!("group_clear_letters"))?.execute((name, everywhere))?;
        Ok(true)
    };
    let removed = save().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(removed)
}
