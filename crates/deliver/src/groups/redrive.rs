//! The letters that a lease is about, found again.

use tidewire_store::groups::{
    Batch, Ending, GroupError, Key, KeyEvents, LETTERS_BYTES_MAX, Letter,
};
use tidewire_store::{PageLimit, Position};

use super::find::Scene;
use crate::node::Node;

/// Letters that are looked through at once, where the store does not name the key first.
const LETTERS_PAGE: PageLimit = PageLimit { events: 1_000, bytes: LETTERS_BYTES_MAX };

/// The letters of a key up to a position, in order. None of them is there if they were dropped meanwhile.
pub(super) async fn letters(
    node: &Node,
    scene: &Scene,
    (hash, last): ([u8; 32], Position),
) -> Result<Batch, GroupError> {
    let store = &node.groups.store;
    let options = &node.options.groups;
    let limit = PageLimit { events: options.batch_size_max, bytes: options.transaction_bytes_max };
    let next = scene.at.next;
    let due = store.letters_due(&scene.group, scene.at.partition, limit).await?;
    let mut batch = match due {
        Some(batch) if batch.redrive.as_ref().is_some_and(|key| key.hash() == hash) => batch,
        // Another key came to be first.
        _ => of_key(node, &scene.group, hash, last).await?,
    };
    (batch.from, batch.next) = (next, next);
    for key in &mut batch.groups {
        key.events.retain(|event| event.position <= last);
    }
    batch.groups.retain(|key| !key.events.is_empty());
    scene.count_attempts(&mut batch);
    Ok(batch)
}

async fn of_key(
    node: &Node,
    group: &str,
    hash: [u8; 32],
    last: Position,
) -> Result<Batch, GroupError> {
    let mut events = Vec::new();
    let mut after = Position::START;
    while after < last {
        let page = node.groups.store.letters(group, after, LETTERS_PAGE, None).await?;
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

/// They are done, and gone. The key goes on if it has no more.
pub(super) fn done(next: Position, batch: &Batch) -> Ending {
    let events = batch.groups.iter().flat_map(|key| &key.events);
    Ending {
        next,
        redriven: events.map(|event| event.position).collect(),
        free: batch.redrive.clone(),
        settled: batch.redrive.iter().cloned().collect(),
        ..Ending::default()
    }
}

/// They failed again for good, and wait for a person again.
pub(super) fn given_up(next: Position, batch: &Batch, dead: Vec<Letter>) -> Ending {
    Ending {
        next,
        dead,
        give_up: batch.redrive.clone(),
        settled: batch.redrive.iter().cloned().collect(),
        ..Ending::default()
    }
}
