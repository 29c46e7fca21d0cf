//! What the tests of stores share, here and in other crates.
//!
//! - [`commands`]: commands in their plainest form
//! - `queries`: the queries of a crate, each of which must be in use

pub mod commands;
mod queries;

pub use queries::queries_in_use;
