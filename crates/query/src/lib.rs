//! The live query engine: queries, events and rows in, deltas out.
//!
//! Its first part is the [`Predicate`]: the condition of a `where` or of a row rule, tested on the
//! images of rows that events carry. What it answers is what the database would answer, or it
//! refuses and says why: nothing is compared approximately.
//!
//! All of it is pure: no I/O, no clock, no async runtime and no database driver in its manifest.

mod bind;
mod caller;
mod condition;
mod decimal;
mod evaluate;
mod like;
mod moment;
mod operator;
mod parse;
mod predicate;
mod reading;
mod refusal;
mod row;
mod table;
mod truth;
mod value;

pub use caller::Caller;
pub use predicate::Predicate;
pub use refusal::Refusal;
pub use row::{Row, RowError, Unsure};
pub use table::{Column, Dialect, Table};
pub use truth::Truth;
