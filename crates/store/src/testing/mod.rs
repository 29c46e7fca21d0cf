//! What the tests of stores share, here and in other crates.
//!
//! - [`commands`]: commands in their plainest form
//! - [`names`]: a session with two streams under one name, from an older schema
//! - `queries`: the queries of a crate, each of which must be in use

pub mod commands;
pub mod names;
mod queries;

pub use queries::queries_in_use;
