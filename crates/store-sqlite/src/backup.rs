//! A copy of the store as it is at one moment, while a server goes on writing to it.
//!
//! The pages are copied within one read transaction, so the copy is what that transaction saw: a
//! prefix of the log, with everything else as it was then. Readers keep nobody from writing in WAL
//! mode; the write-ahead log grows for as long as the copy takes, and shrinks after.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup as Copy, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::error::broken;
use super::{load, sql};
use tidewire_store::backup::{Backup, BackupProgress};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Epoch;

/// Pages (of 4 KiB) that are copied between two reports of progress.
const PAGES: i32 = 2_000;
/// How long to wait for a server that just opens or closes the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Copies the store in a folder to a file that is not there yet, and checks the copy.
pub fn backup(
    folder: &Path,
    file: &Path,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Backup, StoreError> {
    let source = folder.join(super::open::FILE_NAME);
    if !source.is_file() {
        return Err(StoreError::Refused(format!(
            "there is no store in {}; name its folder with --data",
            folder.display()
        )));
    }
    refuse_to_overwrite(file)?;
    let partial = Partial::beside(file);
    let (epoch, tip) = copy(&source, &partial.0, progress)?;
    check(&partial.0)?;
    let cannot = |error: std::io::Error| {
        StoreError::Refused(format!("cannot write {}: {error}", file.display()))
    };
    let written = File::open(&partial.0).map_err(cannot)?;
    written.sync_all().map_err(cannot)?;
    let bytes = written.metadata().map_err(cannot)?.len();
    // A link fails where a rename would overwrite. Not every file system has links.
    if std::fs::hard_link(&partial.0, file).is_err() {
        refuse_to_overwrite(file)?;
        std::fs::rename(&partial.0, file).map_err(cannot)?;
    }
    drop(partial);
    sync_folder_of(file).map_err(cannot)?;
    Ok(Backup { epoch, tip, bytes })
}

fn refuse_to_overwrite(file: &Path) -> Result<(), StoreError> {
    if !file.exists() {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "{} is there already, and a backup does not overwrite anything; choose another name",
        file.display()
    )))
}

fn copy(
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<(Epoch, tidewire_store::offset::Position), StoreError> {
    let failed = broken("copy the store");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut source = Connection::open_with_flags(source, flags).map_err(&failed)?;
    source.busy_timeout(BUSY_TIMEOUT).map_err(&failed)?;
    let snapshot = source.transaction().map_err(&failed)?;
    let epoch = epoch(&snapshot)?;
    let tip = load::tip(&snapshot)?;
    let mut target = Connection::open(target).map_err(&failed)?;
    {
        let copy = Copy::new(&snapshot, &mut target).map_err(&failed)?;
        loop {
            let step = copy.step(PAGES).map_err(&failed)?;
            let pages = |count: i32| u64::try_from(count).unwrap_or(0);
            let (total, left) = (copy.progress().pagecount, copy.progress().remaining);
            progress(BackupProgress { done: pages(total - left), total: pages(total) });
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // Someone else opens or closes the file this very moment.
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    // One file, without a write-ahead log beside it.
    target.pragma_update(None, "journal_mode", "DELETE").map_err(&failed)?;
    target.close().map_err(|(_, error)| failed(error))?;
    Ok((epoch, tip))
}

/// The epoch of a store, whatever its version. An error if the file is no store.
pub(super) fn epoch(connection: &Connection) -> Result<Epoch, StoreError> {
    let number: u16 = connection
        .query_row(sql!("epoch"), [], |row| row.get(0))
        .map_err(|error| StoreError::Refused(format!("this is not a Tidewire store: {error}")))?;
    Epoch::new(number)
        .ok_or_else(|| StoreError::Refused(format!("the log's epoch {number} is out of range")))
}

/// Whether a file is a store, and whole.
pub(super) fn check(file: &Path) -> Result<Epoch, StoreError> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(broken("open the copy"))?;
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(file, &error.to_string()))?;
    if verdict != "ok" {
        return Err(damaged(file, &verdict));
    }
    epoch(&connection)
}

fn damaged(file: &Path, what: &str) -> StoreError {
    StoreError::Refused(format!("{} is damaged, or not a store: {what}", file.display()))
}

/// Makes what was done to the names in a folder outlast a crash.
pub(super) fn sync_folder_of(file: &Path) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A file that is removed unless it has another name by then.
struct Partial(PathBuf);

impl Partial {
    fn beside(file: &Path) -> Partial {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        Partial(name.into())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
