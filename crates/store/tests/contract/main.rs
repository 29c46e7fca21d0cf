//! Runs the contract on both stores: `sqlite::a_late_reader_sees_everything`,
//! `postgres::a_late_reader_sees_everything`, and so on.

mod postgres;
mod sqlite;
