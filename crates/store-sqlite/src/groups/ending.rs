//! How a batch ends: letters, parked keys, attempts and the advance, in the transaction of its work.

use rusqlite::{Connection, Row, params};

use super::view;
use crate::error::{broken, now_ms};
use crate::sql;
use tidewire_store::groups::{
    DEAD_LETTERS_MAX, Ending, GroupError, GroupEvent, Key, Letter, PARKED_LETTERS_MAX, kept_error,
};
use tidewire_store::offset::Position;

/// A partition whose row this transaction alone can change.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnedPartition<'a> {
    pub(super) connection: &'a Connection,
    pub(super) group: &'a str,
    pub(super) partition: u32,
}

impl OwnedPartition<'_> {
    /// All but the advance. Says whether the parked keys or the letters are others, so that what members
    /// remember of them is not good any more. [`GroupError::Moved`] if letters that were worked off are gone:
    /// another was faster, or they were dropped.
    pub(super) fn settle(&self, ending: &Ending) -> Result<bool, GroupError> {
        let nothing = ending.dead.is_empty()
            && ending.park.is_empty()
            && ending.parked_from.is_empty()
            && ending.redriven.is_empty()
            && ending.free.is_none()
            && ending.give_up.is_none()
            && ending.settled.is_empty();
        if nothing {
            return Ok(false);
        }
        self.put_aside(&ending.dead, &ending.park)?;
        if self.remove(&ending.redriven).map_err(broken("remove letters"))? < ending.redriven.len()
        {
            return Err(GroupError::Moved);
        }
        let save = || -> rusqlite::Result<bool> {
            for (key, from) in &ending.parked_from {
                self.park(key, *from)?;
            }
            let mut changed = ending.parked_from.len() + ending.redriven.len();
            if let Some(key) = &ending.free {
                let mut free = self.connection.prepare_cached(sql!("group_free"))?;
                changed += free.execute((self.group, key.hash()))?;
            }
            if let Some(key) = &ending.give_up {
                let mut give_up = self.connection.prepare_cached(sql!("group_give_up"))?;
                changed += give_up.execute((self.group, key.hash()))?;
            }
            self.forget_attempts(&ending.settled)?;
            self.recount()?;
            Ok(changed > 0)
        };
        Ok(save().map_err(broken("end a batch"))?)
    }

    fn remove(&self, letters: &[Position]) -> rusqlite::Result<usize> {
        let mut remove = self.connection.prepare_cached(sql!("group_letter_remove"))?;
        let mut removed = 0;
        for position in letters {
            removed += remove.execute((self.group, position.to_sql()))?;
        }
        Ok(removed)
    }

    /// Writes letters, and stops the group or the partition if there are too many.
    fn put_aside(
        &self,
        dead: &[Letter],
        park: &[std::sync::Arc<GroupEvent>],
    ) -> Result<(), GroupError> {
        if dead.is_empty() && park.is_empty() {
            return Ok(());
        }
        let save = || -> rusqlite::Result<()> {
            for letter in dead {
                let error = Some(kept_error(&letter.error));
                self.write(sql!("group_letter_dead"), &letter.event, error, letter.attempts)?;
            }
            for event in park {
                self.write(sql!("group_letter_parked"), event, None, 0)?;
            }
            let (dead, parked) = view::letter_counts(self.connection, self.group)?;
            if dead >= DEAD_LETTERS_MAX {
                let mut stop = self.connection.prepare_cached(sql!("group_stop"))?;
                stop.execute((self.group, "dead_letters_full"))?;
            }
            if dead + parked >= PARKED_LETTERS_MAX {
                let trouble = format!(
                    "parked_full: the group has {PARKED_LETTERS_MAX} letters, which is the limit; \
                     redrive or drop them, and resume the group"
                );
                let mut set = self.connection.prepare_cached(sql!("group_trouble"))?;
                set.execute((self.group, self.partition, trouble))?;
            }
            Ok(())
        };
        Ok(save().map_err(broken("put events aside"))?)
    }

    fn write(
        &self,
        insert: &str,
        event: &GroupEvent,
        error: Option<String>,
        attempts: u32,
    ) -> rusqlite::Result<()> {
        let change = event.change.as_deref();
        let text = |image: Option<&[u8]>| -> rusqlite::Result<Option<String>> {
            let text = image.map(|bytes| String::from_utf8(bytes.to_vec())).transpose();
            text.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
        };
        self.connection.prepare_cached(insert)?.execute(params![
            self.group,
            event.position.to_sql(),
            self.partition,
            event.key().hash(),
            error,
            attempts,
            now_ms(),
            event.stream,
            event.append_id.to_sql(),
            event.host_id,
            event.user_id,
            change.map(|change| &change.table),
            change.map(|change| change.operation.as_str()),
            change.and_then(|change| change.entity_code.as_ref()),
            change.and_then(|change| change.entity_id.as_ref()),
            text(change.and_then(|change| change.before.as_deref()))?,
            text(change.and_then(|change| change.after.as_deref()))?,
            event.payload.as_deref(),
            event.content_type,
            event.txid,
            event.tx_last,
            event.trace_context,
            event.created_at_ms,
        ])?;
        Ok(())
    }

    /// Parks a key from a position on.
    pub(super) fn park(&self, key: &Key, from: Position) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql!("group_park"))?.execute(params![
            self.group,
            self.partition,
            key.hash(),
            key.host,
            key.user,
            from.to_sql(),
            now_ms(),
        ])?;
        Ok(())
    }

    /// Forgets failed attempts of keys.
    fn forget_attempts(&self, keys: &[Key]) -> rusqlite::Result<()> {
        let mut clear = self.connection.prepare_cached(sql!("group_attempt_clear"))?;
        for key in keys {
            clear.execute((self.group, self.partition, key.hash()))?;
        }
        Ok(())
    }

    /// Counts anew what the partition's row tells of its keys.
    pub(super) fn recount(&self) -> rusqlite::Result<()> {
        let mut recount = self.connection.prepare_cached(sql!("group_recount"))?;
        recount.execute((self.group, self.partition))?;
        Ok(())
    }

    /// Who has it, or moved it last.
    pub(super) fn member(&self) -> Result<Option<String>, GroupError> {
        Ok(self.row(|row| row.get(3)).map_err(broken("look at a group's partition"))?)
    }

    fn row<T>(&self, of_row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut query = self.connection.prepare_cached(sql!("group_offset"))?;
        query.query_row((self.group, self.partition), of_row)
    }

    /// Moves the partition, ends a lease, and raises the generation by so much.
    pub(super) fn advance(
        &self,
        next: Position,
        generations: u32,
        member: Option<&str>,
    ) -> Result<(), GroupError> {
        let moved =
            self.connection.prepare_cached(sql!("group_advance")).and_then(|mut advance| {
                let (next, now_ms) = (next.to_sql(), now_ms());
                advance.execute((self.group, self.partition, next, generations, member, now_ms))
            });
        match moved.map_err(broken("advance a group"))? {
            0 => Err(GroupError::Moved),
            _ => Ok(()),
        }
    }
}
