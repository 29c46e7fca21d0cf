//! From messages to pieces of the log: which changes are appended together, and where reading goes
//! on after them.
//!
//! Pure. A piece holds whole transactions, and the beginning of one that is too large. The last change
//! of a transaction is told from the others only by what follows it, so while a transaction is open
//! its latest change is held back: it may have to be marked as the last.

use std::sync::Arc;

use super::database::WalPosition;

use super::pgoutput::{Cell, Old};
use super::table::{Role, Table};

/// Who did it, as `tidewire.set_actor` said in the transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) user_id: Option<String>,
    pub(crate) host_id: Option<String>,
}

/// A change that is an event, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Insert {
        table: Arc<Table>,
        new: Vec<Cell>,
    },
    Update {
        table: Arc<Table>,
        old: Old,
        new: Vec<Cell>,
    },
    Delete {
        table: Arc<Table>,
        old: Old,
    },
    Truncate {
        tables: Vec<Arc<Table>>,
    },
    /// A staged row, by its id.
    Staged(i64),
    /// Nothing but the end of a transaction whose earlier changes are in the log already.
    End,
}

impl Change {
    /// Whether it comes into the log at all.
    fn matters(&self) -> bool {
        let watched = |table: &Arc<Table>| matches!(table.role, Role::Watched(_));
        match self {
            Change::Insert { table, .. }
            | Change::Update { table, .. }
            | Change::Delete { table, .. } => watched(table),
            Change::Truncate { tables } => tables.iter().any(watched),
            Change::Staged(_) | Change::End => true,
        }
    }

    /// Bytes it takes to hold, roughly.
    fn bytes(&self) -> usize {
        let cells = |cells: &[Cell]| -> usize {
            let length = |cell: &Cell| match cell {
                Cell::Text(text) => text.len() + CELL_BYTES,
                Cell::Null | Cell::Unchanged => CELL_BYTES,
            };
            cells.iter().map(length).sum()
        };
        let old_bytes = |old: &Old| match old {
            Old::Whole(old) | Old::Key(old) => cells(old),
            Old::Nothing => 0,
        };
        match self {
            Change::Insert { new, .. } => cells(new),
            Change::Update { old, new, .. } => old_bytes(old) + cells(new),
            Change::Delete { old, .. } => old_bytes(old),
            Change::Truncate { .. } | Change::Staged(_) | Change::End => CELL_BYTES,
        }
    }
}

/// What a value takes besides its text.
const CELL_BYTES: usize = 40;

/// A change at its position in a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its transaction, without the epoch.
    pub(crate) xid: u32,
    /// When that committed, in microseconds since 2000.
    pub(crate) committed_at: i64,
    pub(crate) actor: Actor,
    pub(crate) change: Change,
    /// Whether it is the transaction's last.
    pub(crate) last: bool,
    /// How many changes came before it in its transaction.
    number: u64,
}

/// What is appended together.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) entries: Vec<Entry>,
    /// Where reading goes on once they are in the log.
    pub(crate) next: WalPosition,
}

/// The transaction that is being received.
#[derive(Debug)]
struct Open {
    commit_lsn: u64,
    committed_at: i64,
    xid: u32,
    actor: Actor,
    /// How many changes it had so far.
    seen: u64,
    /// Of these, so many are in the log already.
    done: u64,
    /// The whole of it is in the log already.
    whole: bool,
}

/// Collects changes.
#[derive(Debug)]
pub(crate) struct Assembler {
    /// Where reading goes on after what was handed over. (`entries` come after it.)
    position: WalPosition,
    open: Option<Open>,
    entries: Vec<Entry>,
    bytes: usize,
}

impl Assembler {
    /// Goes on at a position.
    pub(crate) fn new(position: WalPosition) -> Assembler {
        Assembler { position, open: None, entries: Vec::new(), bytes: 0 }
    }

    pub(crate) fn begin(&mut self, commit_lsn: u64, committed_at: i64, xid: u32) {
        let begun = self.position.part.filter(|(lsn, _)| *lsn == commit_lsn);
        self.open = Some(Open {
            commit_lsn,
            committed_at,
            xid,
            actor: Actor::default(),
            seen: 0,
            done: begun.map_or(0, |(_, changes)| changes),
            whole: commit_lsn < self.position.lsn,
        });
    }

    /// From here on the transaction's changes are this actor's.
    pub(crate) fn actor(&mut self, actor: Actor) {
        if let Some(open) = &mut self.open {
            open.actor = actor;
        }
    }

    pub(crate) fn change(&mut self, change: Change) {
        let Some(open) = &mut self.open else {
            return;
        };
        let number = open.seen;
        open.seen += 1;
        if open.whole || number < open.done || !change.matters() {
            return;
        }
        self.bytes += change.bytes();
        self.entries.push(Entry {
            xid: open.xid,
            committed_at: open.committed_at,
            actor: open.actor.clone(),
            change,
            last: false,
            number,
        });
    }

    pub(crate) fn commit(&mut self, end_lsn: u64) {
        let Some(open) = self.open.take() else {
            return;
        };
        if open.whole {
            return;
        }
        let of_this = self.entries.last_mut().filter(|entry| entry.xid == open.xid);
        match of_this {
            Some(entry) => entry.last = true,
            None if open.done > 0 => self.entries.push(Entry {
                xid: open.xid,
                committed_at: open.committed_at,
                actor: open.actor,
                change: Change::End,
                last: true,
                number: open.seen,
            }),
            None => {}
        }
        self.position = WalPosition { lsn: end_lsn.max(self.position.lsn), part: None };
    }

    /// Whether a transaction is being received.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The transaction that is being received.
    pub(crate) fn open_xid(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.xid)
    }

    /// Whether the transaction being received is in the log already.
    pub(crate) fn is_passed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.whole)
    }

    /// Whether a whole transaction waits to be handed over.
    pub(crate) fn has_whole(&self) -> bool {
        let first = self.entries.first().map(|entry| entry.xid);
        first.is_some() && first != self.open_xid()
    }

    /// Nothing that matters lies before this position, between transactions.
    pub(crate) fn nothing_before(&mut self, lsn: u64) {
        self.position.lsn = self.position.lsn.max(lsn);
    }

    /// Whether everything received was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Changes that wait to be handed over, and bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// Up to where everything was handed over, between transactions.
    pub(crate) fn lsn(&self) -> u64 {
        self.position.lsn
    }

    /// Hands over what can be appended: all but the latest change of a transaction that is open.
    pub(crate) fn take(&mut self) -> Piece {
        let held = self.open.as_ref().and_then(|open| {
            let entry = self.entries.last().filter(|entry| entry.xid == open.xid)?;
            Some((open.commit_lsn, entry.number))
        });
        let kept = match held {
            Some((commit_lsn, number)) => {
                if number > 0 {
                    self.position.part = Some((commit_lsn, number));
                }
                self.entries.pop()
            }
            None => None,
        };
        let entries = std::mem::take(&mut self.entries);
        self.bytes = kept.as_ref().map_or(0, |entry| entry.change.bytes());
        if let (Some(open), Some(kept)) = (&mut self.open, &kept) {
            // What is handed over is as good as in the log: if it fails, reading starts again.
            open.done = open.done.max(kept.number);
        }
        self.entries.extend(kept);
        Piece { entries, next: self.position }
    }
}

#[cfg(test)]
mod tests;
