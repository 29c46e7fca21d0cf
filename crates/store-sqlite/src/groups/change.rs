//! Changing groups that are there. Each change is one step of the writer, so no partition moves meanwhile.

use rusqlite::{Connection, Transaction, params};

use super::administer::{add_partitions, check};
use super::{pages, view};
use crate::error::{broken, now_ms};
use crate::sql;
use crate::writer::Writer;
use tidewire_store::groups::{GroupChange, GroupError, GroupView, Start};
use tidewire_store::offset::{Epoch, Position};

/// Why a group stands still: somebody wants it to,
const PAUSED: &str = "paused";
/// or retention took events that it had not read.
const EVENTS_LOST: &str = "events_lost";

/// Changes a group. Another number of partitions is begun.
pub(super) fn change(
    writer: &mut Writer,
    name: &str,
    change: &GroupChange,
) -> Result<GroupView, GroupError> {
    check(change.partitions, change.filter.as_ref(), change.max_attempts)?;
    let failed = broken("change a group");
    let transaction = writer.transaction()?;
    let view = view::whole(&transaction, name).map_err(&failed)?;
    let mut view = view.ok_or(GroupError::NotFound)?;
    if let Some(wanted) = change.partitions {
        match view.wanted {
            Some(under_way) if under_way == wanted => {}
            Some(_) => return Err(GroupError::Changing),
            None if wanted == view.total => {}
            None => {
                view.wanted = Some(wanted);
                view.barrier = view.partitions.iter().map(|partition| partition.next).max();
            }
        }
    }
    if let Some(filter) = &change.filter {
        view.filter = filter.clone();
    }
    view.max_attempts = change.max_attempts.unwrap_or(view.max_attempts);
    view.on_dead = change.on_dead.unwrap_or(view.on_dead);
    let lost = view.stopped.as_deref() == Some(EVENTS_LOST);
    if lost && change.accept_loss {
        view.stopped = None;
    }
    match change.paused {
        Some(true) if view.stopped.is_none() => view.stopped = Some(PAUSED.to_owned()),
        Some(false) if !lost => view.stopped = None,
        Some(_) | None => {}
    }
    let save = || -> rusqlite::Result<_> {
        store(&transaction, &view)?;
        transaction.prepare_cached(sql!("group_fence"))?.execute([name])?;
        if change.clear_trouble {
            transaction.prepare_cached(sql!("group_untrouble"))?.execute([name])?;
        }
        view::whole(&transaction, name)
    };
    let view = save().map_err(&failed)?.ok_or(GroupError::NotFound)?;
    transaction.commit().map_err(&failed)?;
    Ok(view)
}

fn store(transaction: &Transaction<'_>, view: &GroupView) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql!("group_save"))?.execute(params![
        view.group,
        view.total,
        view.wanted,
        view.barrier.map(Position::to_sql),
        view::names_text(&view.filter.tables),
        view::names_text(&view.filter.streams),
        view.max_attempts,
        view.on_dead.as_str(),
        view.stopped,
        view.lost_to.to_sql(),
    ])?;
    Ok(())
}

/// Ends a change of the number of partitions, if all stand at the barrier.
pub(super) fn finish(writer: &mut Writer, name: &str) -> Result<bool, GroupError> {
    let failed = broken("change a group's partitions");
    let transaction = writer.transaction()?;
    let view = view::group(&transaction, name).map_err(&failed)?;
    let mut view = view.ok_or(GroupError::NotFound)?;
    let (Some(total), Some(barrier)) = (view.wanted, view.barrier) else { return Ok(false) };
    let there = view::partitions(&transaction, name).map_err(&failed)?;
    if there.iter().any(|partition| partition.next != barrier) {
        return Ok(false);
    }
    // Past all that any of them had: a partition that is made again is not taken for the old one.
    let generation = there.iter().map(|row| row.generation).max().unwrap_or(0) + 1;
    (view.total, view.wanted, view.barrier) = (total, None, None);
    let save = || -> rusqlite::Result<()> {
        store(&transaction, &view)?;
        transaction.prepare_cached(sql!("group_clear_offsets"))?.execute((name, false))?;
        add_partitions(&transaction, name, total, barrier, generation)?;
        transaction.prepare_cached(sql!("group_remap_attempts"))?.execute((name, total))?;
        transaction.prepare_cached(sql!("group_remap_parked"))?.execute((name, total))?;
        transaction.prepare_cached(sql!("group_remap_letters"))?.execute((name, total))?;
        recount(&transaction, name, total)
    };
    save().map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(true)
}

fn recount(connection: &Connection, name: &str, total: u32) -> rusqlite::Result<()> {
    let mut recount = connection.prepare_cached(sql!("group_recount"))?;
    for partition in 0..total {
        recount.execute((name, partition))?;
    }
    Ok(())
}

/// Sets a group, or one partition, to another place.
pub(super) fn reset(
    writer: &mut Writer,
    epoch: Epoch,
    name: &str,
    to: Start,
    partition: Option<u32>,
    drop_letters: bool,
) -> Result<GroupView, GroupError> {
    let failed = broken("reset a group");
    let transaction = writer.transaction()?;
    let view = view::group(&transaction, name).map_err(&failed)?;
    let mut view = view.ok_or(GroupError::NotFound)?;
    if partition.is_some_and(|partition| partition >= view.total) {
        return Err(GroupError::NotFound);
    }
    if view.wanted.is_some() {
        return Err(GroupError::Changing);
    }
    let next = pages::place(&transaction, epoch, to)?;
    let stopped = view.stopped.as_deref();
    // All of it stands somewhere else than where events were lost, or where letters piled up.
    if partition.is_none() && stopped.is_some_and(|code| code == EVENTS_LOST || drop_letters) {
        view.stopped = view.stopped.take().filter(|code| code == PAUSED);
        view.lost_to = Position::START;
    }
    let save = || -> rusqlite::Result<_> {
        store(&transaction, &view)?;
        let mut reset = transaction.prepare_cached(sql!("group_reset"))?;
        reset.execute((name, partition, next.to_sql(), now_ms()))?;
        transaction.prepare_cached(sql!("group_clear_attempts"))?.execute((name, partition))?;
        if drop_letters {
            transaction.prepare_cached(sql!("group_clear_letters"))?.execute((name, partition))?;
            transaction.prepare_cached(sql!("group_clear_parked"))?.execute((name, partition))?;
        }
        recount(&transaction, name, view.total)?;
        view::whole(&transaction, name)
    };
    let view = save().map_err(&failed)?.ok_or(GroupError::NotFound)?;
    transaction.commit().map_err(&failed)?;
    Ok(view)
}
