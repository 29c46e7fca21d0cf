//! Runs the contract on the stores: `sqlite::a_late_reader_sees_everything`,
//! `postgres::a_late_reader_sees_everything`, `memory::a_late_reader_sees_everything`, and so on.

mod memory;
mod postgres;
mod sqlite;
