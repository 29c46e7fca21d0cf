//! Consumer groups as a library: workers that share the log, a transaction per batch.
//!
//! A handler gets the events of one host and user, in order, and the open transaction. What it writes there and
//! the group's progress commit together: so each event takes effect once in that database, whatever dies
//! when.
//!
//! - [`builder`]: how a member is described and started; [`settings`]: what can be set, also by a file
//! - [`handler`], [`context`], [`event`], [`error`]: what a handler gets and says
//! - [`partition_owner`]: membership and shares; [`partition`]: one partition's loop; [`shared`]: what its tasks share
//! - [`batch_run`]: one batch; [`handler_run`]: one run of the handler; [`policy`]: what each error means
//! - [`stats`]: what a member has done; [`signals`]: how it is told to stop
//! - `yaml`: the settings as a file has them

mod batch_run;
mod builder;
mod context;
mod error;
mod event;
mod handler;
mod handler_run;
mod partition;
mod partition_owner;
mod policy;
mod settings;
mod shared;
mod signals;
mod stats;
mod yaml;

pub use builder::{Builder, Consumer, Source};
pub use context::{Context, Postgres};
pub use error::{Error, HandlerError};
pub use event::EventExt;
pub use handler::{Group, Handler, handler_fn};
pub use settings::{Settings, SettingsError};
pub use stats::{PartitionStats, Stats};
pub use tidewire_store::groups::{GroupEvent as Event, OnDead, Start};
pub use tidewire_store_postgres::driver;
