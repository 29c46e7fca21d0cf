//! Whether predicates are what real databases say they are.
//!
//! Random conditions are put to a database, over rows of every type and with every awkward value, and
//! to `Predicate::test` over the same rows' images. A condition may be refused; but whatever is taken
//! must have the database's answer for every row. What was compared is counted by construct and by
//! type, and what was not compared at all fails the test, so that a generator that has gone blind is
//! noticed.
//!
//! The seed is fixed, so that a failure comes again. `TIDEWIRE_ORACLE_SEED` and
//! `TIDEWIRE_ORACLE_CONDITIONS` ask for others, and for more.

mod condition;
mod judge;
mod live;
mod plans;
mod postgres;
mod sqlite;
mod tally;
mod who;
