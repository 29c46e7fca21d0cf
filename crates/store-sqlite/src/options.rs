//! How the embedded store is opened.

use std::path::PathBuf;

use serde::Deserialize;
use tidewire_options::default_of;
use tidewire_store::CommitOptions;

/// The embedded store.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteOptions {
    /// The folder that holds it. Made if missing.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Bounds of the group commit.
    #[serde(skip)]
    pub commit: CommitOptions,
    /// Connections that serve reads. They never wait for the writer, nor it for them.
    pub read_connections: usize,
}

impl SqliteOptions {
    /// The store in `folder`, with the usual bounds.
    pub fn new(folder: impl Into<PathBuf>) -> SqliteOptions {
        SqliteOptions { folder: folder.into(), ..default_of("sqlite") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_default_file_is_what_is_declared_here() {
        assert_eq!(SqliteOptions::new("data").read_connections, 4);
    }
}
