//! The tests that every store passes, written once.
//!
//! Each is an async function over an [`Opener`]; [`contract_suite!`](crate::contract_suite) turns
//! them into one named test each, for one store, which may name the parts that it passes. They cite the invariants of the design by number:
//!
//! 1. An acknowledged append survives a restart of anything.
//! 2. Offsets are gapless when given, and no reader sees one before it is durable.
//! 3. Every subscriber gets every event its selector matches, in offset order.
//! 8. Both stores give the same answers to the same input. (That is this module as a whole.)
//!
//! It is part of the library, without a feature of its own, so that switching between building and
//! testing rebuilds nothing; a binary that does not call it does not contain it.

use async_trait::async_trait;

use crate::log::SharedStore;

pub mod appending;
pub mod closing;
pub(crate) mod commands;
pub mod control;
pub mod creating;
pub mod entities;
pub mod following;
pub mod fork_removal;
pub mod forks;
pub mod group_failures;
pub mod group_leases;
pub mod group_letters;
pub mod group_members;
pub mod group_nodes;
pub mod group_order;
pub mod group_pages;
pub mod group_partitions;
pub mod group_retention;
pub mod group_statements;
pub mod group_work;
pub mod groups;
pub mod invalidations;
pub mod keys;
pub mod lifetimes;
pub mod live_queries;
pub mod node_leases;
pub mod nodes;
pub mod paging;
mod paging_history;
pub mod pointers;
pub mod producers;
pub mod pull_wake;
pub mod queries;
pub mod reading;
pub mod restart;
pub mod retention;
mod rows;
pub mod session_upkeep;
pub mod sessions;
pub mod statements;
mod subject;
pub mod subscriptions;
mod suite;
mod team;
pub mod tenants;
pub mod tickets;
pub mod watching;
pub mod webhooks;

/// Some data of its own for one test: empty at first, opened again after the store was closed.
#[async_trait]
pub trait Opener: Send + Sync {
    /// Opens the store. The one opened before is closed, except in the tests of several nodes.
    async fn open(&self) -> SharedStore;

    /// Runs a statement behind the store's back, as a person with a database client might, and
    /// returns the first column of its rows as text. It is one that both databases understand, with
    /// the tables named as they are in PostgreSQL. Only the parts about tables and groups call it.
    async fn run_sql(&self, sql: &str) -> Vec<String>;

    /// Removes the data. Not called for a test that fails, whose data may tell why.
    async fn discard(self)
    where
        Self: Sized,
    {
    }
}
