//! The live query engine: queries, events and rows in, deltas out.
//!
//! A reserved room: no query is evaluated yet. What is written here stays pure: no I/O, no clock,
//! no async runtime and no database driver in its manifest.
