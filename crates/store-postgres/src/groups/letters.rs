//! Letters: reading them, and marking them. Only who holds a partition changes which of its keys are parked, so
//! to redrive or to drop is to mark, and the holder works off what is marked.

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::super::query::{Params, execute, limit as rows_max, query, query_one, sql};
use super::administer::take_turn;
use super::pages::event_of_row;
use super::step::StepResult;
use super::view::small;
use tidewire_store::groups::{
    Batch, GroupError, Key, KeyEvents, LETTERS_BYTES_MAX, Letter, LetterBatch, LetterPage,
    LetterSelection, LetterState, LetterView, not_passed,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;

/// Letters after an offset, in order, as many as fit.
pub(super) async fn list(
    client: &ClientWrapper,
    group: &str,
    after: Position,
    limit: PageLimit,
    state: Option<LetterState>,
) -> Result<LetterPage, Error> {
    let state = state.map(LetterState::as_str);
    let bytes = rows_max(limit.bytes.clamp(1, LETTERS_BYTES_MAX));
    let params: Params<'_> = &[&group, &after.to_sql(), &one_less(limit.events), &state, &bytes];
    let rows = query(client, sql!("letters"), params).await?;
    let of_row = |row: &Row| {
        Ok(LetterView {
            letter: Letter {
                event: Arc::new(event_of_row(row)?),
                error: row.try_get::<_, Option<String>>(18)?.unwrap_or_default(),
                attempts: small(row.try_get(19)?),
            },
            partition: small(row.try_get(20)?),
            state: LetterState::parse(row.try_get(21)?).unwrap_or(LetterState::Dead),
            died_at_ms: row.try_get(22)?,
            redrive: row.try_get(23)?,
        })
    };
    let more = rows.last().map_or(Ok(false), |row| row.try_get(24))?;
    let letters = rows.iter().map(of_row).collect::<Result<_, Error>>()?;
    Ok(LetterPage { letters, more })
}

/// A number of rows to which a statement can add the one more that it looks at.
fn one_less(count: usize) -> i64 {
    rows_max(count).min(i64::MAX - 1)
}

/// The first letters of the key that waits longest. Source transactions stay whole, however many letters one
/// has.
pub(super) async fn due(
    client: &ClientWrapper,
    group: &str,
    partition: u32,
    limit: PageLimit,
) -> Result<Option<Batch>, Error> {
    let number = i32::try_from(partition).unwrap_or(-1);
    let rows = query(client, sql!("parked_due"), &[&group, &number]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let key = Key::of(Some(row.try_get(0)?), Some(row.try_get(1)?));
    let hash: &[u8] = row.try_get(2)?;
    let (attempt, next) = (small(row.try_get(3)?), Position::from_sql(row.try_get(4)?));
    let (mut count, mut bytes) = (limit.events.max(1), limit.bytes.max(1));
    let events = loop {
        // One more, to see where the last transaction ends.
        let params: Params<'_> =
            &[&group, &hash, &one_less(count.saturating_add(1)), &rows_max(bytes)];
        let rows = query(client, sql!("letters_due"), params).await?;
        let mut batch = LetterBatch::new(limit);
        let mut ended = false;
        for row in &rows {
            ended = !batch.take(event_of_row(row)?);
            if ended {
                break;
            }
        }
        let follows: bool = rows.last().map_or(Ok(false), |row| row.try_get(18))?;
        if ended || !follows {
            break batch.finish();
        }
        // The last transaction's end was not among them.
        (count, bytes) = (count.saturating_mul(2), bytes.saturating_mul(2));
    };
    let groups = match events.is_empty() {
        true => Vec::new(),
        false => vec![KeyEvents { key: key.clone(), attempt, events }],
    };
    Ok(Some(Batch { from: next, next, groups, park: Vec::new(), redrive: Some(key) }))
}

/// Whose letters are meant: of one key, or all. None if there is no such letter.
async fn meant(
    client: &ClientWrapper,
    group: &str,
    which: &LetterSelection,
) -> Result<Option<Option<Vec<u8>>>, Error> {
    Ok(match which {
        LetterSelection::All => Some(None),
        LetterSelection::Key(key) => Some(Some(key.hash().to_vec())),
        LetterSelection::Offset(position) => {
            let rows = query(client, sql!("letter_key"), &[&group, &position.to_sql()]).await?;
            rows.first().map(|row| row.try_get(0).map(Some)).transpose()?
        }
    })
}

/// Locks the partitions that have letters of a key, or any. Nothing is done to others: what comes to have letters
/// meanwhile is somebody else's.
async fn lock(client: &ClientWrapper, group: &str, key: Option<&Vec<u8>>) -> StepResult<Vec<i32>> {
    let rows = query(client, sql!("letters_partitions"), &[&group, &key]).await?;
    let partitions: Vec<i32> =
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, Error>>()?;
    query(client, sql!("group_lock_some"), &[&group, &partitions]).await?;
    Ok(partitions)
}

/// Nothing is done to a group that is not there.
async fn begin(client: &ClientWrapper, group: &str) -> StepResult<()> {
    take_turn(client).await?;
    match query(client, sql!("group"), &[&group]).await?.is_empty() {
        true => Err(GroupError::NotFound.into()),
        false => Ok(()),
    }
}

/// Marks letters to be worked off again. Returns of how many keys.
pub(super) async fn redrive(
    client: &ClientWrapper,
    group: &str,
    which: &LetterSelection,
) -> StepResult<u64> {
    begin(client, group).await?;
    let Some(key) = meant(client, group, which).await? else { return Ok(0) };
    let partitions = lock(client, group, key.as_ref()).await?;
    let nowhere = Position::new(u64::MAX).to_sql();
    execute(client, sql!("letters_unparked"), &[&group, &key, &nowhere, &partitions]).await?;
    let keys = execute(client, sql!("parked_redrive"), &[&group, &key, &partitions]).await?;
    tell(client, group, &partitions).await?;
    Ok(keys)
}

/// Gives up letters. Returns how many.
pub(super) async fn give_up(
    client: &ClientWrapper,
    group: &str,
    which: &LetterSelection,
    with_parked: bool,
) -> StepResult<u64> {
    begin(client, group).await?;
    let Some(key) = meant(client, group, which).await? else { return Ok(0) };
    let partitions = lock(client, group, key.as_ref()).await?;
    let only = match which {
        LetterSelection::Offset(position) if !with_parked => Some(position.to_sql()),
        _ => None,
    };
    // One that is named is given up whatever it is.
    let any = with_parked || only.is_some();
    let params: Params<'_> = &[&group, &key, &only, &any, &partitions];
    let dropped = execute(client, sql!("letters_drop"), params).await?;
    if dropped == 0 && query_one(client, sql!("letters_left"), params).await?.try_get(0)? {
        return Err(not_passed().into());
    }
    execute(client, sql!("parked_go_on"), &[&group, &key, &partitions]).await?;
    tell(client, group, &partitions).await?;
    Ok(dropped)
}

async fn tell(client: &ClientWrapper, group: &str, partitions: &Vec<i32>) -> StepResult<()> {
    execute(client, sql!("group_redrive"), &[&group, partitions]).await?;
    query_one(client, sql!("group_notify"), &[&group]).await?;
    Ok(())
}
