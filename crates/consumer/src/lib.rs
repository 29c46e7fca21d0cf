//! Consumer groups as a library: workers that share the log, a transaction per batch.
//!
//! A reserved room: there are no groups yet. What is written here will stand on `tidewire-store`
//! alone.
