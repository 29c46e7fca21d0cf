//! The live query engine: queries, events and rows in, deltas out.
//!
//! Its first part is the [`Predicate`]: the condition of a `where` or of a row rule, tested on the
//! images of rows that events carry. What it answers is what the database would answer, or it
//! refuses and says why: nothing is compared approximately.
//!
//! ```
//! use tidewire_query::{Column, Dialect, Predicate, Row, Table, Truth};
//!
//! let column = |name: &str, type_name: &str| Column {
//!     name: name.into(),
//!     type_name: type_name.into(),
//!     collation: None,
//! };
//! let columns = vec![column("status", "text"), column("total", "numeric")];
//! let orders = Table { dialect: Dialect::Postgres, columns };
//! let large = Predicate::parse("status = 'paid' AND total > 99.90", &orders, &())?;
//! let row = Row::parse(br#"{"status": "paid", "total": 99.900000000000000000001}"#)?;
//! assert_eq!(large.test(&row)?, Truth::True);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What can be written, with a column on at least one side or on none:
//!
//! - `=`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `IS [NOT] DISTINCT FROM`, `[NOT] BETWEEN … AND …`
//! - `[NOT] IN (values)`, `[NOT] LIKE` and, under the collation `C` of PostgreSQL, `[NOT] ILIKE`
//! - `IS [NOT] NULL`, and of a condition in parentheses `IS [NOT] TRUE`, `FALSE`, `UNKNOWN`
//! - `AND`, `OR`, `NOT`, parentheses, and columns that are conditions by themselves
//! - values: `'text'`, numbers, `TRUE`, `FALSE`, `NULL`; in PostgreSQL also `date '2024-02-29'`, `'…'::uuid`
//! - who asks, as a value without a type: `auth.user_id()` (or `CURRENT_USER()`), `auth.host_id()`, and
//!   `auth.claim('name')`; NULL if there is none
//! - `COLLATE "C"` in PostgreSQL, `COLLATE BINARY`, `NOCASE` or `RTRIM` in SQLite
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
