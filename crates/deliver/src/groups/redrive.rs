//! Finds the letters of a lease on redriven letters.

use super::dispatchers::GroupDispatchers;
use tidewire_store::groups::{Batch, GroupError, Holdings, Key, KeyEvents, LETTERS_BYTES_MAX};
use tidewire_store::{PageLimit, Position};

/// Letters that are looked through at once, where the store does not name the key first.
const LETTERS_PAGE: PageLimit = PageLimit { events: 1_000, bytes: LETTERS_BYTES_MAX };

/// The letters of a key up to a position, in order. None of them is there if they were dropped meanwhile.
pub(super) async fn letters(
    dispatchers: &GroupDispatchers,
    held: &Holdings,
    (hash, last): ([u8; 32], Position),
) -> Result<Batch, GroupError> {
    let store = &dispatchers.store;
    let options = &dispatchers.hub.options.groups;
    // As many as any worker may have got.
    let limit = PageLimit { events: options.batch_size_max, bytes: options.transaction_bytes_max };
    let (group, next) = (&held.group.group, held.partition.next);
    let due = store.letters_due(group, held.partition.partition, limit).await?;
    let mut batch = match due {
        Some(batch) if batch.redrive.as_ref().is_some_and(|key| key.hash() == hash) => batch,
        // Another key came to be first.
        _ => of_key(dispatchers, group, hash, last).await?,
    };
    (batch.from, batch.next) = (next, next);
    for key in &mut batch.groups {
        key.events.retain(|event| event.position <= last);
    }
    batch.groups.retain(|key| !key.events.is_empty());
    Ok(batch)
}

async fn of_key(
    dispatchers: &GroupDispatchers,
    group: &str,
    hash: [u8; 32],
    last: Position,
) -> Result<Batch, GroupError> {
    let mut events = Vec::new();
    let mut after = Position::START;
    while after < last {
        let page = dispatchers.store.letters(group, after, LETTERS_PAGE, None).await?;
        let Some(end) = page.letters.last().map(|view| view.letter.event.position) else { break };
        let letters = page.letters.into_iter().map(|view| view.letter.event);
        events.extend(letters.filter(|event| event.key().hash() == hash));
        if !page.more {
            break;
        }
        after = end;
    }
    let redrive: Option<Key> = events.first().map(|event| event.key());
    let groups = match &redrive {
        Some(key) => vec![KeyEvents { key: key.clone(), attempt: 0, events }],
        None => Vec::new(),
    };
    Ok(Batch { from: last, next: last, groups, park: Vec::new(), redrive })
}
