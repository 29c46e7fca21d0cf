//! Which servers there are, and what an acknowledged append has survived on each.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    TidewireSqlite,
    TidewirePostgres,
    NodePeer,
    RustPeerFile,
    RustPeerAcid,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::TidewireSqlite,
        Self::TidewirePostgres,
        Self::NodePeer,
        Self::RustPeerFile,
        Self::RustPeerAcid,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TidewireSqlite => "tidewire sqlite",
            Self::TidewirePostgres => "tidewire postgres",
            Self::NodePeer => "node reference",
            Self::RustPeerFile => "rust file-durable",
            Self::RustPeerAcid => "rust acid",
        }
    }

    pub(crate) fn is_tidewire(self) -> bool {
        matches!(self, Self::TidewireSqlite | Self::TidewirePostgres)
    }

    /// As read in each server's source; `bench/README.md` says where.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::TidewireSqlite => "SQLite WAL, synchronous=FULL: one fsync per group commit",
            Self::TidewirePostgres => {
                "PostgreSQL, synchronous_commit=on: one WAL flush per group commit"
            }
            Self::NodePeer => {
                "file per stream, fdatasync before the answer, appends to a stream one by one; \
                 LMDB metadata not waited for"
            }
            Self::RustPeerFile => {
                "storage.mode=file-durable: file per stream, fdatasync per append, no group commit"
            }
            Self::RustPeerAcid => {
                "storage.mode=acid: redb in 16 shards, Durability::Immediate, a transaction per \
                 append, no group commit"
            }
        }
    }
}
