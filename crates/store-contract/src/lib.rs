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
//!
//! - `appending`: appending to streams
//! - `closing`: closing streams
//! - `control`: the control channel
//! - `creating`: creating and deleting streams, and using a name again
//! - `entities`: who subscribes to which entity
//! - `following`: following the log itself, as each node does
//! - `fork_removal`: removing streams that have forks
//! - `forks`: forks and what they share
//! - `group_failures`: failed runs of a key's events
//! - `group_leases`: leases
//! - `group_letters`: events that were set aside
//! - `group_members`: members and their signs of life
//! - `group_nodes`: groups whose members are on several nodes
//! - `group_order`: the order of a key's events, whatever happens to them on the way
//! - `group_pages`: pages of the log as groups read them
//! - `group_partitions`: changes of a group's number of partitions
//! - `group_retention`: retention where groups read
//! - `group_statements`: work whose SQL changes watched tables
//! - `group_work`: work on a partition in a transaction
//! - `groups`: making, changing and removing groups
//! - `invalidations`: what becomes of entities
//! - `keys`: API keys
//! - `lifetimes`: streams that end by themselves
//! - `live_queries`: the list of live queries
//! - `node_leases`: leases of nodes
//! - `nodes`: several nodes on one store, for stores that can be opened more than once at a time
//! - `paging`: everyone who reads the log in pieces
//! - `paging_history`: a log of events of all sizes, for the tests of those who read it in pieces
//! - `pointers`: pointers of sessions
//! - `producers`: idempotent producers
//! - `pull_wake`: streams that announce wakes, and claims
//! - `queries`: reading for live queries
//! - `reading`: reading streams
//! - `restart`: closing a store and opening it again
//! - `retention`: what is given up, and who is told
//! - `rows`: tables, rows and their changes, for the tests that run SQL
//! - `session_upkeep`: upkeep of sessions
//! - `sessions`: sessions and what they follow
//! - `statements`: the user's own SQL
//! - `test_store`: the store under test, with calls that panic and say what was wrong instead of
//!   returning errors
//! - `subscriptions`: who is woken when streams grow
//! - `suite`: the list of the contract's tests, by topic
//! - `group_fixture`: groups, and events for them, for the tests that work on them
//! - `tenants`: what callers bound to a tenant may do
//! - `tickets`: one-time tickets
//! - `watching`: watched tables
//! - `webhooks`: wakes by webhook

use async_trait::async_trait;

use tidewire_store::log::SharedStore;

pub mod appending;
pub mod closing;
pub mod control;
pub mod creating;
pub mod entities;
pub mod following;
pub mod fork_removal;
pub mod forks;
pub mod group_failures;
mod group_fixture;
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
pub mod subscriptions;
mod suite;
pub mod tenants;
mod test_store;
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
