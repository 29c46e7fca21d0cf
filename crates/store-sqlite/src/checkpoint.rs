//! Copying the write-ahead log into the file, beside the writer.
//!
//! To copy some thousand pages and sync them takes many milliseconds, in which the writer would write
//! nothing and everyone who appends would wait. So a thread of its own copies what there is when it is told
//! to, while the writer goes on. Then the writer copies what came meanwhile, which is little: only between
//! two of its commits is everything copied at once, and the log begins again at its start, where no new
//! blocks of the disk are needed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use super::error::broken;
use super::open::FILE_NAME;
use tidewire_store::error::StoreError;

/// Pages of write-ahead log (of 4 KiB) from which on they are copied. Larger than SQLite's 1,000, because
/// the writer's part costs it a sync, and what is written often is copied once.
const PAGES_MIN: i32 = 4_000;

/// While a reader needs what is there, not everything can be copied: it is tried again after so many
/// more pages.
const PAGES_MORE: i32 = 1_000;

/// Nobody copies.
const RESTING: u8 = 0;
/// The thread copies.
const COPYING: u8 = 1;
/// The thread has copied, and the writer is to copy the rest.
const COPIED: u8 = 2;

/// The thread that copies.
#[derive(Debug)]
pub(crate) struct Checkpoints(JoinHandle<()>);

impl Checkpoints {
    /// Begins to look after the log that `writer` writes.
    pub(crate) fn start(writer: &mut Connection, folder: &Path) -> Result<Checkpoints, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let copier = Connection::open_with_flags(folder.join(FILE_NAME), flags)
            .map_err(broken("open the store to copy its log"))?;
        // One order at a time is under way.
        let (orders, received) = mpsc::sync_channel(1);
        let state = Arc::new(AtomicU8::new(RESTING));
        let theirs = Arc::clone(&state);
        let handle = std::thread::Builder::new()
            .name("tidewire-copier".to_owned())
            .spawn(move || copy(&copier, &received, &theirs))
            .map_err(|error| StoreError::Refused(format!("cannot start the copier: {error}")))?;
        let mut pace = Pace { orders, state, due: PAGES_MIN };
        let hook = move |wal: &mut Wal, pages| {
            pace.committed(wal, pages);
            Ok(())
        };
        writer.wal_hook(Some(hook)).map_err(broken("look after the log"))?;
        Ok(Checkpoints(handle))
    }

    /// Ends the thread, before the connection that it was started for is closed: the last one that is
    /// closed copies what is left and removes the log, and holds up whoever opens the store meanwhile.
    pub(crate) fn end(self, writer: &mut Connection) {
        // The hook holds the sender of the thread's orders.
        if let Err(error) = writer.wal_hook(None::<fn(&mut Wal, i32) -> rusqlite::Result<()>>) {
            tracing::error!(%error, "the thread that copies the log cannot be ended");
            return;
        }
        if self.0.join().is_err() {
            tracing::error!("the thread that copies the log ended by a panic");
        }
    }
}

fn copy(connection: &Connection, orders: &Receiver<()>, state: &AtomicU8) {
    for () in orders {
        // A full disk, say: what is not copied stays in the log.
        let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = copied {
            tracing::warn!(%error, "the write-ahead log could not be copied; it grows meanwhile");
        }
        state.store(COPIED, Ordering::Release);
    }
}

/// What the writer knows of it.
struct Pace {
    orders: SyncSender<()>,
    state: Arc<AtomicU8>,
    /// The log is copied when it has so many pages.
    due: i32,
}

impl Pace {
    /// After a commit, with which the log has so many pages.
    fn committed(&mut self, wal: &mut Wal, pages: i32) {
        if pages < PAGES_MIN {
            // It has begun again.
            self.due = PAGES_MIN;
        }
        match self.state.load(Ordering::Acquire) {
            RESTING if pages >= self.due => {
                self.state.store(COPYING, Ordering::Release);
                let _ = self.orders.try_send(());
            }
            COPIED => {
                // If this fails, or someone reads what is there, it is tried again later.
                let _ = wal.checkpoint();
                self.due = pages.saturating_add(PAGES_MORE);
                self.state.store(RESTING, Ordering::Release);
            }
            _ => {}
        }
    }
}
