//! What SQLite's errors mean to a caller.

use rusqlite::ErrorCode;

use tidewire_store::error::StoreError;

/// The system's clock is the store's clock here: one process owns the file.
pub(crate) use tidewire_store::clock::system_ms as now_ms;

/// Names the operation that failed and sorts the reason.
pub(crate) fn broken(operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| {
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full(reason),
            // The index of the write-ahead log is mapped memory: a full disk shows when it grows.
            Some(ErrorCode::SystemIoFailure) if grew_shared_memory(&error) => {
                StoreError::Full(reason)
            }
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::CannotOpen,
            ) => StoreError::Unavailable(reason),
            _ => StoreError::Broken { operation, reason },
        }
    }
}

fn grew_shared_memory(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMSIZE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_IOERR_SHMSIZE | SQLITE_IOERR_SHMMAP))
}
