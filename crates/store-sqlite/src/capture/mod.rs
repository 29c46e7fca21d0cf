//! The user's own SQL, and the capture of what it changes.
//!
//! - `run`: running statements; `guard`, `allowed`: what they may do; `problem`: what is wrong with them
//! - `preupdate`: SQLite tells of every row that is about to change; `collect`: gathering that;
//!   `table`, `image`: rows in their canonical form; `functions`: publishing from SQL
//! - `watched`: the watched tables as the store keeps them; `schema`: what became of them when the
//!   schema changed; `known`: their rows as the log tells them; `foreign`: what other processes write
//! - `live`: what live queries read; `system`: how the list of them is called
//! - `transaction`: all of it together, as one transaction on the writer's thread
//!
//! What a transaction changes in watched tables is in the log when it commits, because it is the same
//! commit: nothing is captured later, and nothing that was rolled back is captured at all.

mod allowed;
mod collect;
mod foreign;
mod functions;
mod guard;
mod image;
mod known;
mod live;
mod preupdate;
mod problem;
mod run;
mod schema;
mod system;
mod table;
#[cfg(test)]
mod tests;
mod transaction;
mod watched;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

pub(crate) use foreign::{notice, notice_after_restart};
pub(crate) use guard::{Guard, Savepoint};
pub(crate) use known::before_removal;
pub(crate) use live::{check as check_live, read as read_live, shapes};
pub(crate) use problem::too_slow;
pub(crate) use system::with_view;
pub(crate) use transaction::{Capturing, deferred, read, transact, write};
pub(crate) use watched::{describe, list, names, unwatch, watch};

use collect::{Collector, TRANSACTION_BYTES_MAX};
use table::Watched;

/// Gives a connection a guard for the user's SQL, and the functions that it may call.
pub(crate) fn prepare(
    connection: &mut Connection,
    collector: Option<&Arc<Collector>>,
    guard: &Arc<Guard>,
) -> rusqlite::Result<()> {
    functions::register(connection, collector)?;
    functions::register_measure(connection, guard)?;
    let authorizer = Arc::clone(guard);
    connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
        authorizer.authorize(&context)
    }))?;
    let clock = Arc::clone(guard);
    connection.progress_handler(guard::STEPS_BETWEEN_LOOKS, Some(move || clock.look()))
}

/// What the writer needs to run the user's SQL.
#[derive(Debug)]
pub(crate) struct Capture {
    guard: Arc<Guard>,
    collector: Arc<Collector>,
    /// What is watched, as of the last commit. None: not known.
    watched: Mutex<Option<Vec<Arc<Watched>>>>,
    /// How many names in the schema are Tidewire's own.
    own_names: AtomicUsize,
    /// The file as the log knows it: another number means that another process wrote.
    data_version: AtomicI64,
    /// A transaction was given up because another process wrote just before it.
    disturbed: AtomicBool,
}

impl Capture {
    /// Makes the writer's connection ready for the user's SQL.
    pub(crate) fn new(connection: &mut Connection) -> rusqlite::Result<Arc<Capture>> {
        let guard = Arc::new(Guard::default());
        let collector = Arc::new(Collector::new(Arc::clone(&guard), TRANSACTION_BYTES_MAX));
        prepare(connection, Some(&collector), &guard)?;
        let own_names = AtomicUsize::new(schema::own_names(connection)?);
        let data_version = AtomicI64::new(foreign::data_version(connection)?);
        let (watched, disturbed) = (Mutex::new(None), AtomicBool::new(false));
        let capture = Capture { guard, collector, watched, own_names, data_version, disturbed };
        Ok(Arc::new(capture))
    }

    /// What is watched.
    fn watched(&self, connection: &Connection) -> rusqlite::Result<Vec<Arc<Watched>>> {
        let mut known = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = &*known {
            return Ok(watched.clone());
        }
        let loaded = watched::load(connection)?;
        *known = Some(loaded.clone());
        Ok(loaded)
    }

    /// Sees to it that what is watched is known, and where it lies.
    fn look(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.watched.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.watched(connection)?;
        }
        Ok(())
    }

    /// Forgets what is watched: it may have changed.
    fn forget(&self) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn own_names(&self) -> usize {
        self.own_names.load(Ordering::Relaxed)
    }
}
