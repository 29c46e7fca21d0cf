//! What is kept in memory of a result, so that it need not be read again.

use serde_json::value::RawValue;

use crate::delta::{Delta, RowText};
use crate::row::{Row, Unsure};

/// Why a state cannot be kept on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// What is kept does not suffice; with fresh rows it goes on.
    Dry,
    /// An image does not say what must be known, or a value is not as it must be; if that comes again,
    /// the query is run again instead from then on.
    Unsure,
}

impl From<Unsure> for Lost {
    fn from(unsure: Unsure) -> Lost {
        match unsure {
            // The database says it, and of the next row an image may.
            Unsure::TooLong { .. } => Lost::Dry,
            Unsure::Missing { .. } | Unsure::NotOfType { .. } | Unsure::Ambiguous { .. } => {
                Lost::Unsure
            }
        }
    }
}

/// A result that is kept. What was told is remembered, so that the difference to it can be.
pub(crate) trait State: std::fmt::Debug + Send + Sync {
    /// Takes the rows of [`Query::read`](crate::plan::Query::read) in the place of what is kept. What
    /// was told stays told.
    fn load(&mut self, rows: &[Vec<Box<RawValue>>]) -> Result<(), Lost>;

    /// A row changed: the images are those that the plan's conditions admit, so that one that is
    /// missing was or is none of its rows.
    fn change(&mut self, before: Option<&Row<'_>>, after: Option<&Row<'_>>) -> Result<(), Lost>;

    /// What the result is now, in its order.
    fn result(&self) -> Result<Vec<RowText>, Lost>;

    /// The difference between what was told and what is now, which is told by that.
    fn tell(&mut self) -> Result<Delta, Lost>;

    /// Bytes it keeps, roughly.
    fn bytes(&self) -> usize;
}
