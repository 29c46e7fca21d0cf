//! What the log and everything else durable is: traits, the rules behind them, and a store in memory.
//!
//! The stores that servers run on are crates of their own, `tidewire-store-sqlite` and
//! `tidewire-store-postgres`, file by file alike; `tidewire-store-contract` has the tests that all pass.
//!
//! - [`log`]: the [`Log`] trait, and what holds of every log
//! - [`offset`]: positions in it; [`event`]: what lies there; [`stream`]: the streams it holds; [`row`]:
//!   changes of rows, which are the events of tables' streams
//! - [`command`]: what can be asked of it
//! - [`subscription`]: who is woken when streams grow
//! - [`session`]: clients that come and go, what they follow, how far they have got; [`nodes`]: the
//!   servers that serve them
//! - [`retention`]: which events are kept, and which are given up
//! - [`watch`]: the tables whose changes are captured; [`sql`]: the user's own SQL
//! - [`queries`]: reading for live queries, and the list of them
//! - [`groups`]: workers that share the log, each event's effects once
//! - [`keys`], [`tickets`]: who may come in; [`control`]: what nodes tell each other
//! - [`backup`]: copies of all of it, and putting one in its place
//! - [`memory`]: a store without tables, for tests and simulations; [`clock`]: the time it goes by
//! - [`entity`]: who subscribes to which entity, and what happened to entities
//! - [`error`]: what can go wrong with a store, and what the caller should make of it
//! - [`options`]: what all stores can be told when they are opened
//!
//! # For those who write a store
//!
//! A store loads what a decision needs, asks the rules here, and saves what they return; the rules do no
//! I/O. [`decide`] answers commands, [`subscription::apply`] changes subscriptions, [`session::decide`] changes
//! sessions, [`entity::EntityPlan`] orders edits, [`retention::Cuts`] says what is given up, and [`queries::EditPlan`]
//! orders edits of the list of live queries. What runs around the rules is here as well: [`queue`] holds
//! commands for the writer, [`sql_permits`] shares the connections that users' SQL runs on, [`source`] hands out
//! the rows of a log one at a time, [`stats`] counts commits, [`migration`] has the type of numbered
//! migrations and the schema's version, and [`testing`] has commands and checks for a store's own tests.
//! Servers and clients need none of it. CONTRIBUTING.md, "Add a store", has the steps; `memory` is the smallest example.

pub mod backup;
pub mod clock;
pub mod command;
pub mod control;
pub mod decide;
pub mod entity;
pub mod error;
pub mod event;
pub mod groups;
pub mod keys;
pub mod log;
pub mod memory;
pub mod migration;
pub mod nodes;
pub mod offset;
pub mod options;

pub mod queries;
pub mod queue;
pub mod retention;
pub mod row;
pub mod session;
pub mod source;
pub mod sql;
pub mod sql_permits;
pub mod stats;
pub mod stream;
pub mod subscription;
pub mod testing;
pub mod tickets;
pub mod watch;

pub use backup::{Backup, BackupProgress, RestoreOptions, Restored};
pub use clock::Clock;
pub use command::{Actor, Answer, Append, Command, Create, ForkFrom, Reach, Refusal};
pub use control::{ControlChannel, ControlCursor, ControlMessage};
pub use decide::Staged;
pub use entity::{
    CONNECTION_ID_BYTES_MAX, ENTITY_CODE_BYTES_MAX, ENTITY_ID_BYTES_MAX, ENTITY_PREFIX,
    ENTITY_USER_BYTES_MAX, Entities, EntityAction, EntityChange, EntityCount, EntityEdit,
    EntityPage, EntityPast, EntitySubscription, is_entity_code, is_entity_id, staged_entity,
};
pub use error::StoreError;
pub use event::{Control, Event, TailEvent};
pub use keys::{InvalidKey, KEY_NAME_CHARS_MAX, KEY_SCOPES_BYTES_MAX, KeyView, Keys, NewKey};
pub use log::{Found, Log, Page, PageLimit, SharedStore, Store, StreamView, Swept, WantsPayload};
pub use migration::SCHEMA_VERSION;
pub use nodes::{NodeReport, NodeView, Nodes};
pub use offset::{Epoch, MalformedOffset, Offset, Position};
pub use options::CommitOptions;
pub use queries::{
    CheckedQuery, LiveQueryEdit, LiveQueryRow, LiveRead, LiveRows, Queries, ShapeColumnView,
    ShapeView, TableRef, WatchedShape,
};
pub use retention::{Lagging, Retained, Retention, RetentionRules, StreamRule};
pub use row::{Operation, RowChange, TABLE_PREFIX, table_name};
pub use session::{
    Owner, SESSION_SUBSCRIPTIONS_MAX, Session, SessionChange, SessionOutcome, SessionRules,
    SessionSignal, SessionSubscription, Sessions, Start, SweptSessions,
};
pub use sql::{Sql, SqlAnswer, SqlColumn, SqlError, SqlLimits, SqlProblem, Statements};
pub use stats::{CaptureCounters, CaptureStats, CommitStats, Distribution};
pub use stream::{Lifetime, ProducerStamp, StreamState};
pub use tickets::Tickets;
pub use watch::{
    CaptureMode, CaptureView, ColumnView, NewWatch, RepairView, TableView, WatchView, WatchedName,
    Watches,
};
