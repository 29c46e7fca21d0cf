//! What a batch leaves behind besides its advance: letters, parked keys, attempts. All of it is written under
//! the lock of the partition's row.

use deadpool_postgres::ClientWrapper;

use super::super::query::{execute, sql};
use super::columns::{KeyColumns, LetterColumns};
use super::step::StepResult;
use tidewire_store::groups::{DEAD_LETTERS_MAX, Ending, GroupError, Key, PARKED_LETTERS_MAX};
use tidewire_store::offset::Position;

/// Whether it leaves nothing.
pub(super) fn is_plain(ending: &Ending) -> bool {
    let Ending { next: _, dead, park, parked_from, redriven, free, give_up, settled } = ending;
    let keys = parked_from.is_empty() && free.is_none() && give_up.is_none() && settled.is_empty();
    keys && dead.is_empty() && park.is_empty() && redriven.is_empty()
}

/// Writes it. What others remember of keys and letters is worth nothing once a key is parked or freed, or letters
/// are worked off, so the generation rises then. [`GroupError::Moved`] if letters that were worked off are gone.
pub(super) async fn write(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    ending: &Ending,
) -> StepResult<()> {
    let changed = save(client, group, partition, ending).await?;
    recount(client, group, partition, changed).await
}

/// The same without counting anew. Says whether the parked keys or the letters are others.
pub(super) async fn save(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    ending: &Ending,
) -> StepResult<bool> {
    let mut letters = LetterColumns::default();
    ending.dead.iter().for_each(|letter| letters.dead(letter));
    ending.park.iter().for_each(|event| letters.parked(event));
    add_letters(client, group, partition, &letters, !ending.dead.is_empty()).await?;
    park(client, group, partition, &ending.parked_from).await?;
    if !ending.redriven.is_empty() {
        let gone: Vec<i64> = ending.redriven.iter().map(|position| position.to_sql()).collect();
        // Who worked letters off that are not there any more did so after another, or they were dropped.
        if execute(client, sql!("letters_redriven"), &[&group, &gone]).await? != gone.len() as u64 {
            return Err(GroupError::Moved.into());
        }
    }
    let mut changed = !ending.parked_from.is_empty() || !ending.redriven.is_empty();
    if let Some(key) = &ending.free {
        let hash = key.hash().to_vec();
        changed |= execute(client, sql!("parked_free"), &[&group, &hash]).await? > 0;
    }
    if let Some(key) = &ending.give_up {
        let hash = key.hash().to_vec();
        changed |= execute(client, sql!("parked_give_up"), &[&group, &hash]).await? > 0;
    }
    settle(client, group, partition, &ending.settled).await?;
    Ok(changed)
}

/// Sets events aside, and stops what has too many of them.
async fn add_letters(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    letters: &LetterColumns<'_>,
    has_dead: bool,
) -> StepResult<()> {
    if letters.is_empty() {
        return Ok(());
    }
    execute(client, sql!("letters_insert"), &letters.params(&group, &partition)).await?;
    if has_dead {
        let dead_max = i64::try_from(DEAD_LETTERS_MAX).unwrap_or(i64::MAX);
        execute(client, sql!("group_dead_full"), &[&group, &dead_max]).await?;
    }
    let all_max = i64::try_from(PARKED_LETTERS_MAX).unwrap_or(i64::MAX);
    let trouble = format!(
        "parked_full: the group has {PARKED_LETTERS_MAX} letters, which is the limit; redrive or drop \
         them, and resume the group"
    );
    execute(client, sql!("group_parked_full"), &[&group, &partition, &all_max, &trouble]).await?;
    Ok(())
}

/// Parks keys from positions on.
async fn park(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    keys: &[(Key, Position)],
) -> StepResult<()> {
    if !keys.is_empty() {
        let keys = KeyColumns::of(keys.iter().map(|(key, position)| (key, *position)));
        execute(client, sql!("parked_add"), &keys.params(&group, &partition)).await?;
    }
    Ok(())
}

/// Forgets the failed attempts of keys.
async fn settle(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    keys: &[Key],
) -> StepResult<()> {
    if !keys.is_empty() {
        let keys = KeyColumns::of(keys.iter().map(|key| (key, Position::START)));
        execute(client, sql!("attempts_clear"), &[&group, &partition, keys.hashes()]).await?;
    }
    Ok(())
}

/// Counts a partition's keys anew.
pub(super) async fn recount(
    client: &ClientWrapper,
    group: &str,
    partition: i32,
    raise: bool,
) -> StepResult<()> {
    let raised = i32::from(raise);
    execute(client, sql!("group_recount"), &[&group, &partition, &raised]).await?;
    Ok(())
}
