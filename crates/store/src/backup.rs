//! Options and results of backups and restores. The work is in the crates of the stores.
//!
//! A restore replaces the log's history by an older one. What was appended after the backup is gone,
//! and its offsets will be given again, to other events. So a restore raises the log's epoch, which
//! every offset carries: a cursor of the lost history is told so instead of being misled.

use crate::error::StoreError;
use crate::offset::{Epoch, Position};

/// How far a backup has got, in pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// Pages that are there.
    pub done: u64,
    /// Pages in all.
    pub total: u64,
}

/// A backup that was made, and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The log's epoch.
    pub epoch: Epoch,
    /// The log's end, up to which all of it is there.
    pub tip: Position,
    /// The size of the file.
    pub bytes: u64,
}

/// How a restore goes about it.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// A store that is there is put aside. Otherwise the restore is refused.
    pub replace: bool,
    /// The epoch that the log is to have, where the next one has been used already.
    pub epoch: Option<Epoch>,
}

/// A store that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The epoch that the backup has.
    pub epoch_before: Epoch,
    /// The epoch that the log has from now on.
    pub epoch: Epoch,
    /// The log's end.
    pub tip: Position,
    /// Where the store is that was there.
    pub replaced: Option<std::path::PathBuf>,
}

/// The epoch after a restore: one that neither history has had, as far as anyone knows here.
pub fn next_epoch(
    backup: Epoch,
    replaced: Option<Epoch>,
    wanted: Option<Epoch>,
) -> Result<Epoch, StoreError> {
    let newest = replaced.map_or(backup, |replaced| replaced.max(backup));
    if let Some(wanted) = wanted {
        return if wanted > newest {
            Ok(wanted)
        } else {
            Err(StoreError::Refused(format!(
                "the epoch {} is not above {}, which the log has had; give a higher one",
                wanted.number(),
                newest.number()
            )))
        };
    }
    Epoch::new(newest.number() + 1).ok_or_else(|| {
        StoreError::Refused(format!(
            "the log's epoch is {}, the last there is; start a new store instead",
            newest.number()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_above_all_that_are_known() {
        let epoch = |number| Epoch::new(number).expect("in range");
        let next = |backup, replaced: Option<u16>, wanted: Option<u16>| {
            next_epoch(epoch(backup), replaced.map(epoch), wanted.map(epoch)).ok()
        };
        assert_eq!(next(1, None, None), Some(epoch(2)));
        assert_eq!(next(1, Some(5), None), Some(epoch(6)));
        assert_eq!(next(7, Some(5), None), Some(epoch(8)));
        assert_eq!(next(1, None, Some(9)), Some(epoch(9)));
        assert_eq!(next(1, Some(5), Some(5)), None);
        assert_eq!(next(9999, None, None), None);
    }
}
