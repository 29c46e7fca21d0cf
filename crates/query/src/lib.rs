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
//! Its second part is the [`Query`]: a SELECT that was read ([`Draft::parse`]), bound to tables as they
//! are and to what its caller may see of them ([`Draft::bind`]), and is kept by the cheapest of four
//! plans that is exact. What the database runs is not the client's text but the tokens of it that were
//! checked, over a subquery of permitted columns and rows in the place of each table.
//!
//! All of it is pure: no I/O, no clock, no async runtime and no database driver in its manifest.
//!
//! - `caller`: who asks
//! - `condition`: the compiled form of a predicate
//! - `decimal`: decimal numbers with all of their digits, as PostgreSQL's `numeric` orders them
//! - `delta`: how a result changed
//! - `diff`: the difference between two results
//! - `engine`: live queries, kept as rows change
//! - `evaluate`: what a condition is for a row
//! - `index`: which queries a changed row may concern, found by its values and not one query after
//!   another
//! - `like`: the patterns of `LIKE` and `ILIKE`
//! - `moment`: dates and times, as microseconds, from the two ways they come
//! - `names`: names of columns and lists of them, each held once however many queries name it
//! - `operator`: the operators that compare two values
//! - `position`: a position in the log
//! - `plan`: how a query is kept
//! - `predicate`: a condition over the columns of one table, for one caller
//! - `reading`: from the JSON of an image to a value
//! - `refusal`: why a predicate or a query is not taken
//! - `row`: the image of a row
//! - `shape`: what a query must know of the tables it reads, and what its caller may see of them
//! - `snapshot`: what a reader of the database has seen, transaction by transaction
//! - `statement`: from the text of a SELECT to a query that can be kept live
//! - `table`: what a predicate must know of the table whose rows it tests
//! - `truth`: three-valued logic
//! - `value`: values that are compared, and how

mod bind;
mod caller;
mod condition;
mod decimal;
mod delta;
pub mod diff;
mod engine;
mod evaluate;
mod index;
mod like;
mod moment;
mod names;
mod operator;
mod parse;
mod plan;
mod position;
mod predicate;
mod reading;
mod refusal;
mod row;
mod shape;
mod snapshot;
mod statement;
mod table;
mod truth;
mod value;

pub use caller::Caller;
pub use delta::{Delta, NotThere, Places, RowText};
pub use engine::{
    AskId, AskKind, Change, EndReason, Engine, EngineOptions, EngineStats, Event, Kind, Output,
    QueryId, ReadFailed, Recipients, Rows, Subscriber, TableNews,
};
pub use evaluate::Effort;
pub use index::Index;
pub use plan::{
    AggregatePlan, Conditions, Dependency, FilterPlan, Plan, PlanName, Projected, Query, QueryKey,
    Relevance, RequeryPlan, WindowPlan,
};
pub use position::Position;
pub use predicate::Predicate;
pub use refusal::Refusal;
pub use row::{Row, RowError, Unsure};
pub use shape::{Access, QueryLimits, ShapeColumn, TableName, TableShape, TenantRule};
pub use snapshot::Snapshot;
pub use statement::{Binding, Draft, RuleUse, check_rule, nearest, read_as_condition, rule_tables};
pub use table::{Column, Dialect, Table};
pub use truth::Truth;
