//! Changing groups that are there, under the locks of all their partitions.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Error;

use super::super::query::{Params, execute, query, query_one, sql};
use super::administer::{check, take_turn};
use super::step::StepResult;
use super::{pages, view};
use tidewire_store::groups::{GroupChange, GroupError, GroupView, Start};
use tidewire_store::offset::{Epoch, Position};

/// Why a group stands still: somebody wants it to,
const PAUSED: &str = "paused";
/// or retention took events that it had not read.
const EVENTS_LOST: &str = "events_lost";

/// A group whose partitions are all locked.
struct LockedGroup {
    group: GroupView,
    /// Where they stand, and their generations.
    partitions: Vec<(Position, i64)>,
}

impl LockedGroup {
    /// Locks in the order in which everyone does.
    async fn take(client: &ClientWrapper, name: &str) -> StepResult<Option<LockedGroup>> {
        take_turn(client).await?;
        let rows = query(client, sql!("group_lock_all"), &[&name]).await?;
        let partitions = rows.iter().map(|row| {
            let next: i64 = row.try_get(1)?;
            Ok((Position::from_sql(next), row.try_get(2)?))
        });
        let partitions = partitions.collect::<Result<_, Error>>()?;
        let rows = query(client, sql!("group_lock_group"), &[&name]).await?;
        let group = rows.first().map(view::of_row).transpose()?;
        Ok(group.map(|group| LockedGroup { group, partitions }))
    }

    /// The furthest of its partitions.
    fn front(&self) -> Position {
        self.partitions.iter().map(|(next, _)| *next).max().unwrap_or_default()
    }

    async fn save(&self, client: &ClientWrapper) -> StepResult<()> {
        let GroupView { group, filter, stopped, .. } = &self.group;
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let (total, wanted) = (number(self.group.total), self.group.wanted.map(number));
        let barrier = self.group.barrier.map(Position::to_sql);
        let attempts = number(self.group.max_attempts);
        let on_dead = self.group.on_dead.as_str();
        let lost_to = self.group.lost_to.to_sql();
        let (tables, streams) = (&filter.tables, &filter.streams);
        let params: Params<'_> = &[
            group, &total, &wanted, &barrier, tables, streams, &attempts, &on_dead, stopped,
            &lost_to,
        ];
        execute(client, sql!("group_save"), params).await?;
        Ok(())
    }
}

async fn told(client: &ClientWrapper, name: &str) -> StepResult<GroupView> {
    query_one(client, sql!("group_notify"), &[&name]).await?;
    let group = view::group(client, name).await?;
    group.ok_or_else(|| GroupError::NotFound.into())
}

/// Changes a group.
pub(super) async fn change(
    client: &ClientWrapper,
    name: &str,
    change: &GroupChange,
) -> StepResult<GroupView> {
    check(change.partitions, change.filter.as_ref(), change.max_attempts)?;
    let Some(mut locked) = LockedGroup::take(client, name).await? else {
        return Err(GroupError::NotFound.into());
    };
    let front = locked.front();
    let group = &mut locked.group;
    if let Some(wanted) = change.partitions {
        match group.wanted {
            Some(under_way) if under_way == wanted => {}
            Some(_) => return Err(GroupError::Changing.into()),
            None if wanted == group.total => {}
            None => (group.wanted, group.barrier) = (Some(wanted), Some(front)),
        }
    }
    if let Some(filter) = &change.filter {
        group.filter = filter.clone();
    }
    group.max_attempts = change.max_attempts.unwrap_or(group.max_attempts);
    group.on_dead = change.on_dead.unwrap_or(group.on_dead);
    let lost = group.stopped.as_deref() == Some(EVENTS_LOST);
    if lost && change.accept_loss {
        group.stopped = None;
    }
    let lost = lost && !change.accept_loss;
    match change.paused {
        Some(true) if group.stopped.is_none() => group.stopped = Some(PAUSED.to_owned()),
        Some(false) if !lost => group.stopped = None,
        Some(_) | None => {}
    }
    locked.save(client).await?;
    execute(client, sql!("group_fence"), &[&name, &change.clear_trouble]).await?;
    told(client, name).await
}

/// Ends a change of the number of partitions, if all stand at the barrier.
pub(super) async fn finish(client: &ClientWrapper, name: &str) -> StepResult<bool> {
    let Some(locked) = LockedGroup::take(client, name).await? else {
        return Err(GroupError::NotFound.into());
    };
    let done = switch(client, locked).await?;
    if done {
        query_one(client, sql!("group_notify"), &[&name]).await?;
    }
    Ok(done)
}

/// Puts other partitions in the place of those that all stand at the barrier.
async fn switch(client: &ClientWrapper, mut locked: LockedGroup) -> StepResult<bool> {
    let (Some(wanted), Some(barrier)) = (locked.group.wanted, locked.group.barrier) else {
        return Ok(false);
    };
    if locked.partitions.iter().any(|(next, _)| *next != barrier) {
        return Ok(false);
    }
    let name = locked.group.group.clone();
    let total = i32::try_from(wanted).unwrap_or(i32::MAX);
    let generation =
        locked.partitions.iter().map(|(_, generation)| generation + 1).max().unwrap_or(0);
    execute(client, sql!("group_partitions_remove"), &[&name]).await?;
    let params: Params<'_> = &[&name, &total, &barrier.to_sql(), &generation];
    execute(client, sql!("group_partitions_make"), params).await?;
    execute(client, sql!("group_move_keys"), &[&name, &total]).await?;
    execute(client, sql!("group_recount_all"), &[&name]).await?;
    (locked.group.total, locked.group.wanted, locked.group.barrier) = (wanted, None, None);
    locked.save(client).await?;
    Ok(true)
}

/// Sets a group, or one of its partitions, to another place.
pub(super) async fn reset(
    client: &ClientWrapper,
    epoch: Epoch,
    name: &str,
    to: Start,
    partition: Option<u32>,
    drop_letters: bool,
) -> StepResult<GroupView> {
    let Some(mut locked) = LockedGroup::take(client, name).await? else {
        return Err(GroupError::NotFound.into());
    };
    if locked.group.barrier.is_some() {
        return Err(GroupError::Changing.into());
    }
    let number = partition.map(i32::try_from).transpose().map_err(|_| GroupError::NotFound)?;
    let next = pages::place_at(client, epoch, to).await?.to_sql();
    if execute(client, sql!("group_reset"), &[&name, &number, &next]).await? == 0 {
        return Err(GroupError::NotFound.into());
    }
    execute(client, sql!("attempts_forget"), &[&name, &number]).await?;
    if drop_letters {
        execute(client, sql!("letters_forget"), &[&name, &number]).await?;
    }
    execute(client, sql!("group_recount_all"), &[&name]).await?;
    // All of it stands somewhere else than where events were lost, or where letters piled up.
    let stopped = locked.group.stopped.as_deref();
    if partition.is_none() && stopped.is_some_and(|code| code == EVENTS_LOST || drop_letters) {
        locked.group.stopped = locked.group.stopped.take().filter(|code| code == PAUSED);
        locked.group.lost_to = Position::START;
        locked.save(client).await?;
    }
    told(client, name).await
}

/// Removes a group with everything.
pub(super) async fn remove(client: &ClientWrapper, name: &str) -> StepResult<bool> {
    if LockedGroup::take(client, name).await?.is_none() {
        return Ok(false);
    }
    execute(client, sql!("group_remove"), &[&name]).await?;
    query_one(client, sql!("group_notify"), &[&name]).await?;
    Ok(true)
}
