//! How the embedded store is opened.

use std::path::PathBuf;

use tidewire_store::CommitOptions;

/// The embedded store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The folder that holds it. Made if missing.
    pub folder: PathBuf,
    /// Bounds of the group commit.
    pub commit: CommitOptions,
    /// Connections that serve reads. They never wait for the writer, nor it for them.
    pub read_connections: usize,
}

impl SqliteOptions {
    /// The store in `folder`, with the usual bounds.
    pub fn new(folder: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions {
            folder: folder.into(),
            commit: CommitOptions::default(),
            read_connections: 4,
        }
    }
}
