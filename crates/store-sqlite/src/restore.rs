//! Putting a backup in the place of a store.
//!
//! The backup is copied into the folder, checked, brought up to date and given its new epoch beside the
//! store that may be there; only then does it take that store's place, by renaming. A crash leaves
//! the one or the other.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::backup::{check, epoch, sync_folder_of};
use super::error::{broken, now_ms};
use super::open::{self, FILE_NAME, FolderLock};
use super::{load, sql};
use tidewire_store::backup::{RestoreOptions, Restored, next_epoch};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Epoch;

/// What SQLite keeps beside a file.
const SIDE_FILES: [&str; 2] = ["-wal", "-shm"];

/// Restores a backup into a folder, which no server may be using.
pub fn restore(
    file: &Path,
    folder: &Path,
    options: &RestoreOptions,
) -> Result<Restored, StoreError> {
    if !file.is_file() {
        return Err(StoreError::Refused(format!("there is no file {}", file.display())));
    }
    let _lock = FolderLock::take(folder)?;
    let place = folder.join(FILE_NAME);
    let occupied = place.exists();
    if occupied && !options.replace {
        return Err(StoreError::Refused(format!(
            "there is a store in {} already; give another folder with --data, or --replace, which \
             keeps the old one beside the new one",
            folder.display()
        )));
    }
    let replaced_epoch = if occupied { settle(&place) } else { None };
    let temporary = TemporaryFolder::in_folder(folder)?;
    let copy = temporary.0.join(FILE_NAME);
    std::fs::copy(file, &copy).map_err(cannot(folder))?;
    let epoch_before = check(&copy)?;
    let epoch = next_epoch(epoch_before, replaced_epoch, options.epoch)?;
    let (mut connection, _) = open::writer(&temporary.0)?;
    begin_anew(&mut connection, epoch)?;
    let tip = load::tip(&connection)?;
    connection.close().map_err(|(_, error)| broken("close the restored store")(error))?;
    let synced = std::fs::File::open(&copy).and_then(|file| file.sync_all());
    synced.map_err(cannot(folder))?;
    let replaced = if occupied { Some(put_aside(&place).map_err(cannot(folder))?) } else { None };
    std::fs::rename(&copy, &place).map_err(cannot(folder))?;
    sync_folder_of(&place).map_err(cannot(folder))?;
    Ok(Restored { epoch_before, epoch, tip, replaced })
}

fn cannot(folder: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError::Refused(format!("cannot write to {}: {error}", folder.display()))
}

/// Brings all of the old store into its one file, as far as it can be opened, and tells its epoch.
fn settle(place: &Path) -> Option<Epoch> {
    let connection = Connection::open(place).ok()?;
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    epoch(&connection).ok()
}

/// Gives the old store another name. The file keeps its own beside it until the new one takes it, so
/// that there is a store at every moment; what SQLite keeps beside the file must not meet the new
/// one.
fn put_aside(place: &Path) -> std::io::Result<PathBuf> {
    let aside = place.with_file_name(format!("tidewire.replaced-{}.db", now_ms()));
    let beside = |path: &Path, side: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(side);
        PathBuf::from(name)
    };
    for side in SIDE_FILES {
        match std::fs::rename(beside(place, side), beside(&aside, side)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::hard_link(place, &aside).or_else(|_| std::fs::rename(place, &aside))?;
    Ok(aside)
}

/// Gives the log its new epoch, and forgets what belonged to the servers and clients of the old one.
fn begin_anew(connection: &mut Connection, epoch: Epoch) -> Result<(), StoreError> {
    let failed = broken("begin a new epoch");
    let transaction = connection.transaction().map_err(&failed)?;
    transaction.execute(sql!("restore_epoch"), [epoch.number()]).map_err(&failed)?;
    transaction.execute_batch(sql!("restore_forget")).map_err(&failed)?;
    transaction.commit().map_err(&failed)
}

/// A folder that goes with what is left in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn in_folder(folder: &Path) -> Result<TemporaryFolder, StoreError> {
        let path = folder.join(format!("restoring-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(cannot(folder))?;
        Ok(TemporaryFolder(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
