//! What happens to a query between the question for its rows and the answer.

use super::handover::Reading;
use super::messages::EngineOptions;
use super::state::{State, StateError};
use super::transaction::Transaction;
use crate::position::Position;
use crate::row::Row;

/// How many transactions are told apart where a query is only run again. Of more it is known where they
/// began and ended, which is enough to run it once more.
const NOTED_MAX: usize = 1024;

type Image = Option<Box<[u8]>>;

/// A row before and after, or why that is not known.
type Changed = Result<(Image, Image), StateError>;

/// Transactions that concern a query.
#[derive(Debug, Default)]
pub(super) struct RelevantTransactions {
    pub(super) each: Vec<Transaction>,
    /// All that came after those: from the first one's first event to the last one's last.
    pub(super) crowd: Option<(Position, Position)>,
}

/// Changes that a read may have seen or not: it is not known yet.
#[derive(Debug, Default)]
pub(super) struct UnsettledChanges {
    changes: Vec<(Transaction, Changed)>,
    noted: RelevantTransactions,
    bytes: usize,
    /// There were more than may be held: the answer cannot be used.
    is_spilled: bool,
}

impl UnsettledChanges {
    pub(super) fn is_spilled(&self) -> bool {
        self.is_spilled
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows that changed, by an event of a transaction.
    pub(super) fn hold(
        &mut self,
        by: &Transaction,
        images: (Image, Image),
        options: &EngineOptions,
    ) {
        let size = |image: &Image| image.as_ref().map_or(0, |image| image.len());
        let bytes = self.bytes + size(&images.0) + size(&images.1);
        if self.changes.len() >= options.transaction_rows_max || bytes > options.state_bytes_max {
            *self = UnsettledChanges { is_spilled: true, ..UnsettledChanges::default() };
        }
        if !self.is_spilled {
            self.bytes = bytes;
            self.changes.push((*by, Ok(images)));
        }
    }

    /// It is not known what a transaction did.
    pub(super) fn lose(&mut self, by: &Transaction, lost: StateError) {
        let known = self.changes.last().is_some_and(|(last, change)| {
            last.first == by.first && matches!(change, Err(known) if *known == lost)
        });
        if !self.is_spilled && !known {
            self.changes.push((*by, Err(lost)));
        }
    }

    /// A transaction concerned a query that is run again.
    pub(super) fn note(&mut self, by: &Transaction) {
        match &mut self.noted.crowd {
            Some((_, last)) => *last = by.last,
            None if self.noted.each.len() < NOTED_MAX => self.noted.each.push(*by),
            none => *none = Some((by.first, by.last)),
        }
    }

    /// Whether changes of a transaction are held.
    pub(super) fn has_some_of(&self, by: &Transaction) -> bool {
        self.changes.last().is_some_and(|(last, _)| last.first == by.first)
    }

    /// Brings a state that was read up to date, and gives what was noted.
    pub(super) fn replay(
        self,
        reading: &Reading,
        state: &mut dyn State,
    ) -> Result<RelevantTransactions, StateError> {
        for (by, change) in self.changes {
            if reading.saw(&by) {
                continue;
            }
            let (before, after) = change?;
            let before = before.as_deref().map(Row::parse).transpose();
            let after = after.as_deref().map(Row::parse).transpose();
            let (Ok(before), Ok(after)) = (before, after) else { return Err(StateError::Unsure) };
            state.change(before.as_ref(), after.as_ref())?;
        }
        Ok(self.noted)
    }
}
