//! What is kept in memory of a result, so that it need not be read again.

use serde_json::value::RawValue;

use crate::delta::{Delta, RowText};
use crate::row::{Row, Unsure};

/// Why a state cannot be kept on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateError {
    /// What is kept does not suffice; with fresh rows it goes on.
    Dry,
    /// An image does not say what must be known, or a value is not as it must be; if that comes again,
    /// the query is run again instead from then on.
    Unsure,
}

impl From<Unsure> for StateError {
    fn from(unsure: Unsure) -> StateError {
        match unsure {
            // The database says it, and of the next row an image may.
            Unsure::TooLong { .. } => StateError::Dry,
            Unsure::Missing { .. } | Unsure::NotOfType { .. } | Unsure::Ambiguous { .. } => {
                StateError::Unsure
            }
        }
    }
}

/// A result that is kept. What was told is remembered, so that the difference to it can be.
pub(crate) trait State: std::fmt::Debug + Send + Sync {
    /// Takes the rows of [`Query::read`](crate::plan::Query::read) in the place of what is kept. What
    /// was told stays told.
    fn load(&mut self, rows: &[Vec<Box<RawValue>>]) -> Result<(), StateError>;

    /// A row changed: the images are those that the plan's conditions admit, so that one that is
    /// missing was or is none of its rows.
    fn change(
        &mut self,
        before: Option<&Row<'_>>,
        after: Option<&Row<'_>>,
    ) -> Result<(), StateError>;

    /// What the result is now, in its order.
    fn result(&self) -> Result<Vec<RowText>, StateError>;

    /// The difference between what was told and what is now, which is told by that.
    fn tell(&mut self) -> Result<Delta, StateError>;

    /// Bytes it keeps, roughly.
    fn bytes(&self) -> usize;
}
