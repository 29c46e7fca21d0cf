//! PostgreSQL to log: what brings the changes of watched tables, and what was published in users'
//! transactions, into the log.
//!
//! Every node runs [`Capture`]; one at a time is elected to work. Changes are staged by triggers and
//! given their offsets by the sequencer, or read from the write-ahead log: a database has one source
//! of them at a time, kept in `tidewire.capture`. What is administrative (watching, switching) is SQL
//! on the database, so that this crate meets `tidewire-deliver` nowhere but in the log.
//!
//! - `election`: who works; `leader`: what the one who does holds on to, and what it works at
//! - `source`: chooses the source of changes, and which channels are notified of events
//! - `sequencer`: from the staging table to the log
//! - `group_commit`: how transactions that come together share a commit
//! - `wal`: from the write-ahead log to the log
//! - `upkeep`: tables that were changed or dropped, and counts; `reconcile`: those that changed past capture
//! - `capture`: a node's part in capture
//! - `options`: how changes are captured
//! - `query`: the queries of `sql`, which the store runs as it does its own

mod capture;
mod election;
mod group_commit;
mod leader;
mod options;
mod query;
mod reconcile;
mod sequencer;
mod source;
mod upkeep;
mod wal;

pub use capture::{Capture, start};
pub use options::{CaptureOptions, Source, Wake};
pub use wal::WalLimits;
/// For tests of who may append, which speak to the database past the reader.
#[doc(hidden)]
pub use wal::{append, database};
