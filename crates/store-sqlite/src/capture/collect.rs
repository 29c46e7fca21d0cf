//! What a transaction of the user's does, while it does it: rows that it changes and documents that it
//! publishes, in order. Nothing of it is kept if the transaction is not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::guard::{Guard, Savepoint, Stopped};
use super::preupdate::ChangingRow;
use super::problem::CHANGES_TOO_MUCH;
use super::table::{Image, Watched};
use tidewire_store::command::Actor;
use tidewire_store::decide::{TransactionStep, invalidation, publication};
use tidewire_store::entity::EntityChange;
use tidewire_store::row::{Operation, RowChange};

/// Bytes of rows and documents that one transaction may bring into the log. They wait in memory for
/// its commit.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 256 << 20;

/// What a change takes besides its images.
const CHANGE_OVERHEAD_BYTES: usize = 256;

#[derive(Debug, Default)]
struct CollectedChanges {
    /// By the tables' names in lower case.
    tables: HashMap<String, Arc<Watched>>,
    actor: Actor,
    steps: Vec<TransactionStep>,
    bytes: usize,
    /// A row that could not be read: its transaction must not commit.
    failure: Option<String>,
    collecting: bool,
    savepoints: Vec<SavepointMark>,
}

/// Where a savepoint was set.
#[derive(Debug)]
struct SavepointMark {
    name: String,
    steps: usize,
    bytes: usize,
    actor: Actor,
    /// How many times the schema had been changed.
    alterations: usize,
}

/// Why a savepoint cannot be gone back to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotUndone {
    /// The schema was changed since.
    SchemaChanged,
    /// What was gathered is not all, whatever is undone.
    Incomplete(String),
}

/// The changes of the transaction that runs. The writer's thread alone uses it.
#[derive(Debug)]
pub(crate) struct Collector {
    collected: Mutex<CollectedChanges>,
    guard: Arc<Guard>,
    bytes_max: usize,
}

impl Collector {
    pub(crate) fn new(guard: Arc<Guard>, bytes_max: usize) -> Collector {
        Collector { collected: Mutex::default(), guard, bytes_max }
    }

    fn collected(&self) -> MutexGuard<'_, CollectedChanges> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with nothing.
    pub(crate) fn begin(&self, actor: Actor, watched: &[Arc<Watched>]) {
        *self.collected() =
            CollectedChanges { actor, collecting: true, ..CollectedChanges::default() };
        self.watch(watched);
    }

    /// Takes changes of these tables from here on.
    pub(crate) fn watch(&self, watched: &[Arc<Watched>]) {
        let by_name =
            |watched: &Arc<Watched>| (watched.table.name.to_ascii_lowercase(), Arc::clone(watched));
        self.collected().tables = watched.iter().map(by_name).collect();
    }

    /// Ends, and gives what was gathered; or why that is not all.
    pub(crate) fn end(&self) -> Result<Vec<TransactionStep>, String> {
        let collected = std::mem::take(&mut *self.collected());
        collected.failure.map_or(Ok(collected.steps), Err)
    }

    /// Follows a savepoint of the user's, which SQLite has set, released or gone back to. `alterations`
    /// is how many times this transaction has changed the schema so far.
    pub(crate) fn savepoint(
        &self,
        savepoint: Savepoint,
        alterations: usize,
    ) -> Result<(), NotUndone> {
        let mut collected = self.collected();
        let collected = &mut *collected;
        let place = |name: &str| collected.savepoints.iter().rposition(|mark| mark.name == name);
        match savepoint {
            Savepoint::Set(name) => collected.savepoints.push(SavepointMark {
                name,
                steps: collected.steps.len(),
                bytes: collected.bytes,
                actor: collected.actor.clone(),
                alterations,
            }),
            Savepoint::Release(name) => {
                if let Some(place) = place(&name) {
                    collected.savepoints.truncate(place);
                }
            }
            Savepoint::RollBackTo(name) => {
                let Some(place) = place(&name) else { return Ok(()) };
                if let Some(reason) = &collected.failure {
                    return Err(NotUndone::Incomplete(reason.clone()));
                }
                collected.savepoints.truncate(place + 1);
                let mark = &collected.savepoints[place];
                if mark.alterations != alterations {
                    return Err(NotUndone::SchemaChanged);
                }
                collected.steps.truncate(mark.steps);
                collected.bytes = mark.bytes;
                collected.actor = mark.actor.clone();
            }
        }
        Ok(())
    }

    /// The savepoint that was set first of those that are.
    pub(crate) fn outermost_savepoint(&self) -> Option<String> {
        self.collected().savepoints.first().map(|mark| mark.name.clone())
    }

    /// Names who does what follows.
    pub(crate) fn set_actor(&self, user_id: Option<String>, host_id: Option<String>) {
        let actor = &mut self.collected().actor;
        (actor.user_id, actor.host_id) = (user_id, host_id);
    }

    /// Takes a document; false if there is no transaction that it could belong to.
    pub(crate) fn publish(&self, stream: String, payload: Bytes) -> bool {
        let mut collected = self.collected();
        if !collected.collecting {
            return false;
        }
        let (bytes, actor) = (payload.len(), collected.actor.clone());
        self.push(&mut collected, publication(stream, payload, actor), bytes);
        true
    }

    /// Takes what became of an entity, in the same way.
    pub(crate) fn invalidate(&self, entity: EntityChange) -> bool {
        let mut collected = self.collected();
        if !collected.collecting {
            return false;
        }
        let actor = collected.actor.clone();
        let entity = EntityChange { host_id: actor.host_id.clone(), ..entity };
        let bytes = entity.code.len() + entity.id.as_ref().map_or(0, String::len);
        self.push(&mut collected, invalidation(entity, actor), 2 * bytes);
        true
    }

    /// Takes a row that is about to change.
    pub(crate) fn note_change(&self, changing: &ChangingRow<'_>, now_ms: i64) {
        let mut collected = self.collected();
        if collected.failure.is_some() {
            return;
        }
        let watched = collected.tables.get(changing.table).cloned();
        let Some(watched) =
            watched.or_else(|| collected.tables.get(&changing.table.to_ascii_lowercase()).cloned())
        else {
            return;
        };
        let columns = &watched.table.columns;
        let before = (changing.operation != Operation::Insert)
            .then(|| watched.image(|place| changing.before(columns[place].number)))
            .transpose();
        let after = (changing.operation != Operation::Delete)
            .then(|| watched.image(|place| changing.after(columns[place].number)))
            .transpose();
        match (before, after) {
            (Ok(before), Ok(after)) => {
                let was = key_before(&watched, before.as_ref(), after.as_ref());
                let change = row_change(
                    &watched,
                    changing.operation,
                    before,
                    after,
                    &collected.actor,
                    now_ms,
                );
                let bytes = change.bytes();
                self.push(&mut collected, TransactionStep::Row { change, was }, bytes);
            }
            (Err(unreadable), _) | (_, Err(unreadable)) => {
                let failure = format!(
                    "a row of {} could not be read as it was changed (SQLite's code {})",
                    changing.table, unreadable.0
                );
                collected.failure = Some(failure);
            }
        }
    }

    fn push(&self, collected: &mut CollectedChanges, step: TransactionStep, bytes: usize) {
        collected.bytes += bytes + CHANGE_OVERHEAD_BYTES;
        if collected.bytes > self.bytes_max {
            collected.steps = Vec::new();
            collected.failure = Some(CHANGES_TOO_MUCH.to_owned());
            self.guard.stop(Stopped::TooMuch);
        } else {
            collected.steps.push(step);
        }
    }
}

/// The key that a row had, if a change gave it another. Without key columns the key is the whole row,
/// which is not told twice.
pub(crate) fn key_before(
    watched: &Watched,
    before: Option<&Image>,
    after: Option<&Image>,
) -> Option<String> {
    let (before, after) = (before?, after?);
    let other = !watched.key_columns.is_empty() && before.entity_id != after.entity_id;
    other.then(|| before.entity_id.clone())
}

/// The change of a row, from its images.
pub(crate) fn row_change(
    watched: &Watched,
    operation: Operation,
    before: Option<Image>,
    after: Option<Image>,
    actor: &Actor,
    created_at_ms: i64,
) -> RowChange {
    let latest = after.as_ref().or(before.as_ref());
    // A column that says whose a row is says so also where it is null: nobody's.
    let host_id = match &watched.host_column {
        Some(_) => latest.and_then(|image| image.host_id.clone()),
        None => actor.host_id.clone(),
    };
    let user_id = match &watched.user_column {
        Some(_) => latest.and_then(|image| image.user_id.clone()),
        None => actor.user_id.clone(),
    };
    RowChange {
        table: watched.name.clone(),
        operation,
        entity_code: watched.entity_code.clone(),
        entity_id: latest.map(|image| image.entity_id.clone()),
        before: before.map(|image| Bytes::from(image.json)),
        after: after.map(|image| Bytes::from(image.json)),
        host_id,
        user_id,
        txid: None,
        tx_last: false,
        created_at_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_to_a_savepoint_takes_back_what_came_since() {
        let collector = Collector::new(Arc::default(), 1 << 20);
        let publish = || collector.publish("a".to_owned(), Bytes::from_static(b"1"));
        let savepoint = |savepoint| collector.savepoint(savepoint, 0).expect("no schema changed");
        collector.begin(Actor::default(), &[]);
        publish();
        savepoint(Savepoint::Set("s".to_owned()));
        publish();
        savepoint(Savepoint::Set("s".to_owned()));
        publish();
        savepoint(Savepoint::RollBackTo("s".to_owned()));
        savepoint(Savepoint::RollBackTo("s".to_owned()));
        savepoint(Savepoint::Release("s".to_owned()));
        publish();
        savepoint(Savepoint::RollBackTo("s".to_owned()));
        publish();
        savepoint(Savepoint::Set("t".to_owned()));
        let back = collector.savepoint(Savepoint::RollBackTo("s".to_owned()), 1);
        assert_eq!(back, Err(NotUndone::SchemaChanged));
        assert_eq!(collector.outermost_savepoint().as_deref(), Some("s"));
        assert_eq!(collector.end().expect("steps").len(), 2);
    }

    #[test]
    fn a_transaction_that_is_too_large_is_stopped_and_gives_nothing() {
        let guard = Arc::new(Guard::default());
        let collector = Collector::new(Arc::clone(&guard), 1_000);
        let publish = || collector.publish("a".to_owned(), Bytes::from_static(b"1"));
        assert!(!publish(), "there is no transaction");
        collector.begin(Actor::default(), &[]);
        assert!(publish());
        assert_eq!(collector.end().expect("a step").len(), 1);
        collector.begin(Actor::default(), &[]);
        for _ in 0..5 {
            publish();
        }
        assert_eq!(guard.stopped(), Some(Stopped::TooMuch));
        collector.end().expect_err("not all is there");
    }
}
